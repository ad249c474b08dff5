"""The pages of sliders in a real browser: mouse and keyboard, right numbers, no error, no request.

Chromium is Debian's. Pictures of all pages at 1280 and 390 pixels go to `build/screenshots/` to be looked at.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import browsing
from reproduce import paths
from reproduce.teaching import sliders
from reproduce.teaching.sliders.pages import PAGES, described
from reproduce.teaching.sliders.widget import MODULE

pytestmark = pytest.mark.slow

MOVES = 50
ROLES = {"lesson0": 2, "lesson1": 4, "lesson2": 3, "lesson3": 3, "lesson4": 3, "lesson5": 3}
"""How many sliders a page has."""


@pytest.fixture(scope="module")
def browser():
    with browsing.chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("sliders")
    sliders.write(made)
    return made


@pytest.fixture
def watched(browser):
    tabs = []

    def opened(**options):
        tabs.append(browsing.Watched(browser, **options))
        return tabs[-1]

    yield opened
    for one in tabs:
        one.tab.close()


def check(tab, page, places):
    """The page shows the numbers that hold where its sliders stand."""
    expected = page.grid.bounds(places)
    rows = tab.locator("tbody tr").all_inner_texts()
    assert len(rows) == len(expected)
    for row, (key, (low, high)) in zip(rows, expected.items(), strict=True):
        words, first, second = row.split("\t")
        assert words.strip() == page.quantities[key]
        assert (float(first), float(second)) == (low, high), (places, key)
    values = [float(text) for text in tab.locator("output").all_inner_texts()]
    assert values == [axis.value(s) for axis, s in zip(page.axes, places, strict=True)]
    between = any(s % axis.between for axis, s in zip(page.axes, places, strict=True))
    assert ("worse neighbour" in tab.locator(".where").inner_text()) == between
    if page.verdicts:
        assert tab.locator(".verdicts").inner_text() == " ".join(
            verdict(expected, *one) for one in page.verdicts
        )


def verdict(bounds, first, second, less, more, undecided):
    """Which of three sentences is proved."""
    if bounds[first][1] < bounds[second][0]:
        return less
    return more if bounds[first][0] > bounds[second][1] else undecided


@pytest.mark.parametrize("name", PAGES)
def test_sliders_move_by_mouse_and_keyboard_and_show_the_right_numbers(name, folder, watched):
    page, opened = PAGES[name], watched()
    tab, rng = opened.tab, np.random.default_rng(MOVES)
    address = (folder / f"{name}.html").as_uri()
    tab.goto(address)
    handles = [tab.get_by_role("slider", name=axis.label, exact=True) for axis in page.axes]
    places = [axis.opening for axis in page.axes]
    check(tab, page, places)
    for _ in range(MOVES):
        for k, (axis, handle) in enumerate(zip(page.axes, handles, strict=True)):
            box = handle.bounding_box()
            share = rng.random()
            tab.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
            places[k] = int(handle.input_value())
            # The handle has a width, so that the ends of the bar are reached before the ends of the box.
            assert abs(places[k] - share * axis.last) <= 0.03 * axis.last + 1
            steps = int(rng.integers(-6, 7))
            for _ in range(abs(steps)):
                tab.keyboard.press("ArrowRight" if steps > 0 else "ArrowLeft")
            places[k] = int(np.clip(places[k] + steps, 0, axis.last))
            assert handle.input_value() == str(places[k])
        check(tab, page, places)
    assert opened.faults == [] and opened.requests == [address]


@pytest.mark.parametrize("name", PAGES)
def test_a_slider_is_dragged_and_has_ends(name, folder, watched):
    page, opened = PAGES[name], watched()
    tab = opened.tab
    tab.goto((folder / f"{name}.html").as_uri())
    places = [axis.opening for axis in page.axes]
    for k, axis in enumerate(page.axes):
        handle = tab.get_by_role("slider", name=axis.label, exact=True)
        box = handle.bounding_box()
        tab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tab.mouse.down()
        tab.mouse.move(box["x"] + 2 * box["width"], box["y"])
        tab.mouse.up()
        places[k] = axis.last
        check(tab, page, places)
        tab.keyboard.press("Home")
        places[k] = 0
        check(tab, page, places)
    assert opened.faults == []


@pytest.mark.parametrize("name", PAGES)
def test_keyboard_and_screen_reader_find_everything(name, folder, watched):
    """Every slider has a name, a spoken value and a focus that is seen; the picture has words."""
    page, opened = PAGES[name], watched()
    tab = opened.tab
    tab.goto((folder / f"{name}.html").as_uri())
    assert tab.get_by_role("slider").count() == len(page.axes) == ROLES[name]
    for axis in page.axes:
        tab.keyboard.press("Tab")
        handle = tab.get_by_role("slider", name=axis.label, exact=True)
        assert handle.evaluate("one => one === document.activeElement")
        assert handle.evaluate("one => getComputedStyle(one).outlineStyle") == "solid"
        tab.keyboard.press("ArrowRight" if axis.opening < axis.last else "ArrowLeft")
        moved = axis.opening + (1 if axis.opening < axis.last else -1)
        spoken = handle.get_attribute("aria-valuetext")
        assert float(spoken.split(",")[0]) == axis.value(moved)
        assert ("between the computed" in spoken) == (axis.between > 1)
    picture = tab.locator("svg[role=img]")
    assert picture.count() == 1
    described_by = picture.get_attribute("aria-labelledby").split()
    title, words = (tab.locator(f"[id='{one}']").text_content() for one in described_by)
    assert page.vertical in title
    assert all(text in words for text in page.quantities.values())
    assert tab.get_by_role("table", name="What holds at this position").count() == 1


@pytest.mark.parametrize("name", PAGES)
def test_pages_fit_wide_and_narrow_screens(name, folder, watched):
    for width in (1280, 390):
        for scheme in ("light", "dark"):
            opened = watched(width=width, color_scheme=scheme)
            opened.tab.goto((folder / f"{name}.html").as_uri())
            wide = opened.tab.evaluate("document.documentElement.scrollWidth")
            assert wide <= width
            pictures = paths.BUILD / "screenshots"
            opened.tab.screenshot(path=pictures / f"{name}-{width}-{scheme}.png", full_page=True)
            assert opened.faults == []


def test_the_widget_draws_the_same_page(watched, tmp_path):
    """The module that JupyterLab loads, called as JupyterLab calls it."""
    page, opened = PAGES["lesson0"], watched()
    module = json.dumps(MODULE)
    data = json.dumps(described(page))
    blank = tmp_path / "blank.html"
    blank.write_text("<!DOCTYPE html><title>blank</title><div id=here></div>", encoding="utf-8")
    opened.tab.goto(blank.as_uri())
    opened.tab.evaluate(
        f"""async () => {{
            const file = new Blob([{module}], {{ type: "text/javascript" }});
            const loaded = await import(URL.createObjectURL(file));
            const model = {{ get: () => ({data}) }};
            loaded.default.render({{ model, el: document.getElementById("here") }});
        }}"""
    )
    check(opened.tab, page, [axis.opening for axis in page.axes])
    for handle in opened.tab.get_by_role("slider").all():  # else JupyterLab takes the arrow keys
        assert handle.get_attribute("data-lm-suppress-shortcuts") == "true"
    assert opened.faults == []
