"""Balanced iteration subsampling against enumeration, Monte Carlo and simpler mechanisms."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting import (
    BalancedIterationSubsampling,
    GaussianMechanism,
    ModelSplitting,
    compose,
)
from repro.accounting.partitioning.printed import poisson_rdp, theorem_3_1


def subsets(size: int, k: int) -> np.ndarray:
    """All 0-1 vectors with k ones, shape (C(T, k), T)."""
    rows = np.zeros((len(list(combinations(range(size), k))), size))
    for row, ones in zip(rows, combinations(range(size), k), strict=True):
        row[list(ones)] = 1
    return rows


def enumerated_forward(size: int, k: int, a: float, alpha: int) -> float:
    """Lemma 3.12 by summing over all tuples of subsets."""
    gram = subsets(size, k) @ subsets(size, k).T
    total = np.mean(
        [
            np.exp(a**2 * sum(gram[i, j] for i, j in combinations(chosen, 2)))
            for chosen in product(range(len(gram)), repeat=alpha)
        ]
    )
    return float(np.log(total) / (alpha - 1))


def drawn(size, k, a, epsilon, direction, samples=400_000, seed=0):
    """Hockey-stick divergence by plain Monte Carlo and its standard error."""
    rng = np.random.default_rng(seed)
    centres = subsets(size, k)
    noise = rng.standard_normal((samples, size))
    if direction == "remove":
        noise = noise + a * centres[rng.integers(len(centres), size=samples)]
    # The mean over all subsets, iteration by iteration: sums over subsets with j of the first t ones.
    sums = [np.ones(samples)] + [np.zeros(samples) for _ in range(k)]
    for column in np.exp(a * noise.T - a**2 / 2):
        for j in range(k, 0, -1):
            sums[j] += column * sums[j - 1]
    ratio = sums[k] / len(centres)
    loss = np.log(ratio) if direction == "remove" else -np.log(ratio)
    gain = np.maximum(-np.expm1(epsilon - loss), 0.0)
    return gain.mean(), gain.std() / np.sqrt(samples)


@pytest.mark.parametrize("size, k, alpha", [(3, 2, 2), (3, 2, 4), (4, 2, 3), (5, 3, 3)])
@pytest.mark.parametrize("a", [0.4, 1.3])
def test_forward_divergence_is_the_sum_over_tuples(size, k, alpha, a):
    run = BalancedIterationSubsampling(1 / a, iterations=size, participations=k)
    expected = enumerated_forward(size, k, a, alpha)
    for method in ("lower", "upper"):
        assert run.rdp(alpha, method=method, direction="remove") == pytest.approx(
            expected, rel=1e-8
        )
    assert expected <= run.rdp(alpha, method="paper") * (1 + 1e-9)


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize(
    "size, k, a, epsilon", [(3, 2, 0.7, 0.5), (4, 2, 1.0, 1.0), (6, 3, 0.5, 0.3), (10, 4, 0.5, 1.0)]
)
def test_bracket_holds_the_monte_carlo_estimate(size, k, a, epsilon, direction):
    run = BalancedIterationSubsampling(1 / a, iterations=size, participations=k)
    estimate, error = drawn(size, k, a, epsilon, direction)
    low, high = (run.delta(epsilon, method=m, direction=direction) for m in ("lower", "upper"))
    assert low <= high
    assert low - 4 * error <= estimate <= high + 4 * error
    if direction == "remove":  # the direction that decides
        # With few iterations one statistic carries less of the ratio: at T = 4 the bracket is 3.5 % wide.
        assert high - low <= max((0.04 if size < 5 else 0.02) * high, 6 * error)


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(2, 12),
    share=st.floats(0, 1),
    sigma=st.floats(0.5, 8),
    epsilon=st.floats(0, 6),
)
def test_bounds_are_ordered_and_simpler_mechanisms_enclose_them(size, share, sigma, epsilon):
    k = 1 + int(share * (size - 1))
    run = BalancedIterationSubsampling(sigma, iterations=size, participations=k)
    low, high = run.delta(epsilon, method="lower"), run.delta(epsilon)
    assert 0 <= low <= high * (1 + 1e-9)
    # Knowing the subset is worse; only the mean centre is better.
    assert high <= GaussianMechanism(sigma, sensitivity=np.sqrt(k)).delta(epsilon) * (1 + 1e-9)
    mean = GaussianMechanism(sigma, sensitivity=k / np.sqrt(size)).delta(epsilon)
    assert low >= mean * (1 - 1e-9) or mean < 1e-15  # tails that small may round down to nothing
    assert run.delta(epsilon, direction="add") <= high * (1 + 1e-9)


def test_every_iteration_is_the_plain_gaussian_and_one_is_model_splitting():
    every = BalancedIterationSubsampling(2.0, iterations=7, participations=7, clip=1.5)
    plain = GaussianMechanism(2.0, sensitivity=1.5 * np.sqrt(7))
    assert every.delta(1.0) == plain.delta(1.0)
    assert every.epsilon(1e-5) == plain.epsilon(1e-5)
    one = BalancedIterationSubsampling(1.0, iterations=6, participations=1, clip=0.8)
    split = ModelSplitting(1.0, submodels=6, clip=0.8)
    for method in ("lower", "upper"):
        assert one.delta(0.7, method=method) == split.delta(0.7, method=method)


def test_the_paper_s_account_is_bound_3_and_covers_the_truth():
    run = BalancedIterationSubsampling(2.0, iterations=10, participations=4)
    alpha = np.arange(2, 40)
    assert np.array_equal(run.rdp(alpha, method="paper"), theorem_3_1(alpha, 10, 4, 2.0))
    assert run.epsilon(1e-6) < run.epsilon(1e-6, method="paper")
    assert compose(run, 3).rdp(4, method="paper") == pytest.approx(3 * run.rdp(4, method="paper"))


def test_the_bracket_is_within_a_per_cent_where_the_figures_need_it():
    for size, k, sigma, delta in [(10, 4, 2.0, 1e-6), (10, 5, 2.0, 1e-6), (1000, 100, 2.36, 1e-5)]:
        run = BalancedIterationSubsampling(sigma, iterations=size, participations=k)
        low, high = (run.epsilon(delta, method=m) for m in ("lower", "upper"))
        assert low <= high <= 1.01 * low


def test_epochs_cost_more_than_one_run_and_balanced_less_than_poisson():
    epochs = compose(BalancedIterationSubsampling(2.0, iterations=10, participations=4), 3)
    whole = BalancedIterationSubsampling(2.0, iterations=30, participations=12)
    assert whole.epsilon(1e-6, method="lower") < epochs.epsilon(1e-6)
    poisson = compose(ModelSplitting(2.0, submodels=1, rate=0.4), 30)
    assert epochs.epsilon(1e-6) < poisson.epsilon(1e-6, method="lower")
    alpha = np.arange(2, 12)
    assert np.all(whole.rdp(alpha) < 30 * poisson_rdp(alpha, 2.0, 0.4))


@pytest.mark.parametrize(
    "change, name",
    [
        ({"sigma": 0.0}, "sigma"),
        ({"iterations": 0}, "iterations"),
        ({"iterations": 2.5}, "iterations"),
        ({"participations": 0}, "participations"),
        ({"participations": 11}, "participations"),
        ({"clip": -1.0}, "clip"),
    ],
)
def test_arguments_out_of_range(change, name):
    with pytest.raises(ValueError, match=name):
        BalancedIterationSubsampling(
            **{"sigma": 1.0, "iterations": 10, "participations": 4, **change}
        )


def test_orders_out_of_range():
    run = BalancedIterationSubsampling(1.0, iterations=10, participations=4)
    with pytest.raises(ValueError, match="alpha"):
        run.rdp(1.0)
    with pytest.raises(ValueError, match="alpha"):
        run.rdp(2.5, method="paper")
