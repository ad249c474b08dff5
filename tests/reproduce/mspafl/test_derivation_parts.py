"""The derivations notebook of MS-PAFL: its pictures and second routes."""

import matplotlib

matplotlib.use("agg")

import numpy as np
import pytest

from repro.accounting.gaussian import GaussianMechanism
from repro.accounting.mspafl.run import exposure, run_delta
from reproduce.papers.mspafl import derivation_pictures as pictures
from reproduce.papers.mspafl.second_routes import (
    CarriedUploads,
    exposures,
    known_number_delta,
    shrunk_average,
    upload_delay,
    upload_run_delta,
)


@pytest.mark.parametrize(("rounds", "clients"), [(1, 1), (2, 3), (3, 2), (4, 1)])
def test_the_enumerated_law_of_exposure_is_that_of_the_bound(rounds, clients):
    p, q = 0.4, 0.3
    values, chance = exposures(rounds, clients, p, q)
    assert chance.sum() == pytest.approx(1)
    used = (1 - (1 - p * q) ** rounds) if clients >= 1 else 0
    assert chance[values > 0].sum() == pytest.approx(used)
    grid, weights = exposure(rounds, p, q, clients)
    assert values @ chance == pytest.approx(grid @ weights, rel=5e-3)
    leak = GaussianMechanism(1 / np.sqrt(np.maximum(values, 1e-12))).delta(0.5) @ chance
    stated = run_delta(np.array([0.5]), rounds, ratio=1.0, p=p, q=q, clients=clients)[0]
    assert leak <= stated * (1 + 1e-9) <= leak * 1.02


def test_one_upload_that_is_always_sent_is_a_gaussian_mechanism():
    exact = GaussianMechanism(1.5, sensitivity=2.0).delta(0.7)
    assert known_number_delta(0.7, 1.5, p=1.0, q=1.0, clients=1) == pytest.approx(exact, rel=1e-5)
    run = upload_run_delta(0.7, 9, ratio=2 / 1.5 / 3, p=1.0, q=1.0)
    assert run == pytest.approx(exact, rel=1e-12)


def test_the_law_of_a_run_is_the_enumerated_one():
    values, chance = exposures(4, 1, 0.4, 0.3)
    came = values > 0
    leak = GaussianMechanism(1 / np.sqrt(values[came])).delta(0.5) @ chance[came]
    assert upload_run_delta(0.5, 4, ratio=1.0, p=0.4, q=0.3) == pytest.approx(leak, rel=1e-9)


def test_too_many_courses_are_refused():
    with pytest.raises(ValueError, match="number of courses"):
        exposures(20, 3, 0.5, 0.5)


def test_the_delay_of_an_upload_follows_the_indices():
    assert upload_delay(lambda t: t - 1, lambda t: t) == 1
    assert upload_delay(lambda t: t - 1, lambda t: t + 1) == 2
    assert upload_delay(lambda t: t, lambda t: t) == 0


def test_rounds_that_skip_one_average_train_two_models():
    assert shrunk_average(lambda t: t - 1, lambda t: t, rounds=8) == 2**-8
    assert shrunk_average(lambda t: t - 1, lambda t: t + 1, rounds=8) == 2**-4
    assert shrunk_average(lambda t: t - 1, lambda t: t + 1, rounds=7) == 2**-4


def test_the_pictures_are_seven_inches_wide_and_legible():
    present = np.ones((3, 4), dtype=bool)
    clipped = np.array([[-1.0, 1, 1, 1], [-1, -1, 1, 1], [1, 1, 1, 1]])
    data = CarriedUploads(present, present, clipped, clipped)
    other = data._replace(clipped=-np.ones((3, 4)))
    rounds = np.array([1, 10, 100])
    rising = np.array([0.1, 0.5, 2.0])
    drawn = [
        pictures.memory(data, other, np.zeros((3, 4), dtype=bool), 0.5, 0.1),
        pictures.broken_pairs(rising, {"a": rising, "b": rising}, {"a": (1, 0.1), "b": (1, 0.2)}),
        pictures.silent_uploads(1, 2, 8.0, 1.1),
        pictures.constants(rounds, {"a": rising, "b": np.array([1.0, 1.0, np.nan])}),
        pictures.whole_run(rounds, {"lower": rising, "upper": 2 * rising}, {"a": rising}),
    ]
    for figure in drawn:
        figure.canvas.draw()
        assert figure.get_figwidth() == 7.0
        texts = [t for axis in figure.axes for t in (*axis.texts, axis.title, axis.xaxis.label)]
        legends = [t for axis in figure.axes if axis.get_legend() for t in axis.get_legend().texts]
        assert min(t.get_fontsize() for t in (*texts, *legends)) >= 7
