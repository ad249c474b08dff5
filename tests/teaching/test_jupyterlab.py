"""The sliders in a real JupyterLab: they are moved there, and what they show holds by the library."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import nbformat
import numpy as np
import pytest

import browsing
from reproduce import paths
from reproduce.machine import python_path
from reproduce.teaching.sliders.pages import PAGES

pytest.importorskip("jupyterlab")
pytestmark = pytest.mark.slow

MOVES = 5
"""Random positions of each slider; each is compared with the library, which computes for them anew."""

SETTINGS = {
    "notebook-extension/tracker": '{"windowingMode": "none"}',  # else cells out of sight leave the page
    "apputils-extension/notification": '{"fetchNews": "false"}',  # else a question covers the sliders
}

READY = re.compile(r"(http://127\.0\.0\.1:\d+)/lab")


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """A folder with one notebook: the sliders of every lesson, a cell each."""
    folder = tmp_path_factory.mktemp("lab")
    cells = [nbformat.v4.new_code_cell("from reproduce.teaching import sliders")]
    cells += [nbformat.v4.new_code_cell(f'sliders.show("{name}")') for name in PAGES]
    book = nbformat.v4.new_notebook(cells=cells)
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "python3"}
    nbformat.write(book, folder / "sliders.ipynb")
    for name, kept in SETTINGS.items():
        file = folder / f"settings/@jupyterlab/{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(kept)
    return folder / "sliders.ipynb"


@pytest.fixture(scope="module")
def address(notebook) -> Iterator[str]:
    """JupyterLab with settings and folders of its own, opened at the notebook."""
    folder, token = notebook.parent, secrets.token_hex(16)
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind) for kind in ("CONFIG", "RUNTIME", "DATA")}
    own |= {
        "PYTHONPATH": python_path(),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
    }
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0"]
    command += [f"--notebook-dir={folder}", f"--IdentityProvider.token={token}"]
    with subprocess.Popen(
        command, env={**os.environ, **own}, cwd=folder, stderr=subprocess.PIPE, text=True
    ) as server:
        said = []
        for line in server.stderr:
            said.append(line)
            if found := READY.search(line):
                break
        else:
            pytest.fail("JupyterLab did not start:\n" + "".join(said))
        threading.Thread(
            target=server.stderr.read, daemon=True
        ).start()  # a full pipe would stop it
        yield f"{found[1]}/lab/tree/{notebook.name}?token={token}"
        server.terminate()


def choose(tab, *items):
    """Click through a menu of JupyterLab."""
    tab.locator(".lm-MenuBar-item", has_text=re.compile(f"^{items[0]}$")).click()
    for item in items[1:]:
        tab.locator(".lm-Menu-item", has_text=re.compile(f"^{item}")).first.click()


@pytest.fixture(scope="module")
def opened(address) -> Iterator[browsing.Watched]:
    """The notebook in a browser, all of its cells run."""
    with browsing.chromium() as browser:
        watched = browsing.Watched(browser)
        tab = watched.tab
        tab.goto(address)
        tab.set_default_timeout(240_000)  # of a machine with much else to do
        tab.locator(".jp-Notebook .jp-CodeCell").nth(len(PAGES)).wait_for()
        tab.get_by_text(re.compile(r"\| Idle$")).wait_for()  # cells run before are forgotten
        choose(tab, "Run", "Run All Cells")
        tab.locator("div.sliders").nth(len(PAGES) - 1).wait_for()
        yield watched


@pytest.mark.parametrize("name", PAGES)
def test_sliders_that_are_moved_show_what_the_library_computes(name, opened):
    page, tab, rng = PAGES[name], opened.tab, np.random.default_rng(MOVES)
    own = tab.locator("div.sliders").nth(list(PAGES).index(name))
    handles = [own.get_by_role("slider", name=axis.label, exact=True) for axis in page.axes]
    places = [axis.opening for axis in page.axes]
    for _ in range(MOVES):
        for k, (axis, handle) in enumerate(zip(page.axes, handles, strict=True)):
            handle.scroll_into_view_if_needed()
            box = handle.bounding_box()
            tab.mouse.click(box["x"] + rng.random() * box["width"], box["y"] + box["height"] / 2)
            places[k] = int(handle.input_value())
            steps = int(rng.integers(-4, 5))
            for _ in range(abs(steps)):
                tab.keyboard.press("ArrowRight" if steps > 0 else "ArrowLeft")
            places[k] = int(np.clip(places[k] + steps, 0, axis.last))
            assert handle.input_value() == str(places[k])  # and no cell took the arrow keys
        values = [axis.value(s) for axis, s in zip(page.axes, places, strict=True)]
        assert [float(text) for text in own.locator("output").all_inner_texts()] == values
        expected, exact = page.grid.bounds(places), page.at(values)
        rows = own.locator("tbody tr").all_inner_texts()
        assert len(rows) == len(expected)
        for row, key in zip(rows, page.quantities, strict=True):
            words, *shown = row.split("\t")
            low, high = map(float, shown)
            assert words.strip() == page.quantities[key]
            assert (low, high) == expected[key], (values, key)
            assert low <= exact[key][0] and exact[key][1] <= high, (values, key)


def test_nothing_outside_of_this_machine_is_asked(opened):
    hosts = {urlsplit(one).hostname for one in opened.requests if one.startswith("http")}
    assert hosts == {"127.0.0.1"}


def test_sliders_fit_a_notebook_in_both_themes(opened):
    """Nothing is cut off, and lines have the colours of the theme; pictures go to `build/screenshots/`."""
    tab = opened.tab
    for theme, blue in (("Light", "rgb(0, 114, 178)"), ("Dark", "rgb(86, 180, 233)")):
        choose(tab, "Settings", "Theme", f"JupyterLab {theme}")
        tab.locator(f"body[data-jp-theme-name='JupyterLab {theme}']").wait_for(state="attached")
        for k, name in enumerate(PAGES):
            own = tab.locator("div.sliders").nth(k)
            assert own.evaluate("one => one.scrollWidth <= one.clientWidth"), name
            drawn = own.locator("figure .line.c0").first
            assert drawn.evaluate("one => getComputedStyle(one).stroke") == blue, name
            own.screenshot(path=paths.BUILD / f"screenshots/lab-{name}-{theme.lower()}.png")
