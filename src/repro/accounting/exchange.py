"""To and from other libraries: dp-accounting's events, and an accountant for Opacus.

The other direction to dp-accounting is `pld()`, which every mechanism and composition has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import dp_accounting as dp

from repro._validate import choice, integer, one, positive, probability_open
from repro.accounting._composed import Composed
from repro.accounting.composition import compose
from repro.accounting.gaussian import GaussianMechanism, PoissonGaussian
from repro.accounting.laplace import SummedLaplace
from repro.accounting.mechanism import METHODS, Mechanism

__all__ = ["OpacusAccountant", "from_dp_event"]


def from_dp_event(event: dp.DpEvent) -> Mechanism | Composed:
    """The mechanism or composition of an event of dp-accounting.

    Covered are no-ops, Gaussian and Laplace noise, Poisson sampling of Gaussian noise, and compositions of
    these. Sensitivity is 1, as there; neighbours differ by one record more or less.

    Args:
        event: dp-accounting's object.

    Returns:
        what answers `delta`, `epsilon`, `rdp` and `pld`.

    Raises:
        ValueError: an event without a mechanism here, named; or one that guarantees nothing.
    """
    match event:
        case dp.NoOpDpEvent():
            return PoissonGaussian(1.0, rate=0.0)
        case dp.GaussianDpEvent():
            return GaussianMechanism(event.noise_multiplier)
        case dp.LaplaceDpEvent():
            return SummedLaplace(event.noise_multiplier)
        case dp.PoissonSampledDpEvent(event=dp.GaussianDpEvent()):
            rate = event.sampling_probability
            return PoissonGaussian(event.event.noise_multiplier, rate=rate)
        case dp.SelfComposedDpEvent():
            return compose(from_dp_event(event.event), integer("count", event.count, 1))
        case dp.ComposedDpEvent():
            return compose([from_dp_event(each) for each in event.events])
    why = ""
    if isinstance(event, dp.PoissonSampledDpEvent):
        why = (
            ": of sampled events only Gaussian noise; for clients and their records use Federation"
        )
    raise ValueError(f"event must be one that a mechanism here accounts for, got {event!r}{why}")


class OpacusAccountant:
    """An accountant for Opacus that accounts with a mechanism of this package.

    It has all that Opacus asks of an accountant and imports nothing of it. Assign it before
    `make_private`, so that the optimiser reports its steps to it:

        def step(noise_multiplier, sample_rate):
            return RandomParticipation(noise_multiplier, p=0.05, q=sample_rate, samples_per_client=99)

        engine = PrivacyEngine()
        engine.accountant = OpacusAccountant(step)

    Opacus makes accountants by name with no arguments: for checkpoints or `make_private_with_epsilon`,
    `register_accountant("repro", OpacusAccountant)` offers the default, Poisson sampling.

    Args:
        step: (noise multiplier, sample rate) -> mechanism of one step. By default `PoissonGaussian`, which is
            what Opacus assumes.

    Attributes:
        history: noise multiplier, sample rate and number of steps, as Opacus keeps them.
    """

    def __init__(self, step: Callable[[float, float], Mechanism] | None = None) -> None:
        self._mechanism = step or (lambda noise, rate: PoissonGaussian(noise, rate=rate))
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step of the optimiser."""
        *_, (noise, rate, steps) = self.history or [(None, None, 0)]
        if (noise, rate) == (noise_multiplier, sample_rate):
            self.history[-1] = (noise, rate, steps + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def run(self) -> Composed:
        """All steps so far.

        Raises:
            ValueError: there was none, or one without noise.
        """
        return compose(
            [
                compose(self._mechanism(float(positive("noise_multiplier", noise)), rate), steps)
                for noise, rate, steps in self.history
            ]
        )

    def get_epsilon(self, delta: float, *, method: str = "upper") -> float:
        """Epsilon of all steps so far at a delta in (0, 1); 0 before the first.

        Raises:
            ValueError: delta out of range, an unknown method, or a step without noise.
        """
        one(probability_open, "delta", delta)
        choice("method", method, METHODS)
        return float(self.run().epsilon(delta, method=method)) if self.history else 0.0

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name under which checkpoints know the accountant."""
        return "repro"

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What Opacus attaches to the optimiser, so that every step is counted.

        Args:
            sample_rate: of a record in one batch, in [0, 1].
        """

        def hook(optimizer: Any) -> None:
            rate = sample_rate * optimizer.accumulated_iterations
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=rate)

        return hook

    def state_dict(self, destination: MutableMapping | None = None) -> MutableMapping:
        """The history and the accountant's name, for a checkpoint."""
        destination = {} if destination is None else destination
        destination.update(history=list(self.history), mechanism=self.mechanism())
        return destination

    def load_state_dict(self, state_dict: Mapping) -> None:
        """Take over the history of a checkpoint.

        Raises:
            ValueError: it is not one of this accountant.
        """
        if not state_dict or "history" not in state_dict or state_dict.get("mechanism") != "repro":
            raise ValueError(f"state_dict must be of an accountant 'repro', got {state_dict!r}")
        history = [tuple(entry) for entry in state_dict["history"]]
        if any(len(entry) != 3 for entry in history):
            raise ValueError(
                f"history must hold noise multiplier, sample rate and number of steps, got {history!r}"
            )
        self.history = history
