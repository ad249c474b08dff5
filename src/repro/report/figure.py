"""Saving a picture as png, pdf and json: files that belong together, the same byte for byte.

The caption and the footer are printed below the picture. What it is a function of (parameters,
data, seeds) stands in the json, in the png (text chunks) and in the pdf (information dictionary).
None of the three holds a date, a version, a commit or a cost, so that the same code, parameters
and data give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from repro.atomic import write_together
from repro.report import style
from repro.report.numbers import plain, to_json

CAPTION_SIZE = 8.0
"""Size of the caption's and the footer's letters, in points."""

_LEADING = 1.35  # line distance / letter size
_SETTLE = 3  # a constrained layout starts from the last one: repeat until that has no influence
_EDGE = 0.12  # inches kept free at the left, the right and below


def render(
    fig: Figure, record: Mapping[str, Any], *, title: str = "", origin: Collection[str] = ()
) -> dict[str, bytes]:
    """Return the bytes of the picture as "png" and "pdf", its words and metadata included.

    Args:
        fig: the picture, left as it was.
        record: must hold `id`. Its `caption` says what the picture shows (mathtext between dollar
            signs is understood), its `footer` holds reservations such as "reduced: 60 clients";
            both are printed below the picture.
        title: title in the metadata.
        origin: the keys of `record` that also stand in the metadata; keys that it lacks are left
            out.

    Raises:
        DataError: one of these values holds a NaN, an infinity or something without a JSON form.
    """
    made_from = {key: record[key] for key in origin if key in record}
    source = to_json(plain(made_from, "record")).strip()
    caption, footer = record.get("caption", ""), record.get("footer", "")
    words = re.sub(r"\s+", " ", caption)
    png = {
        "Title": title,
        "Description": words,
        "Comment": footer,
        "Source": record["id"],
        "Origin": source,
        "Software": "matplotlib",
    }
    pdf = {
        "Title": title,
        "Subject": f"{words} {footer}".strip(),
        "Keywords": re.sub(r"\s+", " ", source),
        "Creator": record["id"],
        "CreationDate": None,
    }
    out: dict[str, bytes] = {}
    options: dict[str, dict[str, Any]] = {"png": {"pil_kwargs": {"optimize": True}}, "pdf": {}}
    with _captioned(fig, caption, footer):
        for _ in range(_SETTLE):
            fig.draw_without_rendering()
        with style.whole_marks(fig):
            for name, metadata in (("png", png), ("pdf", pdf)):
                buffer = io.BytesIO()
                fig.savefig(buffer, format=name, metadata=metadata, **options[name])
                out[name] = buffer.getvalue()
    return out


def write(
    stem: Path,
    record: Mapping[str, Any],
    pictures: Mapping[str, bytes],
    *,
    beside: Mapping[Path, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Write `<stem>.json` and the pictures that belong to it; return the json's content.

    Args:
        stem: path without ending, such as `pictures/fig1`.
        record: what goes into the json, which gets `files` besides (the sha256 of the png; the pdf
            is not committed, so nothing may depend on it).
        pictures: ending -> bytes, as `render` returns them; empty where there are numbers only.
        beside: further json files of the same run: path -> content.

    All files are complete on the disk before the first takes its name, and the json takes
    its own last: an interrupted call leaves the old ones.

    Raises:
        DataError: `record` holds a NaN, an infinity or something without a JSON form; nothing is
            written.
        WriteError: a file cannot be written (disk full, no permission).
    """
    content = plain(dict(record), "record")
    content["files"] = {
        name: hashlib.sha256(data).hexdigest() for name, data in pictures.items() if name == "png"
    }
    parts = {stem.with_name(f"{stem.name}.{name}"): data for name, data in pictures.items()}
    for path, value in (beside or {}).items():
        parts[path] = to_json(plain(dict(value), path.name)).encode()
    parts[stem.with_name(f"{stem.name}.json")] = to_json(content).encode()
    write_together(parts)
    return content


@contextmanager
def _captioned(fig: Figure, caption: str, footer: str) -> Iterator[None]:
    """Lengthen `fig` downwards and print caption and footer there; undo both at the end."""
    width, height = fig.get_size_inches()
    room = (width - 2 * _EDGE) * 72
    rows = [(row, "#222222", "normal") for row in _wrap(caption, room)]
    rows += [(row, style.MUTED, "italic") for row in _wrap(footer, room)]
    if not rows:
        yield
        return
    step = CAPTION_SIZE * _LEADING / 72
    block = len(rows) * step + 2 * _EDGE
    total = height + block
    texts = []
    engine = fig.get_layout_engine()
    rect = engine.get().get("rect") if engine is not None else None
    places = [] if rect is not None else [(ax, ax.get_position(original=True)) for ax in fig.axes]
    try:
        fig.set_size_inches(width, total)
        share = height / total
        if rect is not None:
            engine.set(rect=_inset(rect, 1 - share, engine))
        for ax, box in places:
            ax.set_position([box.x0, 1 - share * (1 - box.y0), box.width, box.height * share])
        for k, (row, color, slant) in enumerate(rows):
            y = (block - _EDGE - k * step) / total
            texts.append(
                fig.text(
                    _EDGE / width,
                    y,
                    row,
                    fontsize=CAPTION_SIZE,
                    color=color,
                    fontstyle=slant,
                    va="top",
                    ha="left",
                    in_layout=False,
                )
            )
        yield
    finally:
        for text in texts:
            text.remove()
        if rect is not None:
            engine.set(rect=rect)
        for ax, box in places:
            ax.set_position(box)
        fig.set_size_inches(width, height)


def _inset(rect: Any, below: float, engine: Any) -> tuple[float, float, float, float]:
    """The layout rectangle `rect` with the share `below` of the height kept free at the bottom.

    A constrained layout counts (left, bottom, width, height), a tight one (left, bottom, right,
    top).
    """
    left, bottom, third, fourth = rect
    keep = 1 - below
    if type(engine).__name__ == "TightLayoutEngine":
        return left, below + bottom * keep, third, below + fourth * keep
    return left, below + bottom * keep, third, fourth * keep


def _wrap(text: str, room: float) -> list[str]:
    """Break `text` into rows at most `room` points wide; line breaks and `$…$` stay whole."""
    font = FontProperties(family="DejaVu Sans", size=CAPTION_SIZE)
    renderer = RendererAgg(1, 1, 72)

    def wide(row: str) -> float:
        formula = row.count("$") >= 2 and row.count("$") % 2 == 0
        return renderer.get_text_width_height_descent(row, font, formula)[0]

    rows: list[str] = []
    for paragraph in text.strip().splitlines():
        row = ""
        for word in re.findall(r"(?:\$[^$]*\$|\S)+", paragraph):
            longer = f"{row} {word}".strip()
            if row and wide(longer) > room:
                rows.append(row)
                longer = word
            row = longer
        if row:
            rows.append(row)
    return rows
