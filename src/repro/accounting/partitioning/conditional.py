"""The likelihood ratio of balanced subsampling given one additive statistic: bounds from both sides.

X_1, ..., X_T are the likelihood ratios of the iterations, independent under Q, X = exp(a Z - a^2 / 2), and
L = e_k(X_1, ..., X_T) / C(T, k) is that of the run. For any r > 0 write S for the sum of s_i = log(1 + r X_i) and
let iteration i be hit with chance q_i = r X_i / (1 + r X_i) = 1 - exp(-s_i), independently given X. Then

    L = exp(S) p / (C(T, k) r^k),    p = Pr(exactly k hits | X),

because e_k(r X) = prod (1 + r X_i) Pr(k hits). S is a sum over the iterations and carries nearly all of L. Where the
mean number of hits is k, p is at its maximum over that mean and hardly varies given S. So r belongs to the strike.

*Lower.* A function of the output leaks less than the output. S is rounded down to a lattice, each s_i apart, and its
two laws are convolutions: T columns without the record; k columns with it and T - k without.

*Upper.* Delta is E_Q (L - t)_+, t = exp(epsilon), which is convex in each X_i apart, because L is affine in it. So X
may be replaced by a mean-preserving spread of it: each cell hands its mass to its two ends. These are chosen so that
s lies on a lattice. Everything below is about the spread X, whose S is exactly on the lattice.

1. Given S = s, the first two moments of p are known: they are the chances that one row of hits, or two independent
   rows, have k hits each. In columns hit by both, by one of the two, and by none, these are convolutions; the second
   is summed over the number of columns that both rows hit. Among all non-negative y with mass q, mean p and second
   moment m the largest mean of (y - t)_+ is at most (Scarf 1958)

       B(q, p, m) = (sqrt(q m - 2 t p q + t^2 q^2) + p - t q) / 2,

   the mean of a square that lies above. It grows with q and m, and B of a sum of measures is at least the sum of
   their B, so outcomes that a finite Fourier transform folds onto each other do no harm.
2. Far below the strike two moments say too little. There (y - t)_+ <= y^n (n - 1)^(n - 1) / (n^n t^(n - 1)), and
   p <= f(V), V the sum of q_i (1 - q_i), with the falling f of `columns.log_largest_chance`. So E f^n follows from
   bounds on Pr(V < v), which Chernoff's inequality gives. Where few hits are expected and all X are much alike,
   Maclaurin's inequality L <= (sum of X_i / T)^k says more. On S <= s, exp(n S) is at most
   exp((n - tau) s) exp(tau S) for n >= tau. The cut s with the smallest sum of both parts is taken.
3. Outcomes beyond the lattice of one column, or beyond the window of the sum, cost at most the chance that P gives
   them: bounded by the normal tails, and by Chernoff's inequality.

All laws are computed under the tilt exp(tau S) that puts the mean of S at the strike, where precision is needed.
Errors of the Fourier transforms are charged (`columns`).
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
from scipy.special import gammaln

from repro.accounting._pld import powers
from repro.accounting.partitioning.columns import (
    NEGLIGIBLE,
    Design,
    Window,
    column,
    design,
    log_choose,
    log_largest_chance,
    log_outside,
)

__all__ = ["ConditionalRatio"]

_DESIGNS = 4  # strikes with an r of their own per standard deviation of log L
_EVEN = 64  # strikes with an r of their own on either side; beyond they lie ever further apart
_IDLE = 8  # neighbouring strikes without any lower bound, after which no further one is tried
_ROUNDING = np.finfo(float).eps
_RELATIVE = 1e-9  # relative error of masses, tilts and scales
_POWERS = np.array([2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256])
_CUTS = np.arange(0.01, 3.0, 0.01)  # distances of the cut below the strike, in log L
_BINS = 100  # of V
_CHERNOFF = np.concatenate([[0.0], np.geomspace(1e-2, 3e3, 100)])  # rates, times the mean of V
_TILTS = (1.0, 1 / 3)  # shares of the tilt for lower bounds: far ends may be heavy under all of it
_CHUNK = 64  # strikes at a time


class ConditionalRatio:
    """Bounds on delta for a shift of `a` standard deviations, k of T iterations.

    Args:
        a: shift in standard deviations, > 0.
        size: T.
        k: participations, 0 < k < T.
        deviation: standard deviation of log L, about; strikes that are close to each other share an r.
    """

    def __init__(self, a: float, size: int, k: int, deviation: float) -> None:
        self.a, self.size, self.k = a, size, k
        self.spacing = deviation / _DESIGNS

    @lru_cache(maxsize=1)  # noqa: B019
    def upper(self, epsilon: tuple[float, ...]) -> np.ndarray:
        """Upper bound on delta of "remove" at each epsilon >= 0, shape (n,); kept, because "add" asks for it, too."""
        return self._by_design(np.array(epsilon), lambda strike: [self._upper(strike)])

    def lower(self, epsilon: np.ndarray, direction: str) -> np.ndarray:
        """Lower bound on delta of "add" or "remove" at each epsilon >= 0, shape (n,)."""
        sign = 1.0 if direction == "remove" else -1.0
        return self._by_design(sign * epsilon, self._lower)

    def _by_design(self, log_strike: np.ndarray, laws) -> np.ndarray:
        place = _places(log_strike / self.spacing)
        found = np.zeros(log_strike.shape)
        idle, every = 0, np.unique(place)
        for j in every[np.argsort(np.abs(every), kind="stable")]:
            some = place == j
            bounds = [law.delta(log_strike[some]) for law in laws(_strike(j) * self.spacing)]
            found[some] = np.max(bounds, axis=0)
            idle = 0 if np.any(found[some]) else idle + 1
            if idle == _IDLE:
                break
        return found

    @lru_cache(maxsize=4)  # noqa: B019
    def _upper(self, log_strike: float) -> _Upper:
        return _Upper(self, design(self.a, self.size, self.k, log_strike))

    @lru_cache(maxsize=4)  # noqa: B019
    def _lower(self, log_strike: float) -> list[_Lower]:
        chosen = design(self.a, self.size, self.k, log_strike)
        return [_Lower(self, chosen._replace(tau=chosen.tau * share)) for share in _TILTS]


def _places(strike: np.ndarray) -> np.ndarray:
    """Whole numbers of the designs that serve strikes, given in units of the spacing: even, then geometric."""
    size = np.abs(strike)
    far = _EVEN * (1 + np.log(np.maximum(size, _EVEN) / _EVEN))
    return np.round(np.sign(strike) * np.where(size <= _EVEN, size, far))


def _strike(place: float) -> float:
    """The strike of a design, in units of the spacing; the inverse of `_places`."""
    size = abs(place)
    return float(np.sign(place) * (size if size <= _EVEN else _EVEN * np.exp(size / _EVEN - 1)))


class _Lower:
    """The two laws of the rounded statistic: each outcome's chance from below and from above."""

    def __init__(self, owner: ConditionalRatio, chosen: Design) -> None:
        size, k, tau = owner.size, owner.k, chosen.tau
        lattice = column(owner.a, chosen)
        index = lattice.index[:-1]
        plain, log_plain = _normalised(lattice.without, tau * lattice.step * index)
        hit, log_hit = _normalised(lattice.having, (tau - 1) * lattice.step * index)
        miss, log_miss = _normalised(lattice.without, (tau - 1) * lattice.step * index)
        window = Window(index, plain, size)
        s = lattice.step * window.outcomes
        without = _bounds(window, [(plain, size)], index, size * log_plain - tau * s)
        log_scale = k * log_hit + (size - k) * log_miss - (tau - 1) * s
        having = _bounds(window, [(hit, k), (miss, size - k)], index, log_scale)
        self.remove, self.add = _events(having, without), _events(without[:, ::-1], having[:, ::-1])

    def delta(self, log_strike: np.ndarray) -> np.ndarray:
        """Lower bound on delta at each log t, shape (n,), of one sign but for zeros: negative ones are of "add"."""
        # At 0 both directions are the same.
        ways = [
            x for x, sign in ((self.remove, 1), (self.add, -1)) if np.all(sign * log_strike >= 0)
        ]
        first, second = (np.hstack(pair) for pair in zip(*ways, strict=True))
        # Neighbouring events are hardly different, so that not all need to be tried.
        step = 1 + first.shape[1] // 2000 if log_strike.size > 1 else 1
        first, second = first[:, ::step].ravel(), second[:, ::step].ravel()
        found = np.empty(log_strike.shape)
        for start in range(0, log_strike.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            with np.errstate(over="ignore", invalid="ignore"):
                gain = first - np.exp(np.abs(log_strike[part]))[:, None] * second
            found[part] = np.max(np.where(np.isnan(gain), 0.0, gain), axis=1, initial=0.0)
        return found


def _events(first, second) -> tuple[np.ndarray, np.ndarray]:
    """Chances of events, of the first law from below and of the second from above, shapes (2, n): any will do.

    They are the outcomes from one on, and all but those before it: with what lies outside the window, where single
    large X put S if few of many iterations are hit.
    """
    chance, against = (np.cumsum(x[::-1])[::-1] for x in (first[0], second[1]))
    least, most = (1 - np.append(0.0, np.cumsum(x)[:-1]) for x in (first[1], second[0]))
    some = np.isfinite(against) & (chance > 0)
    some = some if np.any(some) else least > 0
    least, most = least - 8 * _ROUNDING, most + 8 * _ROUNDING
    return np.stack([chance, least])[:, some], np.stack([against, most])[:, some]


def _normalised(mass: np.ndarray, log_tilt: np.ndarray) -> tuple[np.ndarray, float]:
    """The tilted masses divided by their sum, and its log."""
    with np.errstate(divide="ignore"):
        log_weight = np.log(mass) + log_tilt
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    total = weight.sum()
    return weight / total, float(np.log(total) + top)


def _bounds(window: Window, kinds, index: np.ndarray, log_scale: np.ndarray):
    """Bounds on the untilted chances of the outcomes, from below and above, shape (2, n)."""
    product = 1.0
    for weight, count in kinds:
        product = product * powers(window.transform(weight), count)
    mass, noise = window.sums(product)
    noise += np.exp(min(log_outside(index, kinds, *window.outcomes[[0, -1]]), 0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.exp(log_scale)
        low = np.maximum(mass - noise, 0.0) * scale * (1 - _RELATIVE)
        high = (np.maximum(mass, 0.0) + noise) * scale * (1 + _RELATIVE)
    low, high = np.nan_to_num(low, posinf=0.0), np.nan_to_num(high, nan=np.inf, posinf=np.inf)
    return np.stack([low, high])


class _Upper:
    """Moments of p given S, and what bounds the outcomes far below the strike."""

    def __init__(self, owner: ConditionalRatio, chosen: Design) -> None:
        self.size, self.k, self.chosen = owner.size, owner.k, chosen
        lattice = column(owner.a, chosen)
        self.tails = self.k * lattice.tail_having + (self.size - self.k) * lattice.tail_without
        self.column_s, self.value = lattice.step * lattice.index, lattice.value
        self.mass = lattice.spread()
        self.weight, self.log_total = _normalised(self.mass, chosen.tau * self.column_s)
        self.hit, self.miss = -np.expm1(-self.column_s), np.exp(-self.column_s)
        self.log_front = -float(log_choose(self.size, self.k)) - self.k * chosen.log_r
        window = Window(lattice.index, self.weight, self.size)
        self.s = lattice.step * window.outcomes
        self._convolve(window)

    def _convolve(self, window: Window) -> None:
        """Mass, mean and second moment of p for each S, under the tilt."""
        size, k = self.size, self.k
        kinds = {
            "hit": self.weight * self.hit,
            "miss": self.weight * self.miss,
            "both": self.weight * self.hit**2,
            "one": self.weight * self.hit * self.miss,
            "none": self.weight * self.miss**2,
        }
        total = {name: float(law.sum()) for name, law in kinds.items()}
        wave = {name: window.transform(law / total[name]) for name, law in kinds.items()}
        mass, noise = window.sums(powers(window.transform(self.weight), size))
        self.mass_high = np.maximum(mass, 0.0) + noise
        log_once = k * np.log(total["hit"]) + (size - k) * np.log(total["miss"])
        once, noise = window.sums(powers(wave["hit"], k) * powers(wave["miss"], size - k))
        scale = np.exp(log_once + log_choose(size, k))  # a chance
        self.once_low = np.maximum(once - noise, 0.0) * scale * (1 - _RELATIVE)
        self.once_high = (np.maximum(once, 0.0) + noise) * scale * (1 + _RELATIVE)
        product, log_twice = _two_rows(wave, total, size, k)
        twice, noise = window.sums(product)
        self.twice_high = (np.maximum(twice, 0.0) + noise) * np.exp(log_twice) * (1 + _RELATIVE)

    @cached_property
    def log_above(self) -> float:
        """log of a bound on P(S above the window): there L <= exp(S + log_front)."""
        powers = max(self.chosen.tau, 1.0) + np.geomspace(0.01, 8.0, 24)
        log_moment = [_normalised(self.mass, x * self.column_s)[1] for x in powers]
        bound = self.size * np.array(log_moment) + (1 - powers) * self.s[-1]
        return float(np.min(bound) + self.log_front)

    @cached_property
    def log_powers(self) -> np.ndarray:
        """log of bounds on the tilted mean of p^n for each n of _POWERS."""
        spread = self.hit * self.miss
        mean = max(self.size * float(self.weight @ spread), 1e-6)
        rate = _CHERNOFF / mean
        with np.errstate(divide="ignore"):
            log_laplace = self.size * np.log([self.weight @ np.exp(-x * spread) for x in rate])
        edge = np.linspace(0.0, min(1.5 * mean, self.size / 4), _BINS)[1:]
        log_below = np.minimum(np.min(rate[:, None] * edge + log_laplace[:, None], axis=0), 0.0)
        log_f = log_largest_chance(np.append(0.0, edge), self.size)
        n = _POWERS[:, None]
        with np.errstate(divide="ignore"):
            # f^n is at most its value at the last edge, and more by each step that V has not come to.
            steps = n * log_f[:-1] + np.log(-np.expm1(n * np.diff(log_f))) + log_below
        by_spread = np.logaddexp.reduce(np.column_stack([_POWERS * log_f[-1], steps]), axis=1)
        return np.minimum(by_spread, self._log_powers_by_mean())

    def _log_powers_by_mean(self) -> np.ndarray:
        """The same by Maclaurin's inequality: k log(mean of X) <= k (log m + mean / m - 1) for any m."""
        log_m = self.chosen.log_strike / self.k
        slope = self.k / self.size * np.exp(-log_m) * self.value - self.column_s
        log_column = np.array([_normalised(self.weight, n * slope)[1] for n in _POWERS])
        return self.size * log_column + _POWERS * (self.k * (log_m - 1) - self.log_front)

    def delta(self, log_strike: np.ndarray) -> np.ndarray:
        """Upper bound on delta at each log t >= 0, shape (n,)."""
        return np.array([self._delta(float(x)) for x in log_strike])

    def _delta(self, log_t: float) -> float:
        tau = self.chosen.tau
        level = log_t - self.log_front - self.chosen.log_chance  # the S at which L is typically t
        cut = level - _CUTS
        cut = cut[cut >= self.s[0]]
        steep = tau < _POWERS
        if cut.size == 0 or not np.any(steep):
            return 1.0
        part = slice(int(np.searchsorted(self.s, cut[-1])), None)
        near = self._near(log_t, part)
        at = np.searchsorted(self.s[part], cut, side="right")
        above = np.append(np.cumsum(near[::-1])[::-1], 0.0)[at]
        n = _POWERS[steep].astype(float)
        log_far = (n - 1) * np.log(n - 1) - n * np.log(n) - (n - 1) * log_t
        log_far += n * self.log_front + self.log_powers[steep] + self.size * self.log_total
        log_far = np.min(log_far[:, None] + (n - tau)[:, None] * cut, axis=0)
        found = np.min(above + np.exp(np.minimum(log_far, 0.0))) * (1 + 10 * _RELATIVE)
        return float(min(found + np.exp(min(self.log_above, 0.0)) + self.tails, 1.0))

    def _near(self, log_t: float, part: slice) -> np.ndarray:
        """B for the outcomes of a part of the window."""
        s, mass = self.s[part], self.mass_high[part]
        log_scale = log_t + self.size * self.log_total - self.chosen.tau * s
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = np.exp(s + self.log_front - log_t)  # L = t ratio p
            low, high = self.once_low[part] * ratio, self.once_high[part] * ratio
            second = mass * self.twice_high[part] * ratio**2
            square = second - 2 * low * mass + mass**2
            root = np.sqrt(np.maximum(square, 0.0) + 8 * _ROUNDING * (second + mass**2))
            value = np.minimum((root + high - mass) / 2, high) * np.exp(log_scale)
        # An undecided outcome counts as certain failure.
        return np.where(np.isfinite(value), value, np.inf)


def _two_rows(wave, total, size: int, k: int) -> tuple[np.ndarray, float]:
    """Transform of the sum over columns, weighed by the chance that two rows of hits have k each.

    Args:
        wave: normalised transforms of the columns hit in both rows, in one given row only, in none.
        total: their scales.
        size: T.
        k: hits of a row.

    Returns:
        the transform, normalised, and the log of its scale.
    """
    # The rows share at least 0 or 2 k - T hits, and at most k.
    steps = min(k, size - k)
    least = k - steps
    shared = least + np.arange(steps + 1)
    none = size - 2 * k + shared
    log_term = gammaln(size + 1) - gammaln(shared + 1) - 2 * gammaln(k - shared + 1)
    log_term += shared * np.log(total["both"]) + 2 * (k - shared) * np.log(total["one"])
    log_term += none * np.log(total["none"]) - gammaln(none + 1)
    scale = float(np.logaddexp.reduce(log_term))
    share = np.exp(log_term - scale)
    modulus = np.max([np.abs(wave[x]) for x in ("both", "one", "none")], axis=0)
    with np.errstate(divide="ignore"):
        some = size * np.log(modulus) > NEGLIGIBLE
    both, one, neither = (wave[x][some] for x in ("both", "one", "none"))
    pair, apart = both * neither, one**2
    turned = np.abs(pair) > np.abs(apart)
    # A polynomial in one of the two over the other, whichever is at most one.
    ratio = np.where(turned, apart, pair) / np.where(turned, pair, apart)
    result = np.zeros_like(ratio)
    for up, down in zip(share[::-1], share, strict=True):
        result = result * ratio + np.where(turned, down, up)
    result *= np.where(turned, pair, apart) ** steps * both**least * neither ** none[0]
    product = np.zeros(modulus.size, dtype=complex)
    product[some] = result
    return product, scale
