"""Which attack reveals how much, and rows of images."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest

from reproduce.papers.pmsfl import compare
from reproduce.papers.pmsfl.pictures import image_grid


def made(psnr, linked):
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(4, 40))
    measures = {
        "psnr": psnr + noise[0], "ssim": 0.3 + 0.1 * noise[1], "distance": 0.9 + 0.1 * noise[2],
        "margin": 0.05 * noise[3], "linked": np.arange(40) < 40 * linked,
    }  # fmt: skip
    return {name: np.asarray(value, float).tolist() for name, value in measures.items()}


def test_what_reveals_and_what_does_not():
    results = [{"attacks": {"a": made(11.0, 0.05), "b": made(12.0, 0.05), "c": made(11.0, 0.5)}}]
    found = compare.pooled(results * 2)
    assert len(found["a"]["psnr"]) == 80
    assert not compare.reveals(compare.over_nothing(found["a"], found["a"], 20))
    assert compare.reveals(compare.over_nothing(found["b"], found["a"], 20))
    assert compare.reveals(compare.over_nothing(found["c"], found["a"], 20))
    assert not compare.reveals(compare.excess(found["a"], found["b"]))
    assert compare.row(found["c"], found["a"], 20)["reveals, by"] == "linked"
    assert compare.row(found["a"], found["a"], 20)["reveals, by"] == "nothing"
    assert compare.told(found["c"]).endswith("linked 50 %")
    assert np.shape(compare.by_run(results * 2)["a"]["psnr"]["runs"]) == (2,)


def test_runs_of_different_attacks_are_not_pooled():
    with pytest.raises(ValueError, match="same attacks"):
        compare.pooled([{"attacks": {"a": made(1, 1)}}, {"attacks": {"b": made(1, 1)}}])
    with pytest.raises(ValueError, match="same attacks"):
        compare.pooled([])


def test_image_grid_draws_grey_and_colour():
    grey, colour = np.zeros((3, 1, 8, 8), np.uint8), np.zeros((3, 3, 8, 8), np.uint8)
    fig = image_grid({"one": {"a": (grey, "x"), "b": (colour, "")}, "two": {"a": (grey, "")}})
    assert len(fig.axes) == 3
    assert fig.axes[0].images[0].get_array().shape == (8, 26)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):  # Matplotlib once changed the layout after the first saving
            fig.savefig(io.BytesIO())
    with pytest.raises(ValueError, match="at least one row"):
        image_grid({})
    with pytest.raises(ValueError, match="1 or 3 channels"):
        image_grid({"one": {"a": (np.zeros((3, 2, 8, 8)), "")}})
