"""PM-SFL: what its releases really disclose, exactly or with a bound that is proved here.

**A sampled mask.** Given the scores, the coordinates of a binary upload are independent Bernoulli
variables. If two data sets move n of them from probability a to b, what an observer of the mask learns
is that of a binomial count: `mask_delta` and `mask_epsilon` are exact. With a = 1 - c, b = c and n = d
this is d-fold randomised response, the worst that probabilities in [c, 1 - c] allow.

**Theorem (sampling is noise of deviation 2).** Let s, s' be two score vectors. The binary mask drawn
from sigma(s) has Renyi divergence at most alpha |s - s'|^2 / 8 from that drawn from sigma(s'), for
every alpha > 1, whatever the dimension and without any margin c: as much as the scores with Gaussian
noise of standard deviation 2. Proof. One coordinate is an exponential family with log-partition
A(s) = ln(1 + e^s), so its divergence is [A(y) - alpha A(s) - (1 - alpha) A(s')] / (alpha - 1) at
y = alpha s + (1 - alpha) s'. The bracket is linear in A and not negative for convex A, since s lies
between y and s'. As A'' <= 1/4, the function x^2/8 - A(x) is convex, so the bracket is at most that of
x^2/8, which is alpha (alpha - 1) (s - s')^2 / 8. Coordinates add up. It is attained to first order at
s = 0.

**Adam.** After R steps from a common start, at rate eta, a score has moved by at most `adam_reach`,
whatever the gradients: |m_t| / sqrt(v_t) is bounded by the Cauchy-Schwarz inequality. That, and no
noise, is what bounds the epsilon of an upload of PM-SFL as its experiments run it.

Laplace noise on what a randomly masked layer sends is the setting of Theorem 2.

**Theorem 2 repaired.** Let every mask keep |f_M(x) - f_M(x')|_1 <= D, let the noise have scale
D / epsilon, let one input (x = 0) be mapped to the same output by all masks and let the zero mask,
of probability q, map all inputs there. Then the printed formula holds. Proof. With h the density of an
output under the zero mask, and h r_M, h r'_M those under M for x and x', the distance to the zero input
gives r_M <= e^epsilon and the distance to x' gives r_M <= e^epsilon r'_M. With m the mean of min(1, r')
over the other masks the ratio is at most (q + e^epsilon m) / (q + m), which grows with m <= 1 - q.

**What a mask takes off, whatever the dimension.** Let the output be one number, every weight under a
bit of its own, kept with a probability of at most p >= 1/2, and let D bound |f_M(x)|, |f_M(x')| and
|f_M(x) - f_M(x')| under all masks M. Then epsilon is at most `masked_laplace_bound`. Proof. In units of
D let y be the difference of the outputs; the positive parts of its terms sum to at most 1, so do the
negative ones. |y| is convex in the terms, so its mean is largest at one positive and one negative
term: p_i (1 - p_j) + p_j (1 - p_i) <= p, or at a single one. So E|y| <= p. Let r, r' be the densities
over that of the zero mask: both lie in [e^-epsilon, e^epsilon], and r <= e^(epsilon |y|) r'. For R > 1
and c <= epsilon R the largest r - R r' - c |y| under these limits is at |y| = 0, r' = e^-epsilon, or at
|y| = 1, r' = 1 (convex in |y| as far as e^(epsilon |y|) < R, increasing from there on). Choose R and c
so that both are -c p: then E r <= R E r', and R is the bound. Layers of many outputs, each weight still
under a bit of its own, with D a bound on the three l1 norms: the same steps hold for the joint densities
with |y|_1 in place of |y|. One mask attains the largest difference of every output at once, so these sum
to at most D, and E|y|_1 <= p. A bit that several outputs share, as in a
convolution, makes this false. Where D bounds the sums of the absolute terms (for x, for x' and for their
difference), `masked_laplace_epsilon` is an upper bound, with shared bits as well (pmsfl/derivations-theorem-2, 6.9).
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike
from scipy.special import gammaln, ndtr, xlog1py, xlogy

from repro._validate import (
    broadcastable,
    choice,
    in_unit,
    integer,
    nonnegative,
    one,
    positive,
    probability_open,
)
from repro.accounting._gaussian import log_diff, log_sum
from repro.accounting._losses import RUN_ERROR, threshold
from repro.accounting._pld import composed_size, one_sided, self_composition
from repro.accounting._renyi import orders
from repro.accounting.gaussian import GaussianMechanism
from repro.accounting.laplace import SummedLaplace
from repro.accounting.pmsfl.printed import margin

_CONVOLVED = 2e-15
"""Error of delta through the Fourier transforms that compose, besides that per run; as in `Composition`."""

_MOST_LOSSES = 2**22
"""Places of a loss distribution, at most: 32 MiB each, of which a composition holds dozens."""

_REACH = 10.0
"""Standard deviations of a Gaussian pair's loss beyond its mean that a distribution reaches, at least."""

