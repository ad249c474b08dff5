"""Random participation with next to no noise: valid, tight, and without grids."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from repro.accounting import PoissonGaussian, RandomParticipation, compose
from repro.accounting.random_participation import comb, lower, mechanisms
from repro.accounting.random_participation.little_noise import log_sides, side_masses
from repro.accounting.random_participation.mechanisms import CountRevealed

DIRECTIONS = ("remove", "add")
MOST_POINTS = 200_000

LITTLE = [  # sigma, p, q, d, clip
    (0.3, 0.001, 0.5, 10_000, 1e6),
    (0.001, 1.0, 0.5, 10**7, 1e6),
    (0.1, 0.1, 0.5, 10_000, 1.0),
    (0.05, 0.3, 1.0, 10_000, 1.0),
]


@pytest.fixture
def points(monkeypatch):
    """The points of every grid along the axis, as they are made."""
    made, plain = [], comb.Comb.__init__

    def counted(self, *args):
        plain(self, *args)
        made.append(self.y.size)

    monkeypatch.setattr(comb.Comb, "__init__", counted)
    return made


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sigma, p, q, d, clip", LITTLE)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_epsilons_with_little_noise_need_hardly_a_grid_and_agree(
    points, sigma, p, q, d, clip, direction
):
    mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=d, clip=clip)
    for delta in (1e-9, 1e-5, p * q / 2):
        low, high = (
            mechanism.epsilon(delta, method=m, direction=direction) for m in ("lower", "upper")
        )
        assert low <= high <= low * (1 + 1e-6) + 1e-9
    assert sum(points) <= MOST_POINTS


def test_upper_holds_however_little_the_noise():
    """Below 1e-5 clips an epsilon of more noise is none: the clip is told by so much more."""
    mechanism = RandomParticipation(0.3, p=0.001, q=0.5, samples_per_client=10_000, clip=1e6)
    alone = PoissonGaussian(0.3, rate=0.0005, sensitivity=1e6)
    assert mechanism.delta(1e10) >= alone.delta(1e10, method="lower") > 4e-4
    assert mechanism.epsilon(1e-5) >= alone.epsilon(1e-5, method="lower") > 5e12


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 5.0, 9e7, 1.1e8, 4e11, 6e11])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_closed_forms_stay_between_the_bounds_around_every_change_of_formula(epsilon, direction):
    for s in (1e-6, 9.9e-6, 1.01e-5, 0.029, 0.031, 0.249):
        mechanism = RandomParticipation(s, p=0.3, q=0.4, samples_per_client=7)
        low, high = (
            mechanism.delta(epsilon, method=m, direction=direction) for m in ("lower", "upper")
        )
        after = mechanism.delta(epsilon * 1.2, direction=direction)
        assert 0 <= low <= high <= 0.3
        assert after <= high + 1e-15


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "s, p, q, d", [(0.05, 0.3, 0.5, 6), (0.2, 0.5, 0.3, 40), (0.1, 1.0, 0.9, 2)]
)
def test_the_event_of_sides_by_quadrature(s, p, q, d, direction):
    """The divergence of the orthogonal pair on a fine grid, its two axes independent given who takes part."""
    counts = np.arange(d + 1)
    b = binom.pmf(counts, d, q)
    y = np.linspace(-10 * s, d + 10 * s, 20_001)
    m0 = b @ norm.pdf(y, counts[:, None], s)
    n = norm.pdf(y, 0, s)
    v = np.linspace(-10 * s, 1 + 10 * s, 801)[:, None]
    zero, moved = norm.pdf(v, 0, s), norm.pdf(v, 1, s)
    with_record = ((1 - p) * n + p * (1 - q) * m0) * zero + p * q * m0 * moved
    without = ((1 - p) * n + p * m0) * zero
    pair = (with_record, without) if direction == "remove" else (without, with_record)
    cell = (y[1] - y[0]) * (v[1, 0] - v[0, 0])
    for epsilon in (0.1, 0.4, 1.0):
        want = np.maximum(pair[0] - np.exp(epsilon) * pair[1], 0).sum() * cell
        found = np.exp(log_sides(*(np.array([x]) for x in (epsilon, s, p, q)), d, direction)[0])
        assert want * (1 - 0.05) - 1e-9 <= found <= want * (1 + 1e-6) + 1e-12


def test_cells_of_sides_are_distributions_whose_divergence_is_that_of_the_events():
    used, unused = side_masses(0.05, 0.3, 0.5, 30)
    assert used.sum() == pytest.approx(1, abs=1e-12)
    assert unused.sum() == pytest.approx(1, abs=1e-12)
    for epsilon, direction in ((0.2, "remove"), (0.2, "add"), (20.0, "remove")):
        pair = (used, unused) if direction == "remove" else (unused, used)
        cells = np.maximum(pair[0] - np.exp(epsilon) * pair[1], 0).sum()
        given = (np.array([x]) for x in (epsilon, 0.05, 0.3, 0.5))
        assert cells == pytest.approx(np.exp(log_sides(*given, 30, direction)[0]), rel=1e-6)


@pytest.mark.parametrize("method", [mechanisms.RandomParticipation, CountRevealed])
def test_compositions_with_little_noise_make_no_grid_in_the_plane(points, method):
    run = compose(method(0.05, p=0.3, q=0.2, samples_per_client=100), 20)
    low, high = (run.epsilon(1e-5, method=m) for m in ("lower", "upper"))
    assert low <= high <= 1.01 * low
    assert not points


def test_less_is_told_by_grids_than_by_sides(monkeypatch):
    """Compositions of the cells that replace the grids, against these."""
    mechanism = RandomParticipation(0.1, p=0.2, q=0.3, samples_per_client=4)

    def found():
        run = compose(mechanism, 10)
        return np.array([run.epsilon(1e-4, method="lower", direction=w) for w in DIRECTIONS])

    sides = found()
    monkeypatch.setattr(mechanisms, "_FEW_CELLS", 0.0)
    assert np.all(sides >= found() * (1 - 1e-4))


@pytest.mark.parametrize("s, d, q", [(0.3, 4_000, 0.5), (0.9, 3_000, 0.4)])
def test_sums_by_blocks_are_those_of_single_counts(monkeypatch, s, d, q):
    grid = comb.comb(d, np.array([q]), np.array([s]), step=1 / 48, reach=9.0, lightest=-80.0)
    density = lambda distance: norm.pdf(distance / s)[None]  # noqa: E731
    blocks = grid.mixture(density, 0.3)
    monkeypatch.setattr(comb, "_MANY", np.inf)
    np.testing.assert_allclose(blocks, grid.mixture(density, 0.3), rtol=1e-11, atol=1e-300)


def test_normal_masses_of_cells_in_either_tail():
    low, high = np.array([-40.0, -1.0, 3.0]), np.array([-39.0, 1.0, 4.0])
    want = norm.sf(low) - norm.sf(high)
    want[0] = norm.cdf(high[0]) - norm.cdf(low[0])
    np.testing.assert_allclose(lower.normal_masses(low, high), want, rtol=1e-12)
