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
there is no second backward pass and no loop over records. For the scales and shifts of a group
normalisation the gradients are so small that they are simply formed. Sources: Goodfellow, "Efficient
per-example gradient computations", arXiv:1510.01799 (linear layers); Li et al., arXiv:2110.05679
("ghost clipping"); Bu et al., arXiv:2205.10683 (mixed) and arXiv:2210.00038 (book-keeping, a single
backward pass).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from repro._validate import positive

Loss = Callable[[Tensor, Tensor], Tensor]
"""Maps outputs (batch, ...) and targets (batch, ...) to one loss per record, shape (batch,)."""

Tape = dict[nn.Module, tuple[Tensor, Tensor, tuple[int, int]]]
"""Input and output of each layer, and their version counters, which in-place changes advance."""

MATERIAL = 2**25
"""At most this many numbers of per-record gradients are held at once for one layer (128 MiB in
float32).
"""


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
    """Cross-entropy of each record from logits (batch, classes) and int64 labels (batch,)."""
    return functional.cross_entropy(outputs, targets, reduction="none")


def clipped_gradient_sum(
    model: nn.Module, inputs: Tensor, targets: Tensor, clip: float, *, loss: Loss = cross_entropy
) -> ClippedSum:
    """Sum of the records' gradients, each scaled down to Euclidean norm `clip` where it is longer.

    Formal guarantee: adding or removing one record (x_i, y_i) changes `gradient` by at most `clip`
    in Euclidean norm over all parameters together, up to rounding in the parameters' precision.

    Args:
        model: any module whose trainable parameters all belong to `nn.Linear`, `nn.Conv2d`
            (`groups=1`, zero padding) or `nn.GroupNorm` layers, each used once per forward pass,
            and whose output for a record depends on that record alone.
        inputs: records, shape (batch, ...); the batch may be empty (the sum is then zero).
        targets: their targets, shape (batch, ...).
        clip: C > 0; `math.inf` leaves the gradients as they are.
        loss: per-record loss.

    Raises:
        ValueError: `clip` is not positive; batch sizes differ; a layer of another kind has
            trainable parameters, is used twice or not at all, normalises over the batch, or has its
            input or output changed in place.

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
    clips = [c if c == math.inf else float(positive("clip", c)) for _, c in parts]
    part_of = _part_of(model, [members for members, _ in parts])
    rows = rows or {}
    if len(inputs) != len(targets):
        raise ValueError(
            f"targets must have one row per input: {len(inputs)} inputs, {len(targets)} targets"
        )
    layers = _trainable_layers(model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if len(inputs) == 0:
        nothing = parameters[0].new_zeros(())
        none = nothing.expand(len(parts), 0)
        return ClippedSum([torch.zeros_like(p) for p in parameters], none, nothing)

    with torch.enable_grad(), _recording(layers) as tape:
        losses = loss(model(inputs), targets)
        if losses.shape != (len(inputs),):
            raise ValueError(
                f"loss must return one value per record, shape ({len(inputs)},), got {losses.shape}"
            )
        total = losses.sum()
        idle = {layer for layer, reached in rows.items() if reached.start == reached.stop}
        unused = [name for name, layer in layers.items() if layer not in tape and layer not in idle]
        if unused:
            raise ValueError(
                f"layer {unused[0]!r} has trainable parameters but took no part in the forward pass"
            )
        for layer, (before, after, versions) in tape.items():
            if (before._version, after._version) != versions:
                raise ValueError(
                    f"input or output of a {type(layer).__name__} layer is changed in place; "
                    "use operations that are not (such as ReLU(inplace=False))"
                )
            reached = rows.get(layer, slice(0, len(inputs)))
            if len(before) != reached.stop - reached.start:
                raise ValueError(
                    f"rows says that {reached.stop - reached.start} records reach a "
                    f"{type(layer).__name__} layer, but {len(before)} do"
                )
        arrived = torch.autograd.grad(total, [after for _, after, _ in tape.values()])

    with torch.no_grad():
        squared = losses.new_zeros(len(parts), len(inputs))
        shares: list[tuple[_Share, int, slice]] = []
        for (layer, (before, _, _)), back in zip(tape.items(), arrived, strict=True):
            reached = rows.get(layer, slice(0, len(inputs)))
            for share in _layer_shares(layer, before.detach(), back):
                part = part_of[id(share.parameter)]
                squared[part, reached] += share.squared
                shares.append((share, part, reached))
        norms = squared.clamp_(min=0.0).sqrt_()
        limits = torch.tensor(clips, device=norms.device, dtype=norms.dtype)
        weights = (norms / limits[:, None]).clamp_(min=1.0).reciprocal_()
        sums = {
            id(share.parameter): share.weighted_sum(weights[part, reached])
            for share, part, reached in shares
        }
    gradient = [
        sums[id(p)].view_as(p) if id(p) in sums else torch.zeros_like(p) for p in parameters
    ]
    return ClippedSum(gradient, norms, total.detach())


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
    layers = _trainable_layers(model)
    with torch.no_grad(), _recording(layers) as tape:
        model(inputs[:1])
    numbers = 0
    for layer, (before, after, _) in tape.items():
        numbers += before.numel() + 2 * after.numel()
        if isinstance(layer, nn.Conv2d):
            width, out = layer.weight[0].numel(), layer.out_channels
            positions = after[0, 0].numel()
            numbers += positions * width  # patches
            numbers += out * width if _direct(positions, width, out) else 0  # gradients
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


@dataclass(frozen=True)
class _Share:
    """One parameter's share: squared norms, and the sum of gradients under given weights."""

    parameter: nn.Parameter
    squared: Tensor
    weighted_sum: Callable[[Tensor], Tensor]


