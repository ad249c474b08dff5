"""The Flower app: its size, imports and pins; keys and seals; the same model as the simulator's."""

import ast
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509

ROOT = Path(__file__).resolve().parents[2]
APP, HELPERS = ROOT / "apps/flower", ROOT / "tests/helpers"
sys.path.insert(0, str(APP))

import federation  # noqa: E402
from workbook_flower import ALGORITHMS  # noqa: E402
from workbook_flower.sealed import make_keys, seal, unseal  # noqa: E402

MODULES = sorted((APP / "workbook_flower").glob("*.py"))
PYTHON = federation.ENVIRONMENT / "bin/python"
needs_flower = pytest.mark.skipif(
    not (federation.ENVIRONMENT / ".complete").exists(),
    reason="Flower's environment is missing; `make flower` makes it",
)

ALLOWED = sys.stdlib_module_names | {"flwr", "numpy", "repro", "torch", "workbook_flower"}
"""What the app may import: all mathematics comes from `repro`."""

MORE = {"sealed": {"cryptography"}}


# Size, imports, pins ----------------------------------------------------------------------------


def test_every_algorithm_has_a_module_of_at_most_200_lines():
    for name in ALGORITHMS:
        text = (APP / f"workbook_flower/{name}.py").read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 200, name
        defined = {n.name for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
        assert {"serve", "respond", "simulated"} <= defined


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_mathematics_comes_from_repro(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module]
        for name in names:
            assert name.split(".")[0] in ALLOWED | MORE.get(path.stem, set()), name


def pins(text):
    """The lines name==version of a file of requirements."""
    return dict(re.findall(r"^([\w-]+)==([\w.]+)", text, flags=re.M))


def test_pins_are_exact_and_those_of_the_workbook_except_flower():
    text = (APP / "requirements.txt").read_text(encoding="utf-8")
    wanted = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = pins(text)
    assert len(found) == len(wanted)
    lock = pins((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    for name, version in found.items():
        assert lock.get(name, version) == version, name
    assert "flwr" not in lock
    told = tomllib.loads((APP / "pyproject.toml").read_text(encoding="utf-8"))
    assert told["project"]["dependencies"] == [f"flwr=={found['flwr']}"]
    assert f"Flower {found['flwr']}" in (APP / "README.md").read_text(encoding="utf-8")


# The federation ---------------------------------------------------------------------------------


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A federation whose programs are only written down: name -> command, and calls."""
    commands, calls = {}, []
    monkeypatch.setattr(
        federation.Federation,
        "_background",
        lambda self, name, words: commands.update({name: words}),
    )
    monkeypatch.setattr(federation.Federation, "_wait_for_port", lambda self: None)
    monkeypatch.setattr(federation.Federation, "call", lambda self, *words: calls.append(words))
    with federation.Federation(Path("python"), tmp_path, clients=2, servers=2):
        yield tmp_path, {n: [str(w) for w in words] for n, words in commands.items()}, calls


def test_links_are_encrypted_nodes_are_known_and_nothing_is_installed(started):
    folder, commands, calls = started
    link = commands.pop("superlink")
    assert {"--enable-supernode-auth", "--disable-runtime-dependency-installation"} <= set(link)
    assert {"--ssl-certfile", "--ssl-keyfile", "--ssl-ca-certfile"} <= set(link)
    assert sorted(commands) == ["client-0", "client-1", "server-0", "server-1"]
    for name, words in commands.items():
        assert words[words.index("--auth-supernode-private-key") + 1] == f"{folder}/{name}/node.key"
        assert words[words.index("--root-certificates") + 1] == f"{folder}/ca.pem"
        assert "--allow-runtime-dependency-installation" not in words
        assert "--insecure" not in words + link
    registered = [
        str(words[3]) for words in calls if words[:3] == ("flwr", "supernode", "register")
    ]
    assert sorted(registered) == [f"{folder}/{name}/node.pub" for name in sorted(commands)]


def test_a_private_key_is_where_its_owner_is_and_nowhere_else(started):
    folder, commands, _ = started
    keys = sorted(folder.rglob("*.key"))
    assert len(keys) == 1 + 4 + 2  # the SuperLink's, the nodes', the servers' for shares
    for path in keys:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in sorted((folder / "public").iterdir())] == [
        "server-0.pub",
        "server-1.pub",
    ]
    del commands["superlink"]
    for name, words in commands.items():
        told = words[words.index("--node-config") + 1]
        place = name if name.startswith("server") else "public"
        assert f'keys="{folder / place}"' in told


@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        (["running", "", "", "running", "finished:failed"], "ddpsa: finished:failed"),
        ([""] * 10, "ddpsa: no answer of the SuperLink"),
    ],
)
def test_a_run_that_failed_is_told_from_a_superlink_that_misses_a_question(
    tmp_path, monkeypatch, statuses, words
):
    def call(_, *command):
        if command[1] == "run":
            return '{"success": true, "run-id": "7"}'
        status = statuses.pop(0)
        if not status:
            raise RuntimeError("flwr list workbook failed")
        return json.dumps({"runs": [{"status": status}]})

    monkeypatch.setattr(federation.Federation, "call", call)
    monkeypatch.setattr(federation, "_BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(federation.time, "sleep", lambda _: None)
    with pytest.raises(RuntimeError, match=words):
        federation.Federation(PYTHON, tmp_path, 3, 2).run("ddpsa", 10, 0)
    assert statuses == []


def test_the_certificate_is_of_this_machine_and_of_the_authority(tmp_path):
    federation.issue(tmp_path)
    authority, link = (
        x509.load_pem_x509_certificate((tmp_path / name).read_bytes())
        for name in ("ca.pem", "superlink.pem")
    )
    link.verify_directly_issued_by(authority)
    names = link.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert not link.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_the_distance_of_two_models_leaves_the_seconds_out():
    model = {"weights": np.array([1.0, 2.0]), "seconds": np.array([9.0])}
    assert federation.distance(model, {"weights": np.array([[1.0, 2.5]]), "seconds": 1}) == 0.5
    with pytest.raises(KeyError):
        federation.distance(model, {"head": np.zeros(2)})


def test_an_unknown_algorithm_is_named(capsys):
    with pytest.raises(SystemExit):
        federation.main(["fedavg"])
    assert "algorithm must be one of random_participation" in capsys.readouterr().err


# Seals ------------------------------------------------------------------------------------------


def test_only_the_key_and_the_purpose_of_a_seal_open_it(tmp_path):
    for name in ("one", "two"):
        make_keys(tmp_path / f"{name}.key", tmp_path / f"{name}.pub")
    share = bytes(range(16))
    sealed = seal(share, tmp_path / "one.pub", "round 1")
    assert unseal(sealed, tmp_path / "one.key", "round 1") == share
    assert share not in sealed
    assert seal(share, tmp_path / "one.pub", "round 1") != sealed
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for box, key, purpose in (
        (sealed, "two", "round 1"),
        (sealed, "one", "round 2"),
        (changed, "one", "round 1"),
    ):
        with pytest.raises(ValueError, match=f"not of this key and purpose: {purpose}"):
            unseal(box, tmp_path / f"{key}.key", purpose)
    with pytest.raises(FileExistsError):
        make_keys(tmp_path / "one.key", tmp_path / "one.pub")


# To take an algorithm ---------------------------------------------------------------------------

TAKEN = ("pyproject.toml", "__init__.py", "entry.py", "exchange.py")
TAKEN_TOO = {"ddpsa": ("sealed.py",)}


def taken(algorithm, folder):
    """A copy of the files that an algorithm needs."""
    for name in (*TAKEN, f"{algorithm}.py", *TAKEN_TOO.get(algorithm, ())):
        place = Path(name if name == "pyproject.toml" else f"workbook_flower/{name}")
        (folder / place).parent.mkdir(exist_ok=True)
        shutil.copy(APP / place, folder / place)
    return folder


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_files_that_the_readme_names_import_no_other_file(tmp_path, algorithm):
    files = sorted(taken(algorithm, tmp_path).rglob("*.py"))
    there = {f"workbook_flower.{path.stem}" for path in files} | {"workbook_flower"}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("workbook_flower"):
                assert node.module in there, path.name
    text = (APP / "README.md").read_text(encoding="utf-8").partition("## To take an algorithm")[2]
    assert all(f"`{name}`" in text for name in (*TAKEN, *TAKEN_TOO.get(algorithm, ())))


# With Flower ------------------------------------------------------------------------------------


def asked(script, *arguments, app=APP):
    """What a helper prints that runs with Flower's Python."""
    done = subprocess.run(
        [PYTHON, HELPERS / script, app, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_flower
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ten_rounds_over_messages_give_the_simulators_model(tmp_path, algorithm):
    """With the files alone that the README says somebody takes along."""
    told = asked("flower_loopback.py", algorithm, app=taken(algorithm, tmp_path))
    assert told["rounds"] == 10
    assert told["away"] and max(told["away"].values()) <= federation.NEAR
    assert min(told["largest"].values()) > 0.1  # something was learned


@needs_flower
def test_a_reader_of_all_messages_finds_no_vector_unless_shares_are_not_sealed():
    told = asked("flower_transcript.py", 3)
    assert told["vectors"] == 9
    assert told["found"] == 0
    assert told["found_without_seals"] == 9
    assert told["away"] <= federation.NEAR


def test_the_environment_can_be_made_alone(monkeypatch):
    monkeypatch.setattr(federation, "environment", lambda: PYTHON)
    monkeypatch.setattr(federation, "Federation", None)  # nothing is started
    assert federation.main(["--prepare"]) == 0


@needs_flower
@pytest.mark.slow
def test_a_real_superlink_receives_no_vector(tmp_path, monkeypatch):
    """On a machine too busy for the run to end in time, what came until then is examined, and the rest skipped."""
    monkeypatch.setattr(federation, "PATIENCE", 600.0)
    seen = tmp_path / "seen"
    place = tmp_path / "federation"
    place.mkdir()
    recorder = (str(PYTHON), str(HELPERS / "flower_recorder.py"), str(seen))
    with federation.Federation(PYTHON, place, clients=3, servers=2, superlink=recorder) as running:
        try:
            found = running.run("ddpsa", 2, 0)
        except TimeoutError as problem:
            found, why = None, str(problem)
        expected = running.simulate("ddpsa", 2, 0)
    told = asked("flower_transcript.py", 2, seen)
    assert told["superlink_found"] == told["found"] == 0
    assert told["found_without_seals"] == told["vectors"] == 6
    if found is None:
        pytest.skip(why)
    assert told["superlink_bytes"] > 10_000
    assert federation.distance(found, expected) <= federation.NEAR
