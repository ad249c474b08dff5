"""The sum of the clipped gradients of a batch, at about the price of one ordinary backward pass.

For a layer that multiplies its input by a matrix, the gradient of record i is a sum of outer
products of what went in (A_i, one row per position) and what came back (G_i): G_i^T A_i. Hence

* its squared norm is sum_{t,t'} (A_i A_i^T * G_i G_i^T)_{t t'}, which needs no gradient at all (for
  a linear layer, one position: |a|^2 |g|^2); for convolutions with small kernels the gradients
  themselves are cheaper than these Gram matrices, and the cheaper of the two is taken, layer by
  layer, by size;
* the weighted sum over records, sum_i w_i G_i^T A_i, is one product of two tall matrices, or one
  product of w with gradients that are there already.

So one forward pass, one backward pass to the layers' outputs only, and those products suffice;
there is no second backward pass and no loop over records, and the gradients of all records are
never held for the whole model. `shares` does this for each kind of layer, `taps` records what it
needs. Sources: Goodfellow, "Efficient per-example gradient computations", arXiv:1510.01799 (linear
layers); Li et al., arXiv:2110.05679 ("ghost clipping"); Bu et al., arXiv:2205.10683 (mixed) and
arXiv:2210.00038 (book-keeping, a single backward pass).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from repro._validate import one, positive
from repro.federated.shares import HELD, Share, direct_is_cheaper, shares_of
from repro.federated.taps import EVERY, Tap, Tape, recording, trainable_layers

Loss = Callable[[Tensor, Tensor], Tensor]
"""Maps outputs (batch, ...) and targets (batch, ...) to one loss per record, shape (batch,)."""


@dataclass(frozen=True)
class ClippedSum:
    """What `clipped_gradient_sum` returns.

    Attributes:
        gradient: sum_i g_i / max(1, |g_i| / C), one tensor per trainable parameter, in the order of
            `model.parameters()`.
        norms: |g_i| before clipping, over all parameters together, shape (batch,); of
            `clipped_part_sums` over each part by itself, shape (parts, batch).
        loss: the sum of the records' losses, a scalar tensor.
    """

    gradient: list[Tensor]
    norms: Tensor
    loss: Tensor


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each record from logits (batch, classes) and integer labels (batch,).

    Raises:
        ValueError: the targets are no integers, as in a regression, which needs a loss of its own; or not
            one number for each record, as in one-hot vectors; or the outputs are no logits for these records.
    """
    if targets.is_floating_point():
        raise ValueError(
            f"targets must be integer labels for cross_entropy, got {targets.dtype}; for other "
            "targets give a loss per record, such as loss=squared_error"
        )
    if targets.ndim != 1:
        raise ValueError(
            f"targets must be one label for each record, shape (batch,), got {tuple(targets.shape)}"
        )
    if outputs.ndim != 2 or len(outputs) != len(targets):
        raise ValueError(
            f"outputs must have one row of logits for each of {len(targets)} targets, shape (batch, classes), "
            f"got {tuple(outputs.shape)}"
        )
    return functional.cross_entropy(outputs, targets.long(), reduction="none")


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared Euclidean distance of each record's output from its target, both (batch, ...).

    Raises:
        ValueError: the shapes differ: (batch, 1) against (batch,) would compare all with all.
    """
    if outputs.shape != targets.shape:
        raise ValueError(
            f"targets must have the shape of the outputs, {tuple(outputs.shape)}, got "
            f"{tuple(targets.shape)}"
        )
    return (outputs - targets).square().unsqueeze(-1).flatten(1).sum(1)


def clipped_gradient_sum(
    model: nn.Module, inputs: Tensor, targets: Tensor, clip: float, *, loss: Loss = cross_entropy
) -> ClippedSum:
    """Sum of the records' gradients, each scaled down to Euclidean norm `clip` where it is longer.

    Formal guarantee: adding or removing one record (x_i, y_i) changes `gradient` by at most `clip`
    in Euclidean norm over all parameters together, up to rounding in the parameters' precision.

    Args:
        model: any module whose trainable parameters all belong to `nn.Linear`, `nn.Conv1d` and
            `nn.Conv2d` (`groups=1`, zero padding), `nn.Embedding`, `nn.GroupNorm`, `nn.LayerNorm`
            or `nn.MultiheadAttention` (`batch_first=True`) layers, each used once per forward pass
            with the records along the first axis, and whose output for a record depends on that
            record alone. Positions are embedded as (batch, positions), one row per record.
        inputs: records, shape (batch, ...); the batch may be empty (the sum is then zero).
        targets: their targets, shape (batch, ...).
        clip: C > 0; `math.inf` leaves the gradients as they are.
        loss: per-record loss.

    Raises:
        ValueError: `clip` is not positive; batch sizes differ; a layer of another kind has
            trainable parameters, is used twice or not at all, normalises over the batch or keeps
            averages of it, has its input or output changed in place, an input without the records
            as its first axis, or no part in the loss.

    Source: random_participation, Algorithm 1 (g / max{1, |g| / C}).
    """
    everything = [p for p in model.parameters() if p.requires_grad]
    found = clipped_part_sums(model, inputs, targets, [(everything, clip)], loss=loss)
    return ClippedSum(found.gradient, found.norms[0], found.loss)


def clipped_part_sums(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    parts: Sequence[tuple[Iterable[nn.Parameter], float]],
    *,
    loss: Loss = cross_entropy,
    rows: Mapping[nn.Module, slice] | None = None,
) -> ClippedSum:
    """Sum of the records' gradients, clipped part by part of the parameters.

    Formal guarantee: adding or removing one record changes `gradient` on the parameters of a part
    by at most that part's clip in Euclidean norm, up to rounding.

    Args:
        model, inputs, targets, loss: as in `clipped_gradient_sum`.
        parts: (parameters, clip) of each part; together they hold every trainable parameter of
            `model` once, and may hold parameters that are not of this model.
        rows: which records reach a layer, where it is not all of them: the layer's input holds
            those records, in order. A layer that none reaches is left out of the forward pass.

    Raises:
        ValueError: as `clipped_gradient_sum`; the parts miss a parameter or have one twice; a
            layer saw other records than `rows` says.

    Source: partitioning, section 3.2.2 ("separate clipping norms for these two parts").
    """
    clips = [c if c == math.inf else one(positive, "clip", c) for _, c in parts]
    part_of = _part_of(model, [members for members, _ in parts])
    rows = rows or {}
    if len(inputs) != len(targets):
        raise ValueError(
            f"targets must have one row per input: {len(inputs)} inputs, {len(targets)} targets"
        )
    layers = trainable_layers(model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if len(inputs) == 0:
        nothing = parameters[0].new_zeros(())
        none = nothing.expand(len(parts), 0)
        return ClippedSum([torch.zeros_like(p) for p in parameters], none, nothing)

    with torch.enable_grad(), recording(layers) as tape:
        losses = loss(model(inputs), targets)
        if losses.shape != (len(inputs),):
            raise ValueError(
                f"loss must return one value per record, shape ({len(inputs)},), got {losses.shape}"
            )
        total = losses.sum()
        taps = _checked_taps(layers, tape, rows, len(inputs))
        arrived = _arrived(total, taps)

    with torch.no_grad():
        squared = losses.new_zeros(len(parts), len(inputs))
        shares: list[tuple[Share, int, slice]] = []
        room = HELD
        for tap, back in zip(taps, arrived, strict=True):
            reached = rows.get(tap.layer, slice(0, len(inputs)))
            for share in shares_of(tap, back, room):
                part = part_of[id(share.parameter)]
                squared[part, reached] += share.squared
                shares.append((share, part, reached))
                room -= share.held
        norms = squared.clamp_(min=0.0).sqrt_()
        limits = torch.tensor(clips, device=norms.device, dtype=norms.dtype)
        weights = (norms / limits[:, None]).clamp_(min=1.0).reciprocal_()
        sums: dict[int, Tensor] = {}
        for share, part, reached in shares:
            found, key = share.weighted_sum(weights[part, reached]), id(share.parameter)
            if share.rows == EVERY:
                sums[key] = found.view_as(share.parameter)
            else:
                sums.setdefault(key, torch.zeros_like(share.parameter))[share.rows] = found
    gradient = [sums[id(p)] if id(p) in sums else torch.zeros_like(p) for p in parameters]
    return ClippedSum(gradient, norms, total.detach())


def _arrived(total: Tensor, taps: list[Tap]) -> Sequence[Tensor]:
    """The gradient of the summed loss at each tap's output."""
    outputs = [tap.after for tap in taps]
    every = (
        torch.autograd.grad(total, outputs, allow_unused=True) if total.requires_grad else [None]
    )
    for tap, back in zip(taps, every, strict=False):
        if back is None:
            raise ValueError(
                f"loss must depend on every layer with trainable parameters, but not on a "
                f"{type(tap.layer).__name__} layer: is its output detached?"
            )
    return every