RELATIONS = ("add or remove", "replace", "client")


def mask_delta(epsilon: ArrayLike, *, first: float, second: float, count: int) -> np.ndarray:
    """Hockey-stick divergence of n Bernoulli(first) coordinates from n Bernoulli(second), exact.

    A finite sum without quadrature; rounding of the logs of factorials is not charged.

    One direction; exchange the two for the other.

    Args:
        epsilon: >= 0, scalar or array.
        first, second: probabilities in [0, 1].
        count: n >= 1.

    Returns:
        delta in [0, 1], of the shape of `epsilon`.

    Raises:
        ValueError: an argument out of range.
    """
    epsilon = nonnegative("epsilon", epsilon)
    first, second = one(in_unit, "first", first), one(in_unit, "second", second)
    k = _likely(first, integer("count", count, 1))
    log_p, log_q = _log_counts(first, count, k), _log_counts(second, count, k)
    return np.exp(log_sum(log_diff(log_p, epsilon[..., None] + log_q), axis=-1))


def mask_epsilon(delta: ArrayLike, *, first: float, second: float, count: int) -> np.ndarray:
    """Smallest epsilon at which `mask_delta` is at most delta in both directions, exact.

    The likelihood ratio is monotone in the count, so the best event is a tail, and epsilon is the
    largest ln((P(tail) - delta) / Q(tail)). That tail starts where P(tail) comes down to delta, so counts
    that are unlikely under P (see `_likely`) are left out.

    Args:
        delta: in (0, 1), scalar or array. Others as in :func:`mask_delta`.

    Returns:
        epsilon >= 0, of the shape of `delta`; infinity where an outcome of more than delta is impossible
        on the other side.

    Raises:
        ValueError: an argument out of range.
    """
    log_delta = np.log(probability_open("delta", delta))[..., None]
    low, high = sorted((one(in_unit, "first", first), one(in_unit, "second", second)))
    found = []
    n = integer("count", count, 1)
    for p, q in ((high, low), (1 - low, 1 - high)):
        k = _likely(p, n)
        tails = [np.logaddexp.accumulate(_log_counts(x, n, k)[::-1]) for x in (p, q)]
        gain = log_diff(tails[0], log_delta)
        with np.errstate(invalid="ignore"):
            found.append(np.where(gain == -np.inf, 0.0, gain - tails[1]).max(-1))
    return np.maximum(np.maximum(*found), 0.0)


def _likely(p: float, n: int) -> np.ndarray:
    """All counts but those of a mass below e^-745, the least double (Bernstein's inequality)."""
    reach = 39 * np.sqrt(n * p * (1 - p)) + 500
    return np.arange(max(0, int(n * p - reach)), min(n, int(n * p + reach) + 1) + 1)


def _log_counts(p: float, n: int, k: np.ndarray) -> np.ndarray:
    """log of the binomial probabilities of k; -inf for what is impossible at p = 0 or 1."""
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return ways + xlogy(k, p) + xlog1py(n - k, -p)


def noised_probability(theta: ArrayLike, sigma: ArrayLike, *, floor: ArrayLike) -> np.ndarray:
    """E clip(theta + z, c, 1 - c), z ~ N(0, sigma^2): the law of one sampled mask coordinate.

    A plain number, neither bound: Gauss quadrature on panels, without a bound on its error. Second
    strategy of Theorem 3. The noise is independent in each coordinate and only the sampled
    mask leaves the client, so this number is all that its law depends on.

    Args:
        theta: in [0, 1].
        sigma: > 0.
        floor: c in (0, 1/2).

    Returns:
        probabilities in [c, 1 - c], of the broadcast shape.

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(theta=theta, sigma=sigma, floor=floor)
    theta, sigma, c = in_unit("theta", theta), positive("sigma", sigma), margin(floor)
    theta, sigma, c = (x[..., None] for x in np.broadcast_arrays(theta, sigma, c))
    # the integral of P(theta + z > t) over t in [c, 1 - c], or of P(z > t / sigma) where that is smooth
    node, weight = leggauss(60)
    kink = np.clip(theta, c, 1 - c) + 40 * sigma * np.array([-1, -0.2, -0.05, 0, 0.05, 0.2, 1])
    edge = np.concatenate([c, np.clip(kink, c, 1 - c), 1 - c], axis=-1)
    low, width = edge[..., :-1, None], np.diff(edge)[..., None]
    at = low + width * (node + 1) / 2
    with np.errstate(over="ignore"):
        above = ndtr((theta[..., None] - at) / sigma[..., None])
    return c[..., 0] + np.sum(width * weight / 2 * above, axis=(-2, -1))


def binary_upload_rdp(alpha: ArrayLike, distance: ArrayLike) -> np.ndarray:
    """alpha |s - s'|^2 / 8, the module's theorem.

    Args:
        alpha: > 1.
        distance: l2 distance of the scores on neighbours, >= 0.

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(alpha=alpha, distance=distance)
    return orders(alpha) * nonnegative("distance", distance) ** 2 / 8


