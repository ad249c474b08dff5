"""What a result depends on: the imports that are really used, and nothing else."""

import pytest

import workbooks
from reproduce import catalogue, fingerprint, paths
from reproduce.fingerprint import closure

TREE = {
    "src/repro/__init__.py": '"""Nothing else."""\n',
    "src/repro/paths.py": "x = 1\n",
    "src/repro/accounting/__init__.py": (
        '"""Names."""\nfrom repro.accounting.one import First\n'
        "from .two import Second as Other\nfrom . import three\n"
        '__all__ = ["First", "Other", "three"]\n'
    ),
    "src/repro/accounting/one.py": "from repro.accounting._shared import f\nclass First: pass\n",
    "src/repro/accounting/two.py": "class Second: pass\n",
    "src/repro/accounting/three.py": "def g():\n    from repro import paths\n",
    "src/repro/accounting/_shared.py": "def f(): pass\n",
    "src/repro/active/__init__.py": "from repro.accounting.two import Second\ntable = {}\n",
    "src/repro/active/part.py": "y = 1\n",
    "src/repro/experiments.py": (
        'RUN = "repro.accounting.two:Second"\nfrom repro.accounting import First\n'
    ),
    "reproduce/__init__.py": "",
    "reproduce/papers/__init__.py": '"""Shared."""\n',
    "reproduce/papers/clock.py": "hour = 1\n",
    "reproduce/papers/one/__init__.py": '"""A paper."""\n',
    "reproduce/papers/one/runs.py": (
        "from repro.accounting import Other\nfrom reproduce.papers import clock\n"
        "def run(config, seed): pass\n"
    ),
    "reproduce/papers/one/curves.py": "def draw(): pass\n",
    "reproduce/papers/two/__init__.py": '"""Another paper."""\n',
    "reproduce/papers/two/runs.py": 'TASK = "toy/training"\n',
    "reproduce/notebook.py": "import repro.paths\n",
}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    workbooks.build(tmp_path, monkeypatch)
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with open(workbooks.catalogue_file(), "a") as stream:
        stream.write('[tasks]\ntraining = "reproduce.papers.one.runs:run"\n')
    return tmp_path


A = "repro.accounting"
P = "reproduce.papers"


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        (f"from {A} import First", {f"{A}.one", f"{A}._shared"}),
        (f"from {A} import Other", {f"{A}.two"}),
        (f"from {A} import three", {f"{A}.three", "repro.paths"}),
        (f"from {A}.two import Second", {f"{A}.two"}),
        (f"import {A}.two as t", {f"{A}.two"}),
        (f"def f():\n    from {A} import Other", {f"{A}.two"}),
        (f"if x:\n    import {A}.one", {f"{A}.one", f"{A}._shared"}),
        ("from reproduce.notebook import Workbook", {"reproduce.notebook", "repro.paths"}),
        ("import numpy, repro, reproduce", {"repro", "reproduce"}),
        (f"from {A} import _shared", {f"{A}._shared"}),
        ("from repro.active.part import y", {"repro.active", "repro.active.part", f"{A}.two"}),
        ('run("repro.accounting.two:Second")', {f"{A}.two"}),
        (
            "from repro.experiments import RUN",
            {"repro.experiments", f"{A}.one", f"{A}._shared", f"{A}.two"},
        ),
        (
            f"from {A} import *",
            {A, f"{A}.one", f"{A}._shared", f"{A}.two", f"{A}.three", "repro.paths"},
        ),
        ("this is no Python", set()),
        (
            "from reproduce.papers.one.runs import run",
            {f"{P}.one.runs", f"{P}.clock", f"{A}.two"},
        ),
        ("from reproduce.papers.one import curves", {f"{P}.one.curves"}),
        ("Task('toy/training', {}, 0)", {f"{P}.one.runs", f"{P}.clock", f"{A}.two"}),
        (
            "from reproduce.papers.two.runs import TASK",
            {f"{P}.two.runs", f"{P}.one.runs", f"{P}.clock", f"{A}.two"},
        ),
        ("Task('toy/no_such_task', {}, 0)", set()),
    ],
)
def test_closure(tree, source, modules):
    assert set(closure(source)) == modules


def test_a_package_that_is_used_as_a_whole_counts_with_all_it_imports(tree):
    assert f"{A}.two" in closure(f"import {A} as a\na.First") and A in closure(f"import {A}")


def test_a_new_export_concerns_only_those_who_use_it(tree):
    before = closure(f"from {A} import First")
    (tree / "src/repro/accounting/four.py").write_text("class Fourth: pass\n")
    with open(tree / "src/repro/accounting/__init__.py", "a") as stream:
        stream.write("from repro.accounting.four import Fourth\n")
    assert closure(f"from {A} import First") == before
    assert set(closure(f"from {A} import Fourth")) == {f"{A}.four"}


def test_a_change_in_one_paper_concerns_only_that_paper(tree):
    one, two = ("import reproduce.papers.one.curves", "from reproduce.papers import clock")
    before = closure(one), closure(two)
    for name in ("one/runs.py", "two/runs.py", "two/__init__.py"):
        with open(paths.PAPERS / name, "a") as stream:
            stream.write("# changed\n")
    assert (closure(one), closure(two)) == before
    with open(paths.PAPERS / "one/curves.py", "a") as stream:
        stream.write("# changed\n")
    assert closure(one) != before[0] and closure(two) == before[1]


