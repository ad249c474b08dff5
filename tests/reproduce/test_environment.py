"""One version set: pyproject, lock and environment.yml agree; and `.venv` is made whole."""

import ast
import re
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from reproduce import environment

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.lock").read_text()
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [
    Requirement(text) for name in ("workbook", "bench", "site", "slurm") for text in EXTRAS[name]
]
OF_TORCH = re.compile(r"nvidia-|cuda-|triton$")
"""Packages of torch's CUDA build, which torch pins itself."""


def test_direct_dependencies_are_pinned_exactly_and_alike_in_the_lock():
    pins = environment.pins(LOCK)
    for requirement in DIRECT:
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", requirement
        assert pins[canonicalize_name(requirement.name)] == specifier.version


def test_torch_is_pinned_so_that_pip_may_take_any_build_of_it():
    assert re.search(r"^torch==2\.13\.0$", LOCK, re.MULTILINE)


def test_lock_has_pins_only():
    lines = [line for line in LOCK.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+( ; .+)?", line) for line in lines)
    assert lines == sorted(lines)
    names = [line.partition("==")[0] for line in lines]
    assert len(names) == len(set(names))


def test_lock_covers_what_follows_from_the_direct_dependencies_and_nothing_else():
    pins = environment.pins(LOCK)
    reached, waiting = set(), [(one.name, frozenset(one.extras)) for one in DIRECT]
    while waiting:
        name, extras = waiting.pop()
        key = canonicalize_name(name)
        if (key, extras) in reached or OF_TORCH.match(key):
            continue
        reached.add((key, extras))
        assert pins[key] == version(key).partition("+")[0], f"{key} is not installed as pinned"
        for requirement in map(Requirement, requires(key) or []):
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                continue
            waiting.append((requirement.name, frozenset(requirement.extras)))
            if not OF_TORCH.match(needed := canonicalize_name(requirement.name)):
                assert requirement.specifier.contains(pins[needed]), (key, str(requirement))
    assert set(pins) == {key for key, _ in reached}


def test_conda_gets_the_same_set():
    text = (ROOT / "environment.yml").read_text()
    (python,) = re.findall(r"^  - python(.*)$", text, re.MULTILINE)
    assert SpecifierSet(python) == SpecifierSet(PROJECT["requires-python"])
    assert re.findall(r"^      - (.*)$", text, re.MULTILINE) == ["-r requirements.lock"]


ELSEWHERE = {
    "flower": {"flwr", "workbook_flower"},
    "pfl": {"pfl"},
    "test_flower": {"federation", "workbook_flower", "flwr"},
}
"""What files whose names begin so may import besides: packages of other environments, and the Flower app."""


def test_what_is_imported_is_a_direct_dependency():
    names = {canonicalize_name(one.name) for one in DIRECT}
    owners = packages_distributions()
    own = {"repro", "reproduce", *sys.stdlib_module_names}
    own |= {path.stem for top in ("tests/helpers", "bench") for path in (ROOT / top).rglob("*.py")}
    for path in (
        p
        for folder in ("src", "reproduce", "bench", "tests")
        for p in (ROOT / folder).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module]
            allowed = own.union(
                *(m for start, m in ELSEWHERE.items() if path.name.startswith(start))
            )
            for module in {name.partition(".")[0] for name in modules} - allowed:
                found = {canonicalize_name(owner) for owner in owners.get(module, [])}
                assert found & names, f"{path.name} imports {module}, which pyproject.toml lacks"


# Making .venv -------------------------------------------------------------------------------------


def test_pins_understands_the_markers_of_the_lock():
    text = '# a==1\na-b==1.0\nold==2 ; python_version < "3.0"\nnew==3 ; python_version >= "3.11"\n'
    text += f'here==4 ; sys_platform == "{sys.platform}"\nthere==5 ; sys_platform == "vms"\n'
    assert environment.pins(text) == {"a-b": "1.0", "new": "3", "here": "4"}
    with pytest.raises(
        environment.EnvironmentProblem, match="marker .*os_name.* is not understood"
    ):
        environment.pins("a==1 ; os_name == 'nt'")


def test_installed_ignores_local_labels_and_spelling(tmp_path, monkeypatch):
    for name in ("Torch-2.13.0+cpu.dist-info", "dp_accounting-0.6.0.dist-info", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(environment.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(environment.sys, "path", [str(tmp_path)])
    assert environment.installed() == {"torch": "2.13.0", "dp-accounting": "0.6.0"}


FROM_INDEX = ["-m venv", "--no-index", "-r", "-e"]


class Place:
    """A project folder of its own, and stand-ins for the programs that would be run in it."""

    def __init__(self, root: Path) -> None:
        self.root, self.venv = root, root / ".venv"
        self.calls: list[str] = []
        self.failing = {"--no-index"}
        (root / "pyproject.toml").write_text("[project]\n")
        (root / "requirements.lock").write_text("a==1\n")

    def call(self, program, *arguments, quiet=False):
        text = " ".join(map(str, arguments))
        step = next(
            word for word in ("--check", "-m venv", "--no-index", "-r ", "-e ") if word in text
        ).strip()
        self.calls.append(step)
        if step == "-m venv" and step not in self.failing:
            (self.venv / "bin").mkdir(parents=True)
            (self.venv / "bin/python").symlink_to(sys.executable)
        return step not in self.failing


@pytest.fixture
def place(tmp_path, monkeypatch):
    for name, path in (("ROOT", ""), ("LOCK", "requirements.lock"), ("VENV", ".venv")):
        monkeypatch.setattr(environment, name, tmp_path / path)
    place = Place(tmp_path)
    monkeypatch.setattr(environment, "_call", place.call)
    return place


def test_made_once(place):
    assert environment.own() == place.venv / "bin/python"
    assert place.calls == FROM_INDEX
    environment.own()
    assert place.calls == FROM_INDEX


def test_wheels_at_hand_need_no_index(place):
    place.failing = {"-r"}
    environment.own()
    assert place.calls == ["-m venv", "--no-index", "-e"]


def test_half_made_is_made_again_from_scratch(place):
    place.failing.add("-r")
    with pytest.raises(
        environment.EnvironmentProblem, match="pip could not install requirements.lock"
    ):
        environment.own()
    (place.venv / "half-a-package").touch()
    place.failing.remove("-r")
    place.calls.clear()
    environment.own()
    assert place.calls == FROM_INDEX
    assert not (place.venv / "half-a-package").exists()


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("requirements.lock", "b==1\n"),
        ("pyproject.toml", 'dependencies = ["b==1"]\n'),
        ("pyproject.toml", '[tool.setuptools.packages.find]\nwhere = ["lib"]\n'),
    ],
)
def test_changed_pins_update_it(place, name, more):
    environment.own()
    with open(place.root / name, "a") as stream:
        stream.write(more)
    place.calls.clear()
    place.failing.add("--check")  # what is installed does not meet the new pins
    environment.own()
    assert place.calls == ["--check", "--no-index", "-r", "-e"]
    assert environment._whole()


def test_settings_of_tools_leave_it_alone(place):
    environment.own()
    place.calls.clear()
    with open(place.root / "pyproject.toml", "a") as stream:
        stream.write('# a comment\n[tool.pytest.ini_options]\nmarkers = ["slow: takes long"]\n')
    environment.own()
    assert place.calls == []


# A .venv that links to another checkout's ---------------------------------------------------------


@pytest.fixture
def linked(place):
    """The place with `.venv` a link to an environment elsewhere; returns the folder there."""
    there = place.root / "elsewhere/.venv"
    (there / "bin").mkdir(parents=True)
    (there / "bin/python").symlink_to(sys.executable)
    (there / "a-package").touch()
    place.venv.symlink_to(there)
    return there


def test_a_link_is_used_where_it_fits_and_left_as_it_is(place, linked):
    assert environment.own() == place.venv / "bin/python"
    assert place.calls == ["--check"]
    assert sorted(path.name for path in linked.iterdir()) == ["a-package", "bin"]
    assert place.venv.is_symlink()


@pytest.mark.parametrize("fault", ["other pins", "unfinished", "no interpreter", "gone"])
def test_a_link_that_does_not_fit_is_refused_in_one_line_and_left_as_it_is(place, linked, fault):
    place.failing.add("--check")
    if fault == "unfinished":
        place.failing.clear()
        (linked / environment.UNFINISHED).touch()
    elif fault == "no interpreter":
        (linked / "bin/python").unlink()
    elif fault == "gone":
        (place.root / "elsewhere").rename(place.root / "moved")
    before = sorted(
        path for path in (place.root / "elsewhere").rglob("*") if path.suffix != ".lock"
    )
    with pytest.raises(environment.EnvironmentProblem, match="is a link to .*elsewhere") as problem:
        environment.own()
    assert "\n" not in str(problem.value)
    assert place.venv.is_symlink()
    after = sorted(path for path in (place.root / "elsewhere").rglob("*") if path.suffix != ".lock")
    assert after == before
    assert set(place.calls) <= {"--check"}


def test_a_link_waits_for_the_lock_beside_the_real_folder(place, linked, monkeypatch):
    """The checkout that owns the folder may be in the middle of its work."""
    (linked / environment.UNFINISHED).touch()
    with holder(linked.with_name(".venv.lock")) as other:

        def say(text):
            assert "waiting" in text
            (linked / environment.UNFINISHED).unlink()
            other.stdin.close()

        monkeypatch.setattr(environment, "_say", say)
        environment.own()
    assert not (place.root / ".venv.lock").exists()


def test_an_environment_made_by_hand_is_taken_when_it_fits(place):
    (place.venv / "bin").mkdir(parents=True)
    (place.venv / "bin/python").symlink_to(sys.executable)
    environment.own()
    assert place.calls == ["--check"] and environment._whole()


def test_interpreter_that_is_gone_means_a_new_environment(place):
    environment.own()
    (place.venv / "bin/python").unlink()
    (place.venv / "bin/python").symlink_to(place.root / "nowhere")
    place.calls.clear()
    environment.own()
    assert place.calls == FROM_INDEX


@contextmanager
def holder(lock):
    """Another process that holds a lock until its input ends."""
    code = (
        "import fcntl, sys\n"
        f"stream = open({str(lock)!r}, 'w')\n"
        "fcntl.flock(stream, fcntl.LOCK_EX)\nprint('held', flush=True)\nsys.stdin.read()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as one:
        assert one.stdout.readline() == "held\n"
        yield one


def test_a_second_process_waits_and_finds_it_made(place, monkeypatch):
    waiting = []
    with holder(place.root / ".venv.lock") as other:

        def say(text):
            if "waiting" in text:
                waiting.append(text)
                environment._make(place.venv / "bin/python")  # what the other does meanwhile
                other.stdin.close()

        monkeypatch.setattr(environment, "_say", say)
        environment.own()
    assert waiting == ["another make is preparing .venv; waiting"]
    assert place.calls == FROM_INDEX


def test_settings_write_letters_in_any_locale():
    settings = environment.settings(Path(sys.executable)) | {
        "LC_ALL": "C",
        "PYTHONCOERCECLOCALE": "0",
    }
    call = [sys.executable, "-c", "print('ε = “1”')"]
    done = subprocess.run(call, env=settings, capture_output=True, check=True)
    assert done.stdout.decode() == "ε = “1”\n"


def test_settings_put_this_folder_first(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    found = environment.settings(environment.VENV / "bin/python")
    assert found["PYTHONPATH"].split(":") == [str(ROOT / "src"), str(ROOT), "elsewhere"]
    assert found["VIRTUAL_ENV"] == str(ROOT / ".venv")
