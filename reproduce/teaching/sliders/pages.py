"""The pages that need no kernel and no network: one file a lesson, with script, style and grid inside."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

from repro.atomic import write_text
from reproduce.teaching.sliders import lesson0, lesson1, lesson2, lesson3, lesson4, lesson5
from reproduce.teaching.sliders.grid import Page, compact

PAGES = {
    module.PAGE.name: module.PAGE
    for module in (lesson0, lesson1, lesson2, lesson3, lesson4, lesson5)
}
"""Lesson -> its page of sliders."""

MOST_BYTES = 2_000_000
"""A page weighs at most this."""

_HERE = Path(__file__).parent

_DOCUMENT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
body {{ margin: 0; }}
main {{ max-width: 46rem; margin: 0 auto; padding: 1rem; }}
{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<div id="sliders"></div>
<noscript><p>The sliders need JavaScript. The lesson's notebook shows the same numbers as tables.</p></noscript>
</main>
<script>
{script}
drawSliders(document.getElementById("sliders"), {data});
</script>
</body>
</html>
"""


def source(name: str) -> str:
    """The text of the script or the style sheet."""
    return (_HERE / name).read_text(encoding="utf-8")


def described(page: Page) -> dict[str, Any]:
    """What the script draws: the page's words and axes, and its grid."""
    grid = page.grid.stored()
    del grid["axes"]
    return grid | {
        "name": page.name,
        "lead": page.lead,
        "axes": [
            {
                "name": axis.name,
                "label": axis.label,
                "values": list(axis.values),
                "positions": [axis.value(s) for s in range(axis.last + 1)],
                "between": axis.between,
                "log": axis.log,
                "start": axis.opening,
            }
            for axis in page.axes
        ],
        "quantities": list(page.quantities.items()),
        "along": [axis.name for axis in page.axes].index(page.along),
        "vertical": page.vertical,
        "span": list(page.span),
        "log": page.log,
        "verdicts": [list(verdict) for verdict in page.verdicts],
        "rates": None if page.curve is None else list(page.curve[0]),
        "promise": page.promise,
    }


def document(page: Page) -> str:
    """A whole page as HTML."""
    data = compact(described(page)).replace("</", "<\\/")
    return _DOCUMENT.format(
        title=html.escape(page.title),
        style=source("style.css"),
        script=source("script.js"),
        data=data,
    )


def write(folder: Path) -> list[Path]:
    """Write the pages `<lesson>.html` into a folder; they can be opened from the disk.

    Raises:
        GridError: a grid is missing or of other axes.
        WriteError: a file cannot be written.
    """
    written = []
    for name, page in PAGES.items():
        written.append(folder / f"{name}.html")
        write_text(written[-1], document(page))
    return written
