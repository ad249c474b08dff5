"""A Flower federation on this machine: certificates, keys, SuperLink, SuperNodes, and runs of the app.

    python apps/flower/federation.py [algorithm ...] [--rounds n] [--clients n] [--servers m] [--seed n]
    python apps/flower/federation.py --prepare

Makes Flower's environment in build/flower where there is none; with --prepare that is all. Every algorithm is
started by `flwr run`; its model is compared with the simulator's, and seconds a round are printed for both. The
exit status is 1 where a model is farther than 1e-9 from the simulator's.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import ipaddress
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

APP = Path(__file__).resolve().parent
ROOT = APP.parents[1]
sys.path.insert(0, str(APP))

from workbook_flower import ALGORITHMS  # noqa: E402
from workbook_flower.sealed import make_keys  # noqa: E402

ENVIRONMENT = ROOT / "build/flower/venv"
NEAR = 1e-9
"""Largest difference to the simulator's model; what is expected is rounding in float64."""

PATIENCE = 3600.0
"""Seconds that a run may take."""

_BETWEEN_LOOKS = 20.0  # seconds between two looks at the status of a run, each a process
_UNANSWERED = 10
"""Looks in a row without an answer after which a run is given up: a SuperLink on a busy machine may miss some."""

_HEAD = f"{'algorithm':22}{'rounds':>8}{'difference':>12}{'Flower s/round':>16}{'here s/round':>14}"
_LINE = "{algorithm:22}{rounds:8}{away:12.1e}{flower:16.2f}{here:14.4f}"


def environment() -> Path:
    """The Python of Flower's environment, which is made first where it is not up to date."""
    wanted = APP / "requirements.txt"
    stamp, python = ENVIRONMENT / ".complete", ENVIRONMENT / "bin/python"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        print(f"making Flower's environment in {ENVIRONMENT}", flush=True)
        venv.create(ENVIRONMENT, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
        stamp.write_text(digest)
    return python


def issue(folder: Path) -> None:
    """An authority and one certificate of 127.0.0.1, good for a week; the authority's key is forgotten."""
    now = datetime.datetime.now(datetime.UTC)
    authority, key = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "workbook authority")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]

    def signed(name: x509.Name, public: ec.EllipticCurvePublicKey, *, ca: bool) -> bytes:
        builder = x509.CertificateBuilder(issuer, name, public, x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(minutes=5))
        builder = builder.not_valid_after(now + datetime.timedelta(days=7))
        constraint = x509.BasicConstraints(ca=ca, path_length=None)
        builder = builder.add_extension(constraint, critical=True)
        if not ca:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(authority, hashes.SHA384()).public_bytes(serialization.Encoding.PEM)

    (folder / "ca.pem").write_bytes(signed(issuer, authority.public_key(), ca=True))
    (folder / "superlink.pem").write_bytes(signed(subject, key.public_key(), ca=False))
    _secret(folder / "superlink.key", key, serialization.PrivateFormat.PKCS8)


def identity(folder: Path) -> None:
    """A key with which a SuperNode signs its requests: `node.key`, and `node.pub` to be registered."""
    key = ec.generate_private_key(ec.SECP384R1())
    _secret(folder / "node.key", key, serialization.PrivateFormat.OpenSSH)
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    (folder / "node.pub").write_bytes(public)


def _secret(path: Path, key: ec.EllipticCurvePrivateKey, kind: serialization.PrivateFormat) -> None:
    told = key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(told)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@dataclass
