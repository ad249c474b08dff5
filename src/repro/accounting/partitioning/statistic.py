"""What one additive statistic gives away about balanced subsampling: a lower bound.

Columns Z_1, ..., Z_T are independent; those of the k iterations with the record are N(a, 1), the
others N(0, 1). The statistic is the sum of y(Z_i) with y(z) = log(1 - r + r exp(a z - a^2 / 2)), the
loss of Poisson sampling at rate r, rounded to a lattice before summing. It is a function of the output, so
its two laws, a (T - k)- and a k-fold convolution, give a lower bound on every divergence, whatever
the lattice and r. For many iterations hardly anything is lost: the likelihood ratio is this loss up to
the chance that Poisson sampling draws exactly k iterations.

The convolutions are Fourier transforms, with absolute errors of rounding size. They are repeated under
exponential tilts, which move the precision to the tails, and the errors are charged to the bound.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from repro.accounting._gaussian import log_diff

__all__ = ["AdditiveTest"]

_RESOLUTION = 8  # lattice points per standard deviation of y under Q
_MOST_POINTS = 4096  # of one column
_TAIL = 1e-18  # mass of one column in the last lattice points
_TILTS = (0.0, 0.5, 1.0, 1.5, -0.5)
_FAR = 42.0  # minus the log of the chance of an outcome beyond the lattice of the sum
_ROUNDING = np.finfo(float).eps
_RELATIVE = 1e-10  # relative error of probabilities and tilts


class AdditiveTest:
    """The two laws of the statistic, each as a pair of bounds on the same outcomes.

    Args:
        a: shift in standard deviations, > 0.
        size: T; k: 0 < k < T.
        odds: log odds of r relative to k / T.
    """

    def __init__(self, a: float, size: int, k: int, odds: float) -> None:
        value, *columns = _column(a, float(expit(logit(k / size) + odds)))
        counts = ((size, 0), (size - k, k))
        laws = [[_Tilted(value, columns, drawn, tilt) for tilt in _TILTS] for drawn in counts]
        reach = max(law.reach() for tilted in laws for law in tilted)
        reach = int(min(np.ceil(reach), size * value.size))
        centre = [tilted[0].mean for tilted in laws]
        outcomes = np.arange(int(min(centre)) - reach, int(max(centre)) + reach + 1)
        outcomes = outcomes[(outcomes >= 0) & (outcomes <= size * (value.size - 1))]
        points = 1 << int(np.ceil(np.log2(2 * reach + 2)))
        self.without, self.with_record = (
            _combined([law.bounds(outcomes, reach, points) for law in tilted]) for tilted in laws
        )

    def delta(self, epsilon: np.ndarray, direction: str) -> np.ndarray:
        """Lower bound on delta at each epsilon, shape (n,)."""
        first, second = self.with_record, self.without
        if direction == "add":
            first, second = second, first
        some = (first[0] > 0) & (second[1] > 0) & np.isfinite(second[1])
        first, second = first[0][some], second[1][some]
        loss = np.log(first) - np.log(second)
        order = np.argsort(loss)
        at = np.searchsorted(loss[order], epsilon, side="right")
        tail = [np.append(np.cumsum(x[order][::-1])[::-1], 0.0) for x in (first, second)]
        with np.errstate(over="ignore", invalid="ignore"):
            value = tail[0][at] - np.exp(epsilon) * tail[1][at]
        return np.where(tail[1][at] > 0, np.maximum(value, 0.0), tail[0][at])


def _column(a: float, rate: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lattice of y, and its laws without and with the record."""
    z = np.linspace(ndtri(_TAIL), a - ndtri(_TAIL), 4001)
    y = np.logaddexp(np.log1p(-rate), np.log(rate) + a * z - a**2 / 2)
    weight = np.exp(-(z**2) / 2)
    mean = np.average(y, weights=weight)
    step = np.sqrt(np.average((y - mean) ** 2, weights=weight)) / _RESOLUTION
    step = max(step, (y[-1] - y[0]) / _MOST_POINTS)
    value = y[0] + step * np.arange(int(np.ceil((y[-1] - y[0]) / step)) + 1)
    edge = value[1:] - step / 2
    cut = (log_diff(edge, np.log1p(-rate)) - np.log(rate) + a**2 / 2) / a
    cut = np.concatenate([[-np.inf], cut, [np.inf]])
    return value, _masses(cut), _masses(cut - a)


def _masses(z: np.ndarray) -> np.ndarray:
    """Normal masses between consecutive ascending points."""
    low, high = z[:-1], z[1:]
    return np.where(high <= 0, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high))


class _Tilted:
    """A sum of independent columns of two kinds under an exponential tilt; outcomes are indices."""

    def __init__(self, value, columns, counts, tilt) -> None:
        self.counts, self.laws = counts, []
        index = np.arange(value.size)
        self.mean = self.variance = self.log_scale = 0.0
        for law, count in zip(columns, counts, strict=True):
            log_tilt = tilt * (value - value[0])
            top = np.max(log_tilt)
            weight = law * np.exp(log_tilt - top)
            total = weight.sum()
            self.laws.append(weight / total)
            mean = self.laws[-1] @ index
            self.mean += count * mean
            self.variance += count * (self.laws[-1] @ (index - mean) ** 2)
            self.log_scale += count * (np.log(total) + top)
        self.slope = tilt * (value[1] - value[0])

    def reach(self) -> float:
        """Distance from the mean that is exceeded with a chance below 1e-18 (Chernoff's bound)."""
        width = np.sqrt(self.variance)
        result = []
        for sign in (1, -1):
            power = sign * np.geomspace(0.05, 20, 40)[:, None] / max(width, 1.0)
            log_moment = np.zeros(len(power))
            for law, count in zip(self.laws, self.counts, strict=True):
                stray = np.arange(law.size) - law @ np.arange(law.size)
                with np.errstate(over="ignore"):
                    moment = np.exp(power * stray) @ law
                log_moment += count * np.log(moment) if count else 0.0
            result.append(np.min((log_moment + _FAR) / np.abs(power[:, 0])))
        return max(result)

    def bounds(self, outcomes, reach, points) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds on the untilted probabilities of the outcomes."""
        transform = 1.0
        for law, count in zip(self.laws, self.counts, strict=True):
            folded = np.bincount(np.arange(law.size) % points, law, points)
            transform = transform * np.fft.rfft(folded) ** count
        size = np.abs(transform)
        noise = 4 * _ROUNDING * sum(self.counts) * size.mean()
        noise += 4 * _ROUNDING * np.log2(points) * np.sqrt(np.mean(size**2)) + 1e-18
        sums = np.fft.irfft(transform, points)[outcomes % points]
        with np.errstate(over="ignore", invalid="ignore"):
            back = np.exp(self.log_scale - self.slope * outcomes)
            low = np.maximum(sums - noise, 0.0) * back * (1 - _RELATIVE)
            high = (sums + noise) * back * (1 + _RELATIVE)
        # Outcomes beyond the reach are folded onto others and unknown.
        known = (np.abs(outcomes - self.mean) <= reach) & np.isfinite(high)
        return np.where(known, low, 0.0), np.where(known, high, np.inf)


def _combined(bounds) -> tuple[np.ndarray, np.ndarray]:
    """The best of several pairs of bounds."""
    return np.max([b[0] for b in bounds], axis=0), np.min([b[1] for b in bounds], axis=0)