def parts(profile="quick"):
    return fingerprint.of_figure(catalogue.figure("toy/fig1"), profile)


def changed(before, profile="quick"):
    return list(fingerprint.changed(before, parts(profile)))


def test_parts_of_a_figure(tree):
    notebook = tree / "notebooks/toy/fig1.ipynb"
    workbooks.edit_notebook(
        notebook, "import matplotlib.pyplot as plt", f"%matplotlib inline\nfrom {A} import Other"
    )
    before = parts()
    assert {name for name in before if name.startswith("code")} == {
        f"code {A}.two",
        "code repro.paths",
        "code reproduce.notebook",
    }
    (tree / "src/repro/accounting/one.py").write_text("# changed\n")
    assert changed(before) == []
    (tree / "src/repro/accounting/two.py").write_text("# changed\n")
    assert changed(before) == [f"code {A}.two"]


def test_measured_times_that_a_notebook_shows_count(tree):
    """Its own, and those of the figure that it names; pictures would else show older times."""
    workbooks.edit_notebook(
        tree / "notebooks/toy/fig1.ipynb",
        "import matplotlib.pyplot as plt",
        'SECONDS = dict(of="toy/fig2")',
    )
    folder = paths.MEASURED / "toy"
    folder.mkdir(parents=True)
    before = parts()
    for name in ("fig1", "fig2", "fig3"):
        (folder / f"{name}.json").write_text("{}")
    assert changed(before) == ["measured toy/fig1", "measured toy/fig2"]
    before = parts()
    (folder / "fig2.json").write_text('{"seconds": {}}')
    assert changed(before) == ["measured toy/fig2"]


def test_outputs_of_the_notebook_and_other_entries_do_not_count(tree):
    import nbformat

    before = parts()
    notebook = tree / "notebooks/toy/fig1.ipynb"
    book = nbformat.read(notebook, as_version=4)
    book.cells[3].outputs = [nbformat.v4.new_output("stream", text="hello")]
    nbformat.write(book, notebook)
    catalogue_file = workbooks.catalogue_file()
    text = catalogue_file.read_text()
    catalogue_file.write_text(text.replace("1 + 1 = 2", "1 + 1 = two"))
    assert changed(before) == []
    workbooks.edit_notebook(notebook, "sigma * k", "k * sigma")
    catalogue_file.write_text(text.replace("rises", "falls"))
    assert changed(before) == ["catalogue", "notebook"]
    workbooks.edit_notebook(notebook, "sigma = 2.0", "sigma = 2.5")
    assert changed(before) == ["catalogue", "notebook", "parameters"]


def test_profile_data_and_versions(tree, monkeypatch):
    before = parts()
    assert "parameters" in changed(before, "desk")
    text = workbooks.catalogue_file().read_text().replace("data = []", 'data = ["a"]', 1)
    workbooks.catalogue_file().write_text(text)
    assert changed(before) == ["data a"]
    paths.DATA.mkdir(exist_ok=True)
    (paths.DATA / "registry.toml").write_text('[a]\nsha256 = "1"\n[b]\nsha256 = "1"\n')
    before = parts()
    (paths.DATA / "registry.toml").write_text('[a]\nsha256 = "1"\n[b]\nsha256 = "2"\n')
    assert changed(before) == []
    (paths.DATA / "registry.toml").write_text('[a]\nsha256 = "2"\n[b]\nsha256 = "2"\n')
    assert changed(before) == ["data a"]
    before = parts()
    monkeypatch.setattr(fingerprint, "versions", lambda: {"torch": "9"})
    assert changed(before) == ["versions"]


FUNCTION = """
import numpy as np
from repro import paths
from repro.accounting import First
from repro.accounting.two import Second

KEYS = {"a"}
unused = First()

@np.vectorize
def run(config, seed):
    return helper(config)

def helper(config):
    return Second, KEYS

def other():
    return paths
"""


def test_of_a_functions_module_only_what_it_uses_counts(tree):
    path = tree / "src/repro/runs.py"
    path.write_text(FUNCTION)
    before = fingerprint.function_closure("repro.runs:run")
    assert set(before) == {"repro.runs:run", f"{A}.two"}
    for old, new, counts in [
        ("return paths", "return 1", False),
        ("unused = First()", "unused = 1", False),
        ('KEYS = {"a"}', 'KEYS = {"b"}', True),
        ("return Second, KEYS", "return Second", True),
        ("@np.vectorize", "@np.frompyfunc", True),
        ("import numpy as np", "import numpy as np\nprint(KEYS)", True),
    ]:
        assert old in FUNCTION
        path.write_text(FUNCTION.replace(old, new))
        assert (fingerprint.function_closure("repro.runs:run") != before) == counts, old
    path.write_text(FUNCTION + "from repro.paths import *\n")
    assert "repro.runs" in fingerprint.function_closure("repro.runs:run")
    assert fingerprint.function_closure("elsewhere:run") == {}


def test_the_real_modules_are_found():
    found = set(closure("from repro.accounting import GaussianMechanism"))
    assert "repro.accounting.gaussian" in found
    assert "repro.accounting.random_participation.mechanisms" not in found
    assert not any(name.startswith("repro.federated") for name in found)
