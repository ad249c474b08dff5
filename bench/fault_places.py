"""Every command in unfriendly places: what `faults.py` runs as its part "places".

The project is copied into a folder whose name has a space and letters outside ASCII, and the commands of `COMMANDS`
run there:

* friendly: as they are; they must end with 0. What they write is what the other places are compared with.
* locale: an ASCII locale and a time zone on the other side of the date line. The same files, byte for byte.
* user: an ordinary user without a home folder, who owns the copy.
* read-only: an ordinary user who may not write into the copy.
* full disk: the copy lies in a file system that has no room left.

In the last two a command may fail: with a line on stderr that says what could not be written and no traceback, and
every file is the old one or the new one. Users need this program to run as root, and a Python that they may execute;
a full disk needs the right to mount. What cannot be tried is named.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "Füße und Köpfe"
NOBODY = 65534
PATIENCE = 900
"""Seconds that one command may take."""

ID, CHANGE, CLAIM = "partitioning/fig3", "sigma=1.5", "always-below"
COMMANDS = {
    "make help": "make help",
    "make fig": f"make fig/{ID} JOBS=1",
    "make fig SET": f'make fig/{ID} JOBS=1 SET="{CHANGE}"',
    "make claim": f"make claim ID={ID}/{CLAIM}",
    "make verify": "make verify",
    "make certify": "make certify",
    "make ledger": "make ledger",
    "make gallery": "make gallery",
    "make data": "make data PROFILE=quick",
    "make sweep": f"make sweep PROFILE=quick JOBS=1 IDS={ID}",
    "make paper": f"make paper DRY=1 IDS={ID}",
    "make references": f"make references JOBS=1 IDS={ID}",
    "make new": "make new PAPER=sixth FIGURE=fig1",
    "make lint": "make lint",
    "make lab": "make lab LAB=--version",
    "accounting": "python -m repro.accounting --noise 3 --rounds 10",
    "accounting, refused": "python -m repro.accounting --sampling shuffled",
    "secagg authority": "python -m repro.secagg authority keys --servers 2 --clients 2",
    "secagg doctor": "python -m repro.secagg doctor --help",
    "secure sums": "python examples/secure_sum_processes.py",
    "conformance": "python -m repro.conformance --help",
    "make clean": "make clean",
}
"""What is tried, in this order."""
HOSTILE = ("read-only", "full disk")
WATCHED = ("figures", "notebooks", "reproduce", "data", "src", "README.md")
ROOM = 192 << 10
"""Bytes that a full disk has left: enough to begin with a file, too few to end it."""


def run(folder: str | None = None) -> list[str]:
    """Run every command in every place; what is wrong."""
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="faults-", dir=folder) as above:
        os.chmod(above, 0o755)
        source = Path(above) / "source"
        copy(source)  # once, so that all places hold the same
        friendly = Place(Path(above) / "friendly" / NAME, source)
        expected = _friendly(friendly, found)
        for name, make in (
            ("locale", _locale),
            ("user", _user),
            ("read-only", _read_only),
            ("full disk", _full_disk),
        ):
            with make(Path(above) / name.replace(" ", "-") / NAME, source) as place:
                if isinstance(place, str):
                    print(f"places: {name}: not tried, {place}", flush=True)
                    continue
                found += _compared(name, place, expected)
    return found


class Place:
    """A copy of the project, and how commands are started in it."""

    def __init__(
        self,
        folder: Path,
        source: Path,
        *,
        user: int | None = None,
        more: dict[str, str] | None = None,
    ) -> None:
        self.folder, self.user = folder, user
        shutil.copytree(source, folder, symlinks=True)
        kept = ("PATH", "LANG", "PIP_FIND_LINKS")
        home = folder.parent / "home"
        self.env = {name: os.environ[name] for name in kept if name in os.environ}
        self.env["PATH"] = f"{sys.prefix}/bin{os.pathsep}{self.env.get('PATH', os.defpath)}"
        self.env |= {"HOME": str(home), "VIRTUAL_ENV": sys.prefix, "TMPDIR": str(folder.parent)}
        self.env |= {"PYTHONPATH": f"{folder}/src{os.pathsep}{folder}", **(more or {})}
        if user is not None:
            for path in (folder.parent, folder, *folder.rglob("*")):
                os.chown(path, user, user, follow_symlinks=False)

    def call(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command line."""
        return subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.env,
            user=self.user,
            group=self.user,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )

    def files(self) -> dict[str, str]:
        """Path and hash of each file that commands may write, unfinished ones left out."""
        found = [
            path
            for name in WATCHED
            for path in sorted({self.folder / name, *(self.folder / name).rglob("*")})
        ]
        return {
            path.relative_to(self.folder).as_posix(): hashlib.sha256(_lasting(path)).hexdigest()
            for path in found
            if path.is_file()
            and not path.name.endswith((".partial", ".pyc", ".pdf"))
            and "costs" not in path.name
        }


