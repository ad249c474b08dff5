"""Gather the pages in one folder, laid out like the repository, so that links between them stay as they are."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from PIL import Image

from repro.atomic import write_bytes
from reproduce import paths, reports, results, sources
from reproduce.website import books, pages, papers

WRITTEN = paths.ROOT / "site" / "pages"
"""Pages written by hand for the site."""

THUMBNAIL_WIDTH = 480
"""The width of the small pictures on the papers' pages, in pixels."""

_TARGET = re.compile(r"\]\(([^()#\s]+)(?:#[^()\s]*)?\)")


def gather(folder: Path, sliders: Mapping[str, str]) -> list[str]:
    """Make `folder` hold the pages and what they link to, and nothing else.

    A file that is already there with the same content keeps its time, so that Sphinx reads only what changed.

    Args:
        folder: where to write.
        sliders: name of a lesson -> the address of its sliders from the root of the site.

    Returns:
        the files that are no longer wanted and were removed, relative to `folder`.

    Raises:
        WriteError: a file cannot be written.
    """
    found = contents(sliders)
    found |= {name: (paths.ROOT / name).read_bytes() for name in linked(found)}
    found |= _thumbnails(folder)
    for name, content in found.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != content:
            write_bytes(path, content)
    gone = sorted(
        name
        for path in folder.rglob("*")
        if path.is_file() and (name := path.relative_to(folder).as_posix()) not in found
    )
    for name in gone:
        (folder / name).unlink()
    return gone


def contents(sliders: Mapping[str, str]) -> dict[str, bytes]:
    """Every page: its path from the root of the repository -> its content."""
    known = papers.known()
    items: dict[str, list[results.Result]] = {}
    for item in results.results():
        items.setdefault(item.entry.paper, []).append(item)
    readme = _read("README.md")
    texts = {
        "index.md": pages.home(readme, known),
        "README.md": pages.guide(readme),
        "lessons.md": pages.lessons(lambda path: sliders.get(path.stem, "")),
        "reading.md": pages.reading(known),
        "citing.md": pages.citing(_read("CITATION.cff")),
        "figures/CLAIMS.md": pages.ledger(_read("figures/CLAIMS.md")),
    }
    for paper in known:
        name = f"figures/{paper}/{reports.FILE}"
        texts[name] = papers.page(paper, _read(name), items.get(paper, []))
    copied = [paths.ROOT / "CHANGELOG.md", *(paths.ROOT / "data" / "embedded").glob("*.md")]
    copied += (paths.ROOT / "apps").glob("*/README.md")
    for path in sorted([*copied, *(paths.ROOT / "docs").rglob("*.md")]):
        name = path.relative_to(paths.ROOT).as_posix()
        texts[name] = _read(name)
    for path in sorted(WRITTEN.rglob("*.md")):
        texts[path.relative_to(WRITTEN).as_posix()] = path.read_text(encoding="utf-8")
    for path in books.notebooks():
        book = books.page(path, _remark(path, sliders))
        texts[path.relative_to(paths.ROOT).as_posix()] = json.dumps(book, ensure_ascii=False)
    return {name: text.encode() for name, text in texts.items()}


def _read(name: str) -> str:
    return (paths.ROOT / name).read_text(encoding="utf-8")


def _remark(notebook: Path, sliders: Mapping[str, str]) -> str:
    """The line below the title of a notebook: where it comes from and belongs to."""
    name = notebook.relative_to(paths.ROOT).as_posix()
    if not books.is_lesson(notebook):
        paper = notebook.parent.name
        return f"*Notebook* `{name}` *of* [{paper}](../../figures/{paper}/{reports.FILE})"
    told = f"*Notebook* `{name}`"
    address = sliders.get(notebook.stem)
    return f'{told}. <a href="../../{address}">Sliders for this lesson</a>.' if address else told


def linked(found: Mapping[str, bytes]) -> list[str]:
    """The files of the repository that the pages link to or show and that are no pages."""
    names = set()
    for name, content in found.items():
        folder = PurePosixPath(name).parent
        for text in _markdown(name, content.decode()):
            for target in _TARGET.findall(text):
                path = paths.ROOT / folder / unquote(target)
                if ":" not in target and path.is_file():
                    names.add(path.resolve().relative_to(paths.ROOT.resolve()).as_posix())
    return sorted(names - set(found))


def _markdown(name: str, text: str) -> Iterator[str]:
    """The parts of a page that are Markdown."""
    if not name.endswith(".ipynb"):
        yield text
        return
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "markdown":
            yield sources.text(cell)
        for output in cell.get("outputs", []):
            yield "".join(output.get("data", {}).get("text/markdown", ""))


def _thumbnails(folder: Path) -> dict[str, bytes]:
    """The small pictures; one that is newer than its picture is kept as it is."""
    found = {}
    for path in sorted(paths.FIGURES.glob("*/*.png")):
        name = f"{papers.THUMBNAILS}/{path.relative_to(paths.FIGURES).as_posix()}"
        old = folder / name
        fresh = old.is_file() and old.stat().st_mtime >= path.stat().st_mtime
        found[name] = old.read_bytes() if fresh else _small(path)
    return found


def _small(path: Path) -> bytes:
    """A picture at the width of a card."""
    with Image.open(path) as image:
        height = max(1, round(image.height * THUMBNAIL_WIDTH / image.width))
        small = image.convert("RGB").resize((THUMBNAIL_WIDTH, height), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    small.quantize(64).save(stream, format="PNG", optimize=True)
    return stream.getvalue()
