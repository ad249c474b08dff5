"""Pictures: how they look, what they carry, and that the same inputs give the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from repro import atomic
from repro.report import figure, style
from repro.report.numbers import DataError, plain, to_json

RECORD = {
    "id": "toy/fig1",
    "data": {"y": [1.0, 2.0]},
    "parameters": {"sigma": 1.0},
    "profile": "quick",
    "data_source": "none",
    "seeds": [1, 2],
    "caption": "A line with $\\sigma = 1$.",
    "footer": "reduced: 2 points",
}
ORIGIN = ("id", "parameters", "profile", "seeds")

DRAWN = """
import json, sys
import matplotlib
matplotlib.use("agg")
import matplotlib.pyplot as plt
from repro.report import figure, style

style.use()
fig, ax = plt.subplots(figsize=(2.5, 2))
for k in range(3):
    style.curve(ax, range(20), [i * k for i in range(20)], k, label=f"$d = {k}$")
style.band(ax, range(20), range(20), range(2, 22), label="bracket")
ax.set(xlabel="round", ylabel=r"$\\varepsilon$")
ax.legend()
"""


@pytest.fixture(scope="module")
def fig():
    """A small picture; every test leaves it as it was."""
    names = {}
    exec(DRAWN, names)
    yield names["fig"]
    plt.close(names["fig"])


@pytest.fixture(scope="module")
def pictures(fig):
    """The picture, rendered once."""
    return figure.render(fig, RECORD, title="δ over ε", origin=ORIGIN)


def luminance(colour: str) -> float:
    return float(np.dot(matplotlib.colors.to_rgb(colour), [0.2126, 0.7152, 0.0722]))


# Style --------------------------------------------------------------------------------------


def test_the_first_eight_lines_differ_in_colour_dashes_and_marker():
    looks = [style.line(k) for k in range(8)]
    for key in ("color", "linestyle", "marker"):
        assert len({str(look[key]) for look in looks}) == 8


def test_sixty_four_lines_are_distinct():
    assert len({str(sorted(style.line(k).items())) for k in range(64)}) == 64


def test_every_colour_shows_on_white():
    assert all(luminance(colour) < 0.75 for colour in style.PALETTE)


@pytest.mark.parametrize("k", [-1, 1.5, True])
def test_line_refuses_what_is_no_index(k):
    with pytest.raises(ValueError, match="integer >= 0"):
        style.line(k)


def test_style_does_not_depend_on_what_was_set_before():
    style.use()
    wanted = dict(matplotlib.rcParams)
    matplotlib.rcParams["font.size"] = 33
    matplotlib.rcParams["lines.linestyle"] = ":"
    style.use()
    assert dict(matplotlib.rcParams) == wanted


def test_spread_is_the_deviation_over_seeds():
    fig, ax = plt.subplots()
    runs = np.array([[1.0, 2.0], [3.0, 2.0]])
    style.mean_and_spread(ax, [0, 1], runs, 0)
    low, high = ax.collections[0].get_paths()[0].get_extents().get_points()[:, 1]
    plt.close(fig)
    assert (low, high) == pytest.approx((2 - 2**0.5, 2 + 2**0.5))
    with pytest.raises(ValueError, match="shape"):
        style.mean_and_spread(ax, [0, 1, 2], runs, 0)


def test_brackets_of_several_curves_differ_in_more_than_colour():
    fig, ax = plt.subplots()
    for k in range(3):
        style.band(ax, [0, 1], [k, k], [k + 0.5, k + 0.5], k=k, label=f"d = {k}")
    named = [row for row in ax.lines if not row.get_label().startswith("_")]
    plt.close(fig)
    assert [row.get_label() for row in named] == ["d = 0", "d = 1", "d = 2"]
    assert len({row.get_marker() for row in named}) == 3
    assert len({str(row.get_linestyle()) + str(row._dash_pattern) for row in named}) == 3
    assert len(ax.collections) == 3


# Numbers ------------------------------------------------------------------------------------


def test_plain_turns_arrays_and_scalars_into_python_values():
    value = {
        "a": np.arange(2),
        "b": (np.float32(0.5), np.bool_(True)),
        "c": {"d": Path("x/y")},
        "e": None,
    }
    found = plain(value)
    assert found == {"a": [0, 1], "b": [0.5, True], "c": {"d": "x/y"}, "e": None}
    assert [type(item) for item in found["b"]] == [float, bool]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused_with_their_place(bad):
    with pytest.raises(DataError, match=r"data\.curves\.scheme\[1\]\[2\] is"):
        plain({"curves": {"scheme": [[1, 2, 3], np.array([1.0, 2.0, bad])]}})


def test_what_has_no_json_form_is_refused_with_its_place():
    with pytest.raises(DataError, match=r"data\.a has type object"):
        plain({"a": object()})
    with pytest.raises(DataError, match="the key 3 must be a string"):
        plain({"a": {3: 1}})


def test_json_is_sorted_and_reads_back():
    value = {"b": [[1.5, 2], [3, 4]], "a": {"y": [], "x": {}}, "c": "δ"}
    text = to_json(value)
    assert json.loads(text) == value
    assert text.index('"a"') < text.index('"b"')
    assert "[1.5, 2]" in text
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json({"a": float("nan")})


# Files --------------------------------------------------------------------------------------


def test_three_files_with_metadata(tmp_path, pictures):
    content = figure.write(tmp_path / "toy/fig1", RECORD, pictures)
    with Image.open(tmp_path / "toy/fig1.png") as picture:
        text = picture.text
    assert text["Title"] == "δ over ε"
    assert text["Comment"] == "reduced: 2 points"
    assert json.loads(text["Origin"]) == {key: RECORD[key] for key in ORIGIN}
    pdf = (tmp_path / "toy/fig1.pdf").read_bytes()
    assert b"CreationDate" not in pdf
    assert b'"profile": "quick"' in pdf
    stored = json.loads((tmp_path / "toy/fig1.json").read_text())
    assert stored == content
    data = (tmp_path / "toy/fig1.png").read_bytes()
    assert stored["files"] == {"png": hashlib.sha256(data).hexdigest()}  # the pdf is not committed


def test_rendering_twice_gives_the_same_bytes_and_leaves_the_figure_alone(fig, pictures):
    size = tuple(fig.get_size_inches())
    texts = len(fig.texts)
    assert figure.render(fig, RECORD, title="δ over ε", origin=ORIGIN) == pictures
    assert (tuple(fig.get_size_inches()), len(fig.texts)) == (size, texts)


def test_another_process_at_another_time_gives_the_same_bytes(pictures):
    code = DRAWN + (
        "found = figure.render(fig, json.load(sys.stdin), title='δ over ε', origin=sys.argv[1:])\n"
        "sys.stdout.buffer.write(found['png'] + found['pdf'])\n"
    )
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    done = subprocess.run(
        [sys.executable, "-c", code, *ORIGIN],
        env=os.environ | {"PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": "1000"},
        input=json.dumps(RECORD).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    assert done.stdout == pictures["png"] + pictures["pdf"]


def test_caption_and_footer_are_printed_below_the_picture(fig):
    heights, ink = {}, {}
    for name, words in (("bare", ("", "")), ("caption", ("One.", "")), ("both", ("One.", "Two."))):
        buffer = io.BytesIO()
        with figure._captioned(fig, *words):
            fig.savefig(buffer, format="png")
        with Image.open(buffer) as picture:
            pixels = np.asarray(picture.convert("L"))
        heights[name] = pixels.shape[0]
        left = pixels[heights["bare"] :, : pixels.shape[1] // 4]
        ink[name] = int((left < 160).sum())
    assert heights["bare"] < heights["caption"] < heights["both"]
    assert ink["bare"] == 0 < ink["caption"] < ink["both"]


def test_the_pictures_hold_the_words_of_the_record(monkeypatch, fig):
    given = []

    @contextmanager
    def captioned(*words):
        given.append(words[1:])
        yield

    monkeypatch.setattr(figure, "_captioned", captioned)
    monkeypatch.setattr(type(fig), "savefig", lambda *_, **__: None)
    figure.render(fig, RECORD)
    assert given == [(RECORD["caption"], RECORD["footer"])]


@pytest.mark.parametrize("layout", ["constrained", "tight", "none"])
def test_the_axes_stay_above_the_caption(layout):
    style.use()
    fig, axes = plt.subplots(1, 2, layout=layout)
    axes[0].set_xlabel("x")
    tall = fig.get_size_inches()[1]
    with figure._captioned(fig, "word " * 100, "footer"):
        fig.draw_without_rendering()
        top = max(text.get_window_extent().y1 for text in fig.texts)
        lowest = min(ax.get_tightbbox().y0 for ax in axes)
        drawn = [ax.get_window_extent().height / fig.dpi for ax in axes]
    plt.close(fig)
    assert lowest > top
    assert min(drawn) > 0.6 * tall


def test_long_captions_are_broken_within_the_width(fig):
    rows = figure._wrap("word " * 60 + "$a + b + c$ end", 300)
    assert len(rows) > 3
    assert all(len(row) < 90 for row in rows)
    assert sum("$a + b + c$" in row for row in rows) == 1


def test_nan_is_refused_and_nothing_written(tmp_path, fig):
    spoilt = RECORD | {"data": {"y": [1.0, float("nan")]}}
    with pytest.raises(DataError, match=r"record\.data\.y\[1\] is nan"):
        figure.write(tmp_path / "x", spoilt, {"png": b"picture"})
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match=r"record\.data\.y\[1\] is nan"):
        figure.render(fig, spoilt, origin=["data"])


def test_full_disk_leaves_the_old_three_files(tmp_path, monkeypatch):
    old = figure.write(tmp_path / "x", RECORD, {"png": b"old", "pdf": b"old"})
    count = iter(range(10))

    def fsync(_):
        if next(count) == 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", fsync)
    with pytest.raises(atomic.WriteError, match="No space left on device"):
        figure.write(
            tmp_path / "x", RECORD | {"caption": "Another."}, {"png": b"new", "pdf": b"new"}
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.pdf", "x.png"]
    assert json.loads((tmp_path / "x.json").read_text()) == old
    assert [(tmp_path / f"x.{ending}").read_bytes() for ending in ("png", "pdf")] == [b"old"] * 2


def test_numbers_without_a_picture_are_one_file(tmp_path):
    figure.write(tmp_path / "x", RECORD, {})
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_further_files_are_written_with_the_others(tmp_path):
    figure.write(tmp_path / "x", RECORD, {}, beside={tmp_path / "build/x.json": {"seconds": 1.5}})
    assert json.loads((tmp_path / "build/x.json").read_text()) == {"seconds": 1.5}
    assert "seconds" not in (tmp_path / "x.json").read_text()