_COST = re.compile(rb"[\d.,]+ compute-\w+|\d+ MiB|(under )?\d+ min<br>")
"""What reports and gallery say of measured costs, which `make references` renews."""


def _lasting(path: Path) -> bytes:
    """The content of a file without the times and the memory that runs happened to take."""
    content = path.read_bytes()
    return _COST.sub(b"", content) if path.suffix == ".md" else content


def copy(folder: Path) -> None:
    """The project as git holds it, and what is new in it, without what commands make."""
    skipped = (".git", ".venv", "build", "cache", "runs", "__pycache__", ".*_cache", "*.pdf")
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*skipped), symlinks=True)


Ended = dict[str, tuple[int, dict[str, str]]]
"""Of each command its exit status and the files after it."""


def _friendly(place: Place, found: list[str]) -> Ended:
    """What the commands write where nothing is in their way."""
    ended: Ended = {}
    for name, command in COMMANDS.items():
        done = place.call(command)
        refused = name.endswith("refused")
        if (done.returncode != 0) != refused or "Traceback" in done.stdout + done.stderr:
            found.append(f"places: friendly: {name} ended with {done.returncode}: {_last(done)}")
        ended[name] = done.returncode, place.files()
    print(f"places: friendly: {len(ended)} commands, root {os.getuid() == 0}", flush=True)
    return ended


def _compared(what: str, place: Place, expected: Ended) -> list[str]:
    """The commands once more; what is wrong with their ends and with their files."""
    found, failed, told = [], 0, set()
    every: dict[str, set[str]] = {}  # all contents that a file may have
    for files in ({"": ""}, place.files(), *(files for _, files in expected.values())):
        for path, content in files.items():
            every.setdefault(path, set()).add(content)
    for name, command in COMMANDS.items():
        done = place.call(command)
        status, files = expected[name]
        failed += done.returncode != status
        if "Traceback" in done.stdout + done.stderr:
            found.append(f"places: {what}: {name} ends in a traceback: {_last(done)}")
        elif done.returncode != status and what not in HOSTILE:
            found.append(f"places: {what}: {name} ended with {done.returncode}: {_last(done)}")
        elif done.returncode != status and not REASON.search(done.stdout + done.stderr):
            found.append(f"places: {what}: {name} does not say why: {_last(done)}")
        there = place.files()
        if what not in HOSTILE:
            wrong = [path for path in files.keys() | there if files.get(path) != there.get(path)]
        else:
            wrong = [path for path in there if there[path] not in every.get(path, ())]
        if new := sorted(set(wrong) - told):
            told.update(new)
            found.append(f"places: {what}: {name} leaves {len(new)} other files, such as {new[0]}")
    print(f"places: {what}: {len(expected)} commands, {failed} with another end", flush=True)
    return found


REASON = re.compile(r"[Nn]o space left|[Pp]ermission denied|[Rr]ead-only|cannot be written")


def _last(done: subprocess.CompletedProcess[str]) -> str:
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return " / ".join(said[-3:])[-300:]


@contextmanager
def _locale(folder: Path, source: Path) -> Iterator[Place]:
    yield Place(
        folder,
        source,
        more={
            "LC_ALL": "C",
            "LANG": "C",
            "PYTHONCOERCECLOCALE": "0",
            "PYTHONUTF8": "0",
            "TZ": "Pacific/Kiritimati",
        },
    )


def _no_user() -> str:
    """Why commands cannot be run as an ordinary user; "" where they can."""
    if os.getuid():
        return "this program does not run as root"
    try:
        subprocess.run([sys.executable, "-c", ""], user=NOBODY, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return f"an ordinary user may not execute {sys.executable}"
    return ""


@contextmanager
def _user(folder: Path, source: Path) -> Iterator[Place | str]:
    yield _no_user() or Place(folder, source, user=NOBODY)


@contextmanager
def _read_only(folder: Path, source: Path) -> Iterator[Place | str]:
    if reason := _no_user():
        yield reason
        return
    place = Place(folder, source, user=NOBODY)
    every = [folder, *folder.rglob("*")]
    for path in every:
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() else 0o444)
    yield place
    for path in every:
        if path.is_dir():
            path.chmod(0o755)


@contextmanager
def _full_disk(folder: Path, source: Path) -> Iterator[Place | str]:
    """The copy in a file system of its own, filled up but for `ROOM` bytes."""
    folder.parent.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", str(folder.parent)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield "a file system cannot be mounted"
        return
    with ExitStack() as after:
        after.callback(subprocess.run, ["umount", "-l", str(folder.parent)], check=False)
        place = Place(folder, source)
        place.env["PYTHONDONTWRITEBYTECODE"] = "1"
        left = shutil.disk_usage(folder.parent).free - ROOM
        with open(folder.parent / "filled", "wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, left)
        yield place
