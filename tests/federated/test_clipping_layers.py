"""Clipping in sequence models: every layer against a loop over records, and against Opacus."""

import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from repro.federated import clipping, shares
from repro.federated.clipping import clipped_gradient_sum, cross_entropy

CLASSES = 3


def each_gradient(model, inputs, targets):
    """One backward pass per record: a list over trainable parameters of (records, ...)."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = [
        torch.autograd.grad(
            cross_entropy(model(inputs[i : i + 1]), targets[i : i + 1]).sum(), parameters
        )
        for i in range(len(inputs))
    ]
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def assert_exact(model, inputs, targets, clip, tolerance=1e-10):
    """The clipped sum and the norms are those of the loop over records, in double precision."""
    gradients = each_gradient(model, inputs, targets)
    norms = sum(g.flatten(1).square().sum(1) for g in gradients).sqrt()
    weights = (norms / clip).clamp(min=1).reciprocal()
    found = clipped_gradient_sum(model, inputs, targets, clip)
    torch.testing.assert_close(found.norms, norms, rtol=tolerance, atol=tolerance)
    for ours, each in zip(found.gradient, gradients, strict=True):
        expected = torch.tensordot(weights, each, dims=1)
        assert ours.shape == expected.shape
        torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)


def random(model, seed=0):
    """Parameters away from the special values (zeros and ones) that they start from."""
    generator = torch.Generator().manual_seed(seed)
    for p in model.double().parameters():
        p.data += 0.3 * torch.randn(p.shape, generator=generator, dtype=p.dtype)
    return model


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def labels(size, seed=1):
    return torch.randint(0, CLASSES, (size,), generator=torch.Generator().manual_seed(seed))


CLIPS = st.sampled_from([1e-4, 0.3, 1e6, math.inf])


# One kind of layer at a time ----------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    channels=st.integers(1, 4),
    out=st.integers(1, 5),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    padding=st.sampled_from([0, 2, "valid"]),
    dilation=st.integers(1, 2),
    bias=st.booleans(),
    size=st.integers(1, 4),
    clip=CLIPS,
)
def test_convolutions_along_a_sequence(
    channels, out, kernel, stride, padding, dilation, bias, size, clip
):
    conv = nn.Conv1d(channels, out, kernel, stride, padding, dilation, bias=bias)
    features = conv(torch.zeros(1, channels, 11)).numel()
    model = random(nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(features, CLASSES)))
    assert_exact(model, numbers(size, channels, 11), labels(size), clip)


@settings(max_examples=30, deadline=None)
@given(
    shape=st.sampled_from([(6,), (4, 6), (3, 4, 6)]),
    over=st.integers(1, 3),
    bias=st.booleans(),
    size=st.integers(1, 4),
    clip=CLIPS,
)
def test_layer_norms_over_one_or_more_axes(shape, over, bias, size, clip):
    norm = nn.LayerNorm(shape[-over:], bias=bias)
    model = random(nn.Sequential(norm, nn.Flatten(), nn.Linear(math.prod(shape), CLASSES)))
    assert_exact(model, numbers(size, *shape), labels(size), clip)


@pytest.mark.parametrize("shape", [(6,), (6, 5), (6, 3, 4)])
def test_group_norms_of_vectors_sequences_and_images(shape):
    model = random(
        nn.Sequential(nn.GroupNorm(2, 6), nn.Flatten(), nn.Linear(math.prod(shape), CLASSES))
    )
    assert_exact(model, numbers(4, *shape), labels(4), 0.2)


@settings(max_examples=40, deadline=None)
@given(
    table=st.integers(1, 6),
    width=st.integers(1, 4),
    shape=st.sampled_from([(), (1,), (5,), (2, 3)]),
    padding=st.sampled_from([None, 0, -1]),
    size=st.integers(1, 5),
    clip=CLIPS,
    seed=st.integers(0, 99),
)
def test_embeddings_with_repeated_rows(table, width, shape, padding, size, clip, seed):
    model = random(
        nn.Sequential(
            nn.Embedding(table, width, padding_idx=padding),
            nn.Flatten(),
            nn.Linear(width * math.prod(shape), CLASSES),
        )
    )
    index = torch.randint(
        0, table, (size, *shape), generator=torch.Generator().manual_seed(seed)
    )  # of at most six rows: most records look one up more than once
    assert_exact(model, index, labels(size), clip)


def test_a_record_that_looks_one_row_up_everywhere_has_the_norm_of_the_summed_gradients():
    """By hand: with the loss sum_t <c_t, row>, the gradient of that row is sum_t c_t."""
    table = nn.Embedding(5, 3).double()
    c = numbers(4, 3)
    found = clipped_gradient_sum(
        table,
        torch.tensor([[2, 2, 2, 2], [0, 1, 2, 3]]),
        torch.zeros(2),
        1.0,
        loss=lambda out, _: (out * c).sum((1, 2)),
    )
    torch.testing.assert_close(found.norms, torch.stack([c.sum(0).norm(), c.norm()]))
    expected = torch.zeros(5, 3, dtype=torch.float64)
    expected[2] += c.sum(0) / max(1.0, float(c.sum(0).norm()))
    expected[:4] += c / max(1.0, float(c.norm()))
    torch.testing.assert_close(found.gradient[0], expected)


class Attended(nn.Module):
    """Attention of queries to keys and values in one of the ways of `kind`, then a pool."""

    def __init__(self, kind, heads, bias=True, **options):
        super().__init__()
        self.kind, self.options = kind, options
        apart = {"kdim": 5, "vdim": 7} if kind == "widths" else {}
        self.attention = nn.MultiheadAttention(6, heads, bias=bias, batch_first=True, **apart)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x):
        other = x[:, 1:].flip(1)
        value = other if self.kind == "cross" else torch.tanh(other)
        if self.kind == "self":
            out, weights = self.attention(x, x, x, **self.options)
        elif self.kind == "widths":
            out, weights = self.attention(x, other[..., :5], other.repeat(1, 1, 2)[..., :7])
        else:
            out, weights = self.attention(x, other, value, **self.options)
        pooled = out.mean(1)
        return self.last(
            pooled if weights is None else pooled * weights.flatten(1).norm(dim=1)[:, None]
        )


@pytest.mark.parametrize("kind", ["self", "cross", "three", "widths"])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_attention_to_itself_and_to_others(kind, heads, options):
    model = random(Attended(kind, heads, bias=heads == 3, **options))
    assert_exact(model, numbers(4, 5, 6), labels(4), 0.1)


@pytest.mark.parametrize("frozen", ["in_proj_weight", "in_proj_bias", "out_proj.weight"])
def test_frozen_parameters_of_attention_are_left_out(frozen):
    model = random(Attended("cross", 2))
    model.attention.get_parameter(frozen).requires_grad_(False)
    assert_exact(model, numbers(3, 5, 6), labels(3), 0.1)


BANNED = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
PADDED = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1]], dtype=torch.bool)


@pytest.mark.parametrize(
    "masks",
    [
        {"attn_mask": BANNED},
        {"attn_mask": BANNED, "is_causal": True},
        {"attn_mask": numbers(5, 5)},
        {"attn_mask": numbers(3 * 2, 5, 5)},
        {"key_padding_mask": PADDED},
        {"key_padding_mask": PADDED, "attn_mask": BANNED},
        {"key_padding_mask": PADDED.double() * -2, "attn_mask": numbers(5, 5)},
    ],
)
@pytest.mark.parametrize("weights", [True, False])
def test_attention_computes_what_pytorch_computes(masks, weights):
    """The recorded forward pass against nn.MultiheadAttention, and its gradient against autograd."""
    model = random(Attended("self", 2, need_weights=weights, **masks))
    inputs, targets = numbers(3, 5, 6), labels(3)
    losses = []

    def loss(outputs, targets):
        losses.append(outputs.detach())
        return cross_entropy(outputs, targets)

    found = clipped_gradient_sum(model, inputs, targets, math.inf, loss=loss)
    torch.testing.assert_close(losses[0], model(inputs).detach(), rtol=1e-12, atol=1e-12)
    total = cross_entropy(model(inputs), targets).sum()
    for ours, theirs in zip(
        found.gradient, torch.autograd.grad(total, list(model.parameters())), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_dropout_in_attention_draws_the_same_masks_as_pytorch_where_weights_are_asked_for():
    model = random(Attended("self", 2))
    model.attention.dropout = 0.5
    inputs, targets, outputs = numbers(3, 5, 6), labels(3), []
    torch.manual_seed(0)
    clipped_gradient_sum(
        model, inputs, targets, 1.0, loss=lambda o, t: outputs.append(o) or cross_entropy(o, t)
    )
    torch.manual_seed(0)
    torch.testing.assert_close(outputs[0], model(inputs))
    model.eval()
    assert not torch.allclose(outputs[0], model(inputs))


# Whole models -------------------------------------------------------------------------------------


class Reader(nn.Module):
    """A small transformer over words, with embedded positions."""

    def __init__(self, words=11, width=6, heads=2, attention=nn.MultiheadAttention, padding=0):
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=padding)
        self.places = nn.Embedding(9, width)
        self.attention = attention(width, heads, batch_first=True)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)
        self.along = nn.Conv1d(width, 4, 3, padding=1)
        self.groups = nn.GroupNorm(2, 4)
        self.last = nn.Linear(4, CLASSES)

    def forward(self, index):
        places = torch.arange(index.shape[1]).expand_as(index)
        x = self.words(index) + self.places(places)
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.narrow(torch.tanh(self.wide(self.after(x))))
        return self.last(torch.tanh(self.groups(self.along(x.transpose(1, 2)))).mean(2))


def sentences(size, length, seed=0):
    return torch.randint(0, 11, (size, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("length", [1, 3, 9])
@pytest.mark.parametrize("clip", [1e-3, 1.0, math.inf])
def test_a_transformer_against_a_loop_over_records(length, clip):
    assert_exact(random(Reader()), sentences(5, length), labels(5), clip)


@pytest.mark.parametrize("training", [True, False])
def test_the_encoder_layers_of_pytorch(training):
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)
    model = random(
        nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(24, CLASSES))
    ).train(training)
    assert_exact(model, numbers(4, 4, 6), labels(4), 0.5)


def test_no_room_for_gradients_gives_the_same_sums(monkeypatch):
    """With nothing kept from one layer to the next, sums are formed from inputs and outputs."""
    model, inputs, targets = random(Reader()), sentences(6, 9), labels(6)
    whole = clipped_gradient_sum(model, inputs, targets, 0.1)
    monkeypatch.setattr(clipping, "HELD", 0)
    monkeypatch.setattr(shares, "MATERIAL", 50)
    bare = clipped_gradient_sum(model, inputs, targets, 0.1)
    torch.testing.assert_close(bare.norms, whole.norms, rtol=1e-12, atol=1e-12)
    for a, b in zip(bare.gradient, whole.gradient, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("cached", [1, 100, 10**9])
@pytest.mark.parametrize("kernel", [nn.Conv1d, nn.Conv2d])
def test_pieces_of_any_size_give_the_same_sums(monkeypatch, kernel, cached):
    """Records are worked on in pieces that fit into a cache; a piece may be one record, or the last one shorter."""
    sides = (9,) if kernel is nn.Conv1d else (9, 9)
    conv = kernel(2, 3, 3, 2, 1)
    features = conv(torch.zeros(1, 2, *sides)).numel()
    model = random(nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(features, CLASSES)))
    inputs, targets, made, real = numbers(7, 2, *sides), labels(7), [], shares._patches
    whole = clipped_gradient_sum(model, inputs, targets, 0.1)

    def noted(layer, before, sides):
        made.append(len(before))
        return real(layer, before, sides)

    monkeypatch.setattr(shares, "_patches", noted)
    monkeypatch.setattr(shares, "direct_is_cheaper", lambda *_: True)
    monkeypatch.setattr(shares, "CACHED", cached)
    found = clipped_gradient_sum(model, inputs, targets, 0.1)
    assert sum(made) == 7 and (len(made) == 1) == (cached == 10**9)
    for a, b in zip(found.gradient, whole.gradient, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)
    assert_exact(model, inputs, targets, 0.1)


def test_kept_gradients_stay_within_their_limit(monkeypatch):
    """The limit holds for all layers together, not for each."""
    model, inputs, targets = random(Reader()), sentences(6, 9), labels(6)
    kept = []
    real = clipping.shares_of

    def note(*args):
        for share in real(*args):
            kept.append(share.held)
            yield share

    monkeypatch.setattr(clipping, "shares_of", note)
    clipped_gradient_sum(model, inputs, targets, 0.1)
    free = sum(kept)
    limit = max(kept)
    assert free > limit > 0  # more than one layer keeps some
    kept.clear()
    monkeypatch.setattr(clipping, "HELD", limit)
    clipped_gradient_sum(model, inputs, targets, 0.1)
    assert 0 < sum(kept) <= limit


def test_a_record_moves_the_sum_by_at_most_the_clip():
    model, inputs, targets = random(Reader()), sentences(5, 9), labels(5)
    for clip in (1e-3, 0.5):
        whole = clipped_gradient_sum(model, inputs, targets, clip).gradient
        for k in range(5):
            others = torch.arange(5) != k
            fewer = clipped_gradient_sum(model, inputs[others], targets[others], clip).gradient
            moved = sum(float((a - b).square().sum()) for a, b in zip(whole, fewer, strict=True))
            assert math.sqrt(moved) <= clip * (1 + 1e-9)


def test_the_model_is_left_as_it_was():
    model = random(Reader())
    clipped_gradient_sum(model, sentences(3, 4), labels(3), 1.0)
    assert "forward" not in vars(model.attention)
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(IndexError):
        clipped_gradient_sum(model, sentences(3, 4) + 100, labels(3), 1.0)
    assert "forward" not in vars(model.attention)


# What is refused ----------------------------------------------------------------------------------


class Shared(nn.Module):
    """Positions embedded once for all records: their gradients are mixed."""

    def __init__(self):
        super().__init__()
        self.places, self.last = nn.Embedding(4, 3), nn.Linear(3, CLASSES)

    def forward(self, x):
        return self.last((x + self.places(torch.arange(4))).mean(1))


class Again(nn.Module):
    """The same attention twice."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(3, 1, batch_first=True)

    def forward(self, x):
        y = self.attention(x, x, x)[0]
        return self.attention(y, y, y)[0].sum(1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Embedding(5, 3, max_norm=1.0), "must have max_norm=None"),
        (nn.Embedding(5, 3, scale_grad_by_freq=True), "scale_grad_by_freq=False"),
        (nn.Embedding(5, 3, sparse=True), "sparse=False"),
        (nn.MultiheadAttention(3, 1), "must have batch_first=True"),
        (nn.MultiheadAttention(3, 1, batch_first=True, add_bias_kv=True), "add_bias_kv=False"),
        (nn.MultiheadAttention(3, 1, batch_first=True, add_zero_attn=True), "add_zero_attn=False"),
        (nn.Conv1d(4, 4, 1, groups=2), r"layer 'model' \(Conv1d\) must have groups=1"),
        (nn.Conv1d(4, 4, 3, padding="same"), "numeric zero padding"),
        (nn.LayerNorm((2, 4, 3)), "normalized_shape must leave out the records"),
        (Shared(), r"must have the 2 records as their first axis, got shape \(4,\) for Embedding"),
        (Again(), "a MultiheadAttention layer is used twice"),
        (nn.SyncBatchNorm(4), r"mixes records.*use nn.GroupNorm or nn.LayerNorm"),
    ],
)
def test_what_cannot_be_clipped_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        clipped_gradient_sum(model, torch.rand(2, 4, 3), torch.zeros(2, dtype=torch.int64), 1.0,
                             loss=lambda out, _: out.flatten(1).sum(1))  # fmt: skip


