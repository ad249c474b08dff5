"""Curves behind the splitting figures: brackets, orders, and budgets that are really met."""

import numpy as np
import pytest

from repro.accounting import ModelSplitting, compose
from reproduce.papers.partitioning.splitting_curves import (
    bracket_width,
    splitting_epsilon,
    splitting_noise,
)


def test_splitting_epsilon_is_the_composed_mechanism_and_brackets_the_truth():
    curves = splitting_epsilon([1.0, 2.0], submodels=[3], rounds=50, rate=0.2, delta=1e-5, clip=1.5)
    assert list(curves) == ["no splitting", "d = 3"]
    run = compose(ModelSplitting(2.0, submodels=3, rate=0.2, clip=1.5), 50)
    for method in ("paper", "lower", "upper"):
        assert curves["d = 3"][method][1] == run.epsilon(1e-5, method=method)
    for methods in curves.values():
        assert np.all(methods["lower"] <= methods["upper"])
        assert np.all(methods["upper"] <= methods["paper"])
    assert np.all(curves["d = 3"]["upper"] < curves["no splitting"]["lower"])
    assert 1 <= max(bracket_width(curves).values()) < 1.01


def test_splitting_noise_meets_the_budget_and_its_lower_end_does_not():
    budget = {"epsilon": 2.0, "delta": 1e-5}
    curves = splitting_noise([100], submodels=[4], rate=0.1, clip=2.0, **budget)
    for label, submodels in (("no splitting", 1), ("d = 4", 4)):
        found = {method: float(values[0]) for method, values in curves[label].items()}

        def delta(sigma, method, d=submodels):
            run = compose(ModelSplitting(sigma, submodels=d, rate=0.1, clip=2.0), 100)
            return run.delta(budget["epsilon"], method=method)

        assert delta(found["upper"], "upper") <= budget["delta"]
        assert delta(found["lower"], "lower") > budget["delta"]
        assert delta(found["paper"], "paper") == pytest.approx(budget["delta"], rel=1e-4)
        assert found["lower"] < found["upper"] < found["lower"] * 1.01
        assert found["upper"] < found["paper"]
