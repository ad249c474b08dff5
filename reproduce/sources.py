"""The committed notebook as text: its cells by id, a hash of its code, the running cell."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any


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
