"""Pictures: how they look, what they carry, and that the same inputs give the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from repro import atomic
from repro.report import figure, provenance, style
from repro.report.numbers import DataError, plain, to_json

RECORD = {
    "id": "toy/fig1",
    "data": {"y": [1.0, 2.0]},
    "parameters": {"sigma": 1.0},
    "profile": "quick",
    "data_source": "none",
    "seeds": [1, 2],
}


@pytest.fixture
def fig():
    style.use()
    fig, ax = plt.subplots()
    for k in range(3):
        style.curve(ax, np.arange(20), np.arange(20.0) * k, k, label=f"$d = {k}$")
    style.band(ax, np.arange(20), np.arange(20.0), np.arange(20.0) + 2, label="bracket")
    ax.set(xlabel="round", ylabel=r"$\varepsilon$")
    ax.legend()
    yield fig
    plt.close(fig)


def save(stem, fig, **changes):
    options = {
        "title": "δ over ε",
        "caption": "A line with $\\sigma = 1$.",
        "footer": "reduced: 2 points",
    }
    return figure.save(stem, fig, RECORD, **(options | changes))


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


def test_three_files_with_metadata(tmp_path, fig):
    content = save(tmp_path / "toy/fig1", fig)
    with Image.open(tmp_path / "toy/fig1.png") as picture:
        text = picture.text
    assert text["Title"] == "δ over ε"
    assert text["Comment"] == "reduced: 2 points"
    assert json.loads(text["Origin"]) == {key: RECORD[key] for key in figure.ORIGIN}
    pdf = (tmp_path / "toy/fig1.pdf").read_bytes()
    assert b"CreationDate" not in pdf
    assert b'"profile": "quick"' in pdf
    stored = json.loads((tmp_path / "toy/fig1.json").read_text())
    assert stored == content
    data = (tmp_path / "toy/fig1.png").read_bytes()
    assert stored["files"] == {"png": hashlib.sha256(data).hexdigest()}  # the pdf is not committed


def test_saving_twice_gives_the_same_bytes_and_leaves_the_figure_alone(tmp_path, fig):
    size = tuple(fig.get_size_inches())
    texts = len(fig.texts)
    first = save(tmp_path / "a", fig)["files"]
    assert save(tmp_path / "b", fig)["files"] == first
    assert (tuple(fig.get_size_inches()), len(fig.texts)) == (size, texts)


def test_two_processes_give_the_same_bytes(tmp_path):
    code = (
        "import sys, matplotlib; matplotlib.use('agg'); import matplotlib.pyplot as plt\n"
        "from pathlib import Path; from repro.report import figure, style\n"
        "style.use(); fig, ax = plt.subplots(); ax.plot([1, 3, 2], label='$d$'); ax.legend()\n"
        "record = {'id': 'toy/fig1', 'profile': 'quick'}\n"
        "figure.save(Path(sys.argv[1]), fig, record, title='t', caption='c $x$', footer='f')\n"
    )
    for name, seed in (("a", "1"), ("b", "2")):
        env = os.environ | {"PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": str(1000 * int(seed))}
        subprocess.run([sys.executable, "-c", code, str(tmp_path / name)], env=env, check=True)
    for ending in ("png", "pdf", "json"):
        assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_caption_and_footer_are_printed_below_the_picture(tmp_path, fig):
    heights, ink = {}, {}
    for name, words in (("bare", ("", "")), ("caption", ("One.", "")), ("both", ("One.", "Two."))):
        save(tmp_path / name, fig, caption=words[0], footer=words[1])
        with Image.open(tmp_path / f"{name}.png") as picture:
            pixels = np.asarray(picture.convert("L"))
        heights[name] = pixels.shape[0]
        left = pixels[heights["bare"] :, : pixels.shape[1] // 4]
        ink[name] = int((left < 160).sum())
    assert heights["bare"] < heights["caption"] < heights["both"]
    assert ink["bare"] == 0 < ink["caption"] < ink["both"]


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
    with pytest.raises(DataError, match=r"record\.data\.y\[1\] is nan"):
        figure.save(tmp_path / "x", fig, RECORD | {"data": {"y": [1.0, float("nan")]}}, caption="c")
    assert list(tmp_path.iterdir()) == []


def test_full_disk_leaves_the_old_three_files(tmp_path, fig, monkeypatch):
    old = save(tmp_path / "x", fig)
    count = iter(range(10))

    def fsync(_):
        if next(count) == 1:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", fsync)
    with pytest.raises(atomic.WriteError, match="No space left on device"):
        save(tmp_path / "x", fig, caption="Another.")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.pdf", "x.png"]
    assert json.loads((tmp_path / "x.json").read_text()) == old
    assert hashlib.sha256((tmp_path / "x.png").read_bytes()).hexdigest() == old["files"]["png"]


def test_a_notebook_without_a_picture_writes_numbers_only(tmp_path):
    save(tmp_path / "x", None)
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


# Provenance ---------------------------------------------------------------------------------


def git(folder, *arguments):
    name = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *name, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_commit_is_named_and_changes_are_told(tmp_path):
    assert provenance.commit(tmp_path) == "unknown"
    git(tmp_path, "init", "-q")
    assert provenance.commit(tmp_path) == "unknown"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert provenance.commit(tmp_path) == head
    (tmp_path / "figures.txt").write_text("a result is no change of the code")
    assert provenance.commit(tmp_path) == head
    (tmp_path / "src" / "a.py").write_text("2")
    assert provenance.commit(tmp_path) == f"{head}+changes"
    assert provenance.commit(tmp_path / "src") == "unknown"


def test_provenance_names_commit_versions_host_and_cost():
    found = provenance.describe({"repro.x": "abc"}, 1.26)
    assert found["versions"]["python"].startswith("3.")
    assert found["versions"]["numpy"] == np.__version__
    assert (found["code"], found["seconds"]) == ({"repro.x": "abc"}, 1.3)
    assert found["host"]["cores"] >= 1
    assert found["peak_mib"] > 0


def test_further_files_are_written_with_the_others(tmp_path):
    figure.save(tmp_path / "x", None, RECORD, beside={tmp_path / "build/x.json": {"seconds": 1.5}})
    assert json.loads((tmp_path / "build/x.json").read_text()) == {"seconds": 1.5}
    assert "seconds" not in (tmp_path / "x.json").read_text()


def test_peak_memory_grows_with_what_is_held():
    before = provenance.peak_mib()
    block = np.ones(2**24)  # 128 MiB
    assert provenance.peak_mib() >= before
    assert provenance.peak_mib() > block.nbytes / 2**20