def _checked_taps(
    layers: Mapping[str, nn.Module], tape: Tape, rows: Mapping[nn.Module, slice], batch: int
) -> list[Tap]:
    """The taps of a forward pass of `batch` records; refuses those that are not usable."""
    idle = {layer for layer, reached in rows.items() if reached.start == reached.stop}
    unused = [name for name, layer in layers.items() if layer not in tape and layer not in idle]
    if unused:
        raise ValueError(
            f"layer {unused[0]!r} has trainable parameters but took no part in the forward pass"
        )
    taps = [tap for found in tape.values() for tap in found]
    for tap in taps:
        kind = type(tap.layer).__name__
        if (tap.before._version, tap.after._version) != tap.versions:
            raise ValueError(
                f"input or output of a {kind} layer is changed in place; "
                "use operations that are not (such as ReLU(inplace=False))"
            )
        if tap.layer not in rows:
            if len(tap.before) != batch:
                raise ValueError(
                    f"inputs of layers must have the {batch} records as their first axis, got shape "
                    f"{tuple(tap.before.shape)} for {kind}"
                )
            continue
        reached = rows[tap.layer].stop - rows[tap.layer].start
        if len(tap.before) != reached:
            raise ValueError(
                f"rows says that {reached} records reach a {kind} layer, but {len(tap.before)} do"
            )
    return taps


