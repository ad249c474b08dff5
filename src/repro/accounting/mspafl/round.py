"""MS-PAFL: what a round of averaged noisy uploads really discloses about one record.

Neighbouring data sets differ in one record of one client, which is replaced (Definition 2 and (C.3)
of the paper): the client's clipped public half may then move by 2 C, and nobody else's moves. Three
hidden things can help: whether the client checked in, who else did, whether the record was drawn.

Formal statement. Let k clients have checked in, each equally likely, and let an adversary see k and
the average of their uploads, with the noise N(0, sigma^2 / k) that is left in it. Then for
alpha = exp(epsilon) >= 1 the supremum of the hockey-stick divergence over all data sets and over both
directions is

    delta(epsilon) = E_k [ g_k D(2 C / (sigma sqrt(k)), 1 + (alpha - 1) / g_k) ],   g_k = q k / N,

with D of `_gaussian`. Proof. Draw the set of the k as follows: a set A of k - 1 others, one more
other j, and a coin that says with probability k / N that the client in question completes the set,
else j; that gives every set of size k the same probability. Reveal A and j. What is left to guess is
a mixture of common parts of weight 1 - g_k and one part of weight g_k that depends on the record, all
of them Gaussians of one covariance with means in a ball of diameter 2 C / k. By advanced joint
convexity (Theorem A.1 of random_participation) the divergence is at most g_k times one between two
such Gaussians at the weight 1 + (alpha - 1) / g_k. Equality: everybody sends -C but the client when
it uses the record, which sends C. With N = 1 this is a server that sees the upload itself; with the
participants known, the weight k / N of the client's presence moves out of g_k to the front.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.special import ndtr
from scipy.stats import binom

from repro._validate import flag, in_unit, integer, positive
from repro.accounting._binomial import window
from repro.accounting._discretise import optimistic
from repro.accounting._gaussian import log_expm1, log_shift_divergence, log_sum
from repro.accounting._pld import mixed, one_sided
from repro.accounting.gaussian import PoissonGaussian
from repro.accounting.mechanism import Mechanism, frozen_fields

__all__ = ["CELL_ROUNDING", "LARGEST_EPSILON", "SELDOM", "AveragedUploads", "gaussian_cells"]

_CELL = 1 / 14  # of the discretised outputs, in standard deviations
_REACH = 8.0
_FAR = 60.0  # standard deviations of a shift beyond which a larger one tells no more
_BARE = 1e30  # a distance that every larger one may be lowered to, so that squares stay doubles
_FLOOR = 1e-30  # added to every upper bound, so that composed tails do not underflow
CELL_ROUNDING = 4e-12  # relative error of a cell's mass, see `_log_cell_divergence`
LARGEST_EPSILON = 700.0  # beyond it exponentials overflow, and 0 is the lower bound
_LIGHTEST = 1e-15  # numbers of participants less likely than this get no cells of their own


_TOGETHER = 500
"""Numbers of participants whose divergences are held at once: 80 MB with 20,000 steps of the trapezoidal rule."""

SELDOM = 1e-3
"""Chance of losses below which they are so rare that the variance of their sum says nothing about their size."""

_APART = 250
"""Every so many steps are looked at to see which numbers of participants matter."""

_FAINT = 50.0
"""Logarithm by which the divergence of a number is below the largest at all of these, to be left out."""


@dataclass(frozen=True, eq=False)
class AveragedUploads(Mechanism):
    """One round as seen by one who sees the average of the uploads, or (clients=1) an upload itself.

    Formal guarantee: "upper" is the supremum of the module's statement, exact for an adversary who
    knows how many clients checked in. "lower" is what an explicit pair of data sets leaks, in a model
    with one public coordinate, to one who sees the average only (further coordinates tell more about
    the number); for clients = 1 and for known participants both coincide. Replacing a record makes the
    directions alike. The method "paper" raises ValueError: the printed bounds are functions in `mspafl.printed`.

    A round is meant with everything before it fixed. Where clients carry something from round to round
    that depends on their data (the private half), the data-sampling coins of earlier rounds still
    decide what is sent: then q = 1, however few records a round draws, and many rounds are accounted
    for in `mspafl.run`. Composition of this class is right where nothing is carried over.

    Args:
        sigma: standard deviation of the noise on one upload, > 0 (scalar or array).
        p: check-in probability of every client, in [0, 1].
        q: probability that a client which checks in uses the record, in [0, 1].
        clients: N >= 1; 1 for a server that sees every upload.
        clip: largest norm C of a public half, > 0; uploads of neighbours differ by at most 2 C.
        participants_known: the adversary of the average also knows who checked in.
    """

    printed_in: ClassVar[str] = "repro.accounting.mspafl.printed"

    sigma: float
    _: KW_ONLY
    p: float
    q: float = 1.0
    clients: int = 1
    clip: float = 1.0
    participants_known: bool = False

    def __post_init__(self) -> None:
        frozen_fields(self, sigma=positive, p=in_unit, q=in_unit, clip=positive)
        integer("clients", self.clients, 1)
        flag("participants_known", self.participants_known)

    @property
    def _open(self) -> bool:
        """Whether the adversary knows who is behind what it sees."""
        return self.participants_known or self.clients == 1

    @property
    def ratio(self) -> float | np.ndarray:
        """2 C / sigma, the distance of two uploads, at most 1e30."""
        with np.errstate(over="ignore"):
            return np.minimum(2 * np.divide(self.clip, self.sigma), _BARE)

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        epsilon, ratio, p, q = np.broadcast_arrays(epsilon, self.ratio, self.p, self.q)
        flat = [np.ravel(x).astype(float) for x in (epsilon, ratio, p, q)]
        if method == "lower" and not self._open:
            value = _log_cell_divergence(*flat, self.clients)
        else:
            value = _log_known_number(*flat, self.clients, self._open, method)
        return value.reshape(epsilon.shape)

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """The same in both directions, because a record is replaced; scalar fields only.

        "upper" is that of the pair that dominates, from its profile, up to the error of a trapezoidal
        rule of 20,000 steps. "lower" is the same where it is attained (see the class), and otherwise that of
        the explicit pair's cells.

        exp((alpha - 1) R) = 1 + alpha (alpha - 1) Int_0^inf (e^((alpha-1) x) + e^(-alpha x)) delta(x) dx,
        which is the second moment formula for the hockey-stick curve of a replaced record. A plain
        number, neither bound: the integral is a trapezoidal sum of 20,000 steps without a bound on its error.
        """
        self.need_scalars("rdp")
        with np.errstate(over="ignore"):
            ratio = float(2 * np.divide(self.clip, self.sigma))
        if method == "lower" and not self._open:
            return _cell_divergences(alpha, ratio, self.p, self.q, self.clients)
        if ratio > _BARE:
            raise ValueError(
                f"sigma must be at least {2 / _BARE} clips for Renyi divergences, got "
                f"{self.sigma!r} with clip={self.clip!r}"
            )
        if self.p * self.q == 0:
            return np.zeros(alpha.shape)
        end = ratio**2 * (np.max(alpha) + 1) + 12 * ratio
        x = np.linspace(0.0, end, 20_001)[:, None]
        k = np.arange(1, self.clients + 1)  # all of them: high orders feel the least likely ones
        log_chance = binom.logpmf(k, self.clients, self.p)

        def terms(x, some):
            given = self.q, k[some], log_chance[some], self.clients, self._open
            return _log_terms(x, ratio, *given)

        rough = terms(x[::_APART], slice(None))
        kept = np.flatnonzero(np.any(rough > rough.max(axis=1, keepdims=True) - _FAINT, axis=0))
        parts = [
            log_sum(terms(x, kept[at : at + _TOGETHER]), axis=1)
            for at in range(0, kept.size, _TOGETHER)
        ]
        a = alpha.reshape(-1, 1)
        log_f = np.logaddexp.reduce(parts) + np.logaddexp((a - 1) * x[:, 0], -a * x[:, 0])
        log_w = np.log(np.where((x == 0) | (x == end), 0.5, 1.0)[:, 0] * (x[1, 0] - x[0, 0]))
        log_integral = log_sum(log_f + log_w, axis=1)
        value = np.logaddexp(0.0, np.log(a * (a - 1))[:, 0] + log_integral) / (a[:, 0] - 1)
        return value.reshape(alpha.shape)

    def loss_step(self, method: str) -> float | None:
        """A share of the typical loss: rounding costs to second order, but down half a step a round of sparse cells."""
        # A record that hardly ever takes part needs no finer grid than the losses of when it does.
        present = max(self.p, SELDOM)
        far = _FAR * np.sqrt(self.clients) if method == "lower" and self.clients > 1 else np.inf
        typical = min(self.ratio, far) * self.q * np.sqrt(present / self.clients)
        share = 10 if method != "lower" else 50 if self.clients == 1 else 200
        return float(typical / share) or None

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        if method != "lower":
            return super().losses(method, interval)
        if self.clients == 1 and self.p > 0:
            upload = PoissonGaussian(self.sigma, rate=self.q, sensitivity=2 * self.clip)
            pair = one_sided(upload.losses(method, interval))
            return PrivacyLossDistribution(*(mixed(side, float(self.p)) for side in pair))
        with_record, without = _cells(
            float(2 * self.clip / self.sigma), self.p, self.q, self.clients, self._open
        )
        return optimistic((with_record, without), (without, with_record), interval)


def _participants(p: np.ndarray, clients: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers k of participants and log probabilities, shape (n, width), and what lies outside."""
    some, place = np.unique(p, return_inverse=True)
    counts, log_chance, tail = window(clients, some)
    return counts[place], log_chance[place], tail[place]


