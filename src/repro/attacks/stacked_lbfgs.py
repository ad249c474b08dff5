"""L-BFGS for many independent problems at once, each with its own curvature and step length."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from repro._validate import integer

_MEMORY = 20
_DESCENT = 1e-4  # share of the promised decrease that a step must bring (Armijo)
_SHORTEST = 1e-4  # below this step length the curvature is forgotten


def minimise(loss: Callable[[Tensor], Tensor], start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Minimise each of some stacked functions; never returns a point worse than its start.

    All functions are evaluated once a step, with their gradients. A function whose trial point is
    not low enough stays where it is and shortens its step, while the others go on.

    Args:
        loss: (stacks, numbers) -> (stacks,), differentiable; entry k depends on row k only.
        start: shape (stacks, numbers).
        steps: evaluations after the first, >= 1.

    Returns:
        The points found, shape (stacks, numbers), and their values, (stacks,).

    Raises:
        ValueError: steps is not an integer >= 1.

    Source: Nocedal and Wright, "Numerical Optimization", 2nd edition, algorithms 3.1 and 7.4.
    """
    point = start
    value, gradient = _value_and_gradient(loss, point)
    width = start.shape[1] ** 0.5 / 20
    first = width / gradient.norm(dim=1).clamp(min=width)  # a first step of 1/20 a number
    memory = _Memory(first)
    length = torch.ones_like(value)
    direction = memory.direction(gradient)
    for _ in range(integer("steps", steps, 1)):
        trial = point + length[:, None] * direction
        at_trial, slope_at_trial = _value_and_gradient(loss, trial)
        promised = _DESCENT * length * (direction * gradient).sum(dim=1)
        good = at_trial <= value + promised  # false for NaN
        memory.learn(trial - point, slope_at_trial - gradient, good)
        point = torch.where(good[:, None], trial, point)
        gradient = torch.where(good[:, None], slope_at_trial, gradient)
        value = torch.where(good, at_trial, value)
        length = torch.where(good, 1.0, length / 3)
        stuck = length < _SHORTEST
        memory.forget(stuck)
        length = torch.where(stuck, 1.0, length)
        direction = memory.direction(gradient)
    return point, value


class _Memory:
    """The last pairs of steps and changes of the gradient, for every stack."""

    def __init__(self, first: Tensor) -> None:
        self._first, self._scale = first, first
        self._pairs: list[tuple[Tensor, Tensor, Tensor]] = []

    def learn(self, step: Tensor, change: Tensor, good: Tensor) -> None:
        """Keep a pair where the step was taken and curved upwards."""
        curvature, square = (step * change).sum(dim=1), change.square().sum(dim=1)
        useful = good & (curvature > 1e-8 * step.norm(dim=1) * square.sqrt())
        if not useful.any():
            return
        inverse = torch.where(useful, 1 / curvature, 0.0)  # 0: the pair has no effect
        step, change = (torch.where(useful[:, None], x, 0.0) for x in (step, change))
        self._pairs = [*self._pairs[1 - _MEMORY :], (step, change, inverse)]
        self._scale = torch.where(useful, curvature / square, self._scale)

    def forget(self, stuck: Tensor) -> None:
        """Start again, with short steps along the gradient."""
        if stuck.any():
            self._pairs = [(s, y, torch.where(stuck, 0.0, r)) for s, y, r in self._pairs]
            self._first = torch.where(stuck, self._first / 10, self._first)
            self._scale = torch.where(stuck, self._first, self._scale)

    def direction(self, gradient: Tensor) -> Tensor:
        """Minus the approximate inverse curvature times the gradient."""
        result, shares = gradient, []
        for step, change, inverse in reversed(self._pairs):
            share = inverse * (step * result).sum(dim=1)
            result = result - share[:, None] * change
            shares.append(share)
        result = self._scale[:, None] * result
        for (step, change, inverse), share in zip(self._pairs, reversed(shares), strict=True):
            correction = share - inverse * (change * result).sum(dim=1)
            result = result + correction[:, None] * step
        return -result


def _value_and_gradient(loss: Callable[[Tensor], Tensor], point: Tensor) -> tuple[Tensor, Tensor]:
    point = point.detach().requires_grad_()
    value = loss(point)
    (gradient,) = torch.autograd.grad(value.sum(), point)
    return value.detach(), gradient
