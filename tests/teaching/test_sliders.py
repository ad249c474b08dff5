"""Sliders: every position shows bounds that hold there, and pages need nothing but themselves."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduce.teaching import sliders
from reproduce.teaching.sliders import grid, pages, widget
from reproduce.teaching.sliders.grid import Axis, GridError
from reproduce.teaching.sliders.pages import PAGES

FALLS = {
    ("lesson0", "sigma"),
    ("lesson0", "epsilon"),
    ("lesson1", "sigma"),
    ("lesson2", "epsilon"),
    ("lesson2", "sigma"),
    ("lesson3", "sigma"),
    ("lesson4", "scale"),
    ("lesson4", "clients"),
}
"""Where the true values fall along a slider; along the others they rise."""

RISES_INSTEAD = {("scale", "local"), ("scale", "central")}
"""Quantities that are no privacy: they rise where epsilon falls."""

NOT_TRUE_VALUES = {"printed"}
"""What a wrong theorem states; it need not follow the order of the truth, except along sigma."""


@pytest.fixture(params=PAGES.values(), ids=PAGES)
def page(request):
    return request.param


def positions(page, count, seed):
    """Random positions, most of them between grid points."""
    rng = np.random.default_rng(seed)
    return [tuple(int(rng.integers(axis.last + 1)) for axis in page.axes) for _ in range(count)]


def broken(page, count, seed, bounds):
    """Positions and quantities at which bounds from the library are not inside of `bounds`."""
    found = []
    for place in positions(page, count, seed):
        values = [axis.value(s) for axis, s in zip(page.axes, place, strict=True)]
        shown = bounds(place)
        for key, (low, high) in page.at(values).items():
            if shown[key][0] > low or shown[key][1] < min(high, page.most):
                found.append((values, key, shown[key], (low, high)))
    return found


# What is shown is true ------------------------------------------------------------------------------


def test_every_position_shows_bounds_that_hold_there(page):
    assert broken(page, 6, 16, page.grid.bounds) == []


@pytest.mark.slow
def test_many_positions_show_bounds_that_hold_there(page):
    assert broken(page, 60, 1, page.grid.bounds) == []


def test_the_nearer_grid_point_alone_would_be_wrong():
    """So that the tests above can fail."""
    page = PAGES["lesson0"]

    def nearest(place):
        near = [
            round(s / axis.between) * axis.between for axis, s in zip(page.axes, place, strict=True)
        ]
        return page.grid.bounds(near)

    assert len(broken(page, 20, 16, nearest)) >= 10


def test_the_grid_is_what_the_library_computes(page):
    """A seeded sample of the committed numbers: never inside of the library's, and at most 1 % outside.

    A bound of the library that was tightened by less leaves the page true, and needs no new grid.
    """
    rng = np.random.default_rng(3)
    for _ in range(4):
        at = tuple(int(rng.integers(len(axis.values))) for axis in page.axes)
        values = [axis.values[k] for axis, k in zip(page.axes, at, strict=True)]
        for key, (low, high) in page.at(values).items():
            high = min(high, page.most)
            for stored, exact, side in (
                (page.grid.low[key][at], low, -1),
                (page.grid.high[key][at], high, 1),
            ):
                away = side * (stored - exact)
                assert 0 <= away <= 0.01 * exact + 2 * page.least + 1e-15, (
                    f"{key} at {values}: renew with python -m reproduce.teaching.sliders {page.name}"
                )


def test_another_processor_does_not_make_a_grid_stale():
    """What a Fourier transform on another processor changes moves no bound to the wrong side."""
    rng = np.random.default_rng(7)
    low = np.geomspace(1e-15, 0.9, 500)
    high = np.minimum(low * 1.01, 1.0)
    kept = grid.outward(low, high, 1e-12, 1.0)
    kept = grid.rounded(kept[0], up=False), grid.rounded(kept[1], up=True)
    for _ in range(20):
        noise = 1 + 1e-10 * rng.uniform(-1, 1, 500), 1e-14 * rng.uniform(-1, 1, 500)
        assert np.all(kept[0] <= np.maximum(low * noise[0] + noise[1], 0.0))
        assert np.all(kept[1] >= np.minimum(high * noise[0] + noise[1], 1.0))
    assert np.all(kept[1] <= 1.0) and np.all(kept[0] >= 0.0)


def test_without_the_margin_it_would():
    """The same noise moves bounds that were only rounded to the wrong side."""
    low = (
        np.arange(1000, 1050) * 1e-15
    )  # bounds of four digits, as they happen to be in small deltas
    assert np.any(grid.rounded(low, up=False) > low - 1e-14)


def test_true_values_rise_or_fall_along_every_slider(page):
    """What the worse neighbour rests on: no lower bound on the better side is above an upper one."""
    for (k, axis), key in product(enumerate(page.axes), page.quantities):
        if key in NOT_TRUE_VALUES and axis.name != "sigma":
            continue
        falls = ((page.name, axis.name) in FALLS) != ((axis.name, key) in RISES_INSTEAD)
        assert not _out_of_order(page.grid.low[key], page.grid.high[key], k, falls), (
            axis.name,
            key,
        )


def _out_of_order(low, high, axis, falls):
    """Whether a value is certainly against the order somewhere."""
    low, high = (np.moveaxis(x, axis, 0) for x in (low, high))
    if not falls:
        low, high = low[::-1], high[::-1]
    return bool(np.any(low > np.minimum.accumulate(high, axis=0)))


def test_a_wrong_order_is_seen():
    page = PAGES["lesson0"]
    low, high = page.grid.low["delta"], page.grid.high["delta"]
    assert _out_of_order(low, high, 0, falls=False) and _out_of_order(low, high, 1, falls=False)


def test_attackers_are_below_every_promise_at_every_position():
    """Lesson 0 draws both; the hits at the larger sigma around, the promise with the shown delta."""
    page = PAGES["lesson0"]
    rates = np.array(page.curve[0])
    for place in positions(page, 200, 5):
        delta = page.grid.bounds(place)["delta"][1]
        epsilon = page.axes[1].value(place[1])
        hits = page.grid.reached[page.axes[0].neighbours(place[0])[-1]]
        line = np.minimum(np.exp(epsilon) * rates + delta, 1)
        other = 1 - np.exp(-epsilon) * (1 - delta - rates)
        assert np.all(hits <= np.minimum(line, other) + 1e-15)


# Axes and rounding ----------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None)
@given(st.floats(0, 1e9, allow_subnormal=False), st.booleans())
def test_rounding_goes_to_the_safe_side(x, up):
    kept = float(grid.rounded(np.array([x]), up)[0])
    assert kept >= x if up else kept <= x
    assert abs(kept - x) <= 1e-3 * x
    assert float(f"{kept:.{grid.DIGITS}g}") == kept


def test_a_slider_stays_in_its_cell(page):
    for axis in page.axes:
        for s in range(axis.last + 1):
            around = [axis.values[k] for k in axis.neighbours(s)]
            assert around[0] <= axis.value(s) <= around[-1]
        assert axis.value(axis.opening) == axis.start


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": (1.0,)}, "two or more and ascend"),
        ({"values": (2.0, 1.0)}, "two or more and ascend"),
        ({"values": (1.0, 1.23456)}, "at most 4 digits"),
        ({"start": 1.5}, "start must be one of"),
    ],
)
def test_a_bad_axis_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        replace(Axis("x", "x", (1.0, 2.0)), **change)


def test_a_missing_or_foreign_grid_is_refused(tmp_path, monkeypatch):
    page = replace(PAGES["lesson0"], name="lesson9")
    monkeypatch.setattr(grid, "FOLDER", tmp_path)
    with pytest.raises(GridError, match="is missing: run python -m reproduce"):
        _ = page.grid
    stored = PAGES["lesson0"].grid.stored()
    page.path.write_text(json.dumps(stored))
    assert page.grid.bounds([0, 0]) == PAGES["lesson0"].grid.bounds([0, 0])
    stored["axes"]["sigma"][0] = 0.09
    page.path.write_text(json.dumps(stored))
    with pytest.raises(GridError, match="of other axes"):
        _ = replace(page).grid


def test_a_grid_survives_keeping(tmp_path, monkeypatch):
    monkeypatch.setattr(grid, "FOLDER", tmp_path)
    short = replace(
        PAGES["lesson0"],
        axes=(Axis("sigma", "σ", (0.5, 1.0, 2.0)), Axis("epsilon", "ε", (0.0, 1.0))),
    )
    made = short.computed()
    made.keep()
    for place in product(range(3), range(2)):
        assert short.grid.bounds(place) == made.bounds(place)
    assert np.array_equal(short.grid.reached, made.reached)


# Pages and widget -----------------------------------------------------------------------------------


def test_pages_hold_all_they_need(tmp_path):
    written = sliders.write(tmp_path)
    assert [path.stem for path in written] == list(PAGES) == [f"lesson{k}" for k in range(6)]
    for path in written:
        text = path.read_text(encoding="utf-8")
        assert path.stat().st_size <= pages.MOST_BYTES
        assert "default-src 'none'" in text
        assert set(re.findall(r"https?://[^\s\"']+", text)) == {"http://www.w3.org/2000/svg"}
        assert not re.search(r"\b(?:src|href)=\"(?!data:,\")|\bimport\b|fetch\(|XMLHttp", text)


def test_a_page_holds_the_committed_grid(page):
    (data,) = re.findall(
        r'getElementById\("sliders"\), (\{.*\})\);\n</script>', pages.document(page), re.S
    )
    told = json.loads(data)
    assert told["low"] == page.grid.stored()["low"] and told["high"] == page.grid.stored()["high"]
    assert [axis["name"] for axis in told["axes"]] == [axis.name for axis in page.axes]


def test_a_notebook_keeps_a_table_of_the_first_position(page):
    shown = sliders.show(page.name)
    data, _ = shown._repr_mimebundle_()
    found = page.grid.bounds([axis.opening for axis in page.axes])
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == widget.text(page)
    for low, high in found.values():
        assert f": at least {low:.4g}, at most {high:.4g}" in data["text/plain"]
        assert f"<td>{low:.4g}</td><td>{high:.4g}</td>" in data["text/html"]
    assert shown.page == pages.described(page)


def test_an_unknown_lesson_is_refused():
    with pytest.raises(ValueError, match="lesson must be one of lesson0, .*, got 'lesson9'"):
        sliders.show("lesson9")