def _log_terms(epsilon, ratio, q, counts, log_chance, clients: int, open_: bool) -> np.ndarray:
    """Logarithms of the terms of the module's formula, one for each number of participants."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_share = np.log(counts / clients)
        log_q = np.log(q)
        log_rate = log_q if open_ else log_q + log_share
        front = log_chance + log_share + log_q
        log_weight = np.logaddexp(0.0, log_expm1(epsilon) - log_rate)
        inner = log_shift_divergence(ratio / np.sqrt(counts), log_weight)
        return np.where(np.isfinite(front), front + inner, -np.inf)


def _log_known_number(epsilon, ratio, p, q, clients: int, open_: bool, method: str) -> np.ndarray:
    """The module's formula; all arrays of shape (n,). Below, numbers without a place in the sum count nothing."""
    counts, log_chance, tail = _participants(p, clients)
    column = (x[:, None] for x in (epsilon, ratio, q))
    terms = _log_terms(*column, counts, log_chance, clients, open_)
    if method == "lower":
        return log_sum(terms, axis=1)
    return np.logaddexp(log_sum(terms, axis=1), np.log(np.maximum(tail, _FLOOR)))


def _log_cell_divergence(epsilon, ratio, p, q, clients: int) -> np.ndarray:
    """Divergence of the explicit pair, the larger direction, from its cells; arrays of shape (n,).

    Reporting a cell is post-processing, so no quadrature is behind the value. Masses carry rounding:
    6e-14 for a tail, times 2 / `_CELL` for the difference of two, and 2e-13 for a binomial weight.
    `CELL_ROUNDING` is twice their sum; it lowers what counts and raises what counts against. The first
    cell, a difference from 1, is left out of the event.
    """
    settings, place = np.unique(np.stack([ratio, p, q], axis=1), axis=0, return_inverse=True)
    place = place.reshape(-1)
    value = np.zeros(epsilon.shape)
    for k, setting in enumerate(settings):
        first, second = (x[1:] for x in _cells(*map(float, setting), clients, False))
        low, high = 1 - CELL_ROUNDING, 1 + CELL_ROUNDING
        rows = np.flatnonzero(place == k)
        rows = rows[epsilon[rows] < LARGEST_EPSILON]
        alpha = np.exp(epsilon[rows])[:, None]
        value[rows] = np.maximum(
            np.maximum(low * first - alpha * (high * second), 0.0).sum(1),
            np.maximum(low * second - alpha * (high * first), 0.0).sum(1),
        )
    with np.errstate(divide="ignore"):
        return np.log(value)


