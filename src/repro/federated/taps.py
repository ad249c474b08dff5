"""Where data meet parameters in a forward pass: which layers clipping covers, and what it records.

A tap is the input and the output of one product with a parameter. Most layers have one. Multi-head
attention has two to four: one for queries, keys and values together where they are the same tensor,
else one for each, and one for the output. Attention runs here in place of `nn.MultiheadAttention`'s
own forward pass, which does not show its projections.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.instancenorm import _InstanceNorm

COVERED = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Embedding,
    nn.GroupNorm,
    nn.LayerNorm,
    nn.MultiheadAttention,
)

EVERY = slice(None)
"""All rows of a parameter."""


@dataclass(frozen=True)
class Tap:
    """One product of data with parameters.

    Attributes:
        layer: the layer that it is in.
        before, after: input and output, shape (records, ...).
        versions: their version counters, which in-place changes advance.
        weight, bias: the parameters; no bias is None.
        weight_rows, bias_rows: their rows that take part.
    """

    layer: nn.Module
    before: Tensor
    after: Tensor
    versions: tuple[int, int]
    weight: nn.Parameter
    bias: nn.Parameter | None
    weight_rows: slice
    bias_rows: slice


Tape = dict[nn.Module, list[Tap]]
"""The taps of each layer, in the order of the forward pass."""


def trainable_layers(model: nn.Module) -> dict[str, nn.Module]:
    """Every layer with trainable parameters of its own, by name.

    Raises:
        ValueError: a layer of a kind that is not covered, one that mixes records, or one that
            shares a parameter with another layer.
    """
    layers: dict[str, nn.Module] = {}
    owned: set[int] = set()
    inside: set[nn.Module] = set()  # the output projections, which belong to their attention layer
    for name, module in model.named_modules():
        label = f"layer {name or 'model'!r} ({type(module).__name__})"
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                f"{label} mixes records: no record's gradient can be clipped on its own; "
                "use nn.GroupNorm or nn.LayerNorm in its place"
            )
        if isinstance(module, _InstanceNorm) and module.track_running_stats:
            raise ValueError(
                f"{label} keeps averages of the records without noise: it must have "
                "track_running_stats=False"
            )
        whole = type(module) is nn.MultiheadAttention
        if whole:
            inside.add(module.out_proj)
        own = [p for p in module.parameters(recurse=whole) if p.requires_grad]
        if not own or module in inside:
            continue
        if type(module) not in COVERED:
            known = ", ".join(f"nn.{kind.__name__}" for kind in COVERED)
            named = module.named_parameters(recurse=False)
            names = ", ".join(name for name, parameter in named if parameter.requires_grad)
            raise ValueError(
                f"{label} has trainable parameters of its own ({names}); clipping knows {known}"
            )
        if reason := _unsuited(module):
            raise ValueError(f"{label} must have {reason} for clipping")
        if any(id(p) in owned for p in own):
            raise ValueError(f"layer {name!r} shares a parameter with another layer")
        owned.update(id(p) for p in own)
        layers[name] = module
    if not layers:
        raise ValueError("model has no trainable parameters")
    return layers


def _unsuited(layer: nn.Module) -> str:
    """The options that a layer must have and has not; "" where all is well."""
    if isinstance(layer, (nn.Conv1d, nn.Conv2d)):
        plain = layer.groups == 1 and layer.padding_mode == "zeros" and layer.padding != "same"
        return "" if plain else "groups=1 and numeric zero padding"
    if isinstance(layer, nn.Embedding):
        # One divides by counts over the batch, the other changes weights according to the data.
        plain = layer.max_norm is None and not layer.scale_grad_by_freq and not layer.sparse
        return "" if plain else "max_norm=None, scale_grad_by_freq=False and sparse=False"
    if isinstance(layer, nn.MultiheadAttention):
        plain = layer.batch_first and layer.bias_k is None and not layer.add_zero_attn
        return "" if plain else "batch_first=True, add_bias_kv=False and add_zero_attn=False"
    return ""


@contextmanager
def recording(layers: dict[str, nn.Module]) -> Iterator[Tape]:
    """While open, keep the taps of each layer in one forward pass.

    Raises:
        ValueError: a layer is used twice (in the forward pass).
    """
    tape: Tape = {}
    attention = [layer for layer in layers.values() if isinstance(layer, nn.MultiheadAttention)]

    def keep(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
        bias = getattr(layer, "bias", None)  # an embedding has none
        _add(tape, layer, [_tap(layer, args[0], output, layer.weight, bias)])

    hooks = [
        layer.register_forward_hook(keep)
        for layer in layers.values()
        if not isinstance(layer, nn.MultiheadAttention)
    ]
    try:
        for layer in attention:
            layer.forward = partial(_attend, layer, tape)
        yield tape
    finally:
        for hook in hooks:
            hook.remove()
        for layer in attention:
            vars(layer).pop("forward", None)


def _tap(
    layer: nn.Module,
    before: Tensor,
    after: Tensor,
    weight: nn.Parameter | None,
    bias: nn.Parameter | None,
    weight_rows: slice = EVERY,
    bias_rows: slice = EVERY,
) -> Tap:
    versions = (before._version, after._version)
    return Tap(layer, before, after, versions, weight, bias, weight_rows, bias_rows)


def _add(tape: Tape, layer: nn.Module, taps: list[Tap]) -> None:
    if layer in tape:
        raise ValueError(f"a {type(layer).__name__} layer is used twice in one forward pass")
    tape[layer] = taps


# Attention --------------------------------------------------------------------------------------


def _attend(
    layer: nn.MultiheadAttention,
    tape: Tape,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What `nn.MultiheadAttention.forward` computes, with its projections on the tape.

    Args:
        query: shape (B, L, E); key and value (B, S, ...).
        key_padding_mask, need_weights, attn_mask, average_attn_weights: as there.
        is_causal: says only that `attn_mask` is causal, as there; the mask itself is what counts.
    """
    if query.ndim != 3:
        raise ValueError(f"query must have shape (records, positions, width), got {query.shape}")
    if is_causal and attn_mask is None:
        raise ValueError("attn_mask must be given where is_causal is True, got None")
    heads, width = layer.num_heads, layer.head_dim
    taps = _projected(layer, query, key, value)
    q, k, v = (
        part.unflatten(-1, (heads, width)).transpose(1, 2)  # (B, heads, positions, width)
        for part in (taps[0].after.chunk(3, -1) if len(taps) == 1 else [t.after for t in taps])
    )
    mask = _merged(heads, q, attn_mask, key_padding_mask)
    dropout = layer.dropout if layer.training else 0.0
    weights = None
    if need_weights:
        scores = q @ k.transpose(-2, -1) / math.sqrt(width)
        weights = torch.softmax(scores if mask is None else scores + mask, dim=-1)
        weights = functional.dropout(weights, dropout)
        heard = weights @ v
        weights = weights.mean(dim=1) if average_attn_weights else weights
    else:
        heard = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
    heard = heard.transpose(1, 2).flatten(2)
    out = layer.out_proj
    output = functional.linear(heard, out.weight, out.bias)
    _add(tape, layer, [*taps, _tap(layer, heard, output, out.weight, out.bias)])
    return output, weights


