"""A tiny workbook in a scratch folder, for the tests of the machinery."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from repro import paths as library
from reproduce import catalogue, findings, gallery, paths

TOML = """
title = "A toy paper"

[figures.fig1]
title = "a line"
notebook = "notebooks/toy/fig1.ipynb"
rtol = 1e-6
data = []
[figures.fig1.parameters.desk]
rounds = 30
[[figures.fig1.claims]]
id = "double"
kind = "number"
where = "Section 1"
statement = "twice sigma"
paper = 4.0
rtol = 0.01
[[figures.fig1.claims]]
id = "order"
kind = "order"
where = "Figure 1"
statement = "the line | rises"

[figures.derivations]
title = "one step"
notebook = "notebooks/toy/derivations.ipynb"
rtol = 1e-6
[[figures.derivations.claims]]
id = "lemma"
kind = "derivation"
where = "Lemma 1"
statement = "1 + 1 = 2"
"""

FIG1 = (
    ("c01", "md", "# A line\n\nIt rises."),
    ("c02", "params", 'profile = "quick"\nsigma = 2.0\nrounds = 3'),
    (
        "c03",
        "code",
        "import matplotlib.pyplot as plt\nfrom reproduce.notebook import Workbook\n"
        'book = Workbook("toy/fig1", globals())',
    ),
    ("c04", "code", 'y = [sigma * k for k in range(rounds)]\nbook.number("double", y[2])'),
    ("c05", "code", 'book.statement("order", y == sorted(y), "smallest step 2")'),
    (
        "c06",
        "code",
        "fig, ax = plt.subplots(figsize=(2, 1.5))\nax.plot(y)\n"
        'book.save(fig, {"y": y}, caption="A line.")',
    ),
    ("c07", "code", "book.table()"),
)

DERIVATIONS = (
    ("d01", "md", "# One step"),
    ("d02", "params", 'profile = "quick"'),
    (
        "d03",
        "code",
        'from reproduce.notebook import Workbook\nbook = Workbook("toy/derivations", globals())',
    ),
    ("d04", "code", 'book.derivation("lemma", "holds" if 1 + 1 == 2 else "false", "counted")'),
    ("d05", "code", 'book.save(None, {"sum": 1 + 1}, caption="One step.")\nbook.table()'),
)


FINDINGS_HEAD = (
    '+++\npicture = "fig1"\ncentral = ["fig1/a"]\nauthors = ["A"]\nreference = "r"\nyear = 1\n+++\n'
)
FINDINGS = "".join(f"\n## {title}\n\ntext\n" for title in findings.SECTIONS)


def build(root: Path, monkeypatch) -> Path:
    """Lay out the toy workbook below `root`, point both `paths` at it, and return `root`."""
    places = {
        "ROOT": root,
        "NOTEBOOKS": root / "notebooks",
        "PAPERS": root / "reproduce" / "papers",
        "REFERENCE": root / "reproduce" / "reference",
        "FIGURES": root / "figures",
        "DATA": root / "data",
        "CACHE": root / "data" / "cache",
        "RUNS": root / "data" / "runs",
        "PUBLISHED": root / "data" / "published",
        "BUILD": root / "build",
        "COSTS": root / "reproduce" / "costs.json",
        "MEASURED": root / "reproduce" / "measured",
    }
    for name, place in places.items():
        monkeypatch.setattr(paths, name, place)
        if hasattr(library, name):
            monkeypatch.setattr(library, name, place)
    for name in ("REPRO_FIGURES", "REPRO_BUILD", "REPRO_RUNS", "REPRO_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REPRO_ROOT", str(root))
    catalogue_file().parent.mkdir(parents=True)
    catalogue_file().write_text(TOML)
    (root / "README.md").write_text(f"# Toys\n\n{gallery.BEGIN}\n{gallery.END}\n")
    write_notebook(root / "notebooks/toy/fig1.ipynb", FIG1)
    write_notebook(root / "notebooks/toy/derivations.ipynb", DERIVATIONS)
    return root


def catalogue_file() -> Path:
    """The toy paper's file."""
    return paths.PAPERS / "toy" / "catalogue.toml"


def write_notebook(path: Path, cells) -> None:
    """Write a notebook from (id, kind, source) triples; kind is md, code or params."""
    book = new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for name, kind, source in cells:
        cell = new_markdown_cell(source) if kind == "md" else new_code_cell(source)
        if kind == "params":
            cell["metadata"]["tags"] = ["parameters"]
        cell["id"] = name
        book["cells"].append(cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, path)


def edit_notebook(path: Path, old: str, new: str) -> None:
    """Replace text in the sources of a notebook's cells; the text must be there."""
    book = nbformat.read(path, as_version=4)
    assert any(old in cell["source"] for cell in book["cells"])
    for cell in book["cells"]:
        cell["source"] = cell["source"].replace(old, new)
    nbformat.write(book, path)


def run_toy(
    sigma: float = 2.0,
    finish: bool = True,
    picture: bool = False,
    rounds: int | None = None,
    profile: str = "quick",
):
    """Do in this process what the toy's fig1 does, and return its workbook."""
    import matplotlib.pyplot as plt

    from reproduce.notebook import Workbook

    own = catalogue.figure("toy/fig1").parameters(profile)
    rounds = own["rounds"] if rounds is None else rounds
    book = Workbook("toy/fig1", {"profile": profile, "sigma": sigma, "rounds": rounds})
    book.number("double", 2 * sigma, note="another sigma")
    book.statement("order", True, "smallest step 2")
    fig = None
    if picture:
        fig, ax = plt.subplots(figsize=(2, 1.5))
        ax.plot([0.0, 2.0, 4.0])
    book.save(fig, {"y": [0.0, 2.0, 4.0]}, caption="A line.")
    plt.close("all")
    if finish:
        book.table()
    return book


def run_derivations():
    """Do in this process what the toy's derivations do, and return the workbook."""
    from reproduce.notebook import Workbook

    book = Workbook("toy/derivations", {"profile": "quick"})
    book.derivation("lemma", "holds", "counted")
    book.save(None, {"sum": 2}, caption="One step.")
    book.table()
    return book
