"""What a training run guarantees, computed from the settings that it runs with.

Noise and guarantee cannot drift apart when one object holds the noise, the clip and the rates, trains
with them and accounts for them: the settings of the algorithms have a method `guarantee`, and this is
what it returns.
"""

from __future__ import annotations

from dataclasses import dataclass

from repro._validate import one, probability_open
from repro.accounting.composition import Composition
from repro.accounting.mechanism import Mechanism


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-DP of a whole run, for whoever sees every noisy sum and the model.

    Formal guarantee: the run is (`upper`, `delta`)-DP, and for no epsilon below `lower` is it
    (epsilon, `delta`)-DP for all data. Data are compared with and without one of `neighbours`, or, for
    "replaced record", with one record in the place of another of the same client; the expected size of
    a batch, by which sums are divided, counts as public. Not covered: what a watch is shown of the
    sums before the noise, evaluation on the training data, several runs (compose their `runs`),
    records whose gradients are not finite, and the rounding of noise: in floating point, or to the
    grid of noise that is drawn in shares or encoded before it is summed.

    Attributes:
        neighbours: "record", "client" or "replaced record".
        delta: in (0, 1).
        upper: epsilon that is certified.
        lower: epsilon below which some data set is a counterexample, at most `upper`.
        runs: the accountants behind them, (of "upper", of "lower"): other deltas, trade-off curves.
    """

    neighbours: str
    delta: float
    upper: float
    lower: float
    runs: tuple[Composition | Mechanism, Composition | Mechanism]


def bracket(
    neighbours: str,
    delta: float,
    run: Composition | Mechanism,
    attained: Composition | Mechanism | None = None,
) -> Guarantee:
    """The guarantee of `run`, with its lower bound from `attained` where that is another one.

    Args:
        neighbours: "record", "client" or "replaced record".
        delta: in (0, 1).
        run: bounds every data set from above.
        attained: what some data set leaks.

    Raises:
        ValueError: delta is no number in (0, 1), or too small for the accountant.
    """
    delta = one(probability_open, "delta", delta)
    attained = run if attained is None else attained
    upper = float(run.epsilon(delta))
    lower = min(float(attained.epsilon(delta, method="lower")), upper)
    return Guarantee(neighbours, delta, upper, lower, (run, attained))


def needs_noise(scale: float) -> None:
    """Refuse to account for a run without noise."""
    if scale == 0:
        raise ValueError("the noise must be positive for a guarantee, got 0: nothing is hidden")
