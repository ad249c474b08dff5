"""Notebooks as pages: their committed cells and outputs, with code, solutions and teachers' notes folded."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from reproduce import catalogue, paths, sources
from reproduce.teaching import editions

Cell = dict[str, Any]

_HEADING = re.compile(r"^(#{1,5})(?=\s)", re.MULTILINE)
_SLIDERS = re.compile(r'sliders\.show\("(\w+)"\)')
_FENCED = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)\s*$)", re.MULTILINE | re.DOTALL)


def notebooks() -> list[Path]:
    """Every notebook: the lessons first, then paper by paper in the order of `of_paper`."""
    return editions.lessons() + [path for name in catalogue.papers() for path in of_paper(name)]


def of_paper(paper: str) -> list[Path]:
    """The notebooks of a paper: figures, tables and sections by number, then derivations, then the audit."""
    found = (paths.NOTEBOOKS / paper).glob("*.ipynb")
    return sorted(found, key=lambda path: (_rank(path.stem), _natural(path.stem)))


def _rank(name: str) -> int:
    return 1 if name.startswith("derivations") else 2 if name == "audit" else 0


def _natural(name: str) -> list[tuple[str, int]]:
    """A sort key that puts fig2 before fig10."""
    return [(text, int(digits or 0)) for text, digits in re.findall(r"(\D*)(\d*)", name)]


def title(notebook: Path) -> str:
    """The first heading of a notebook, or its name."""
    found = sources.headings(notebook)
    return found[0].text if found else notebook.stem


def is_lesson(notebook: Path) -> bool:
    """Whether a notebook is a lesson and not of a paper."""
    return notebook.parent == editions.FOLDER


def page(notebook: Path, remark: str) -> dict[str, Any]:
    """The notebook as the site shows it.

    Args:
        notebook: a committed notebook; what it holds is not changed.
        remark: Markdown that goes below the title.
    """
    book = copy.deepcopy(sources.read(notebook))
    change = _of_lesson if is_lesson(notebook) else _of_paper
    book["cells"] = [new for cell in book["cells"] for new in change(cell)]
    _one_title(book["cells"])
    _below_title(book["cells"], remark)
    return book


def _of_paper(cell: Cell) -> Iterator[Cell]:
    if cell["cell_type"] == "code":
        _fold(cell, "hide-input", "Code")
    yield cell


def _of_lesson(cell: Cell) -> Iterator[Cell]:
    tags = editions.tags(cell)
    if "answer" in tags and cell["cell_type"] == "code":
        blank = copy.deepcopy(cell) | {"id": f"{cell['id']}-yours", "outputs": []}
        blank["source"], blank["execution_count"] = editions.blanked(sources.text(cell)), None
        yield blank
        _fold(cell, "hide-cell", "An answer")
    elif "teacher" in tags and cell["cell_type"] == "markdown":
        cell["source"] = _for_teachers(sources.text(cell))
    elif "setup" in tags:
        _fold(cell, "hide-input", "Imports and settings")
    elif cell["cell_type"] == "code" and "reveal(" in sources.text(cell):
        _fold(cell, "hide-output", "What is found; guess first")
    yield cell
    if shown := _SLIDERS.match(sources.text(cell)):
        link = (
            f'<a href="../../sliders/{shown[1]}.html">Move these sliders on a page of their own</a>'
        )
        yield {"cell_type": "markdown", "id": f"{cell['id']}-page", "metadata": {}, "source": link}


def _fold(cell: Cell, tag: str, prompt: str) -> None:
    """Show a code cell folded, below a line that opens it."""
    metadata = cell.setdefault("metadata", {})
    metadata["tags"] = [*metadata.get("tags", []), tag]
    metadata["mystnb"] = {"code_prompt_show": prompt, "code_prompt_hide": f"{prompt} (close)"}


def _for_teachers(text: str) -> str:
    """A folded block; a heading in front becomes the line that opens it."""
    first, _, rest = text.partition("\n")
    if not first.startswith("#"):
        first, rest = "For teachers", text
    return f"<details><summary>{first.lstrip('# ')}</summary>\n\n{rest.strip()}\n\n</details>"


def _one_title(cells: list[Cell]) -> None:
    """Lower all headings but the first by one level where a notebook has several titles."""
    texts = [sources.text(cell) for cell in cells if cell["cell_type"] == "markdown"]
    if len(re.findall(r"^# ", "\n".join(map(_without_code, texts)), re.MULTILINE)) < 2:
        return
    title_met = False
    for cell in cells:
        if cell["cell_type"] != "markdown":
            continue
        parts = _FENCED.split(sources.text(cell))
        for k in range(0, len(parts), 2):
            if not title_met and (found := _HEADING.search(parts[k])):
                start = found.end()
                parts[k] = parts[k][:start] + _HEADING.sub(r"\1#", parts[k][start:])
                title_met = True
            elif title_met:
                parts[k] = _HEADING.sub(r"\1#", parts[k])
        cell["source"] = "".join(parts)


def _without_code(text: str) -> str:
    return _FENCED.sub("", text)


def _below_title(cells: list[Cell], remark: str) -> None:
    """Put a remark below the first heading."""
    source = sources.text(cells[0])
    head, _, rest = source.partition("\n")
    cells[0]["source"] = f"{head}\n\n{remark}\n\n{rest.lstrip()}"


def prose(notebook: Path, keep: Callable[[Cell], bool] = lambda cell: True) -> str:
    """The Markdown of a notebook's cells, one after the other."""
    cells = sources.read(notebook).get("cells", [])
    chosen = (cell for cell in cells if cell["cell_type"] == "markdown" and keep(cell))
    return "\n\n".join(map(sources.text, chosen))
