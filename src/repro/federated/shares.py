"""Per-record norms and weighted sums of gradients, from inputs and output gradients of layers.

Nothing here goes over records in a loop, and what is exact and how is said of each kind:

* linear layers, convolutions, the projections of attention: outer products summed over positions.
  Norms come from Gram matrices over positions (linear layers on vectors: a product of two norms) or
  from the gradients of a piece of the batch; whichever is cheaper. Exact identities.
* scales and shifts of group and layer normalisation: one number per channel and record, smaller
  than the layer's input; they are simply formed.
* embeddings: the gradient of a record is zero outside the rows that it looks up. Output gradients
  of equal rows are added up, record by record; norms and sums need only these. Exact, and no
  record's table is formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from repro.federated.taps import EVERY, Tap

MATERIAL = 2**25
"""At most this many numbers of per-record gradients are held at once for one layer (128 MiB in
float32).
"""

HELD = 2**26
"""At most this many are kept of all layers together until the sums are formed (256 MiB)."""

CACHED = 2**18
"""Numbers of patches that are worked on at once on a CPU: they stay in the cache of a core (1 MiB in float32)."""

SHORT = 32
"""Numbers that lie together: fewer are slow to copy, so that a second, smaller copy pays."""


@dataclass(frozen=True)
class Share:
    """One parameter's share: squared norms, and the sum of gradients under given weights.

    Attributes:
        parameter: the parameter.
        rows: the rows of it that the share is of.
        squared: squared norm of each record's gradient, shape (records,).
        weighted_sum: from weights (records,) to the weighted sum of the gradients.
        held: how many numbers of per-record gradients the share keeps.
    """

    parameter: nn.Parameter
    rows: slice
    squared: Tensor
    weighted_sum: Callable[[Tensor], Tensor]
    held: int = 0


def shares_of(tap: Tap, back: Tensor, room: int) -> Iterator[Share]:
    """The shares of the trainable parameters of one tap.

    Args:
        tap: its input is detached here.
        back: the gradient of the loss at its output, of the output's shape.
        room: numbers of per-record gradients that may be kept.
    """
    layer, before = tap.layer, tap.before.detach()
    if isinstance(layer, (nn.GroupNorm, nn.LayerNorm)):
        yield from _norm_shares(layer, before, back)
        return
    if isinstance(layer, nn.Embedding):
        yield _embedding_share(layer, before, back)
        return
    arrived, finish = back, _as_it_is
    if isinstance(layer, (nn.Conv1d, nn.Conv2d)):
        arrived, finish = back.movedim(1, -1).flatten(1, -2), _kernel_order(layer)
    elif back.ndim > 2:
        before, arrived = before.flatten(1, -2), back.flatten(1, -2)

    def rows(part: slice) -> Tensor:
        """What went in at each position, of some records."""
        if finish is _as_it_is:
            return before[part]
        return _patches(layer, before[part], back.shape[2:])

    if tap.weight.requires_grad:
        if arrived.ndim == 2:
            yield _one_position(tap, before, arrived)
        else:
            yield _many_positions(tap, rows, arrived, finish, room)
    if tap.bias is not None and tap.bias.requires_grad:
        summed = arrived if arrived.ndim == 2 else arrived.sum(1)
        yield Share(tap.bias, tap.bias_rows, _squares(summed), lambda w: w @ summed)


def _norm_shares(
    layer: nn.GroupNorm | nn.LayerNorm, before: Tensor, back: Tensor
) -> Iterator[Share]:
    """Scales and shifts: one gradient per record and channel, summed over the positions."""
    if isinstance(layer, nn.LayerNorm) and before.ndim <= len(layer.normalized_shape):
        raise ValueError(
            f"normalized_shape must leave out the records, got {layer.normalized_shape} for an "
            f"input of shape {tuple(before.shape)}"
        )
    for parameter in (layer.weight, layer.bias):
        if parameter is None or not parameter.requires_grad:
            continue
        at_output = back * _normed(layer, before) if parameter is layer.weight else back
        if isinstance(layer, nn.GroupNorm):
            gradients = at_output.flatten(2).sum(2) if back.ndim > 2 else at_output
        else:
            gradients = at_output.reshape(len(back), -1, parameter.numel()).sum(1)
        yield Share(parameter, EVERY, _squares(gradients), gradients.t().mv)


def _normed(layer: nn.GroupNorm | nn.LayerNorm, before: Tensor) -> Tensor:
    """What a normalisation multiplies by its scales."""
    if isinstance(layer, nn.GroupNorm):
        return functional.group_norm(before, layer.num_groups, eps=layer.eps)
    # With scales of one and shifts of zero PyTorch takes its faster way, with the same bits.
    one = torch.ones_like(layer.weight)
    return functional.layer_norm(
        before, layer.normalized_shape, one, torch.zeros_like(one), layer.eps
    )


def _embedding_share(layer: nn.Embedding, before: Tensor, back: Tensor) -> Share:
    """Rows of a table: output gradients of the same row of the same record are added up first."""
    rows, records = layer.num_embeddings, torch.arange(len(before), device=before.device)
    index = before.reshape(len(before), -1)
    arrived = back.reshape(-1, layer.embedding_dim)
    if layer.padding_idx is not None:
        arrived = arrived * (index != layer.padding_idx).view(-1, 1)
    pairs, place = torch.unique(index + records[:, None] * rows, return_inverse=True)
    gradients = arrived.new_zeros(len(pairs), layer.embedding_dim)
    gradients.index_add_(0, place.flatten(), arrived)
    owner, row = pairs // rows, pairs % rows
    squared = arrived.new_zeros(len(before)).index_add_(0, owner, _squares(gradients))

    def weighted_sum(w: Tensor) -> Tensor:
        return torch.zeros_like(layer.weight).index_add_(0, row, gradients * w[owner][:, None])

    return Share(layer.weight, EVERY, squared, weighted_sum)


def _one_position(tap: Tap, rows: Tensor, arrived: Tensor) -> Share:
    """A linear layer on vectors: the norm of an outer product; rows (B, in), arrived (B, out)."""
    return Share(
        tap.weight,
        tap.weight_rows,
        _squares(rows) * _squares(arrived),
        lambda w: (arrived * w[:, None]).t() @ rows,
    )


def _many_positions(
    tap: Tap,
    part_rows: Callable[[slice], Tensor],
    arrived: Tensor,
    finish: Callable[[Tensor], Tensor],
    room: int,
) -> Share:
    """A layer at T positions, the cheaper of two ways: rows (records, T, K) of any part, arrived (B, T, O)."""
    batch, positions, out = arrived.shape
    width = tap.weight[0].numel()
    direct = direct_is_cheaper(positions, width, out)
    step = max(1, MATERIAL // (out * width if direct else 2 * positions**2))
    if direct and batch <= step and batch * out * width <= room:
        gradients = arrived.new_empty(batch, out, width)
        piece = max(1, CACHED // (positions * width)) if arrived.device.type == "cpu" else batch
        for start in range(0, batch, piece):
            part = slice(start, start + piece)
            torch.bmm(arrived[part].transpose(1, 2), part_rows(part), out=gradients[part])
        gradients = gradients.flatten(1)
        return Share(
            tap.weight,
            tap.weight_rows,
            _squares(gradients),
            lambda w: finish((w @ gradients).view(out, width)),
            held=gradients.numel(),
        )
    rows = part_rows(slice(None))

    def squares(a: Tensor, g: Tensor) -> Tensor:
        if direct:
            return _squares(torch.bmm(g.transpose(1, 2), a).flatten(1))
        return (torch.bmm(a, a.transpose(1, 2)) * torch.bmm(g, g.transpose(1, 2))).sum((1, 2))

    pieces = [squares(a, g) for a, g in zip(rows.split(step), arrived.split(step), strict=True)]

    def weighted_sum(w: Tensor) -> Tensor:
        return finish((arrived * w[:, None, None]).flatten(0, 1).t() @ rows.flatten(0, 1))

    return Share(tap.weight, tap.weight_rows, torch.cat(pieces), weighted_sum)


def direct_is_cheaper(positions: int, width: int, out: int) -> bool:
    """Whether gradients are cheaper than Gram matrices, by multiplications per record.

    The gradient itself is T*O*K and then read twice; Gram matrices are T*T*(O+K), and the weighted
    sum costs T*O*K once more.
    """
    return 2 * out * width <= positions**2 * (out + width)


def _patches(layer: nn.Conv1d | nn.Conv2d, before: Tensor, sides: tuple[int, ...]) -> Tensor:
    """What a convolution multiplies by its kernels, (B, T, kh*kw*C), where its output has these sides."""
    options = (layer.kernel_size, layer.stride, layer.dilation)
    padding = (0, 0) if layer.padding == "valid" else layer.padding
    if isinstance(layer, nn.Conv1d):  # an image of height 1
        before, sides = before.unsqueeze(2), (1, *sides)
        options = [(1, *option) for option in options]
        padding = (0, padding[-1])
    (kh, kw), (sh, sw), (dh, dw) = options
    ph, pw = padding
    if ph or pw:
        before = functional.pad(before, (pw, pw, ph, ph))
    image = before.permute(
        0, 2, 3, 1
    ).contiguous()  # (B, H, W, C): no copy for channels-last tensors
    batch, _, _, channels = image.shape
    height, width = sides
    b, y, x, c = image.stride()
    if kw * channels < SHORT:  # first all kernel rows, so that patches are copied kernel by kernel
        size = (batch, width, image.shape[1], kw, channels)
        strips = image.as_strided(size, (b, sw * x, y, dw * x, c)).contiguous()
        b, x, y = strips.stride()[:3]
        size, step = (batch, height, width, kh, kw * channels), (b, sh * y, x, dh * y, 1)
        patches = strips.as_strided(size, step)
    else:
        size = (batch, height, width, kh, kw, channels)
        patches = image.as_strided(size, (b, sh * y, sw * x, dh * y, dw * x, c))
    return patches.reshape(batch, height * width, -1)


def _as_it_is(gradient: Tensor) -> Tensor:
    """A gradient (O, K) that has the shape of its parameter."""
    return gradient


def _kernel_order(layer: nn.Conv1d | nn.Conv2d) -> Callable[[Tensor], Tensor]:
    """From rows (O, kh*kw*C) back to the shape of the kernel, (O, C, kh, kw) or (O, C, kw)."""
    out, channels, *sides = layer.weight.shape
    return lambda gradient: gradient.view(out, *sides, channels).movedim(-1, 1)


def _squares(rows: Tensor) -> Tensor:
    """Squared Euclidean norm of each row, (B, n) -> (B,)."""
    return torch.linalg.vector_norm(rows, dim=1).square_()