def _projected(
    layer: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor
) -> list[Tap]:
    """The taps of the projections: one for all three where they have one input, else three."""
    size, packed, bias = layer.embed_dim, layer.in_proj_weight, layer.in_proj_bias
    if packed is not None and query is key and key is value:
        return [_tap(layer, query, functional.linear(query, packed, bias), packed, bias)]
    taps = []
    own = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
    for j, (source, apart) in enumerate(zip((query, key, value), own, strict=True)):
        rows = slice(j * size, (j + 1) * size)
        weight, place = (apart, EVERY) if packed is None else (packed, rows)
        shift = None if bias is None else bias[rows]
        after = functional.linear(source, weight[place], shift)
        taps.append(_tap(layer, source, after, weight, bias, place, rows))
    return taps


def _merged(
    heads: int,
    like: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
) -> Tensor | None:
    """Both masks as one that is added to the scores and broadcasts to (B, heads, L, S)."""
    masks = []
    if attn_mask is not None:
        each = attn_mask if attn_mask.ndim == 2 else attn_mask.unflatten(0, (-1, heads))
        masks.append(each)
    if key_padding_mask is not None:
        masks.append(key_padding_mask[:, None, None, :])
    added = [
        like.new_zeros(mask.shape).masked_fill_(mask, -math.inf)
        if mask.dtype == torch.bool
        else mask
        for mask in masks
    ]
    return sum(added[1:], start=added[0]) if added else None
