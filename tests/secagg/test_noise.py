"""Discrete Laplace noise: exact coins, the right law, and no way to tell which inputs it hides."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from repro.secagg import FixedPoint, discrete_laplace, noise_tail
from repro.secagg.noise import _Coins

KEY = bytes(range(16))


def law(scale, values):
    """The probabilities of whole numbers."""
    return np.tanh(1 / (2 * float(scale))) * np.exp(-np.abs(values) / float(scale))


@pytest.mark.parametrize("scale", [Fraction(1, 3), 0.5, 1, Fraction(5, 2), 7, 20.25])
def test_the_law_is_the_discrete_laplace_law(scale):
    drawn = discrete_laplace(scale, 200_000, key=KEY)
    reach = int(10 * scale) + 1
    values = np.arange(-reach, reach + 1)
    counts = np.array([(drawn == value).sum() for value in values])
    expected = len(drawn) * law(scale, values)
    kept = expected > 5
    rest = len(drawn) - counts[kept].sum(), len(drawn) - expected[kept].sum()
    observed = np.append(counts[kept], rest[0])
    wanted = np.append(expected[kept], rest[1])
    if wanted[-1] < 5:
        observed, wanted = observed[:-1], wanted[:-1] * (observed[:-1].sum() / wanted[:-1].sum())
    assert stats.chisquare(observed, wanted).pvalue > 1e-3


@pytest.mark.parametrize("scale", [1e4, 10.0**8 / 3, Fraction(2**52 + 1, 3), 2**56])
def test_wide_noise_has_the_laplace_quantiles(scale):
    """For large scales the law is the continuous one to within a unit: Kolmogorov-Smirnov."""
    drawn = discrete_laplace(scale, 50_000, key=KEY) / float(scale)
    assert stats.kstest(drawn, "laplace").pvalue > 1e-3


@pytest.mark.parametrize(
    ("above", "below"), [(1, 2), (1, 3), (2, 3), (1, 5), (5, 7), (0, 9), (2**55, 2**56), (1, 2**20)]
)
def test_coins_are_exact(above, below):
    """At the edges of the words: heads for exactly above / below of those that are not skipped."""
    each = 2**64 // below
    edges = [0, each * above - 1, each * above, each * below - 1]
    edges = [edge for edge in edges if 0 <= edge < 2**64]
    skipped = [each * below] if each * below < 2**64 else []
    coins = _Coins(KEY)
    queue = [*edges[:1], *skipped, *edges[1:]]

    class Words:
        def take(self, size):
            taken, rest = queue[:size], queue[size:]
            queue[:] = rest + [0] * size
            return np.array(taken + [0] * (size - len(taken)), np.uint64)

    coins._stream = Words()
    drawn = coins.bernoulli(len(edges) + len(skipped), above, below)
    words = [edges[0], *[0 for _ in skipped], *edges[1:]]
    assert drawn.tolist() == [word < each * above for word in words]


@pytest.mark.parametrize(("above", "below"), [(0, 1), (1, 4), (3, 7), (99, 100)])
def test_exponential_coins(above, below):
    """exp(-above / below), and 1/e, within 5 standard errors."""
    size = 200_000
    gamma = np.full(size, above, np.uint64)
    for heads, chance in (
        (_Coins(KEY).exp(size, gamma, below), math.exp(-above / below)),
        (_Coins(KEY).exp(size, None, 1), math.exp(-1)),
    ):
        assert abs(heads.mean() - chance) <= 5 * math.sqrt(chance * (1 - chance) / size)


def test_neighbouring_inputs_give_the_same_outputs_with_ratio_at_most_e_to_the_epsilon():
    """The guarantee, read off the law: shifting by D = 3 units with scale D / epsilon, both ways.

    And no output tells the inputs apart by itself: every whole number can come from both.
    """
    epsilon, shift = 0.5, 3
    values = np.arange(-400, 401)
    ratio = law(shift / epsilon, values - shift) / law(shift / epsilon, values)
    assert ratio.max() <= math.exp(epsilon) * (1 + 1e-12)
    assert ratio.max() == pytest.approx(math.exp(epsilon)) == 1 / ratio.min()
    drawn = [discrete_laplace(shift / epsilon, 400_000, key=KEY) + s for s in (0, shift)]
    near = np.arange(-12, 13)
    counts = [np.array([(one == value).sum() for value in near]) for one in drawn]
    measured = np.log(counts[1] / counts[0])
    error = np.sqrt(1 / counts[0] + 1 / counts[1])
    assert (np.abs(measured) <= epsilon + 5 * error).all()


def test_noise_in_fixed_point_has_the_laplace_scale():
    """Encoded with noise for sensitivity 0.02 and epsilon 0.1: mean absolute noise 0.2."""
    encoding = FixedPoint()
    scale = Fraction(encoding.sensitivity(0.02, 1)) / Fraction(1, 10)
    noise = discrete_laplace(scale, (4, 5000), key=KEY)
    values = np.linspace(-1, 1, 20_000).reshape(4, 5000)
    encoded = encoding.encode(values, clients=4, noise=noise)
    added = encoding.decode(encoded) - values
    assert np.abs(added - noise * 1e-10).max() < 1e-10
    assert abs(np.abs(added).mean() - 0.2) < 5 * 0.2 / math.sqrt(20_000)


def test_draws_follow_from_the_key_and_are_fresh_without_one():
    first = discrete_laplace(1000, (3, 70_000), key=KEY)
    assert first.shape == (3, 70_000) and first.dtype == np.int64
    assert (first == discrete_laplace(1000.0, (3, 70_000), key=KEY)).all()
    assert (first != discrete_laplace(1000, (3, 70_000), key=bytes(16))).mean() > 0.99
    a, b = (discrete_laplace(10**6, 100) for _ in range(2))
    assert (a != b).any()
    assert discrete_laplace(1, 0).shape == (0,)


@pytest.mark.parametrize(
    "scale", [0, -1.0, math.nan, math.inf, 0.01, 2**57, Fraction(1, 2**60), "1"]
)
def test_bad_scales_are_refused(scale):
    with pytest.raises(ValueError, match="scale must be"):
        discrete_laplace(scale, 3)


def test_bad_sizes_and_keys_are_refused():
    with pytest.raises(ValueError, match=r"size must be an integer in \[0, "):
        discrete_laplace(1, -1)
    with pytest.raises(ValueError, match="key must be 16 bytes"):
        discrete_laplace(1, 1, key=b"short")


@pytest.mark.parametrize("scale", [0.3, 1.0, 99.0, 1e6])
@pytest.mark.parametrize(("draws", "failure"), [(1, 0.5), (10**5, 1e-3), (10**10, 2.0**-40)])
def test_the_tail_is_beyond_almost_all_noise(scale, draws, failure):
    """Exactly: P(|n| > t) = 2 exp(-(t + 1) / scale) / (1 + exp(-1 / scale)), times the draws."""
    tail = noise_tail(scale, draws, failure=failure)
    exact = 2 * math.exp(-(tail + 1) / scale) / (1 + math.exp(-1 / scale))
    assert draws * exact <= failure
    closer = tail - 1 - math.ceil(1.5 * scale)  # not far above what is needed
    assert closer < 0 or draws * 2 * math.exp(-(closer + 1) / scale) / 2 > failure


def test_bad_tails_are_refused():
    for given, name in (((0, 1, 0.1), "scale"), ((1, 0, 0.1), "draws"), ((1, 1, 1.0), "failure")):
        with pytest.raises(ValueError, match=f"{name} must be"):
            noise_tail(*given[:2], failure=given[2])