def _trainable_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Every layer with trainable parameters of its own; refuses kinds that are not covered."""
    layers: dict[str, nn.Module] = {}
    owned: set[int] = set()
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                f"layer {name or 'model'!r} ({type(module).__name__}) mixes records: "
                "no record's gradient can be clipped on its own"
            )
        own = [p for p in module.parameters(recurse=False) if p.requires_grad]
        if not own:
            continue
        covered = type(module) in (nn.Linear, nn.Conv2d, nn.GroupNorm)
        if isinstance(module, nn.Conv2d):
            covered &= (
                module.groups == 1 and module.padding_mode == "zeros" and module.padding != "same"
            )
        if not covered:
            raise ValueError(
                f"layer {name or 'model'!r} ({type(module).__name__}) has trainable parameters; "
                "clipping knows nn.Linear, nn.GroupNorm, and nn.Conv2d with groups=1 and numeric "
                "zero padding"
            )
        if any(id(p) in owned for p in own):
            raise ValueError(f"layer {name!r} shares a parameter with another layer")
        owned.update(id(p) for p in own)
        layers[name] = module
    if not layers:
        raise ValueError("model has no trainable parameters")
    return layers


@contextmanager
def _recording(layers: dict[str, nn.Module]) -> Iterator[Tape]:
    """While open, keep each layer's input and output of one forward pass."""
    tape: Tape = {}

    def keep(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        if layer in tape:
            raise ValueError(f"a {type(layer).__name__} layer is used twice in one forward pass")
        tape[layer] = (args[0], output, (args[0]._version, output._version))

    hooks = [layer.register_forward_hook(keep) for layer in layers.values()]
    try:
        yield tape
    finally:
        for hook in hooks:
            hook.remove()


def _layer_shares(layer: nn.Module, before: Tensor, back: Tensor) -> Iterator[_Share]:
    """Weight and bias of one layer, from its input and the gradient at its output."""
    weight, bias = layer.weight, layer.bias
    if isinstance(layer, nn.GroupNorm):
        yield from _norm_shares(layer, before, back)
        return
    if isinstance(layer, nn.Conv2d):
        rows, arrived, reorder = *_as_positions(layer, before, back), _kernel_order(layer)
    else:
        rows, arrived, reorder = before, back, None
        if before.ndim > 2:
            rows, arrived = before.flatten(1, -2), back.flatten(1, -2)

    if weight.requires_grad:
        share = _one_position if rows.ndim == 2 else _many_positions
        yield share(weight, rows, arrived, reorder)
    if bias is not None and bias.requires_grad:
        summed = arrived if arrived.ndim == 2 else arrived.sum(1)
        yield _Share(bias, _squares(summed), lambda w: w @ summed)


def _norm_shares(layer: nn.GroupNorm, before: Tensor, back: Tensor) -> Iterator[_Share]:
    """Scales and shifts: one gradient per record and channel, summed over the positions."""
    normed = functional.group_norm(before, layer.num_groups, eps=layer.eps)
    for parameter, at_output in ((layer.weight, back * normed), (layer.bias, back)):
        if parameter.requires_grad:
            gradients = at_output.flatten(2).sum(2) if back.ndim > 2 else at_output
            yield _Share(parameter, _squares(gradients), gradients.t().mv)


def _one_position(weight: nn.Parameter, rows: Tensor, arrived: Tensor, _: object) -> _Share:
    """A linear layer on vectors: the norm of an outer product; rows (B, in), arrived (B, out)."""
    return _Share(
        weight, _squares(rows) * _squares(arrived), lambda w: (arrived * w[:, None]).t() @ rows
    )


def _many_positions(
    weight: nn.Parameter, rows: Tensor, arrived: Tensor, reorder: Callable[[Tensor], Tensor] | None
) -> _Share:
    """A layer at T positions, the cheaper of two ways: rows (B, T, K), arrived (B, T, O)."""
    batch, positions, width = rows.shape
    out = arrived.shape[2]
    finish = reorder or (lambda gradient: gradient)
    direct = _direct(positions, width, out)
    step = max(1, MATERIAL // (out * width if direct else 2 * positions**2))
    if direct and batch <= step:
        gradients = torch.bmm(arrived.transpose(1, 2), rows).flatten(1)
        return _Share(
            weight, _squares(gradients), lambda w: finish((w @ gradients).view(out, width))
        )

    def squares(a: Tensor, g: Tensor) -> Tensor:
        if direct:
            return _squares(torch.bmm(g.transpose(1, 2), a).flatten(1))
        return (torch.bmm(a, a.transpose(1, 2)) * torch.bmm(g, g.transpose(1, 2))).sum((1, 2))

    pieces = [squares(a, g) for a, g in zip(rows.split(step), arrived.split(step), strict=True)]

    def weighted_sum(w: Tensor) -> Tensor:
        return finish((arrived * w[:, None, None]).flatten(0, 1).t() @ rows.flatten(0, 1))

    return _Share(weight, torch.cat(pieces), weighted_sum)


def _direct(positions: int, width: int, out: int) -> bool:
    """Whether gradients are cheaper than Gram matrices, by multiplications per record.

    The gradient itself is T*O*K and then read twice; Gram matrices are T*T*(O+K), and the weighted
    sum costs T*O*K once more.
    """
    return 2 * out * width <= positions**2 * (out + width)


def _as_positions(layer: nn.Conv2d, before: Tensor, back: Tensor) -> tuple[Tensor, Tensor]:
    """A convolution as a matrix product: patches (B, T, kh*kw*C) and output gradients (B, T, O)."""
    (kh, kw), (sh, sw), (dh, dw) = layer.kernel_size, layer.stride, layer.dilation
    ph, pw = (0, 0) if layer.padding == "valid" else layer.padding
    if ph or pw:
        before = functional.pad(before, (pw, pw, ph, ph))
    image = before.permute(
        0, 2, 3, 1
    ).contiguous()  # (B, H, W, C): no copy for channels-last tensors
    batch, _, _, channels = image.shape
    height, width = back.shape[2:]
    b, y, x, c = image.stride()
    patches = image.as_strided(
        (batch, height, width, kh, kw, channels), (b, sh * y, sw * x, dh * y, dw * x, c)
    )
    return patches.reshape(batch, height * width, -1), back.permute(0, 2, 3, 1).reshape(
        batch, height * width, -1
    )


def _kernel_order(layer: nn.Conv2d) -> Callable[[Tensor], Tensor]:
    """From rows (O, kh*kw*C) back to the shape of the kernel, (O, C, kh, kw)."""
    out, channels, kh, kw = layer.weight.shape
    return lambda gradient: gradient.view(out, kh, kw, channels).permute(0, 3, 1, 2)


def _squares(rows: Tensor) -> Tensor:
    """Squared Euclidean norm of each row, (B, n) -> (B,)."""
    return torch.linalg.vector_norm(rows, dim=1).square_()
