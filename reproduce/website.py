"""The notebooks as web pages: `make site` writes `build/site/index.html` and the pages."""

from __future__ import annotations

import json
from collections import Counter
from html import escape
from pathlib import Path

from repro.atomic import write_bytes, write_text
from reproduce import catalogue, paths
from reproduce.destination import Destination

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(20rem, 1fr)); gap:
1.5rem; } .figures a { color: inherit; text-decoration: none; border: 1px solid #ccc; padding:
1rem; } .figures img { max-width: 100%; } .verdicts { color: #555; font-size: 0.9rem; }
"""


def build(profile: str) -> Path:
    """Write the pages and return the index.

    A page shows the copy that a run of `profile` has left in `build/`, else the committed notebook.
    """
    from nbconvert import HTMLExporter

    site = paths.BUILD / "site"
    exporter = HTMLExporter()
    sections = []
    for paper in catalogue.papers():
        cards = []
        for entry in catalogue.figures(paper):
            executed = Destination(entry.id, profile).executed
            source = executed if executed.is_file() else entry.notebook
            if not source.is_file():
                continue
            page, _ = exporter.from_filename(str(source))
            write_text(site / f"{entry.id}.html", page)
            cards.append(_card(entry, site))
        title = f"<h2>{escape(catalogue.paper_title(paper))}</h2>"
        sections.append(f'{title}\n<div class="figures">\n{"".join(cards)}</div>')
    index = site / "index.html"
    write_text(
        index,
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'><title>Workbook</title>"
        f"<style>{_STYLE}</style></head>\n<body><h1>Workbook</h1>\n{''.join(sections)}\n</body></html>\n",
    )
    return index


def _card(entry: catalogue.Figure, site: Path) -> str:
    """The part of the index about one figure."""
    picture = paths.FIGURES / f"{entry.id}.png"
    image = ""
    if picture.is_file():
        write_bytes(site / f"{entry.id}.png", picture.read_bytes())
        image = f'<img src="{entry.id}.png" alt="{escape(entry.title)}">'
    return (
        f'<a href="{entry.id}.html"><b>{entry.name}</b>: {escape(entry.title)}{image}'
        f'<div class="verdicts">{escape(_verdicts(entry))}</div></a>\n'
    )


def _verdicts(entry: catalogue.Figure) -> str:
    try:
        text = (paths.FIGURES / f"{entry.id}.json").read_text(encoding="utf-8")
        counts = Counter(row["verdict"] for row in json.loads(text)["claims"])
    except (OSError, ValueError, KeyError, TypeError):
        return "not run yet"
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