class Federation:
    """A SuperLink with TLS and node authentication, and SuperNodes with keys of their own.

    Args:
        python: of Flower's environment.
        folder: an empty folder for keys, logs and results.
        clients: SuperNodes that hold data, >= 1.
        servers: SuperNodes that add up shares, >= 2, or 0 where no algorithm needs them.
        superlink: the command that starts the SuperLink.
    """

    python: Path
    folder: Path
    clients: int
    servers: int
    superlink: Sequence[str] = ("flower-superlink",)
    _processes: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Federation:
        try:
            self._start()
        except BaseException:
            self._processes.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def _start(self) -> None:
        self.port = _free_port()
        issue(self.folder)
        home, public = self.folder / "home", self.folder / "public"
        home.mkdir(), public.mkdir()
        (home / "config.toml").write_text(
            '[superlink]\ndefault = "workbook"\n\n[superlink.workbook]\n'
            f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{self.folder / "ca.pem"}"\n'
        )
        certificates = ["--ssl-ca-certfile", self.folder / "ca.pem"]
        certificates += ["--ssl-certfile", self.folder / "superlink.pem"]
        certificates += ["--ssl-keyfile", self.folder / "superlink.key"]
        place = ["--host", "127.0.0.1", "--port", str(self.port)]
        options = ["--enable-supernode-auth", "--disable-runtime-dependency-installation"]
        self._background("superlink", [*self.superlink, *certificates, *place, *options])
        self._wait_for_port()
        roles = [("client", i) for i in range(self.clients)]
        roles += [("server", j) for j in range(self.servers)]
        for role, number in roles:
            own = self.folder / f"{role}-{number}"
            own.mkdir(mode=0o700)
            identity(own)
            self.call("flwr", "supernode", "register", own / "node.pub", "workbook")
            if role == "server":
                make_keys(own / f"server-{number}.key", public / f"server-{number}.pub")
        for role, number in roles:
            own = self.folder / f"{role}-{number}"
            told = f'role="{role}" number={number} models="{own / "model.npy"}"'
            told += f' keys="{own if role == "server" else public}"'
            link = ["--superlink", f"127.0.0.1:{self.port}"]
            link += ["--root-certificates", self.folder / "ca.pem", *certificates]
            link += ["--auth-supernode-private-key", own / "node.key", "--node-config", told]
            place = ["--host", "127.0.0.1", "--port", str(_free_port())]
            self._background(own.name, ["flower-supernode", *link, *place])

    def run(self, algorithm: str, rounds: int, seed: int) -> dict[str, np.ndarray]:
        """One `flwr run`; the result's arrays, with the seconds of each round.

        Raises:
            RuntimeError: the run failed; the message says where the logs are.
            TimeoutError: it did not end in time.
        """
        result = self.folder / f"{algorithm}.npz"
        told = f'algorithm="{algorithm}" rounds={rounds} clients={self.clients} servers={self.servers} seed={seed}'
        told += f' result="{result}"'
        started = self.call(
            "flwr", "run", APP, "workbook", "--run-config", told, "--format", "json"
        )
        answer = json.loads(started[started.index("{") :])
        if not answer["success"]:
            raise RuntimeError(f"{algorithm}: flwr run failed: {answer['error-message']}")
        run = answer["run-id"]
        began = looked = time.monotonic()
        unanswered = 0
        while not result.exists():
            time.sleep(0.5)
            if time.monotonic() - looked < _BETWEEN_LOOKS:
                continue
            status = self._status(run)
            unanswered = 0 if status else unanswered + 1
            if unanswered == _UNANSWERED:
                raise RuntimeError(f"{algorithm}: no answer of the SuperLink; see {self.folder}")
            if status.startswith("finished") and not result.exists():
                raise RuntimeError(f"{algorithm}: {status}; see {self.folder}/superlink.log")
            looked = time.monotonic()
            if looked - began > PATIENCE:
                raise TimeoutError(
                    f"{algorithm} did not end in {PATIENCE:.0f} s, see {self.folder}"
                )
        found = _arrays(result)
        models = [self.folder / f"client-{i}/model.npy" for i in range(self.clients)]
        if algorithm == "mspafl":
            found["models"] = np.stack([np.load(model) for model in models])
        return found

    def _status(self, run: str) -> str:
        """What Flower says of a run; "" where it does not answer."""
        try:
            listed = self.call("flwr", "list", "workbook", "--run-id", run, "--format", "json")
        except RuntimeError:
            return ""
        return json.loads(listed[listed.index("{") :])["runs"][0]["status"]

    def simulate(self, algorithm: str, rounds: int, seed: int) -> dict[str, np.ndarray]:
        """The same run in one process of the same environment."""
        result = self.folder / f"{algorithm}-simulated.npz"
        numbers = map(str, (rounds, self.clients, self.servers, seed))
        self.call(self.python, "-m", "workbook_flower", algorithm, *numbers, result)
        return _arrays(result)

    def call(self, *command: str | Path) -> str:
        """Run a program of the environment; its output.

        Raises:
            RuntimeError: it failed.
        """
        words = [str(word) for word in command]
        done = subprocess.run(words, env=self._variables(), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words[:3])} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def _background(self, name: str, command: Sequence[str | Path]) -> None:
        log = self._processes.enter_context((self.folder / f"{name}.log").open("w"))
        words = [str(word) for word in command]
        process = subprocess.Popen(
            words, env=self._variables(), cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
        )
        self._processes.callback(_stop, process)

    def _variables(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.python.parent), os.environ.get("PATH", os.defpath)])
        return os.environ | {
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "OMP_NUM_THREADS": "1",
            "PATH": path,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(APP)]),
        }

    def _wait_for_port(self) -> None:
        for _ in range(600):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.2)
        raise TimeoutError(f"the SuperLink did not start, see {self.folder}/superlink.log")


def _stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as content:
        return dict(content)


def distance(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """The largest difference of two models, coordinate by coordinate."""
    names = expected.keys() - {"seconds"}
    return max(float(np.abs(found[n].ravel() - expected[n].ravel()).max()) for n in names)


def main(arguments: list[str] | None = None) -> int:
    """Run the algorithms, print the table; 1 where a model is not the simulator's."""
    parser = argparse.ArgumentParser(prog="apps/flower/federation.py", description=__doc__)
    parser.add_argument("algorithms", nargs="*", metavar="algorithm", help=", ".join(ALGORITHMS))
    for name, default in (("rounds", 10), ("clients", 3), ("servers", 2), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"({default})")
    parser.add_argument("--prepare", action="store_true", help="only make Flower's environment")
    given = parser.parse_args(arguments)
    chosen = given.algorithms or ALGORITHMS
    if unknown := set(chosen) - set(ALGORITHMS):
        parser.error(
            f"algorithm must be one of {', '.join(ALGORITHMS)}, got {sorted(unknown)[0]!r}"
        )
    python = environment()
    if given.prepare:
        return 0
    rows, place = [], Path(tempfile.mkdtemp(prefix="federation-", dir=ROOT / "build/flower"))
    servers = given.servers if "ddpsa" in chosen else 0
    with Federation(python, place, given.clients, servers) as federation:
        print(_HEAD, flush=True)
        for algorithm in chosen:
            found = federation.run(algorithm, given.rounds, given.seed)
            expected = federation.simulate(algorithm, given.rounds, given.seed)
            rows.append(
                {
                    "algorithm": algorithm,
                    "rounds": len(found["seconds"]),
                    "away": distance(found, expected),
                    "flower": float(np.median(found["seconds"])),
                    "here": float(expected["seconds"][0]) / given.rounds,
                }
            )
            print(_LINE.format(**rows[-1]), flush=True)
            (ROOT / "build/flower/result.json").write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["away"] <= NEAR for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
