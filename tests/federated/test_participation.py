"""Sampling on two levels and on one: laws on small cases, moments on large ones, limits."""

import itertools

import numpy as np
import pytest
from scipy import stats

from repro.federated.participation import BalancedIterations, PoissonIterations, TwoLevelPoisson


def counts(scheme, draws, seed):
    """How often each record, and each pair of records, is drawn in `draws` iterations."""
    rng = np.random.default_rng(seed)
    total = int(np.sum(scheme.sizes))
    pairs = np.zeros((total, total))
    for _ in range(draws):
        records = scheme.draw(rng).records
        pairs[np.ix_(records, records)] += 1
    return pairs


def test_marginals_and_pairs_have_the_stated_probabilities():
    """pq for a record, p q^2 within a client, p^2 q^2 across clients: within 5 standard errors."""
    p, q, n = 0.35, 0.4, 20_000
    sizes = [3, 1, 2]
    pairs = counts(TwoLevelPoisson(sizes, p, q), n, seed=1)
    owner = np.repeat(range(3), sizes)
    for a, b in itertools.product(range(6), repeat=2):
        expected = p * q if a == b else p * q**2 if owner[a] == owner[b] else p**2 * q**2
        assert abs(pairs[a, b] / n - expected) < 5 * np.sqrt(expected * (1 - expected) / n), (a, b)


def test_every_subset_has_the_stated_probability():
    """All 2^3 outcomes of two clients with 1 and 2 records, against the product formula: chi-
    squared.
    """
    p, q, n = 0.6, 0.3, 20_000
    rng, scheme = np.random.default_rng(2), TwoLevelPoisson([1, 2], p, q)
    seen = {}
    for _ in range(n):
        outcome = tuple(scheme.draw(rng).records)
        seen[outcome] = seen.get(outcome, 0) + 1

    def client(records, drawn):
        together = p * q ** len(drawn) * (1 - q) ** (len(records) - len(drawn))
        return together + (1 - p if not drawn else 0.0)

    statistic = 0.0
    for outcome in itertools.chain.from_iterable(
        itertools.combinations(range(3), k) for k in range(4)
    ):
        expected = (
            n
            * client([0], [r for r in outcome if r == 0])
            * client([1, 2], [r for r in outcome if r > 0])
        )
        statistic += (seen.get(outcome, 0) - expected) ** 2 / expected
    assert statistic < 24.3  # the 99.9 % point of chi-squared with 7 degrees of freedom


def test_the_batch_size_has_the_stated_mean_and_the_deviation_of_two_draws():
    scheme = TwoLevelPoisson(np.full(2333, 30), 0.01, 0.1)
    rng = np.random.default_rng(3)
    sizes = np.array([len(scheme.draw(rng).records) for _ in range(4000)])
    assert scheme.mean_batch == pytest.approx(69.99)
    # a client adds its records' own draws, and all or nothing of its mean
    deviation = np.sqrt(2333 * (0.01 * 30 * 0.1 * 0.9 + 0.01 * 0.99 * (30 * 0.1) ** 2))
    assert abs(sizes.mean() - scheme.mean_batch) < 5 * deviation / np.sqrt(4000)
    assert sizes.std() == pytest.approx(deviation, rel=0.06)


