"""The sliders of a lesson inside JupyterLab: the script and the grid of the page, as a widget."""

from __future__ import annotations

import html
from typing import Any

import anywidget
import traitlets

from reproduce.teaching.sliders.grid import DIGITS, Page
from reproduce.teaching.sliders.pages import PAGES, described, source

MODULE = (
    source("script.js")
    + """
export default { render({ model, el }) { drawSliders(el, model.get("page")); } };
"""
)
"""What JupyterLab loads: the script of the pages, and how a widget calls it."""


class Sliders(anywidget.AnyWidget):
    """A lesson's sliders. What is kept of them in a notebook is a table of the first position."""

    _esm = MODULE
    _css = source("style.css")
    page = traitlets.Dict().tag(sync=True)

    def __init__(self, page: Page) -> None:
        super().__init__(page=described(page))
        self._shown = page

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        return data | {"text/plain": text(self._shown), "text/html": table(self._shown)}, metadata


def _opening(page: Page) -> tuple[str, list[tuple[str, str, str]]]:
    """The first position in words, and a row for each quantity: words, lower and upper bound."""
    starts = [axis.opening for axis in page.axes]
    where = "; ".join(
        f"{axis.label} = {axis.value(start):.{DIGITS}g}"
        for axis, start in zip(page.axes, starts, strict=True)
    )
    rows = [
        (page.quantities[key], f"{low:.{DIGITS}g}", f"{high:.{DIGITS}g}")
        for key, (low, high) in page.grid.bounds(starts).items()
    ]
    return where, rows


def text(page: Page) -> str:
    """The first position as plain text."""
    where, rows = _opening(page)
    lines = [f"{words}: at least {low}, at most {high}" for words, low, high in rows]
    return "\n".join([f"sliders at {where}", *lines])


def table(page: Page) -> str:
    """The first position as a table, for readers without a kernel."""
    where, rows = _opening(page)
    lines = "".join(
        f"<tr><th scope='row'>{html.escape(words)}</th><td>{low}</td><td>{high}</td></tr>"
        for words, low, high in rows
    )
    return (
        f"<table><caption>Sliders at {html.escape(where)}. Run the cell to move them.</caption>"
        "<thead><tr><th>quantity</th><th>at least</th><th>at most</th></tr></thead>"
        f"<tbody>{lines}</tbody></table>"
    )


def show(lesson: str) -> Sliders:
    """The sliders of a lesson, as the last line of a cell.

    Args:
        lesson: such as "lesson0".

    Raises:
        ValueError: there is no such lesson.
        GridError: the grid of the lesson is missing or of other axes.
    """
    if lesson not in PAGES:
        raise ValueError(f"lesson must be one of {', '.join(PAGES)}, got {lesson!r}")
    return Sliders(PAGES[lesson])