def gradient_sum(
    model: nn.Module, inputs: Tensor, targets: Tensor, *, loss: Loss = cross_entropy
) -> list[Tensor]:
    """The plain sum of the records' gradients, for any module: what training without privacy uses.

    Same order and shapes as `ClippedSum.gradient`; an empty batch gives zeros.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    if len(inputs) == 0:
        return [torch.zeros_like(p) for p in parameters]
    return list(torch.autograd.grad(loss(model(inputs), targets).sum(), parameters))


def bytes_per_record(model: nn.Module, inputs: Tensor) -> int:
    """About how much memory a record takes in the functions above.

    Counted from a forward pass of the first of `inputs`: inputs, outputs and their gradients of
    every layer with parameters, and what is kept of each until the sums are formed. Sizes alone
    decide, so that chunks cut by it are the same on every run.
    """
    layers = trainable_layers(model)
    with torch.no_grad(), recording(layers) as tape:
        model(inputs[:1])
    numbers = 0
    for tap in (tap for found in tape.values() for tap in found):
        layer, after = tap.layer, tap.after
        numbers += tap.before.numel() + 2 * after.numel()
        if isinstance(layer, nn.Conv2d):
            width, out = layer.weight[0].numel(), layer.out_channels
            positions = after[0, 0].numel()
            numbers += positions * width  # patches
            numbers += out * width if direct_is_cheaper(positions, width, out) else 0  # gradients
    return numbers * next(model.parameters()).element_size()


def _part_of(model: nn.Module, parts: Sequence[Iterable[nn.Parameter]]) -> dict[int, int]:
    """Which part a parameter belongs to, by its id; every trainable one is in exactly one."""
    found: dict[int, int] = {}
    for k, members in enumerate(parts):
        for parameter in members:
            if id(parameter) in found:
                raise ValueError("parts must not hold a parameter twice")
            found[id(parameter)] = k
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and id(parameter) not in found:
            raise ValueError(f"parts must hold every trainable parameter, {name!r} is in none")
    return found