def binary_upload_epsilon(distance: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """epsilon of one binary mask whose scores differ by at most `distance` in l2 norm.

    rho + 2 sqrt(rho ln(1/delta)) with rho = distance^2 / 8, the best order of the Renyi bound.

    Args:
        distance: >= 0.
        delta: in (0, 1).

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(distance=distance, delta=delta)
    return concentrated_epsilon(nonnegative("distance", distance) ** 2 / 8, delta)


def concentrated_epsilon(rho: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """rho + 2 sqrt(rho ln(1/delta)): epsilon where every Renyi divergence is at most alpha rho.

    Such rho add up over releases: squared sensitivity over 2 sigma^2 for Gaussian noise, epsilon^2 / 2
    for any pure epsilon, distance^2 / 8 for a sampled mask.

    Args:
        rho: >= 0.
        delta: in (0, 1).

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(rho=rho, delta=delta)
    rho = nonnegative("rho", rho)
    return rho + 2 * np.sqrt(-rho * np.log(probability_open("delta", delta)))


def local_noise(
    sigma: ArrayLike,
    *,
    steps: ArrayLike,
    clip: ArrayLike,
    batch: ArrayLike,
    relation: str = "replace",
) -> GaussianMechanism:
    """The R noisy local steps of Theorem 3, first strategy, all scores seen: one Gaussian mechanism.

    Exact where a record takes part in all `steps`: R adaptive Gaussian steps of one sensitivity are
    as one step of sqrt(R) times it. A record that enters one batch an epoch takes part once an epoch.

    Args:
        sigma: standard deviation of the noise on a step, > 0.
        steps: steps in which the record takes part, > 0.
        clip: Gamma > 0.
        batch: |Q_k| > 0, a public constant.
        relation: what neighbours differ in. "add or remove" one gradient of a sum divided by the
            constant |Q_k|: Gamma / |Q_k|. "replace": twice that, as two gradients may be opposite.
            "client": all of a client's records, 2 Gamma, in every local step.

    Raises:
        ValueError: an argument out of range.
    """
    choice("relation", relation, RELATIONS)
    broadcastable(sigma=sigma, steps=steps, clip=clip, batch=batch)
    clip, batch = positive("clip", clip), positive("batch", batch)
    move = {"add or remove": clip / batch, "replace": 2 * clip / batch, "client": 2 * clip}
    return GaussianMechanism(sigma, sensitivity=np.sqrt(positive("steps", steps)) * move[relation])


def adam_reach(steps: int, *, rate: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999)):
    """Largest move of one score in R steps of Adam from a fresh state, whatever the gradients.

    Step t moves it by rate |m_t| sqrt(1 - b2^t) / ((1 - b1^t) sqrt(v_t)), and by Cauchy-Schwarz
    |m_t| <= (1 - b1) sqrt(sum_{i<t} (b1^2/b2)^i / (1 - b2)) sqrt(v_t).

    Args:
        steps: R, 1 to 10^7.
        rate: > 0.
        betas: b1, b2 in (0, 1) with b1^2 < b2.

    Raises:
        ValueError: an argument out of range.
    """
    rate = one(positive, "rate", rate)
    pair = probability_open("betas", betas)
    if pair.shape != (2,):
        raise ValueError(f"betas must be two numbers, got {betas!r}")
    b1, b2 = pair
    if b1**2 >= b2:
        raise ValueError(f"betas must satisfy b1^2 < b2, got {betas!r}")
    t = np.arange(1, integer("steps", steps, 1, 10**7) + 1)
    ratio = b1**2 / b2
    spread = (1 - b1) * np.sqrt((1 - ratio**t) / ((1 - ratio) * (1 - b2)))
    return float(rate * np.sum(spread * np.sqrt(1 - b2**t) / (1 - b1**t)))


