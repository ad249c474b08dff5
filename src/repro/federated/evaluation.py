"""Evaluating a model while it is trained, and showing how far training is.

An `Evaluation` is a watch for the algorithms that update one PyTorch model.

    scores = Evaluation(model, lambda m: {"error": float((m(x) - y).square().mean())}, rounds=500)
    train(model, …, watch=scores, watch_every=50)
    scores.history        one row for each time: {"round": 50, "error": 0.31}
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Protocol

import torch
from torch import nn

from repro._validate import integer


class HasRound(Protocol):
    """What the algorithms tell a watch; each calls the round `iteration`."""

    iteration: int


class Evaluation:
    """A watch for `train`: evaluates the model, keeps the scores, and shows them with a bar.

    Evaluating changes neither the model nor the generators that training uses: the model is in
    evaluation mode meanwhile, without gradients, and PyTorch's generators are set back afterwards.
    Scores on data that were trained on are not covered by the guarantee of the run.

    Args:
        model: the one that is trained.
        evaluate: maps it to named scores.
        rounds: T of the run, at least 1.
        progress: whether a bar is shown, where standard error is a terminal.

    Attributes:
        history: one row for each evaluation: "round" and the scores.

    Raises:
        ValueError: `rounds` is no integer >= 1.
    """

    def __init__(
        self,
        model: nn.Module,
        evaluate: Callable[[nn.Module], Mapping[str, float]],
        rounds: int,
        *,
        progress: bool = True,
    ) -> None:
        self.history: list[dict[str, float]] = []
        self._model, self._evaluate = model, evaluate
        self._rounds, self._progress = integer("rounds", rounds, 1), progress

    def __call__(self, step: HasRound) -> None:
        """Evaluate after a round."""
        scores = {"round": step.iteration, **self._scores()}
        self.history.append(scores)
        if self._progress and sys.stderr.isatty():
            self._show(scores)

    def __repr__(self) -> str:
        """How many evaluations there were, and the last one."""
        last = f", the last {self.history[-1]}" if self.history else ""
        return f"<Evaluation: {len(self.history)} rows in history{last}>"

    def _scores(self) -> dict[str, float]:
        modes = {module: module.training for module in self._model.modules()}
        with ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng())
            stack.enter_context(torch.no_grad())
            self._model.eval()
            try:
                return {name: float(score) for name, score in self._evaluate(self._model).items()}
            finally:
                for module, training in modes.items():
                    module.training = training

    def _show(self, scores: Mapping[str, float]) -> None:
        done = scores["round"] / self._rounds
        told = ", ".join(f"{name} {score:.4g}" for name, score in scores.items() if name != "round")
        bar = "#" * round(30 * done)
        end = "\n" if done == 1 else ""
        print(f"\r[{bar:30}] {done:4.0%} {told}\x1b[K", end=end, file=sys.stderr, flush=True)
