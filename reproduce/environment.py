"""The project's environment: use the active one, or make `.venv`; then become Python in it.

    python reproduce/environment.py -m reproduce run

Run by `python.sh` with any Python that is new enough; standard library only. An active virtual or
conda environment is used when it holds every pinned version. Otherwise `.venv` is made with pip
from `requirements.lock`, without a network where pip's `find-links` folder holds every wheel. A
stamp with a hash of what went in is written last, so that a `.venv` left unfinished by a kill is
told from a whole one and made again, and one that is out of date is brought up to date. Of several
processes that want it at once, one works and the others wait. A `.venv` that is a link to a folder
elsewhere is shared with other checkouts: it is used where it fits, and never changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
VENV = ROOT / ".venv"
STAMP = ".complete"
UNFINISHED = ".unfinished"
ROOTS = "workbook.pth"
"""The file in `.venv` by which kernels find the project: also in a JupyterLab that make did not start."""


class EnvironmentProblem(Exception):
    """The environment cannot be made; the message is one line for the user."""


def main(arguments: list[str]) -> int:
    """Run Python with `arguments` in the environment; `--check` says what this Python lacks."""
    if arguments == ["--check"]:
        lacking = missing(installed())
        print("\n".join(lacking))
        return 1 if lacking else 0
    try:
        python = Path(sys.executable) if _active() and not missing(installed()) else own()
    except EnvironmentProblem as problem:
        print(problem, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the next call makes the environment anew", file=sys.stderr)
        return 130
    environment = settings(python)
    os.execve(python, [str(python), *arguments], environment)


def _active() -> bool:
    """Whether this interpreter belongs to the active virtual or conda environment."""
    prefixes = (os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    return any(
        prefix and Path(prefix).resolve() == Path(sys.prefix).resolve() for prefix in prefixes
    )


def settings(python: Path) -> dict[str, str]:
    """The variables for a process of `python`: this folder's packages first, its programs first."""
    environment = dict(os.environ)
    environment.pop("PYTHONHOME", None)
    old = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "src"), str(ROOT), *filter(None, old.split(os.pathsep))]
    )
    environment["PATH"] = os.pathsep.join([str(python.parent), environment.get("PATH", os.defpath)])
    environment["PYTHONUTF8"] = "1"  # texts have letters outside ASCII, whatever the locale
    if python.is_relative_to(VENV):
        environment["VIRTUAL_ENV"] = str(VENV)
    return environment


# What is pinned, what is there --------------------------------------------------------------------


def pins(text: str) -> dict[str, str]:
    """The pins that apply to this Python and system: normalised name -> version.

    Understands the lines of `requirements.lock`: `name==version`, and a marker that compares
    `python_version` or `sys_platform` with a text.
    """
    found = {}
    for line in text.splitlines():
        requirement, _, marker = line.partition(";")
        name, equals, version = requirement.strip().partition("==")
        if equals and not name.startswith("#") and _applies(marker.strip()):
            found[_normal(name)] = version.strip()
    return found


def _applies(marker: str) -> bool:
    if not marker:
        return True
    parts = re.fullmatch(r"(python_version|sys_platform) (==|<|>=) \"([\w.]+)\"", marker)
    if parts is None:
        raise EnvironmentProblem(f"{LOCK.name}: marker {marker!r} is not understood")
    name, comparison, value = parts.groups()
    if name == "sys_platform":
        return (sys.platform == value) == (comparison == "==")
    here, there = sys.version_info[:2], tuple(int(part) for part in value.split("."))
    return {"==": here == there, "<": here < there, ">=": here >= there}[comparison]


def installed() -> dict[str, str]:
    """The packages of this interpreter: normalised name -> version without local label."""
    found = {}
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *sys.path}
    for folder in folders:
        with suppress(OSError):
            for name in os.listdir(folder or "."):
                if parts := re.fullmatch(r"(.+)-([^-]+)\.(?:dist|egg)-info", name):
                    found[_normal(parts[1])] = parts[2].partition("+")[0]
    return found


def missing(present: dict[str, str]) -> list[str]:
    """The pins that `present` does not meet, as `name==version`."""
    wanted = pins(LOCK.read_text(encoding="utf-8"))
    return [f"{name}=={pin}" for name, pin in wanted.items() if present.get(name) != pin]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


# .venv --------------------------------------------------------------------------------------------


