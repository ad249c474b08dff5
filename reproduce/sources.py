"""The committed notebook as text: its cells by id, a hash of its code, the running cell."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote


def cells(notebook: Path) -> dict[str, str]:
    """The sources of the code cells by cell id, in order; empty for no readable notebook."""
    return {
        cell["id"]: text(cell)
        for cell in read(notebook).get("cells", [])
        if cell.get("cell_type") == "code" and "id" in cell
    }


def read(notebook: Path) -> dict[str, Any]:
    """The notebook's JSON, or an empty dict when `problem` has something to say."""
    return _load(notebook)[0]


def problem(notebook: Path) -> str:
    """Why a file cannot be read as a notebook, in one line, or ""."""
    return _load(notebook)[1]


def _load(notebook: Path) -> tuple[dict[str, Any], str]:
    try:
        content = json.loads(Path(notebook).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, f"no such notebook: {notebook}"
    except (OSError, ValueError) as why:
        return {}, f"{notebook} cannot be read as a notebook: {why}"
    found = content.get("cells") if isinstance(content, dict) else None
    if not isinstance(found, list) or not all(isinstance(cell, dict) for cell in found):
        return {}, f"{notebook} is no notebook: it must be a JSON object with a list of cells"
    return content, ""


def text(cell: dict[str, Any]) -> str:
    """The source of a cell as one string."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


@dataclass(frozen=True)
class Heading:
    """A heading of a notebook: its level (1 to 6), its text, and the id of its cell."""

    level: int
    text: str
    cell: str

    @property
    def anchor(self) -> str:
        """What a link to the heading ends with, after the #.

        JupyterLab, nbconvert and nbviewer keep the text and write hyphens for spaces; the site adds
        these anchors to its headings. What may not stand in an address, or would end a link in
        Markdown, is percent-encoded; browsers decode it. Code hosts that make lower-case anchors
        from Markdown show notebooks without anchors, so that there is nothing to choose for them:
        a link opens the notebook at its top.
        """
        return quote(self.text.replace(" ", "-"), safe="?/:@!$&'*+,;=")


def headings(notebook: Path) -> list[Heading]:
    """The headings of the Markdown cells, in order."""
    found = []
    for cell in read(notebook).get("cells", []):
        if cell.get("cell_type") != "markdown":
            continue
        fenced = False
        for line in text(cell).splitlines():
            fenced ^= line.lstrip().startswith(("```", "~~~"))
            match = None if fenced else re.fullmatch(r" {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*", line)
            if match and match[2]:
                found.append(Heading(len(match[1]), _bare(match[2]), cell.get("id", "")))
    return found


def section(notebook: Path, cell: str) -> Heading | None:
    """The heading of the section that a cell stands in: the last one before it; None without one."""
    order = [one.get("id", "") for one in read(notebook).get("cells", [])]
    if cell not in order:
        return None
    before = set(order[: order.index(cell) + 1])
    return next((one for one in reversed(headings(notebook)) if one.cell in before), None)


def link(notebook: Path, cell: str) -> str:
    """What a link to the notebook ends with to land on the section of a cell: "#…", or ""."""
    found = section(notebook, cell)
    return f"#{found.anchor}" if found else ""


def _bare(heading: str) -> str:
    """A heading's text without the marks of Markdown; formulas stay as they are written."""
    parts = re.split(r"(\$[^$]+\$)", heading)
    for k in range(0, len(parts), 2):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", parts[k])
        plain = re.sub(r"(\*\*|\*|`)(?=\S)(.+?)(?<=\S)\1", r"\2", plain)
        parts[k] = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", plain)
    return "".join(parts)


def code_hash(notebook: Path) -> str:
    """The sha256 of the code cells without their outputs, or "" for no readable notebook."""
    code = cells(notebook)
    if not code:
        return ""
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()


def running_cell(notebook: Path) -> str:
    """The id of the cell of `notebook` that this kernel is running, or "" when there is none.

    A front end may send the id with its request; otherwise the cell is the one with the same
    source.
    """
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    parent = getattr(shell, "get_parent", dict)()
    code = (parent.get("content") or {}).get("code")
    if not isinstance(code, str):
        return ""
    known = cells(notebook)
    sent = (parent.get("metadata") or {}).get("cellId", "")
    if sent in known:
        return sent
    return next((name for name, source in known.items() if source.strip() == code.strip()), "")