def _cell_divergences(
    alpha: np.ndarray, ratio: float, p: float, q: float, clients: int
) -> np.ndarray:
    """Renyi divergences of the explicit pair, the larger direction, from its cells; any shape.

    The first cell's masses are differences from 1, hence precise absolutely and not relatively. A
    tangent bounds its term x^alpha y^(1 - alpha) from below without dividing by them.
    """
    masses = _cells(ratio, p, q, clients, False)
    order = alpha[..., None]
    curves = []
    for x, y in (masses, masses[::-1]):
        rest = np.maximum(alpha * x[0] - (alpha - 1) * y[0], 0.0)
        both = (x > 0) & (y > 0)
        both[0] = False
        with np.errstate(divide="ignore"):
            terms = order * np.log(x[both]) + (1 - order) * np.log(y[both])
            log_moment = np.logaddexp(log_sum(terms, axis=-1), np.log(rest)) if both.any() else 0.0
        curves.append(log_moment / (alpha - 1))
    return np.maximum(np.maximum(*curves), 0.0)


def gaussian_cells(
    edges: np.ndarray, mean: float | np.ndarray, deviation: float | np.ndarray
) -> np.ndarray:
    """Masses of a Gaussian between consecutive edges, each from the tail in which it lies.

    Args:
        edges: ascending, shape (m,), or broadcast with the others along the last axis; may be infinite.
        mean: a number, or of shape (n, 1) for n Gaussians.
        deviation: > 0, likewise.

    Returns:
        masses of shape (m - 1,) or (n, m - 1).
    """
    z = (edges - mean) / deviation
    below, above = ndtr(z), ndtr(-z)
    left, right = np.diff(below, axis=-1), -np.diff(above, axis=-1)
    return np.maximum(np.where(z[..., 1:] < 0, left, right), 0.0)


