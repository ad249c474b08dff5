"""MS-PAFL: a whole run with a private half that is kept, as a mechanism; the statements are those of `run`.

Upper. Given W the run is a Gaussian mechanism of ratio sqrt(W), and the law of W does not depend on the data, so
that the profile is the mean of profiles, and the loss distribution that of the profile. What `exposure` leaves
out counts as certain loss.

Lower. Attackers of explicit pairs, each with a whole curve of error rates:

* the first round alone, in which nothing has been kept yet;
* a server: the number K of uploads and their weighted sum. The sum is a mixture of Gaussians over the upload j of
  the first draw, and rises with the record. Grouped K and j stand at their unfavourable ends, which lowers the
  mixture stochastically, and with it the true-positive rate of every threshold;
* one who sees averages: wait for some rounds, within which the record is drawn with probability h, and look at
  those that follow. With P those rounds after a draw and Q without the record, the true law is at least h P, so
  that true-positive rates are at least h times those of P against Q: masses times h, losses plus ln h. Exchanging
  the two values of the replaced record gives the same for Q against P.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from repro._validate import in_unit, integer, positive
from repro.accounting._discretise import optimistic, pessimistic
from repro.accounting._gaussian import log_shift_divergence, log_sum
from repro.accounting._losses import RUN_ERROR, charge, profile
from repro.accounting._pld import losses, on_grid, one_sided, self_compositions
from repro.accounting.mechanism import SMALLEST_STEP, Mechanism, frozen_fields
from repro.accounting.mspafl.round import CELL_ROUNDING, LARGEST_EPSILON, SELDOM, AveragedUploads
from repro.accounting.mspafl.run import exposure, run_delta, server_laws

__all__ = ["CarriedRun"]

_CELLS = 4_000_000
_BEYOND = 1e-13  # probability that `exposure` leaves out at most
_WAITS = np.array([0.5, 1, 1.5, 2, 3, 4, 6, 8])  # in mean times to a draw


@dataclass(frozen=True, eq=False)
class CarriedRun(Mechanism):
    """T rounds of MS-PAFL whose clients keep a private half that remembers every record ever drawn.

    Formal guarantee: "upper" holds for every pair of data sets that differ in one replaced record, "lower" is
    reached by an explicit pair (see the module). Directions are alike. The method "paper" raises ValueError: the
    printed bounds are functions in `mspafl.printed`.

    Args:
        sigma: standard deviation of the noise on one upload, > 0.
        rounds: T >= 1.
        p: check-in probability of every client, in [0, 1].
        q: probability that a client which checks in uses the record, in [0, 1].
        clients: N >= 1 for one who sees the averages; 1 for a server that sees every upload.
        clip: largest norm C of a public half, > 0; uploads of neighbours differ by at most 2 C.

    Raises:
        ValueError: an argument out of range, or an array.
    """

    printed_in: ClassVar[str] = "repro.accounting.mspafl.printed"

    sigma: float
    _: KW_ONLY
    rounds: int
    p: float
    q: float = 1.0
    clients: int = 1
    clip: float = 1.0

    def __post_init__(self) -> None:
        frozen_fields(self, sigma=positive, p=in_unit, q=in_unit, clip=positive)
        integer("rounds", self.rounds, 1)
        integer("clients", self.clients, 1)
        self.need_scalars("CarriedRun")

    @property
    def _ratio(self) -> float:
        return float(self._first.ratio)

    @property
    def _hazard(self) -> float:
        """Probability that the record is drawn in a round."""
        return self.p * self.q

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        at = np.ravel(epsilon)
        if self._hazard == 0:
            return np.full(np.shape(epsilon), -np.inf)
        if method == "upper":
            value = run_delta(
                at, self.rounds, ratio=self._ratio, p=self.p, q=self.q, clients=self.clients
            )
        elif self.clients == 1:
            value = self._server_delta(at)
        else:
            value, sides = np.zeros(at.shape), (x for pair in self._waited for x in one_sided(pair))
            told = [(_above(pmf, at.min()), pmf) for pmf in sides] if at.size else []
            for most, pmf in sorted(told, key=lambda one: -one[0]):
                if most > value.min():
                    delta = profile(pmf, at)
                    value = np.maximum(value, delta + charge(pmf, "lower", 1)(delta))
        with np.errstate(divide="ignore"):
            first = self._first.log_delta(at, direction, method) if method == "lower" else -np.inf
            return np.maximum(np.log(np.maximum(value, 0.0)), first).reshape(np.shape(epsilon))

    def _server_delta(self, epsilon: np.ndarray) -> np.ndarray:
        """What the server's cells tell apart, the larger direction, shape (n,); rounding counts against it."""
        laws = server_laws(self.rounds, self._ratio, self.p, self.q)
        weight = np.exp(np.minimum(epsilon, LARGEST_EPSILON))[:, None] * (1 + CELL_ROUNDING)
        gains = (
            np.maximum((1 - CELL_ROUNDING) * first - weight * second, 0.0).sum(axis=1)
            for first, second in (laws, laws[::-1])
        )
        return np.where(epsilon < LARGEST_EPSILON, np.maximum(*gains), 0.0)

    @property
    def _first(self) -> AveragedUploads:
        """The first round."""
        return AveragedUploads(self.sigma, p=self.p, q=self.q, clients=self.clients, clip=self.clip)

    def loss_step(self, method: str) -> float | None:
        """See `Mechanism.loss_step`."""
        if self._hazard == 0:
            return None
        values, chance = exposure(self.rounds, self.p, self.q, self.clients)
        drawn = chance[values > 0].sum()
        if drawn == 0:
            return None
        typical = self._ratio * float(np.sqrt(values @ chance / min(1.0, drawn / SELDOM)))
        return typical / (1000 if method == "lower" else 100)

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`; for "lower" those of one of the attackers."""
        if self._hazard == 0:
            return pld_lib.identity(interval, pessimistic_estimate=method != "lower")
        if method == "lower":
            *_, last = self.lower_pairs(interval)
            return last
        (side,) = one_sided(pessimistic(self._log_mean, self._log_mean, interval), "remove")
        step, first, mass, infinite = losses(side)
        return PrivacyLossDistribution(
            pld_pmf.DensePLDPmf(step, first, mass, infinite + _BEYOND, True)
        )

    def _log_mean(self, epsilon: np.ndarray) -> np.ndarray:
        """log of the mean profile over the law of W, without what the law leaves out; shape (n,)."""
        values, chance = exposure(self.rounds, self.p, self.q, self.clients)
        some = (chance > 0) & (values > 0)
        shift, log_chance = self._ratio * np.sqrt(values[some]), np.log(chance[some])
        if shift.size == 0:  # so rare a draw that rounding has left none of it
            return np.full(epsilon.shape, -np.inf)
        step = max(1, _CELLS // shift.size)
        return np.concatenate(
            [
                log_sum(
                    log_chance + log_shift_divergence(shift, epsilon[k : k + step, None]), axis=1
                )
                for k in range(0, epsilon.size, step)
            ]
        )

    def lower_pairs(self, interval: float) -> Iterator[PrivacyLossDistribution]:
        """See `Mechanism.lower_pairs`."""
        if self._hazard == 0:
            yield self.losses("lower", interval)
            return
        for pair in self._each_attacker(interval):
            yield pair
            # The two values of the replaced record may change places.
            yield PrivacyLossDistribution(*one_sided(pair)[::-1])

    def _each_attacker(self, interval: float) -> Iterator[PrivacyLossDistribution]:
        """The attackers of the module, whose positives say that the record was drawn, or not."""
        yield self._first.losses("lower", interval)
        if self.clients == 1:
            with_record, without = server_laws(self.rounds, self._ratio, self.p, self.q)
            yield optimistic((with_record, without), (without, with_record), interval)
        for pair in self._waited:
            yield PrivacyLossDistribution(*(on_grid(side, interval) for side in one_sided(pair)))

    @cached_property
    def _waited(self) -> list[PrivacyLossDistribution]:
        """What is told by the rounds after a wait, for several waits."""
        every = np.ceil(_WAITS / self._hazard) if self._hazard and self.clients > 1 else []
        waits = [int(wait) for wait in np.unique(every) if wait < self.rounds]
        if not waits:
            return []
        round_after = AveragedUploads(self.sigma, p=self.p, clients=self.clients, clip=self.clip)
        step = max(round_after.loss_step("lower") or 0.0, SMALLEST_STEP)
        single = round_after.losses("lower", step)
        left = [self.rounds - wait for wait in waits]
        runs = zip(*(self_compositions(side, left) for side in one_sided(single)), strict=True)
        with np.errstate(divide="ignore"):  # a hazard of 1 draws in the first round
            drawn = [-np.expm1(wait * np.log1p(-self._hazard)) for wait in waits]
        return [
            PrivacyLossDistribution(*(_scaled(side, h, RUN_ERROR * number) for side in sides))
            for h, sides, number in zip(drawn, runs, left, strict=True)
        ]


def _above(pmf: pld_pmf.PLDPmf, epsilon: float) -> float:
    """Mass of the losses from epsilon on, or a little more: at least the divergence there."""
    step, first, mass, infinite = losses(pmf)
    return float(mass[max(int(epsilon / step) - first - 1, 0) :].sum() + infinite)


def _scaled(pmf: pld_pmf.PLDPmf, share: float, error: float) -> pld_pmf.PLDPmf:
    """Losses of a law of which only a share is certain to be there, rounded downwards.

    Its composition is rounded: sums of its masses are off by at most `error`, which the highest losses give up.
    """
    interval, first, mass, _ = losses(pmf)
    at_least = np.maximum.accumulate(np.cumsum(mass[::-1]))
    mass = np.diff(np.maximum(at_least - error, 0.0), prepend=0.0)[::-1]
    moved = int(np.floor(np.log(share) / interval - 1e-9))
    return pld_pmf.DensePLDPmf(interval, first + moved, share * mass, 0.0, False)
