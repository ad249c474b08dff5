"""Debian's Chromium without a screen, and tabs that keep what goes wrong in them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator:
    """A browser; the test is skipped, with what is missing, where there is none."""
    if CHROMIUM is None:
        pytest.skip("no chromium on the path: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Watched:
    """A tab.

    Attributes:
        tab: playwright's page.
        faults: what the console and uncaught errors said.
        requests: every address that was asked for.
    """

    def __init__(self, browser, width: int = 1280, **options) -> None:
        self.tab = browser.new_page(viewport={"width": width, "height": 900}, **options)
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda message: self.faults.append(message.text))
        self.tab.on("pageerror", lambda error: self.faults.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
