"""Which part of the project may import which; imports inside functions count like all others."""

import ast
import re

import pytest

from reproduce import catalogue, paths

ROOMS = (
    "",
    "models",
    "datasets",
    "report",
    "secagg",
    "accounting",
    "federated",
    "attacks",
    "conformance",
)
"""The rooms of src/repro, from the lowest up: each may import those before it. "" stands for the
files beside the rooms, such as `repro/paths.py`."""

PLACES = {"repro": paths.ROOT / "src/repro", "reproduce": paths.ROOT / "reproduce"}


def modules(places):
    """Every module below the packages of `places`: full name -> file."""
    found = {}
    for top, folder in places.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [top, *path.relative_to(folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(places):
    """The import graph: module -> the modules of `places` that it imports, wherever it does so."""
    files = modules(places)
    return {name: _imported(name, path, files) - {name} for name, path in files.items()}


def _imported(name, path, files):
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                parts = name.split(".")
                package = parts if path.name == "__init__.py" else parts[:-1]
                base = package[: len(package) - node.level + 1]
                origin = ".".join([*base, *filter(None, [origin])])
            whole = {f"{origin}.{alias.name}" for alias in node.names}
            found |= whole if whole <= set(files) else (whole & set(files)) | {origin}
    return found & set(files)


def cycle(graph):
    """The modules of one import cycle, or [] when there is none."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name) :]
        if name in done:
            return []
        path.append(name)
        for other in sorted(graph[name]):
            if found := visit(other):
                return found
        path.pop()
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := visit(name))), [])


def room(name):
    """The room of a module of `repro`."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and (PLACES["repro"] / parts[1]).is_dir() else ""


GRAPH = imports(PLACES)


@pytest.mark.parametrize(
    ("two", "expected"),
    [
        ("def f():\n    from toy import one\n", ["toy.one", "toy.two"]),
        ("from .one import x\n", ["toy.one", "toy.two"]),
        ("if TYPE_CHECKING:\n    import toy.one\n", ["toy.one", "toy.two"]),
        ("from toy import three\n", []),
    ],
)
def test_a_cycle_is_found_however_it_is_hidden(tmp_path, two, expected):
    (tmp_path / "__init__.py").touch()
    (tmp_path / "one.py").write_text("from toy.two import y\n")
    (tmp_path / "two.py").write_text(two)
    (tmp_path / "three.py").touch()
    assert sorted(cycle(imports({"toy": tmp_path}))) == expected


def test_there_is_no_import_cycle():
    assert len(GRAPH) > 100
    assert cycle(GRAPH) == []


def test_the_library_does_not_know_the_workbook():
    strangers = [
        (name, other)
        for name, others in GRAPH.items()
        for other in others
        if name.split(".")[0] == "repro" and other.split(".")[0] == "reproduce"
    ]
    assert strangers == []


def paper(name):
    """The paper whose folder a module is in, or "" for the machinery and what papers share."""
    parts = name.split(".")
    own = parts[:2] == ["reproduce", "papers"] and len(parts) > 2
    return parts[2] if own and (paths.PAPERS / parts[2]).is_dir() else ""


def test_the_machinery_knows_no_paper_and_no_paper_knows_another():
    for name, others in GRAPH.items():
        for other in others:
            if other.startswith("reproduce.papers"):  # lessons may use what all papers share
                above = ("reproduce.papers", "reproduce.teaching")
                assert name.startswith(above), f"{name} imports {other}"
            if paper(other):
                assert paper(name) == paper(other), f"{name} imports {other}"


def test_importing_a_paper_runs_nothing():
    """So that a change in one file of a paper concerns those who import that file."""
    for path in [paths.PAPERS / "__init__.py", *paths.PAPERS.glob("*/__init__.py")]:
        (statement,) = ast.parse(path.read_text(encoding="utf-8")).body
        assert isinstance(statement, ast.Expr), f"{path} holds more than its docstring"


def test_arrows_between_the_rooms_of_the_library_go_one_way():
    for name, others in GRAPH.items():
        if name.split(".")[0] != "repro" or name == "repro":
            continue
        for other in others - {"repro"}:
            assert ROOMS.index(room(other)) <= ROOMS.index(room(name)), f"{name} imports {other}"


def words(tree):
    """The texts of a module's code: its string constants that are no docstrings."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [
        node.value for node in constants if isinstance(node.value, str) and id(node) not in prose
    ]


STRANGE = re.compile(r"\b(notebooks?|figures|reproduce|quick|desk)\b")
"""What only the workbook has. "paper" is also a method of accounting and "long" a word, so only the
two other profiles are looked for; `figure.dpi` is a setting of matplotlib."""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ('"""Of notebooks."""\nX = 1\n"""In figures/."""\n', []),
        ('X = ROOT / "notebooks"\n', ["notebooks"]),
        ('def f(x="quick"):\n    """A desk."""\n', ["quick"]),
        ('X = f"see figures/{name}"\n', ["figures"]),
    ],
)
def test_strange_words_are_found_in_code_and_not_in_docstrings(code, found):
    texts = words(ast.parse(code))
    assert [match[1] for text in texts for match in STRANGE.finditer(text)] == found


def test_the_library_names_no_folder_and_no_profile_of_the_workbook():
    for name, path in modules({"repro": PLACES["repro"]}).items():
        for text in words(ast.parse(path.read_text(encoding="utf-8"))):
            assert not STRANGE.search(text), f"{name} knows the workbook: {text!r}"


def test_the_library_reads_no_catalogue():
    """The one TOML file it reads is the registry of data."""
    for name, path in modules({"repro": PLACES["repro"]}).items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found = {alias.name for alias in node.names} & {"tomllib"}
                assert not found or name == "repro.datasets.registry", f"{name} reads TOML"
            elif isinstance(node, ast.ImportFrom):
                assert node.module != "tomllib", f"{name} reads TOML"


# Size -------------------------------------------------------------------------------------------

LONGEST = {"src/repro": 400, "reproduce": 400, "tests": 600}
"""The most lines that a file below a folder may have."""

LONGER = {"reproduce/certify.py": 500}
"""Files with a limit of their own: the checker is one file, to be read on its own."""

FILES, LINES = 150, 26_300
"""The most files and lines that `src/repro` may have in all, with five papers."""

MORE_FILES, MORE_LINES = 10, 1_500
"""What each further paper may add."""


def lines(folder):
    """The number of lines of every Python file below a folder: path from the root -> lines."""
    return {
        path.relative_to(paths.ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in sorted((paths.ROOT / folder).rglob("*.py"))
    }


@pytest.mark.parametrize("folder", LONGEST)
def test_no_file_is_too_long(folder):
    found = lines(folder)
    assert len(found) > 50
    assert {n: k for n, k in found.items() if k > LONGER.get(n, LONGEST[folder])} == {}


def test_the_library_stays_thin():
    found = lines("src/repro")
    more = max(0, len(catalogue.papers()) - 5)
    assert len(found) <= FILES + more * MORE_FILES, "join files or remove what nobody uses"
    assert sum(found.values()) <= LINES + more * MORE_LINES, "remove what nobody uses"
