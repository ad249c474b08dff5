"""The README's gallery: `python -m reproduce.gallery` rewrites the part between its markers.

It shows what `figures/` and `reproduce/costs.json` hold, nothing else: picture, title, verdicts,
and the minutes and memory that the reference run took. `--check` writes nothing and fails when it
is stale.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from repro.atomic import WriteError, write_text
from reproduce import catalogue, paths, results, state
from reproduce.destination import Destination
from reproduce.marked import MarkError, between

BEGIN = "<!-- gallery: begin (written by `make gallery`; edits are lost) -->"
END = "<!-- gallery: end -->"


def gallery() -> str:
    """The gallery as text: one table a paper, one row a figure."""
    lines: list[str] = []
    by_paper: dict[str, list[results.Result]] = {}
    for item in results.results():
        by_paper.setdefault(item.entry.paper, []).append(item)
    for paper, items in by_paper.items():
        lines += [f'<a name="gallery-{paper}"></a>', ""]
        lines += [f"### {paper}: {escape(catalogue.paper_title(paper))}", "", "<table>"]
        lines.append(
            "<tr><th>picture</th><th>figure</th><th>verdicts</th><th>cost (quick)</th></tr>"
        )
        lines += [_row(item) for item in items]
        lines += ["</table>", ""]
    return "\n".join(lines).rstrip()


def _row(item: results.Result) -> str:
    entry = item.entry
    notebook = entry.notebook.relative_to(paths.ROOT).as_posix()
    name = Destination(entry.id, item.headline or "quick", published=True).name
    image = "-"
    if (paths.FIGURES / f"{name}.png").exists():
        source = f"figures/{name}.png"
        image = (
            f'<a href="{source}"><img src="{source}" width="260" alt="{escape(entry.title)}"></a>'
        )
    name = f'<a href="{notebook}">{entry.id}</a><br>{escape(entry.title)}'
    record = item.records.get(item.headline, {})
    if item.headline not in ("", "quick"):
        name += f"<br>profile {item.headline}"
    if record.get("reduced"):
        name += f"<br><i>reduced: {escape(record['reduced'])}</i>"
    counts = item.counts()
    verdicts = "<br>".join(f"{counts[word]} {word}" for word in results.ORDER if counts[word])
    return f"<tr><td>{image}</td><td>{name}</td><td>{verdicts}</td><td>{_cost(entry)}</td></tr>"


def _cost(entry: Any) -> str:
    """Time and memory of the reference run, rounded up; "-" without one."""
    found = state.cost(entry.id, "quick")
    if not found:
        return "-"
    seconds, memory = found["seconds"], found["peak_mib"]
    minutes = math.ceil(seconds / 60)
    spent = "under 1 min" if minutes <= 1 else f"{minutes} min"
    return f"{spent}<br>{50 * math.ceil(memory / 50)} MiB"


def with_gallery(text: str, new: str) -> str:
    """Return the README `text` with the part between the markers replaced by `new`."""
    return between(text, BEGIN, END, new)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: rewrite the README; with `--check`, exit 1 if that would change it."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.gallery", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail when the gallery is stale"
    )
    options = parser.parse_args(arguments)
    readme: Path = paths.ROOT / "README.md"
    try:
        text = readme.read_text(encoding="utf-8")
        new = with_gallery(text, gallery())
        if new == text:
            print("gallery: up to date")
            return 0
        if options.check:
            print(
                f"stale: the gallery of {readme} (make gallery writes it)",
                file=sys.stderr,
            )
            return 1
        write_text(readme, new)
    except (OSError, MarkError, catalogue.CatalogueError, WriteError) as problem:
        print(f"gallery: {problem}", file=sys.stderr)
        return 1
    print(f"gallery: {readme} rewritten")
    return 0


if __name__ == "__main__":
    sys.exit(main())
