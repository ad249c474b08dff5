"""Reconstruction of images from what a client of split learning sends, by fitting dummy images.

    seen = Observation(smashed, variance)                     # (cases, batch, ...)
    found = reconstruct(blocks, 2, seen, Known(weights), prior, steps=200, restarts=1, seed=0)
    found.images                                              # (cases, batch, channels, h, w)

A case is one attack on one batch: a defence, a number of rounds seen, an attacker's belief. All
cases, restarts and images are fitted at once. Images of a batch are fitted together, since batch
normalisation ties their smashed data together.

Source: Zhu, Liu and Han, "Deep leakage from gradients", NeurIPS 2019, as pmsfl, section 2.2, adapts
it to smashed data.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import vmap

from repro._validate import integer
from repro.attacks.beliefs import Belief
from repro.attacks.priors import Prior
from repro.attacks.stacked_lbfgs import minimise
from repro.federated.pmsfl.blocks import FlatBlocks
from repro.models.split import DEPTH

_SLOPE = 0.02  # of a clipped activation in the attacker's model


@dataclass(frozen=True)
class Observation:
    """What the server has seen of a batch, one row for each case.

    Attributes:
        smashed: smashed data, or their mean over several rounds, shape (cases, batch, ...); for a
            belief about several copies all of them, (cases, batch, copies, ...).
        variance: of the error of `smashed` as the attacker reckons it: noise, unknown masks, limits
            of the fit; > 0, broadcasts against `smashed`; infinite for a case that sees nothing.
        answer: gradient of the loss with respect to the smashed data, which the server computed
            itself; shape of `smashed`. Only needed with `gradient`.
        gradient: of the loss with respect to the bottom's weights, shape (cases, size); None where
            updates are not used.
        gradient_variance: of the error of `gradient`, shape (cases,).
        bound: to [-bound, bound] activations were clipped before noise, shape (cases,), > 0 and
            infinite where they were not; None where nothing was clipped.
        clip: norm to which gradients were clipped, likewise.

    Raises:
        ValueError: shapes do not fit, values are not finite, or a variance is not positive.
    """

    smashed: Tensor
    variance: Tensor
    answer: Tensor | None = None
    gradient: Tensor | None = None
    gradient_variance: Tensor | None = None
    bound: Tensor | None = None
    clip: Tensor | None = None

    def __post_init__(self) -> None:
        if self.smashed.ndim < 3 or not torch.isfinite(self.smashed).all():
            raise ValueError(
                f"smashed must be finite, (cases, batch, ...), got shape {tuple(self.smashed.shape)}"
            )
        if not (self.variance > 0).all():
            raise ValueError("variance must be positive")
        try:
            fits = torch.broadcast_shapes(self.variance.shape, self.smashed.shape)
        except RuntimeError:
            fits = None
        if fits != self.smashed.shape:
            raise ValueError(
                f"variance must broadcast against smashed, {tuple(self.smashed.shape)}, got "
                f"{tuple(self.variance.shape)}"
            )
        cases = self.smashed.shape[:1]
        for name, clip in (("bound", self.bound), ("clip", self.clip)):
            if clip is not None and (clip.shape != cases or not (clip > 0).all()):
                raise ValueError(f"{name} must be positive, one for each case")
        if self.gradient is None:
            return
        if self.answer is None or self.answer.shape != self.smashed.shape:
            raise ValueError("answer must have the shape of smashed where there is a gradient")
        if self.gradient.ndim != 2 or len(self.gradient) != len(self.smashed):
            raise ValueError(
                f"gradient must be (cases, size) with {len(self.smashed)} cases, got shape "
                f"{tuple(self.gradient.shape)}"
            )
        if not torch.isfinite(self.gradient).all() or not torch.isfinite(self.answer).all():
            raise ValueError("gradient and answer must be finite")
        if self.gradient_variance is None or not (self.gradient_variance > 0).all():
            raise ValueError("gradient_variance must be positive, one for each case")


@dataclass(frozen=True)
class Reconstruction:
    """What an attack has found.

    Attributes:
        images: of the restart with the least loss, in the prior's range, shape
            (cases, batch, channels, height, width).
        coordinates: the prior's coordinates of them, shape (cases, batch, numbers).
        estimate: what that restart believes of the bottom in the end, shape (cases, free).
        losses: of every restart, shape (cases, restarts).
        chosen: which restart that is, shape (cases,). The truth plays no part in the choice.
    """

    images: Tensor
    coordinates: Tensor
    estimate: Tensor
    losses: Tensor
    chosen: Tensor


def bottom(blocks: FlatBlocks, weights: Tensor, images: Tensor, depth: int) -> Tensor:
    """Smashed data of stacked batches, each with weights of its own.

    Args:
        blocks: the network's blocks.
        weights: shape (stacks, at least size of `depth` blocks).
        images: shape (stacks, batch, ...).
        depth: 1 to 4.

    Returns:
        Shape (stacks, batch, ...).
    """

    def one(flat: Tensor, x: Tensor) -> Tensor:
        for number in range(depth):
            x = blocks.block(number, flat, x)
        return x

    return vmap(one)(weights, images)


def reconstruct(
    blocks: FlatBlocks,
    depth: int,
    seen: Observation,
    belief: Belief,
    prior: Prior,
    *,
    steps: int,
    restarts: int,
    seed: int,
    start: Tensor | None = None,
) -> Reconstruction:
    """Fit a batch of dummy images to what was seen, by L-BFGS.

    The loss of a case is sum (f(x) - smashed)^2 / (2 variance), and the same of the gradient where
    there is one, plus what prior and belief add: minus a log-posterior where both are right.

    Args:
        blocks: the network's blocks, without weights.
        depth: where it is split, 1 to 4.
        seen: the observations, (cases, batch, ...).
        belief: about the weights; its stacks are cases * restarts, the restarts of a case in a row.
        prior: about the images; its `mean` gives their shape.
        steps: evaluations of the loss, >= 1.
        restarts: >= 1.
        seed: >= 0, of the starts.
        start: first coordinates, shape (cases * restarts, batch, numbers); default: normal with
            deviation 1/2.

    Raises:
        ValueError: an argument out of range, or shapes that do not fit.
        ArithmeticError: the loss is not finite in any restart of a case.
    """
    depth, restarts = integer("depth", depth, 1, DEPTH), integer("restarts", restarts, 1)
    cases, batch = seen.smashed.shape[:2]
    stacks, device = cases * restarts, seen.smashed.device
    if len(belief.start) != stacks:
        raise ValueError(
            f"belief must be about {cases} cases * {restarts} restarts = {stacks} stacks, got "
            f"{len(belief.start)}"
        )
    shape = (stacks, batch, prior.factor.shape[1])
    generator = torch.Generator(device=device).manual_seed(integer("seed", seed, 0))
    if start is None:
        start = torch.randn(shape, generator=generator, device=device) / 2
    elif start.shape != shape or not torch.isfinite(start).all():
        raise ValueError(f"start must be finite, of shape {shape}, got {tuple(start.shape)}")
    fit = _Fit(blocks, depth, seen, belief, prior, restarts)
    fit.check(start)
    pixels = batch * shape[2]
    found, losses = minimise(
        lambda both: fit.loss(both[:, :pixels].reshape(shape), both[:, pixels:]),
        torch.cat([start.flatten(1), belief.start], dim=1),
        steps,
    )
    losses = losses.nan_to_num(nan=torch.inf, posinf=torch.inf).reshape(cases, restarts)
    if not torch.isfinite(losses.min(dim=1).values).all():
        raise ArithmeticError("the loss of an attack is not finite in any restart")
    chosen = losses.argmin(dim=1)
    best = found.unflatten(0, losses.shape)[torch.arange(cases, device=device), chosen]
    z = best[:, :pixels].reshape(cases, *shape[1:])
    images = prior.images(z).clamp(prior.low, prior.high)
    return Reconstruction(images, z, best[:, pixels:], losses, chosen)


class _Fit:
    """The loss of all stacks as a function of the images' coordinates and the belief's numbers."""

    def __init__(
        self,
        blocks: FlatBlocks,
        depth: int,
        seen: Observation,
        belief: Belief,
        prior: Prior,
        restarts: int,
    ) -> None:
        self._blocks, self._depth, self._belief, self._prior = blocks, depth, belief, prior
        self._target = seen.smashed.repeat_interleave(restarts, 0)
        precision = (1 / (2 * seen.variance)).expand(len(seen.smashed), *seen.variance.shape[1:])
        self._precision = precision.repeat_interleave(restarts, 0)
        self._bound = self._clip = None
        if seen.bound is not None:
            bound = seen.bound.repeat_interleave(restarts, 0)
            self._bound = bound.reshape(-1, *(1,) * (seen.smashed.ndim - 1))
        if seen.clip is not None:
            self._clip = seen.clip.repeat_interleave(restarts, 0)[:, None]
        self._gradient = None
        if seen.gradient is not None:
            self._answer = seen.answer.repeat_interleave(restarts, 0)
            self._gradient = seen.gradient.repeat_interleave(restarts, 0)
            self._certainty = (1 / (2 * seen.gradient_variance)).repeat_interleave(restarts, 0)

    def check(self, start: Tensor) -> None:
        """Raise ValueError where the belief's bottom does not fit what was seen."""
        weights = self._belief.weights(self._belief.start)
        if weights.shape[-1] != self._blocks.size(self._depth):
            raise ValueError(
                f"belief must have {self._blocks.size(self._depth)} weights, the blocks up to "
                f"depth {self._depth}, got {weights.shape[-1]}"
            )
        with torch.no_grad():
            made = self._forward(weights, self._prior.images(start))
        if made.shape != self._target.shape:
            raise ValueError(
                f"smashed must have the shape {tuple(made.shape[1:])} of a batch behind depth "
                f"{self._depth}, got {tuple(self._target.shape[1:])}"
            )
        if self._gradient is not None and self._belief.copies:
            raise ValueError("gradient must be None where the belief is about several copies")
        if self._gradient is not None and self._gradient.shape[1] != weights.shape[-1]:
            raise ValueError(
                f"gradient must have {weights.shape[-1]} numbers a case, got "
                f"{self._gradient.shape[1]}"
            )

    def loss(self, z: Tensor, estimate: Tensor) -> Tensor:
        """Of every stack, shape (stacks,)."""
        weights, images = self._belief.weights(estimate), self._prior.images(z)
        if self._gradient is not None and not weights.requires_grad:
            weights = weights.detach().requires_grad_()
        made = self._forward(weights, images)
        sent = made if self._bound is None else _clipped(made, self._bound)
        loss = (self._precision * (sent - self._target).square()).flatten(1).sum(dim=1)
        if self._gradient is not None:
            (own,) = torch.autograd.grad(made, weights, self._answer, create_graph=True)
            own = own.sum(dim=1)
            if self._clip is not None:
                own = own / (own.norm(dim=1, keepdim=True) / self._clip).clamp(min=1)
            loss = loss + self._certainty * (own - self._gradient).square().sum(dim=1)
        return loss + self._prior.loss(z, images) + self._belief.loss(estimate)

    def _forward(self, weights: Tensor, images: Tensor) -> Tensor:
        """Smashed data averaged over versions, (stacks, batch, ...), or (stacks, batch, copies, ...)."""
        samples = weights.shape[1]
        repeated = images[:, None].expand(-1, samples, *images.shape[1:])
        made = bottom(self._blocks, weights.flatten(0, 1), repeated.flatten(0, 1), self._depth)
        made = made.unflatten(0, (-1, samples))
        return made.transpose(1, 2) if self._belief.copies else made.mean(dim=1)


def _clipped(values: Tensor, bound: Tensor) -> Tensor:
    """Nearly clipped to [-bound, bound]: the slope outside leads a fit that strayed back inside."""
    inside = values.clamp(-bound, bound)
    return inside + _SLOPE * (values - inside)