def test_the_paper_s_federations():
    many, few = (
        TwoLevelPoisson([30] * 23_264, 0.001, 0.1),
        TwoLevelPoisson([1000] * 697, 0.1, 0.001),
    )
    assert many.mean_batch == pytest.approx(69.792) and few.mean_batch == pytest.approx(69.7)
    drawn = many.draw(np.random.default_rng(0))
    assert 5 < len(drawn.clients) < 50 and set(drawn.records // 30) <= set(drawn.clients)
    drawn = few.draw(np.random.default_rng(0))
    assert set(drawn.records // 1000) <= set(drawn.clients)


@pytest.mark.parametrize("sizes", [[4, 0, 2, 5], [1], [0, 0]])
def test_limits(sizes):
    rng, total = np.random.default_rng(0), sum(sizes)
    everything = TwoLevelPoisson(sizes, 1.0, 1.0).draw(rng)
    assert list(everything.clients) == list(range(len(sizes)))
    assert list(everything.records) == list(range(total))
    assert len(TwoLevelPoisson(sizes, 0.0, 1.0).draw(rng).clients) == 0
    assert len(TwoLevelPoisson(sizes, 0.0, 1.0).draw(rng).records) == 0
    nothing = TwoLevelPoisson(sizes, 1.0, 0.0).draw(rng)
    assert len(nothing.clients) == len(sizes) and len(nothing.records) == 0


def test_all_or_nothing_of_a_client_when_q_is_one():
    scheme, rng = TwoLevelPoisson([3, 5, 0, 2], 0.5, 1.0), np.random.default_rng(4)
    for _ in range(50):
        drawn = scheme.draw(rng)
        owner = np.repeat(range(4), [3, 5, 0, 2])[drawn.records]
        assert list(drawn.records) == sorted(drawn.records)
        assert {c: int((owner == c).sum()) for c in drawn.clients} == {
            c: [3, 5, 0, 2][c] for c in drawn.clients
        }


def test_the_same_seed_draws_the_same():
    scheme = TwoLevelPoisson([7] * 50, 0.3, 0.2)
    first, second, other = (scheme.draw(np.random.default_rng(s)).records for s in (5, 5, 6))
    assert np.array_equal(first, second) and not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("sizes", "p", "q", "name"),
    [
        ([3], -0.1, 0.5, "p"),
        ([3], 1.1, 0.5, "p"),
        ([3], 0.5, float("nan"), "q"),
        ([3], 0.5, 2, "q"),
        ([], 0.5, 0.5, "sizes"),
        ([-1], 0.5, 0.5, "sizes"),
        ([1.5], 0.5, 0.5, "sizes"),
        ([[1]], 0.5, 0.5, "sizes"),
    ],
)
def test_bad_input_is_named(sizes, p, q, name):
    with pytest.raises(ValueError, match=f"^{name} must"):
        TwoLevelPoisson(sizes, p, q)


# ------------------------------------------------------------------------- one level


def test_balanced_iterations_are_exactly_k_for_everybody():
    sampling = BalancedIterations(500, 13, 4)
    counts = np.zeros(500, dtype=int)
    batches = list(sampling.batches(np.random.default_rng(0)))
    assert len(batches) == 13
    for drawn in batches:
        assert np.all(np.diff(drawn) > 0)
        counts[drawn] += 1
    assert np.all(counts == 4)
    assert sampling.mean_batch == 500 * 4 / 13


def test_balanced_iterations_are_uniform_over_the_subsets_and_independent():
    """Every one of the C(5, 2) = 10 choices equally often, also jointly for two records."""
    records = 20_000
    chosen = np.zeros((records, 5), dtype=int)
    for t, drawn in enumerate(BalancedIterations(records, 5, 2).batches(np.random.default_rng(1))):
        chosen[drawn, t] = 1
    code = chosen @ (1 << np.arange(5))
    names, counts = np.unique(code, return_counts=True)
    assert len(names) == 10
    assert stats.chisquare(counts).pvalue > 1e-3
    pairs = code[0::2] * 32 + code[1::2]
    names, counts = np.unique(pairs, return_counts=True)
    assert len(names) == 100
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("k", [1, 7])
def test_the_limits_of_balanced_iterations(k):
    batches = list(BalancedIterations(30, 7, k).batches(np.random.default_rng(2)))
    if k == 7:
        assert all(np.array_equal(drawn, np.arange(30)) for drawn in batches)
    else:
        assert sorted(np.concatenate(batches)) == list(range(30))


def test_poisson_iterations_are_independent_coins():
    sampling = PoissonIterations(2000, 40, 0.3)
    hits = np.zeros((40, 2000), dtype=bool)
    for t, drawn in enumerate(sampling.batches(np.random.default_rng(3))):
        hits[t, drawn] = True
    assert abs(hits.mean() - 0.3) < 4 * np.sqrt(0.21 / hits.size)
    # the number of participations is binomial, not constant: its variance is T g (1 - g)
    variance = hits.sum(0).var(ddof=1)
    assert abs(variance - 40 * 0.21) < 5 * 40 * 0.21 * np.sqrt(2 / 1999)
    assert sampling.mean_batch == pytest.approx(600)
    everybody = list(PoissonIterations(3, 2, 1.0).batches(np.random.default_rng(4)))
    assert all(np.array_equal(drawn, [0, 1, 2]) for drawn in everybody)
    assert all(not len(b) for b in PoissonIterations(3, 2, 0.0).batches(np.random.default_rng(5)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BalancedIterations(0, 1, 1), "records must be an integer >= 1"),
        (lambda: BalancedIterations(1, 0, 1), "iterations must be an integer >= 1"),
        (lambda: BalancedIterations(1, 3, 4), r"participations must be an integer in \[1, 3\]"),
        (lambda: BalancedIterations(1, 3, 0), r"participations must be an integer in \[1, 3\]"),
        (lambda: BalancedIterations(1, 3, 1.5), "participations must be an integer"),
        (lambda: PoissonIterations(1, 1, 1.1), r"rate must be in \[0, 1\]"),
        (lambda: PoissonIterations(1.5, 1, 0.1), "records must be an integer"),
    ],
)
def test_bad_input_of_one_level(make, message):
    with pytest.raises(ValueError, match=message):
        make()