@lru_cache(maxsize=512)
def _cells(
    ratio: float, p: float, q: float, clients: int, open_: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of the cells of an output grid, with the record drawn at rate q and without.

    Reporting a cell is post-processing, so the explicit pair leaks at least what these two leak.
    Units: the noise of one upload; everybody sends 0 but the client, which sends `ratio` when it uses
    the record, or less where the ratio is so large that nothing more can be told: a smaller shift leaks less. What
    has been left out is common to both and stands in the first cell.
    """
    ratio = min(ratio, _FAR * np.sqrt(1 if open_ else clients))
    counts, log_chance, _ = _participants(np.array([p]), clients)
    chance = np.exp(log_chance[0])
    kept = (counts[0] > 0) & (chance > _LIGHTEST)
    k, chance = counts[0][kept][:, None], chance[kept][:, None]
    if not k.size:
        return np.ones(1), np.ones(1)
    share = k / clients
    if open_:
        edges = np.arange(-_REACH, np.max(ratio / np.sqrt(k)) + _REACH, _CELL)
        rest, moved = (gaussian_cells(edges, m / np.sqrt(k), 1.0) for m in (0.0, ratio))
        without = chance * share * rest
        with_record = chance * share * ((1 - q) * rest + q * moved)
    else:
        span = _REACH / np.sqrt(np.min(k))
        edges = np.arange(-span, np.max(ratio / k) + span, _CELL / np.sqrt(np.max(k)))
        rest, moved = (gaussian_cells(edges, m / k, 1 / np.sqrt(k)) for m in (0.0, ratio))
        without = np.sum(chance * rest, axis=0)
        with_record = np.sum(chance * ((1 - q * share) * rest + q * share * moved), axis=0)
    return (
        np.concatenate([[1 - with_record.sum()], with_record.ravel()]),
        np.concatenate([[1 - without.sum()], without.ravel()]),
    )
