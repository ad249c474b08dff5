"""The two editions of a lesson: `notebooks/walkthroughs/` is the teachers', the learners' is made from it.

What a cell is, its tags say:

==============  ==================================================================================
`front`         the first cell: minutes, questions, objectives, computing seconds
`teacher`       for teachers only: lesson plan, timing, typical mistakes
`setup`         imports and parameters
`answer`        a guess or an answer; learners get the names, and three dots in place of the rest
`solution`      the argument behind an answer, folded; for teachers only
`slide`         draws the key picture at the size of a slide
`take-home`     one page to keep
`glossary`      words and letters
`way-on`        figures and derivations to go on with
==============  ==================================================================================

A section's heading cell is tagged by its kind, one of `SECTIONS`.
"""

from __future__ import annotations

import ast
import base64
import copy
import os
import re
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from repro.atomic import write_bytes, write_text
from reproduce import paths, references

FOLDER = paths.NOTEBOOKS / "walkthroughs"
"""The teachers' edition, one notebook a lesson."""

LEARNERS = paths.BUILD / "teach"
"""Where the learners' edition, take-home pages and slides go."""

SECTIONS = ("predict", "compute", "attack", "derive", "find-the-bug")
"""The kinds of section."""

_TEACHERS_ONLY = {"teacher", "solution"}
_UPWARDS = re.compile(r"\]\((\.\./[^)#]+)")


class EditionError(ValueError):
    """A cell cannot be turned into a learner's cell."""


def lessons() -> list[Path]:
    """The teachers' notebooks, in order."""
    return sorted(FOLDER.glob("lesson*.ipynb"))


def tags(cell: NotebookNode) -> set[str]:
    """The tags of a cell."""
    return set(cell["metadata"].get("tags", []))


def blanked(source: str) -> str:
    """An answer cell as learners get it: functions without bodies, names without values, the rest as it is.

    Docstrings stay, since they say what is asked for.

    Raises:
        EditionError: nothing in the cell can be left to the learner.
    """
    lines = source.splitlines()
    taken = 0
    for node in reversed(ast.parse(source).body):
        start, end = node.lineno - 1, node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            told = ast.get_docstring(node, clean=False) is not None
            body = (first.end_lineno or 0) if told else first.lineno - 1
            lines[body:end] = ["    ...  # your answer"]
        elif isinstance(node, ast.Assign):
            name = lines[start].split("=", 1)[0].rstrip()
            lines[start:end] = [f"{name} = None  # your guess"]
        else:
            continue
        taken += 1
    if not taken:
        raise EditionError(f"an answer cell defines no function and no name: {source[:60]!r}")
    return "\n".join(lines)


def learners(teachers: NotebookNode) -> NotebookNode:
    """The learners' edition: no solutions, empty answers, no outputs.

    Raises:
        EditionError: an answer cell holds no answer.
    """
    book = copy.deepcopy(teachers)
    book["cells"] = [cell for cell in book.cells if not tags(cell) & _TEACHERS_ONLY]
    for cell in book.cells:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
        if "answer" in tags(cell):
            cell["source"] = blanked(cell["source"])
    return book


def write(folder: Path = LEARNERS) -> list[Path]:
    """Write every lesson's learners' edition, take-home page and slide below `folder`.

    Returns:
        the learners' notebooks.

    Raises:
        EditionError: an answer cell holds no answer.
        WriteError: a file cannot be written.
    """
    written = []
    for path in lessons():
        book = nbformat.read(path, as_version=4)
        target = folder / path.name
        write_text(target, text(relinked(learners(book), folder)))
        for cell in book.cells:
            if "take-home" in tags(cell):
                write_text(folder / f"{path.stem}.take-home.md", cell["source"] + "\n")
            if "slide" in tags(cell):
                write_bytes(folder / f"{path.stem}.slide.png", picture(cell))
        written.append(target)
    return written


def relinked(book: NotebookNode, folder: Path) -> NotebookNode:
    """The notebook with links to other folders of the workbook as they are from `folder`."""

    def moved(link: re.Match[str]) -> str:
        place = os.path.relpath(FOLDER / link[1], folder)
        return f"]({Path(place).as_posix()}"

    for cell in book.cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = _UPWARDS.sub(moved, cell["source"])
    return book


def picture(cell: NotebookNode) -> bytes:
    """The first picture among the outputs of a cell.

    Raises:
        EditionError: there is none.
    """
    for output in cell.get("outputs", []):
        if "image/png" in output.get("data", {}):
            return base64.b64decode(output["data"]["image/png"])
    raise EditionError(f"cell {cell['id']} has no picture; renew its outputs")


def text(book: NotebookNode) -> str:
    """A notebook as it is committed: no metadata of a machine, one line break at the end."""
    return nbformat.writes(references.normalise(book)).rstrip("\n") + "\n"