def own() -> Path:
    """The interpreter of `.venv`, which is made or brought up to date first.

    Raises:
        EnvironmentProblem: it cannot be made.
    """
    python = VENV / "bin" / "python"
    if _whole():
        return python
    try:
        with _alone() if VENV.resolve().parent.is_dir() else nullcontext():
            if VENV.is_symlink():
                _check_shared(python)
            elif not _whole():  # another process may have made it meanwhile
                _make(python)
    except OSError as problem:
        raise EnvironmentProblem(f"cannot make {VENV}: {problem.strerror or problem}") from problem
    return python


def _check_shared(python: Path) -> None:
    """Refuse a `.venv` that is a link and does not fit; other checkouts may be using it."""
    usable = os.access(python, os.X_OK) and not (VENV / UNFINISHED).exists()
    if usable and (_whole() or _call(python, __file__, "--check", quiet=True)):
        return
    raise EnvironmentProblem(
        f"{VENV} is a link to {os.readlink(VENV)}, which does not hold what {LOCK.name} asks for; "
        "make it up to date in the checkout it belongs to, or remove the link"
    )


def key() -> str:
    """A hash of what pip installs from: the pins, and how the project itself is built.

    The settings of tools (ruff, pytest) in `pyproject.toml` do not count.
    """
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = content.get("tool", {}).get("setuptools")
    built = [content.get("build-system"), content.get("project"), packages]
    text = LOCK.read_text(encoding="utf-8") + json.dumps([*built, ROOTS], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _whole() -> bool:
    """Whether `.venv` was finished from the present pins and can be started."""
    if (VENV / UNFINISHED).exists() or not os.access(VENV / "bin" / "python", os.X_OK):
        return False
    try:
        return (VENV / STAMP).read_text(encoding="utf-8").strip() == key()
    except OSError:
        return False


def _make(python: Path) -> None:
    """Make `.venv`, or update one that was whole; the stamp comes last."""
    usable = os.access(python, os.X_OK) and not (VENV / UNFINISHED).exists()
    if usable and _call(python, __file__, "--check", quiet=True):
        _finish()
        return
    _say(f"{'updating' if usable else 'making'} {VENV} from {LOCK.name}; this takes a few minutes")
    if not usable:
        if VENV.is_file():
            VENV.unlink()
        elif VENV.exists():
            shutil.rmtree(VENV)
        VENV.mkdir()
    (VENV / UNFINISHED).touch()
    (VENV / STAMP).unlink(missing_ok=True)
    if not usable and not _call(Path(sys.executable), "-m", "venv", VENV):
        raise EnvironmentProblem(
            f"{sys.executable} cannot make environments (the reason is above; on Debian it is the "
            "package python3-venv); put another Python 3.11 to 3.13 first on PATH"
        )
    terminal = sys.stderr.isatty()
    pip = ("-m", "pip", "install", "--disable-pip-version-check", "--no-input")
    loud = () if terminal else ("--quiet",)
    # Where find-links names a folder that holds every wheel, no index is asked and none need answer.
    at_hand = _call(python, *pip, "--no-index", "-r", LOCK, quiet=True)
    if not at_hand and not _call(python, *pip, *loud, "-r", LOCK):
        raise EnvironmentProblem(
            f"pip could not install {LOCK.name} (the reason is above; no network, or a full "
            "disk?); run make again when that is mended"
        )
    if not _call(python, *pip, "--quiet", "--no-deps", "--no-build-isolation", "-e", ROOT):
        raise EnvironmentProblem("pip could not install the project itself (the reason is above)")
    _finish()
    (VENV / UNFINISHED).unlink()


def _finish() -> None:
    """Name the project's folders to every Python of `.venv`, then write the stamp."""
    for folder in VENV.glob("lib/python*/site-packages"):
        (folder / ROOTS).write_text(f"{ROOT / 'src'}\n{ROOT}\n", encoding="utf-8")
    (VENV / STAMP).write_text(key() + "\n", encoding="utf-8")


def _call(program: Path, *arguments: object, quiet: bool = False) -> bool:
    """Run a program with its output on stderr (or nowhere); return whether it succeeded."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "PYTHONHOME")
    }
    out = subprocess.DEVNULL if quiet else sys.stderr
    command = [str(program), *map(str, arguments)]
    environment["PIP_USER"] = "0"
    return subprocess.run(command, stdout=out, env=environment, check=False).returncode == 0


@contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other process works on `.venv`; the lock ends with the process.

    The lock file stands beside the real folder, so that all checkouts that link to it share it.
    """
    import fcntl

    folder = VENV.resolve()
    with open(folder.with_name(f"{folder.name}.lock"), "w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another make is preparing .venv; waiting")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
