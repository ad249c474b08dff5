"""Model splitting: enumeration, quadrature, Monte Carlo, other accountants and a search for leaks."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from hypothesis import given, settings
from hypothesis import strategies as st

import accounting_reference as reference
from repro.accounting import (
    InvalidBoundWarning,
    ModelSplitting,
    PoissonGaussian,
    compose,
)
from repro.accounting._discretise import optimistic
from repro.accounting.partitioning.model_splitting import log_reverse_moments

DIRECTIONS = ("remove", "add")
EPSILON = np.array([0.0, 0.1, 0.5, 1.5])
SETTINGS = [  # a, b, rate; sigma = 1
    (0.5, 0.0, 1.0),
    (0.5, 0.0, 0.1),
    (1.3, 0.0, 0.5),
    (1.3, 0.7, 1.0),
    (1.0, 1.5, 0.2),
    (2.0, 0.3, 0.9),
]


def splitting(a, b, rate, d):
    return ModelSplitting(1.0, submodels=d, rate=rate, clip=a, unsplit_clip=b)


def brackets(a, b, rate, d, epsilon=EPSILON):
    """Arrays (2, n): lower and upper delta, one row per direction."""
    mechanism = splitting(a, b, rate, d)
    return [
        np.array([mechanism.delta(epsilon, method=m, direction=w) for w in DIRECTIONS])
        for m in ("lower", "upper")
    ]


def hypotheses(centres, rate):
    """Means in the span of the centres (d, n), and the weights with and without the record."""
    span = np.linalg.qr(np.transpose(centres))[1].T
    means = np.vstack([np.zeros(span.shape[1]), span])
    with_record = np.append(1 - rate, np.full(len(centres), rate / len(centres)))
    return means, with_record, np.append(1.0, np.zeros(len(centres)))


def divergences(means, with_record, without, epsilon, step):
    """Hockey-stick divergences, shape (2, n): remove, add; by quadrature on a grid, sigma = 1."""
    factor = np.exp(epsilon)
    signed = [with_record[:, None] - factor * without[:, None]]
    signed += [without[:, None] - factor * with_record[:, None]]
    cells = reference.density_cells(means, np.concatenate(signed, axis=1), 1.0, step)
    total = np.maximum(cells, 0).sum(axis=tuple(range(cells.ndim - 1)))
    return total.reshape(2, -1)


def worst_centres(a, b, d):
    """Every norm at its clip, one common gradient outside the cut."""
    return np.hstack([np.full((d, 1), b), a * np.eye(d)])


# ---- second routes -------------------------------------------------------------------------------


@pytest.mark.parametrize("a, b, rate", SETTINGS)
def test_two_blocks_by_quadrature(a, b, rate):
    exact = divergences(*hypotheses(worst_centres(a, b, 2), rate), EPSILON, 0.02)
    lower, upper = brackets(a, b, rate, 2)
    slack = 2e-5 * exact + 1e-9  # of the quadrature
    assert np.all(lower <= exact + slack)
    assert np.all(exact <= upper + slack)
    np.testing.assert_allclose(upper, lower, rtol=1e-2, atol=1e-9)


@pytest.mark.parametrize("d, alpha", [(2, 5), (3, 4), (4, 3)])
@pytest.mark.parametrize("a, b, rate", SETTINGS)
def test_moments_by_enumeration(a, b, rate, d, alpha):
    """E L^alpha by its definition: all tuples of submodels, or none, with their Gram matrix."""
    gram = np.zeros((d + 1, d + 1))
    gram[1:, 1:] = b**2 + a**2 * np.eye(d)
    chance = np.append(1 - rate, np.full(d, rate / d))
    total = 0.0
    for drawn in itertools.product(range(d + 1), repeat=alpha):
        pairs = itertools.combinations(drawn, 2)
        total += np.prod(chance[list(drawn)]) * np.exp(sum(gram[i, j] for i, j in pairs))
    want = np.log(total) / (alpha - 1)
    mechanism = splitting(a, b, rate, d)
    for method in ("upper", "lower"):
        got = mechanism.rdp(alpha, method=method, direction="remove")
        assert got == pytest.approx(want, rel=1e-11)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InvalidBoundWarning)
        assert mechanism.rdp(alpha, method="paper") >= want * (1 - 1e-12)


@pytest.mark.parametrize("alpha", [1.5, 2.0, 4.3, 12.0])
@pytest.mark.parametrize("a, b, rate", SETTINGS)
def test_renyi_divergences_by_quadrature(a, b, rate, alpha):
    means, with_record, without = hypotheses(worst_centres(a, b, 2), rate)
    # The integrals sit near alpha times a centre, or as far on the other side.
    reach = 8 + alpha * np.hypot(a, b)
    axis = np.arange(-reach, reach, 0.05)
    point = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    log_base = -0.5 * (point**2).sum(-1) + 2 * np.log(0.05) - np.log(2 * np.pi)
    exponent = point @ means.T - 0.5 * (means**2).sum(1)
    log_ratio = np.log((with_record - without) @ np.ones(3) + np.exp(exponent) @ with_record)
    mechanism = splitting(a, b, rate, 2)
    for direction, power in (("remove", alpha), ("add", 1 - alpha)):
        exact = np.log(np.exp(log_base + power * log_ratio).sum()) / (alpha - 1)
        lower, upper = (
            mechanism.rdp(alpha, method=m, direction=direction) for m in ("lower", "upper")
        )
        assert lower <= exact * (1 + 1e-8) <= upper * (1 + 2e-8)
        assert lower >= exact * (1 - 2e-3)
        if direction == "add" or alpha == round(alpha):
            assert upper <= exact * (1 + 1e-3)


@pytest.mark.parametrize("a, b", [(0.05, 0.0), (0.5, 0.5), (2.0, 0.0), (9.0, 3.0), (30.0, 0.0)])
def test_reverse_moments_of_one_block_are_gaussian(a, b):
    """Orders so high that their moments sit far below the grid: the certificate must cover the rest."""
    alpha = np.array([1.01, 2.0, 30.0, 256.0, 2000.0])
    exact = alpha * (alpha - 1) * (a**2 + b**2) / 2
    lower, upper = (
        log_reverse_moments(alpha, a, 1, b=b, rate=1.0, method=m) for m in ("lower", "upper")
    )
    assert np.all(lower <= exact * (1 + 1e-9))
    assert np.all(upper >= exact * (1 - 1e-12))
    np.testing.assert_allclose(upper, exact, rtol=1e-3)


def sampled_losses(mechanism, rounds, samples, rng, direction):
    """Losses of the explicit data set over several rounds, under the first of both hypotheses."""
    a, b = mechanism.clip / mechanism.sigma, mechanism.unsplit_clip / mechanism.sigma
    d, rate = mechanism.submodels, mechanism.rate
    loss = np.zeros(samples)
    for _ in range(rounds):
        z, w = rng.standard_normal((samples, d)), rng.standard_normal(samples)
        if direction == "remove":
            there = rng.random(samples) < rate
            z[np.arange(samples), rng.integers(d, size=samples)] += a * there
            w += b * there
        ratio = np.exp(a * z - a**2 / 2).mean(axis=1) * np.exp(b * w - b**2 / 2)
        loss += np.log(1 - rate + rate * ratio)
    return loss if direction == "remove" else -loss


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "d, b, rate, rounds", [(8, 0.0, 1.0, 1), (8, 0.4, 0.5, 1), (8, 0.0, 0.4, 20)]
)
def test_eight_blocks_by_monte_carlo(d, b, rate, rounds, direction):
    """Five standard errors either way; the bracket itself is much narrower."""
    mechanism = splitting(1.2, b, rate, d)
    loss = sampled_losses(mechanism, rounds, 200_000, np.random.default_rng(3), direction)
    epsilon = np.array([0.0, 0.3, 1.0])
    leak = np.maximum(-np.expm1(epsilon[:, None] - loss), 0.0)
    mean, error = leak.mean(axis=1), leak.std(axis=1) / np.sqrt(loss.size)
    release = mechanism if rounds == 1 else compose(mechanism, rounds)
    lower, upper = (
        release.delta(epsilon, method=m, direction=direction) for m in ("lower", "upper")
    )
    assert np.all(lower <= mean + 5 * error)
    assert np.all(mean - 5 * error <= upper)
    np.testing.assert_allclose(lower, upper, rtol=5e-3)


# ---- the adversary -------------------------------------------------------------------------------


@pytest.mark.parametrize("d, step, trials", [(2, 0.05, 120), (3, 0.2, 12)])
@pytest.mark.parametrize("a, b, rate", [(1.3, 0.7, 1.0), (1.0, 1.5, 0.2), (1.8, 0.5, 0.5)])
def test_no_gradients_leak_more(a, b, rate, d, step, trials):
    """Norms up to the clips, gradients outside the cut that point anywhere for each submodel."""
    rng = np.random.default_rng(d)
    _, upper = brackets(a, b, rate, d)
    slack = (1e-3 if d == 2 else 2e-2) * upper + 1e-7  # of the quadrature
    for trial in range(trials):
        norms = a * np.where(rng.random(d) < 0.5, 1, rng.random(d))
        outside = rng.normal(size=(d, 3))
        outside *= b / np.linalg.norm(outside, axis=1, keepdims=True)
        if trial % 3 == 0:
            outside[:] = outside[0]
        outside *= np.where(rng.random(d) < 0.5, 1, rng.random(d))[:, None]
        centres = np.hstack([outside, np.diag(norms)])
        found = divergences(*hypotheses(centres, rate), EPSILON, step)
        assert np.all(found <= upper + slack)


def test_smaller_or_differing_gradients_leak_strictly_less():
    """The comparison above can fail: it separates the worst data set from its neighbours."""
    a, b, rate = 1.3, 0.7, 1.0
    _, upper = brackets(a, b, rate, 2)
    smaller = np.diag([1.0, 0.9]) @ worst_centres(a, b, 2)
    turned = worst_centres(a, b, 2) * [[1, 1, 1], [-1, 1, 1]]
    for centres in (smaller, turned):
        found = divergences(*hypotheses(centres, rate), EPSILON, 0.05)
        assert np.all(found < 0.99 * upper)


@pytest.mark.parametrize("other", [(1.0, 1.0), (-1.0, 1.0), (0.4, -0.8)])
def test_another_record_only_blurs(other):
    """A second record draws its own submodel: with it both releases are mixtures."""
    a, rate = 1.2, 0.6
    blocks = a * np.eye(2)
    theirs = a * np.diag(other)
    means, one, none = [], [], []
    for k, c in itertools.product(range(3), range(3)):
        mine = np.zeros(2) if k == 2 else blocks[k]
        means.append(mine + (np.zeros(2) if c == 2 else theirs[c]))
        chance = 1 - rate if c == 2 else rate / 2
        one.append(chance * (1 - rate if k == 2 else rate / 2))
        none.append(chance * (k == 2))
    found = divergences(np.array(means), np.array(one), np.array(none), EPSILON, 0.03)
    _, upper = brackets(a, 0.0, rate, 2)
    assert np.all(found <= upper * (1 + 1e-4) + 1e-9)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_rounds_with_other_gradients_leak_less(direction):
    """Three rounds, each with a data set of its own: no product exceeds the composed bound."""
    a, b, rate, epsilon = 1.2, 0.6, 0.5, np.array([0.2, 1.0, 2.0])
    limit = compose(splitting(a, b, rate, 2), 3).delta(epsilon, direction=direction)
    rng = np.random.default_rng(1)

    def loss(centres):
        means, one, other = hypotheses(centres, rate)
        cells = reference.density_cells(means, np.stack([one, other], axis=1), 1.0, 0.1)
        first, second = cells.reshape(-1, 2).T
        return optimistic((first, second), (second, first), 1e-3)

    worst = loss(worst_centres(a, b, 2))
    for _ in range(4):
        pick = [worst]
        for _ in range(2):
            outside = rng.normal(size=(2, 2))
            outside *= b / np.linalg.norm(outside, axis=1, keepdims=True)
            norms = np.diag(a * rng.uniform(0.7, 1, 2))
            pick.append(loss(np.hstack([outside, norms])))
        total = pick[0].compose(pick[1]).compose(pick[2])
        half = total._pmf_remove if direction == "remove" else total._pmf_add
        found = pld_lib.PrivacyLossDistribution(half)
        assert np.all([found.get_delta_for_epsilon(e) for e in epsilon] <= limit)


# ---- limits, order, monotonicity -----------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_one_submodel_is_the_poisson_gaussian(rate):
    split = ModelSplitting(1.3, submodels=1, rate=rate, clip=0.8, unsplit_clip=0.6)
    plain = PoissonGaussian(1.3, rate=rate, sensitivity=1.0)
    for method, direction in itertools.product(("upper", "lower"), DIRECTIONS):
        np.testing.assert_array_equal(
            split.delta(EPSILON, method=method, direction=direction),
            plain.delta(EPSILON, method=method, direction=direction),
        )
    alpha = np.array([2, 7, 30])
    for method in ("upper", "lower"):
        np.testing.assert_allclose(split.rdp(alpha, method=method), plain.rdp(alpha), rtol=1e-11)
    composed = compose(plain, 9).epsilon(1e-5)
    for method in ("upper", "lower"):
        assert compose(split, 9).epsilon(1e-5, method=method) == pytest.approx(composed, rel=1e-3)


@pytest.mark.parametrize("method", ["upper", "lower"])
def test_no_participation_leaks_nothing(method):
    silent = ModelSplitting(0.5, submodels=4, rate=0.0, unsplit_clip=1.0)
    assert silent.delta(0.0, method=method) == 0
    assert silent.epsilon(1e-9, method=method) == 0
    assert silent.rdp(3, method=method) == 0
    assert compose(silent, 5).epsilon(1e-9, method=method) == 0


def test_a_faint_unsplit_part_vanishes():
    alone = ModelSplitting(1.0, submodels=3, rate=0.5)
    for faint in (1e-200, 1e-6):
        with_part = ModelSplitting(1.0, submodels=3, rate=0.5, unsplit_clip=faint)
        for method in ("upper", "lower"):
            np.testing.assert_allclose(
                with_part.delta(EPSILON, method=method),
                alone.delta(EPSILON, method=method),
                rtol=3e-3,
            )


def test_a_faint_split_part_leaves_the_gaussian():
    for method in ("upper", "lower"):
        faint = ModelSplitting(1.0, submodels=3, rate=0.5, clip=1e-9, unsplit_clip=1.0)
        plain = PoissonGaussian(1.0, rate=0.5)
        got = faint.delta(EPSILON, method=method)
        np.testing.assert_allclose(got, plain.delta(EPSILON), rtol=3e-3)


def test_many_submodels_hide_the_record():
    values = [ModelSplitting(1.0, submodels=d).delta(0.1) for d in (1, 2, 8, 64, 1000, 10**5)]
    assert np.all(np.diff(values) < 0)
    assert values[-1] < 1e-9


@pytest.mark.parametrize("a, b, rate", SETTINGS)
@pytest.mark.parametrize("d", [2, 7])
def test_removing_a_record_is_the_worse_direction(a, b, rate, d):
    """Certified: what adding leaks at least is at most what removing leaks at most."""
    lower, upper = brackets(a, b, rate, d)
    assert np.all(lower[1] <= upper[0] * (1 + 1e-12))
    alpha = np.array([1.2, 2.0, 5.0, 40.0])
    mechanism = splitting(a, b, rate, d)
    forward = mechanism.rdp(alpha, direction="remove")
    for method in ("upper", "lower"):
        assert np.all(mechanism.rdp(alpha, direction="add", method=method) <= forward)
    np.testing.assert_array_equal(mechanism.rdp(alpha), forward)


FIELDS = {
    "sigma": st.floats(0.4, 5),
    "rate": st.floats(0.01, 1),
    "clip": st.floats(0.2, 2),
    "unsplit_clip": st.one_of(st.just(0.0), st.floats(0.05, 2)),
}


@given(st.fixed_dictionaries(FIELDS), st.integers(2, 9), st.floats(1.05, 2))
@settings(max_examples=12, deadline=None)
def test_monotone_in_every_parameter(fields, d, more):
    """Up to the bracket's width; every step is larger than that or changes nothing visible."""

    def delta(submodels=d, **changed):
        mechanism = ModelSplitting(submodels=submodels, **(fields | changed))
        return mechanism.delta(EPSILON, method="upper"), mechanism.delta(EPSILON, method="lower")

    upper, lower = delta()
    assert np.all(lower <= upper * (1 + 1e-12))
    assert np.all(np.diff(upper) <= 1e-15) and np.all(np.diff(lower) <= 1e-15)
    for safer in (
        {"sigma": fields["sigma"] * more},
        {"rate": fields["rate"] / more},
        {"clip": fields["clip"] / more},
        {"unsplit_clip": fields["unsplit_clip"] / more},
        {"submodels": d + 1},
    ):
        assert np.all(delta(**safer)[1] <= upper * (1 + 1e-12) + 1e-15)
        assert np.all(delta(**safer)[0] <= upper * (1 + 2e-3) + 1e-15)