def _check_size(reach: float, interval: float) -> None:
    """Refuse a grid of the given range that would take gigabytes."""
    if not reach <= _MOST_LOSSES * interval:
        raise ValueError(
            f"interval must be at least {reach / _MOST_LOSSES:.2g} for losses that reach {reach:.2g}, "
            f"got {interval!r}"
        )


def run_epsilon(
    delta: ArrayLike,
    *,
    smashed: float,
    releases: int,
    update: float,
    rounds: int,
    interval: float = 5e-3,
) -> np.ndarray:
    """Total epsilon of a run: Laplace-noised smashed data and Gaussian-noised updates, composed.

    An upper bound: privacy loss distributions of the worst pairs, losses rounded upwards, and the error of
    the Fourier transforms that compose them taken from delta.

    Args:
        delta: of the whole run, in (0, 1), scalar or array.
        smashed: epsilon of one release of smashed data, > 0.
        releases: how often the record's smashed data are sent, >= 1.
        update: sensitivity over noise deviation of one round's update, > 0.
        rounds: rounds in which the client takes part, >= 1.
        interval: spacing of the losses, > 0.

    Raises:
        ValueError: an argument out of range, a delta too small to certify, or more than `_MOST_LOSSES` losses.
    """
    delta = probability_open("delta", delta)
    interval = one(positive, "interval", interval)
    smashed = one(positive, "smashed", smashed)
    ratio = one(positive, "update", update) * np.sqrt(float(integer("rounds", rounds, 1)))
    releases = integer("releases", releases, 1)
    _check_size(
        smashed + ratio * (ratio / 2 + _REACH), interval
    )  # of both pairs, before they are made
    single = SummedLaplace(1.0, sensitivity=smashed).pld(interval=interval)
    _check_size(interval * composed_size(one_sided(single)[0], releases), interval)
    smashed_losses = self_composition(single, releases)
    both = smashed_losses.compose(GaussianMechanism(1.0, sensitivity=ratio).pld(interval=interval))
    charged = delta.ravel() - _CONVOLVED - RUN_ERROR * releases
    value = np.max([threshold(p, charged) for p in one_sided(both)], axis=0)
    if not np.all(np.isfinite(value)):
        raise ValueError(f"delta must exceed the truncated mass of the run, got {delta!r}")
    return value.reshape(delta.shape)


# Smashed data behind a mask, Theorem 2 ------------------------------------------------------------


def masked_laplace_epsilon(epsilon: ArrayLike, *, keep: ArrayLike) -> np.ndarray:
    """ln(1 - p + p e^epsilon): what the worst pair found leaks through a random mask, Theorem 2.

    One weight carries the whole difference and is kept with probability p; the output is far out. This is a lower
    bound on the supremum, whatever the dimension, and exact where the absolute terms sum to at most the sensitivity.

    Args:
        epsilon: of the Laplace noise alone, >= 0.
        keep: p in [0, 1], the largest keep probability.

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(epsilon=epsilon, keep=keep)
    epsilon, keep = nonnegative("epsilon", epsilon), in_unit("keep", keep)
    grown = np.expm1(np.minimum(epsilon, 700.0))
    with np.errstate(divide="ignore"):
        far = np.logaddexp(np.log1p(-keep), np.log(keep) + epsilon)
    return np.where(epsilon <= 700, np.log1p(keep * grown), far)


def masked_laplace_bound(epsilon: ArrayLike, *, keep: ArrayLike) -> np.ndarray:
    """ln[(p e^(2 epsilon) + 1 - p) / (p e^epsilon + 1 - p)]: an upper bound whatever the dimension.

    The module's theorem of a mask with a bit of its own for every weight; below epsilon for p < 1, and
    above `masked_laplace_epsilon` by at most a factor e^epsilon in what is taken off e^epsilon.

    Args:
        epsilon: of the Laplace noise alone, >= 0.
        keep: p in [1/2, 1], the largest keep probability; for a smaller one take 1/2.

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(epsilon=epsilon, keep=keep)
    epsilon, keep = nonnegative("epsilon", epsilon), in_unit("keep", keep)
    if np.any(keep < 0.5):
        raise ValueError(f"keep must be in [0.5, 1], got {keep!r}")
    rest = (1 - keep) / keep
    return epsilon + np.log1p(rest * np.exp(-2 * epsilon)) - np.log1p(rest * np.exp(-epsilon))
