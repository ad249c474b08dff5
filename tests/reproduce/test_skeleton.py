"""`make new`: the skeleton of a figure passes what every figure must pass, before anything is changed."""

import os
import subprocess
import sys

import pytest

import workbooks
from reproduce import catalogue, findings, paths, skeleton

ROOT = paths.ROOT


@pytest.fixture
def toy(tmp_path, monkeypatch):
    return workbooks.build(tmp_path, monkeypatch)


def snapshot(root):
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_new_paper_has_every_file_and_a_catalogue_that_can_be_read(toy):
    files = skeleton.contents("sixth", "fig1")
    assert {path.relative_to(toy).as_posix() for path in files} == {
        "src/repro/accounting/sixth/__init__.py",
        "src/repro/accounting/sixth/printed.py",
        "tests/accounting/sixth/test_printed.py",
        "notebooks/sixth/fig1.ipynb",
        "reproduce/papers/sixth/__init__.py",
        "reproduce/papers/sixth/catalogue.toml",
        "reproduce/papers/sixth/findings.md",
    }
    left = [name for text in files.values() for name in (b"<PAPER>", b"<MODULE>") if name in text]
    assert left == []
    skeleton.write_together(files)
    (entry,) = catalogue.figures("sixth")
    assert [claim.id for claim in entry.claims] == ["above-truth", "epsilon-10"]
    assert entry.parameters("quick")["delta"] == 1e-5
    catalogue.check_free(entry)
    assert findings.read("sixth").central == ("fig1/above-truth",)


def test_a_second_figure_leaves_the_first_as_it_is(toy):
    skeleton.write_together(skeleton.contents("sixth", "fig1"))
    before = snapshot(toy)
    files = skeleton.contents("sixth", "fig2")
    entry = paths.PAPERS / "sixth/catalogue.toml"
    assert [path for path in files if path in before] == [entry]
    skeleton.write_together(files)
    assert entry.read_bytes().startswith(before[entry])
    assert [one.name for one in catalogue.figures("sixth")] == ["fig1", "fig2"]
    assert (toy / "src/repro/accounting/sixth/printed_fig2.py").is_file()


@pytest.mark.parametrize(
    ("paper", "figure", "message"),
    [
        ("Sixth", "fig1", "PAPER must be lower-case letters, digits and _, .*, got 'Sixth'"),
        ("../sixth", "fig1", "PAPER must be .*, got '../sixth'"),
        ("class", "fig1", "PAPER must be .*no word of Python, got 'class'"),
        ("sixth", "", "FIGURE must be .*, got ''"),
        ("toy", "fig1", "FIGURE 'fig1' is taken: .*toy.catalogue.toml has it"),
        ("draft", "fig1", "fig1.ipynb is there; choose another PAPER or FIGURE"),
    ],
)
def test_one_clear_error_and_nothing_written(toy, capsys, paper, figure, message):
    (toy / "notebooks/draft").mkdir()
    (toy / "notebooks/draft/fig1.ipynb").write_text("{}")
    before = snapshot(toy)
    with pytest.raises(skeleton.SkeletonError, match=message):
        skeleton.contents(paper, figure)
    assert skeleton.main([paper, figure]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert snapshot(toy) == before


# The whole way, in a clone ------------------------------------------------------------------------


def call(folder, *command):
    """Run a command with the environment of this interpreter, and return what it printed."""
    names = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHONPATH")
    kept = {k: v for k, v in os.environ.items() if k not in names and not k.startswith("REPRO_")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=kept | {"VIRTUAL_ENV": sys.prefix},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
def test_a_sixth_paper_passes_at_once(tmp_path):
    clone = tmp_path / "clone"
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout, which it clones")
    call(tmp_path, "git", "clone", "--quiet", "--shared", str(ROOT), str(clone))
    call(clone, "make", "new", "PAPER=sixth", "FIGURE=fig1")
    stored = clone / "reproduce/reference/quick/sixth/fig1.json"
    assert stored.is_file()
    assert "2 reproduced" in call(clone, "make", "fig/sixth", "JOBS=1")
    told = call(clone, "make", "test", "IDS=sixth", "JOBS=1")
    for step in ("lint", "committed notebooks", "rules that every notebook keeps", "unit tests"):
        assert f"--- {step}" in told
    assert "identical" in told
    call(clone, sys.executable, "-m", "ruff", "format", "--check", ".")
    # What the other tests ask of every paper holds as well.
    files = ("test_architecture.py", "test_dialect.py", "reproduce/test_findings.py")
    tests = [f"tests/{name}" for name in (*files, "reproduce/test_workbook.py")]
    call(clone, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    # With a fault in the bound, the skeleton's own test and the replay notice it.
    bound = clone / "src/repro/accounting/sixth/printed.py"
    bound.write_text(bound.read_text().replace("1.25", "0.05"))
    with pytest.raises(AssertionError, match="FAILED: committed notebooks.*, unit tests"):
        call(clone, "make", "test", "IDS=sixth", "JOBS=1")


@pytest.mark.slow
def test_references_tell_what_changed_before_they_write(tmp_path, monkeypatch):
    from reproduce import references

    workbooks.build(tmp_path, monkeypatch)
    notebook = paths.NOTEBOOKS / "toy/fig1.ipynb"
    stored = paths.REFERENCE / "quick/toy/fig1.json"
    told = []

    def tell(lines):
        told.append((lines, stored.exists(), notebook.read_bytes()))

    before = notebook.read_bytes()
    references.renew("toy/fig1", tmp_path / "scratch", tell)
    ((lines, written, seen),) = told
    assert lines[0] == "new numbers" and "outputs of" in lines[1]
    assert not written and seen == before
    assert stored.exists() and notebook.read_bytes() != before
