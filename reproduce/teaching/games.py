"""The attack game: is the record in, or out? The learner's attack beside the best one and the promise.

Both worlds are mixtures of normal or Laplace laws on a line or in the plane. All curves are computed on a grid and
not from samples, so that a curve that crosses a bound crosses it in truth and not by luck. Only the numbers that a
learner judges by hand are drawn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import binomtest

from repro._validate import choice, in_unit, positive
from repro.report import style
from reproduce.papers.second_routes import Mixture

BY_HAND = 20
"""Numbers that a learner judges by hand."""

_POINTS = {1: 4001, 2: 301}  # grid points on each axis
_REACH = {"normal": 8.0, "laplace": 14.0}  # margin of the grid in standard deviations

Score = Callable[[np.ndarray], Any]


def allowed(fpr: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """Largest true positive rate under (epsilon, delta), in both directions of the definition.

    Args:
        fpr: false positive rates in [0, 1], any shape.
        epsilon, delta: the promise.
    """
    fpr = in_unit("fpr", fpr)
    one, other = np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - delta - fpr)
    return np.minimum(1.0, np.minimum(one, other))


@dataclass(frozen=True)
class Game:
    """One release is seen; the attacker says whether the record was in.

    Args:
        inside, outside: what is released without noise with the record and without it.
        sigma: standard deviation of the noise, > 0.
        seed: of the numbers that are judged by hand.
        law: of the noise in each coordinate, "normal" or "laplace".

    Raises:
        ValueError: sigma is not positive, or there is no such law.
    """

    inside: Mixture
    outside: Mixture
    sigma: float
    seed: int = 0
    law: str = "normal"

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        choice("law", self.law, _REACH)

    def numbers(self, count: int = BY_HAND) -> np.ndarray:
        """Releases to be judged by hand, shape (count, dimensions); each world has an even chance."""
        return self._drawn(count)[0]

    def judged(self, decisions: str | Sequence[str] | None) -> tuple[int, int, int, int] | None:
        """Hits, records that were in, false alarms, records that were out; None without decisions.

        Args:
            decisions: one letter a number, "i" for in and "o" for out, as a text or a list; blanks, commas
                and line breaks are left out, and capital letters count as small ones.

        Raises:
            ValueError: another letter, or more letters than there are numbers.
        """
        if not decisions:
            return None
        letters = re.sub(r"[\s,]", "", "".join(decisions)).lower()
        if set(letters) - set("io"):
            raise ValueError(f"decisions must hold the letters i and o only, got {decisions!r}")
        if len(letters) > BY_HAND:
            raise ValueError(f"decisions must hold {BY_HAND} letters, got {len(letters)}")
        said = np.array([letter == "i" for letter in letters])
        truth = self._drawn(len(said))[1]
        return (
            int(np.sum(said & truth)),
            int(np.sum(truth)),
            int(np.sum(said & ~truth)),
            int(np.sum(~truth)),
        )

    def best(self) -> tuple[np.ndarray, np.ndarray]:
        """False and true positive rates of the best possible attack, by the ratio of the two densities."""
        _, inside, outside = self._masses()
        inside_first = np.argsort(
            np.log(np.maximum(outside, 1e-300)) - np.log(np.maximum(inside, 1e-300))
        )
        return _cumulated(inside[inside_first], outside[inside_first])

    def curve(self, score: Score) -> tuple[np.ndarray, np.ndarray] | None:
        """False and true positive rates of an attack that says "in" at high scores.

        Args:
            score: takes the releases, shape (n,) on a line and (n, 2) in the plane, and gives n numbers.

        Returns:
            two arrays that rise from 0 to 1, or None where the score is not written yet.

        Raises:
            ValueError: the score has another shape.
        """
        places, inside, outside = self._masses()
        values = score(places[:, 0] if places.shape[1] == 1 else places)
        if values is None or values is ...:
            return None
        values = np.asarray(values, dtype=float)
        if values.shape != (len(places),):
            raise ValueError(f"score must give shape {(len(places),)}, got {values.shape}")
        # Releases of one score are one decision: their masses are added up before the curve is drawn.
        _, group = np.unique(-values, return_inverse=True)
        return _cumulated(np.bincount(group, inside), np.bincount(group, outside))

    def delta(self, epsilon: float) -> float:
        """The smallest delta at one epsilon for these two worlds, the larger of both directions."""
        _, inside, outside = self._masses()
        factor = np.exp(epsilon)
        return float(
            max(
                np.maximum(inside - factor * outside, 0).sum(),
                np.maximum(outside - factor * inside, 0).sum(),
            )
        )

    def draw(
        self,
        ax: Axes,
        *,
        score: Score | None = None,
        decisions: str | Sequence[str] | None = None,
        promises: tuple[tuple[float, float], ...] = (),
    ) -> None:
        """Draw the learner's curve and point, the best attack, and the promises (epsilon, delta) as lines."""
        grid = np.linspace(0, 1, 801)
        for k, (epsilon, delta) in enumerate(promises):
            label = f"bound: ε = {epsilon:.3g}, δ = {delta:.2g}"
            style.curve(ax, grid, allowed(grid, epsilon, delta), k + 3, label=label, marks=0)
        ax.plot(
            *self.best(), color="black", linestyle="-", linewidth=2, label="best possible attack"
        )
        if score is not None and (own := self.curve(score)) is not None:
            style.curve(ax, *own, 1, label="your attack", marks=0)
        if counts := self.judged(decisions):
            hits, ins, alarms, outs = counts
            rates = alarms / max(outs, 1), hits / max(ins, 1)
            reach = [_reach(alarms, outs), _reach(hits, ins)]
            look = {"color": style.PALETTE[0], "marker": "o", "markersize": 8, "linestyle": ""}
            ax.errorbar(
                *rates, xerr=reach[0], yerr=reach[1], label="by hand, 95 % intervals", **look
            )
        ax.plot([0, 1], [0, 1], color=style.MUTED, linestyle=":", linewidth=1, label="guessing")
        ax.set(xlabel="false alarms: says “in” when out", ylabel="hits: says “in” when in")
        ax.set(xlim=(0, 1), ylim=(0, 1.02), aspect="equal")
        ax.legend(loc="lower right")

    def _drawn(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Releases and whether the record was in; the first ones do not depend on how many are drawn."""
        values, truth = [], []
        for k in range(count):
            rng = np.random.default_rng([self.seed, k])
            is_in = bool(rng.random() < 0.5)
            world = self.inside if is_in else self.outside
            mean = world.means[
                rng.choice(len(world.weights), p=world.weights / world.weights.sum())
            ]
            if self.law == "normal":
                noise = self.sigma * rng.standard_normal(mean.shape)
            else:
                noise = rng.laplace(0, self.sigma / np.sqrt(2), mean.shape)
            values.append(mean + noise)
            truth.append(is_in)
        return np.array(values), np.array(truth)

    def _masses(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Grid points, shape (n, k), and the masses of both worlds there, shape (n,), each of sum 1."""
        means = np.vstack([self.inside.means, self.outside.means])
        reach = _REACH[self.law] * self.sigma
        axes = [
            np.linspace(low - reach, high + reach, _POINTS[means.shape[1]])
            for low, high in zip(means.min(0), means.max(0), strict=True)
        ]
        places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))

        def mass(world: Mixture) -> np.ndarray:
            apart = np.abs(places[:, None, :] - world.means) / self.sigma
            exponent = apart**2 / 2 if self.law == "normal" else np.sqrt(2) * apart
            density = np.exp(-exponent.sum(-1)) @ world.weights
            return density / density.sum()

        return places, mass(self.inside), mass(self.outside)


def _reach(count: int, total: int) -> np.ndarray:
    """Distances from a share to the ends of its exact interval (Clopper-Pearson, 95 %), shape (2, 1)."""
    if total == 0:
        return np.array([[0.0], [1.0]])
    ends = binomtest(count, total).proportion_ci(0.95, method="exact")
    share = count / total
    return np.array([[share - ends.low], [ends.high - share]])


def _cumulated(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hits, alarms = (np.minimum(np.append(0.0, np.cumsum(x)), 1.0) for x in (inside, outside))
    return alarms, hits