@given(st.fixed_dictionaries(FIELDS), st.integers(2, 9), st.sampled_from([1e-3, 1e-5, 1e-9]))
@settings(max_examples=15, deadline=None)
def test_epsilon_is_bracketed_within_one_percent(fields, d, delta):
    mechanism = ModelSplitting(submodels=d, **fields)
    lower, upper = (mechanism.epsilon(delta, method=m) for m in ("lower", "upper"))
    assert 0 <= lower <= upper <= lower * 1.01 + 1e-4
    assert upper <= PoissonGaussian(
        fields["sigma"],
        rate=fields["rate"],
        sensitivity=np.hypot(fields["clip"], fields["unsplit_clip"]),
    ).epsilon(delta) * (1 + 1e-9)
    assert mechanism.delta(upper) <= delta * (1 + 1e-9)
    assert mechanism.epsilon(delta, method="paper") >= lower


def test_array_fields():
    sigma, rate = np.array([[0.7], [2.0]]), np.array([0.1, 0.5, 1.0])
    clip, outside = np.array([1.0, 0.5, 0.5]), np.array([0.0, 0.0, 0.4])
    table = ModelSplitting(sigma, submodels=3, rate=rate, clip=clip, unsplit_clip=outside)
    for method, direction in itertools.product(("upper", "lower", "paper"), DIRECTIONS):
        options = {"method": method, "direction": direction}
        deltas, epsilons = table.delta(0.3, **options), table.epsilon(1e-4, **options)
        assert deltas.shape == epsilons.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            one = ModelSplitting(
                sigma[i, 0], submodels=3, rate=rate[j], clip=clip[j], unsplit_clip=outside[j]
            )
            assert deltas[i, j] == pytest.approx(one.delta(0.3, **options), rel=1e-9)
            assert epsilons[i, j] == pytest.approx(one.epsilon(1e-4, **options), rel=1e-9)


# ---- bad input beyond the common tests -------------------------------------------------------------


def test_losses_of_the_paper_do_not_exist():
    mechanism = ModelSplitting(1.0, submodels=2)
    for call in (mechanism.pld, compose(mechanism, 3).pld):
        with pytest.raises(ValueError, match="method must be 'upper' or 'lower'.*got 'paper'"):
            call(method="paper")


def test_bad_orders_and_words():
    mechanism = ModelSplitting(1.0, submodels=2)
    with pytest.raises(ValueError, match="alpha must be a whole number >= 2"):
        mechanism.rdp(2.5, method="paper")
    with pytest.raises(ValueError, match="method must be one of"):
        mechanism.rdp(2, method="best")
    with pytest.raises(ValueError, match="direction must be one of"):
        mechanism.rdp(2, direction="replace")
    with pytest.raises(ValueError, match="rdp needs scalar fields"):
        ModelSplitting([1.0, 2.0], submodels=2).rdp(2)
    with pytest.raises(ValueError, match="must broadcast against each other"):
        ModelSplitting([1.0, 2.0], submodels=2, clip=[1.0, 2.0, 3.0])
