"""Write what a new figure begins with: `make new PAPER=<paper> FIGURE=<figure>`.

Catalogue entry, notebook, bound and test are those of a worked example, the classical bound of the Gaussian
mechanism, which is to be replaced line by line: its texts (`example`) mark the places with "TODO". The notebook is
run at once, so that `make fig/<paper>` and `make test IDS=<paper>` pass before anything is changed.
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from repro.atomic import WriteError, write_together
from reproduce import catalogue, example, findings, gallery, ledger, paths, references, runner
from reproduce.destination import Destination

NAME = re.compile(r"[a-z][a-z0-9_]*")
"""A paper's or figure's key: it names folders, modules and addresses."""


class SkeletonError(ValueError):
    """The skeleton cannot be written; the message says why. Nothing was written."""


def contents(paper: str, figure: str) -> dict[Path, bytes]:
    """The files of a new figure, and of a new paper where there is none of that key.

    Args:
        paper: the paper's key, lower-case letters, digits and _.
        figure: the figure's key, likewise.

    Returns:
        path -> content. The only path that may be there already is the paper's catalogue.

    Raises:
        SkeletonError: a key is malformed or taken, or one of the files is there.
    """
    _check_key("PAPER", paper)
    _check_key("FIGURE", figure)
    entry = catalogue.path_of(paper)
    old = entry.is_file()
    if old and figure in {one.name for one in catalogue.figures(paper)}:
        raise SkeletonError(f"FIGURE {figure!r} is taken: {entry} has it")
    accounting = paths.ROOT / "src/repro/accounting" / paper
    module = f"printed_{figure}" if (accounting / "printed.py").exists() else "printed"
    tests = paths.ROOT / "tests/accounting" / paper / f"test_{module}.py"
    filled = {"PAPER": paper, "FIGURE": figure, "MODULE": module}
    texts = {
        accounting / f"{module}.py": _fill(example.BOUND, filled),
        tests: _fill(example.TEST, filled),
        paths.NOTEBOOKS / paper / f"{figure}.ipynb": _notebook(filled),
    }
    packages = {
        accounting / "__init__.py": f'"""The bounds of the paper `{paper}`."""\n',
        paths.PAPERS / paper / "__init__.py": f'"""What the figures of `{paper}` need."""\n',
    }
    texts |= {path: text for path, text in packages.items() if not path.exists()}
    written = findings.path_of(paper)
    if not old and not written.exists():
        texts[written] = _fill(example.FINDINGS, filled)
    if there := [path for path in texts if path.exists()]:
        raise SkeletonError(f"{there[0]} is there; choose another PAPER or FIGURE")
    before = entry.read_text(encoding="utf-8").rstrip("\n") if old else example.TITLE
    texts[entry] = _fill(f"{before}\n\n{example.ENTRY}", filled)
    return {path: text.encode() for path, text in texts.items()}


def _check_key(name: str, value: str) -> None:
    if not NAME.fullmatch(value) or keyword.iskeyword(value):
        allowed = "lower-case letters, digits and _, beginning with a letter, and no word of Python"
        raise SkeletonError(f"{name} must be {allowed}, got {value!r}")


def _fill(text: str, filled: dict[str, str]) -> str:
    for name, value in filled.items():
        text = text.replace(f"<{name}>", value)
    return text


def _notebook(filled: dict[str, str]) -> str:
    """The notebook, with the six kinds of cell in their order, not yet run."""
    book = new_notebook(metadata=references.METADATA)
    for number, (kind, source) in enumerate(example.CELLS, start=1):
        make = new_markdown_cell if kind == "text" else new_code_cell
        cell = make(_fill(source.strip("\n"), filled), id=f"c{number:02d}")
        if kind == "parameters":
            cell["metadata"]["tags"] = ["parameters"]
        book["cells"].append(cell)
    return nbformat.writes(book).rstrip("\n") + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: exit 0 when all is there, 1 when the notebook failed, 2 for a wrong call."""
    parser = argparse.ArgumentParser(prog="python -m reproduce.skeleton", description=__doc__)
    parser.add_argument("paper")
    parser.add_argument("figure")
    options = parser.parse_args(arguments)
    try:
        files = contents(options.paper, options.figure)
        write_together(files)
    except (SkeletonError, catalogue.CatalogueError, WriteError) as problem:
        print(problem, file=sys.stderr)
        return 2
    for path in files:
        print(f"written: {path.relative_to(paths.ROOT)}")
    entry = catalogue.figure(f"{options.paper}/{options.figure}")
    # The committed outputs show the headline, which exists after a run. The copy of that run lacks it, so it counts
    # for nothing afterwards.
    failed = runner.run([entry], "quick", 1) or references.main([entry.id])
    Destination(entry.id).state.unlink(missing_ok=True)
    if failed or ledger.main([]) or gallery.main([]):  # with the cost of the run
        return 1
    ids = f"make fig/{entry.id}, make test IDS={entry.paper}"
    print(f"{ids} pass now; replace what is marked TODO, then: make references IDS={entry.id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
