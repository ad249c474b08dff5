"""The pages of a built site: their ids, what they link to, and what they load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {
    ("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"),
    ("audio", "src"), ("embed", "src"), ("object", "data"), ("input", "src"), ("image", "href"),
    ("use", "href"),
}  # fmt: skip
"""Attributes whose address a browser asks for by itself; those of `link` depend on its `rel`."""

HARMLESS = {"search", "next", "prev", "index", "canonical", "author", "help"}
"""Kinds of `link` that a browser does not ask for."""

_IN_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    """One page.

    Attributes:
        path: its file.
        ids: every id in it, and every name of an `a`.
        links: where its links go.
        loaded: what a browser loads with it.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self._style = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        told = {name: value or "" for name, value in attrs}
        self.ids |= {told[name] for name in ("id", "name") if told.get(name)}
        if tag == "a" and "href" in told:
            self.links.append(told["href"])
        if tag == "link" and not set(told.get("rel", "").split()) & HARMLESS:
            self.loaded.append(told.get("href", ""))
        self.loaded += [told[name] for name in told if (tag, name) in LOADING]
        self.loaded += in_styles(told.get("style", ""))
        self._style = tag == "style"

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        if self._style:
            self.loaded += in_styles(data)


def in_styles(text: str) -> list[str]:
    """The addresses that a style sheet loads."""
    return [one or other for one, other in _IN_STYLES.findall(text)]


def pages(site: Path) -> dict[Path, Page]:
    """Every page of a site."""
    return {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}


def leaves(address: str) -> bool:
    """Whether an address is on another machine; data in the address itself are not."""
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme not in ("", "data", "file")


def target(page: Path, address: str) -> tuple[Path, str]:
    """The file and the anchor that an address on a page means."""
    parts = urlsplit(address)
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
    return path, unquote(parts.fragment)


def broken(found: dict[Path, Page]) -> Iterator[str]:
    """Every link within the site that lands nowhere: "page: link"."""
    for path, page in found.items():
        for address in page.links:
            if leaves(address):
                continue
            file, anchor = target(path, address)
            there = found[file].ids if file in found else None
            if not file.is_file():
                yield f"{page.path}: {address}: no such file"
            elif anchor and "=" not in anchor and there is not None and anchor not in there:
                yield f"{page.path}: {address}: no such anchor"


def weight(page: Page) -> int:
    """The bytes that a browser loads with a page, style sheets' own files included."""
    waiting = [page.path.resolve()]
    waiting += [
        target(page.path, one)[0] for one in page.loaded if one and not one.startswith("data:")
    ]
    met: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in met or not path.is_file():
            continue
        met.add(path)
        if path.suffix == ".css":
            inner = in_styles(path.read_text(encoding="utf-8"))
            waiting += [target(path, one)[0] for one in inner if not one.startswith("data:")]
    return sum(path.stat().st_size for path in met)