# Against Opacus -----------------------------------------------------------------------------------


def test_a_transformer_against_opacus():
    """Norms and clipped sums of the same weights, by its hooks on every layer."""
    pytest.importorskip("opacus", reason="Opacus is not installed (pip install .[bench])")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from opacus.grad_sample import GradSampleModule
        from opacus.layers import DPMultiheadAttention

        # Where Opacus 1.6 computes what PyTorch does. It gives the row of a padding word a
        # gradient, and its batch-first attention of several heads mixes heads with positions.
        ours = random(Reader(padding=None, heads=1))
        theirs = Reader(attention=DPMultiheadAttention, padding=None, heads=1).double()
        state = ours.state_dict()
        for kind in ("weight", "bias"):
            packed = state.pop(f"attention.in_proj_{kind}")
            for letter, part in zip("qkv", packed.chunk(3), strict=True):
                state[f"attention.{letter}linear.{kind}"] = part
        theirs.load_state_dict(state)
        inputs, targets = sentences(6, 9), labels(6)
        wrapped = GradSampleModule(theirs, loss_reduction="sum")
        cross_entropy(wrapped(inputs), targets).sum().backward()
    grads = {name: p.grad_sample for name, p in theirs.named_parameters()}
    norms = sum(g.flatten(1).square().sum(1) for g in grads.values()).sqrt()
    weights = (norms / 0.5).clamp(min=1).reciprocal()
    sums = {name: torch.tensordot(weights, g, dims=1) for name, g in grads.items()}
    found = clipped_gradient_sum(ours, inputs, targets, 0.5)
    torch.testing.assert_close(found.norms, norms, rtol=1e-9, atol=1e-9)
    for (name, _), gradient in zip(ours.named_parameters(), found.gradient, strict=True):
        if "in_proj" in name:  # kept there as three linear layers
            kind = name.rsplit("_", 1)[1]
            parts = [sums[f"attention.{letter}linear.{kind}"] for letter in "qkv"]
            expected = torch.cat(parts)
        else:
            expected = sums[name]
        torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-9)
