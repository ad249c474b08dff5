"""The sum of clipped gradients against slow, obvious routes, and the sentence it guarantees."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call, grad, vmap

from repro.federated import shares
from repro.federated.clipping import (
    clipped_gradient_sum,
    clipped_part_sums,
    cross_entropy,
    gradient_sum,
)
from repro.models import build


def one_by_one(model, inputs, targets, clip):
    """Loop over records: gradient of each alone, scaled as in the paper's box. Returns sum and
    norms.
    """
    parameters = list(model.parameters())
    total = [torch.zeros_like(p) for p in parameters]
    norms = []
    for x, y in zip(inputs, targets, strict=True):
        loss = cross_entropy(model(x[None]), y[None]).sum()
        gradient = torch.autograd.grad(loss, parameters)
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradient))
        norms.append(norm)
        total = [t + g / max(1.0, norm / clip) for t, g in zip(total, gradient, strict=True)]
    return total, torch.tensor(norms, dtype=inputs.dtype)


def by_vmap(model, inputs, targets, clip):
    """vmap(grad): every gradient materialised by another part of PyTorch."""
    names = [name for name, _ in model.named_parameters()]
    values = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, x, y):
        return cross_entropy(functional_call(model, parameters, (x[None],)), y[None]).sum()

    rows = vmap(grad(loss), in_dims=(None, 0, 0))(values, inputs, targets)
    flat = torch.cat([rows[name].reshape(len(inputs), -1) for name in names], dim=1)
    norms = flat.norm(dim=1)
    weights = 1 / torch.clamp(norms / clip, min=1.0)
    return [torch.einsum("b...,b->...", rows[name], weights) for name in names], norms


def assert_same(result, expected, norms, tolerance=1e-9):
    torch.testing.assert_close(result.norms, norms, rtol=tolerance, atol=tolerance)
    for ours, theirs in zip(result.gradient, expected, strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def batch(model_inputs, classes, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn((size, *model_inputs), generator=generator, dtype=torch.float64)
    return inputs, torch.randint(0, classes, (size,), generator=generator)


def convolution(channels, out, kernel, stride, padding, dilation, bias, classes=3, side=9):
    torch.manual_seed(0)
    conv = nn.Conv2d(channels, out, kernel, stride, padding, dilation, bias=bias)
    features = conv(torch.zeros(1, channels, side, side)).numel()
    return nn.Sequential(
        conv, nn.Tanh(), nn.Flatten(), nn.Linear(features, classes, bias=bias)
    ).double()


class Rows(nn.Module):
    """A linear layer applied at every position of a sequence, then pooled."""

    def __init__(self, width, out, classes):
        super().__init__()
        self.each, self.last = nn.Linear(width, out), nn.Linear(out, classes)

    def forward(self, x):
        return self.last(torch.tanh(self.each(x)).mean(1))


@settings(max_examples=40, deadline=None)
@given(
    channels=st.integers(1, 3),
    out=st.integers(1, 5),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    padding=st.sampled_from([0, 1, (2, 1), "valid"]),
    dilation=st.integers(1, 2),
    bias=st.booleans(),
    size=st.integers(1, 5),
    clip=st.sampled_from([1e-6, 0.05, 1.0, 1e6]),
    last=st.booleans(),
)
def test_convolutions_of_any_shape(
    channels, out, kernel, stride, padding, dilation, bias, size, clip, last
):
    model = convolution(channels, out, kernel, stride, padding, dilation, bias)
    inputs, targets = batch((channels, 9, 9), 3, size)
    if last:
        model, inputs = (
            model.to(memory_format=torch.channels_last),
            inputs.to(memory_format=torch.channels_last),
        )
    assert_same(
        clipped_gradient_sum(model, inputs, targets, clip),
        *one_by_one(model, inputs, targets, clip),
    )


@settings(max_examples=25, deadline=None)
@given(
    widths=st.lists(st.integers(1, 7), min_size=2, max_size=4),
    bias=st.booleans(),
    size=st.integers(1, 6),
    clip=st.sampled_from([1e-6, 0.3, 1e6, math.inf]),
)
def test_linear_layers_of_any_shape(widths, bias, size, clip):
    torch.manual_seed(1)
    layers = [
        m
        for a, b in zip(widths, widths[1:], strict=False)
        for m in (nn.Linear(a, b, bias=bias), nn.Tanh())
    ]
    model = nn.Sequential(*layers[:-1]).double()
    inputs, targets = batch((widths[0],), widths[-1], size)
    assert_same(
        clipped_gradient_sum(model, inputs, targets, clip),
        *one_by_one(model, inputs, targets, clip),
    )


@pytest.mark.parametrize("positions", [1, 2, 40])
def test_a_linear_layer_on_sequences(positions):
    torch.manual_seed(2)
    model = Rows(6, 5, 4).double()
    inputs, targets = batch((positions, 6), 4, 5)
    assert_same(
        clipped_gradient_sum(model, inputs, targets, 0.2), *one_by_one(model, inputs, targets, 0.2)
    )


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [("emnist_cnn", 28, 62), ("digits_cnn", 8, 10), ("digits_mlp", 8, 10)],
)
@pytest.mark.parametrize("clip", [0.01, 1.0, 100.0])
def test_the_networks_of_the_experiments_against_vmap(name, shape, classes, clip):
    model = build(name, classes=classes, seed=3).double()
    inputs, targets = batch((1, shape, shape), classes, 7)
    assert_same(
        clipped_gradient_sum(model, inputs, targets, clip), *by_vmap(model, inputs, targets, clip)
    )


@pytest.mark.parametrize(("direct", "products"), [(True, 1), (False, 2)])
def test_gram_matrices_and_direct_gradients_agree(monkeypatch, direct, products):
    model = convolution(3, 8, 3, 1, 1, 1, True)
    inputs, targets = batch((3, 9, 9), 3, 6)
    whole = clipped_gradient_sum(model, inputs, targets, 0.1)
    calls = []
    real = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda a, b: calls.append(a.shape) or real(a, b))
    monkeypatch.setattr(shares, "direct_is_cheaper", lambda positions, width, out: direct)
    monkeypatch.setattr(shares, "MATERIAL", 100)  # no room: one record a piece
    pieces = clipped_gradient_sum(model, inputs, targets, 0.1)
    assert len(calls) == 6 * products and all(shape[0] == 1 for shape in calls)
    assert_same(pieces, whole.gradient, whole.norms)


@pytest.mark.parametrize("clip", [1e-3, 0.5, 3.0])
def test_no_record_contributes_more_than_the_clip(clip):
    """The guarantee as stated: adding a record to a batch moves the sum by at most `clip`."""
    model = build("emnist_cnn", classes=62, seed=4)
    inputs, targets = batch((1, 28, 28), 62, 12)
    inputs = inputs.float() * torch.logspace(-3, 3, 12).view(-1, 1, 1, 1)
    exact = build("emnist_cnn", classes=62, seed=4).double()
    for k in range(12):
        alone = clipped_gradient_sum(
            exact, inputs[k : k + 1].double(), targets[k : k + 1], clip
        ).gradient
        assert math.sqrt(sum(float((g**2).sum()) for g in alone)) <= clip * (1 + 1e-12)
        single = clipped_gradient_sum(model, inputs[k : k + 1], targets[k : k + 1], clip).gradient
        assert math.sqrt(sum(float((g.double() ** 2).sum()) for g in single)) <= clip * (1 + 1e-5)
    whole = clipped_gradient_sum(exact, inputs.double(), targets, clip).gradient
    fewer = clipped_gradient_sum(exact, inputs[1:].double(), targets[1:], clip).gradient
    moved = math.sqrt(sum(float(((a - b) ** 2).sum()) for a, b in zip(whole, fewer, strict=True)))
    assert moved <= clip * (1 + 1e-9)


def test_long_gradients_are_scaled_to_the_clip_and_short_ones_are_left_alone():
    model = build("digits_mlp", classes=10, seed=5).double()
    inputs, targets = batch((1, 8, 8), 10, 9)
    norms = clipped_gradient_sum(model, inputs, targets, math.inf).norms
    clip = float(norms.median())
    for k in range(9):
        one = clipped_gradient_sum(model, inputs[k : k + 1], targets[k : k + 1], clip).gradient
        length = math.sqrt(sum(float((g**2).sum()) for g in one))
        assert length == pytest.approx(min(clip, float(norms[k])), rel=1e-10)


def test_an_infinite_clip_gives_the_plain_sum():
    model = build("emnist_cnn", classes=62, seed=6).double()
    inputs, targets = batch((1, 28, 28), 62, 5)
    plain = gradient_sum(model, inputs, targets)
    clipped = clipped_gradient_sum(model, inputs, targets, math.inf).gradient
    for a, b in zip(clipped, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_an_empty_batch_gives_zeros():
    model = build("emnist_cnn", classes=62, seed=0)
    inputs, targets = torch.zeros(0, 1, 28, 28), torch.zeros(0, dtype=torch.int64)
    result = clipped_gradient_sum(model, inputs, targets, 1.0)
    assert [g.shape for g in result.gradient] == [p.shape for p in model.parameters()]
    assert all(not g.any() for g in result.gradient + gradient_sum(model, inputs, targets))
    assert result.norms.shape == (0,) and float(result.loss) == 0


def test_zero_gradients_stay_zero():
    """A layer whose output is ignored by the loss: norm 0, and no division by it."""
    model = build("digits_mlp", classes=10, seed=0)
    inputs, targets = torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)
    result = clipped_gradient_sum(model, inputs, targets, 1.0, loss=lambda out, _: (out * 0).sum(1))
    assert all(torch.equal(g, torch.zeros_like(g)) for g in result.gradient)
    assert torch.equal(result.norms, torch.zeros(4))


def test_frozen_parameters_are_left_out():
    model = build("digits_cnn", classes=10, seed=0).double()
    model[0].bias.requires_grad_(False)
    model[3].weight.requires_grad_(False)
    inputs, targets = batch((1, 8, 8), 10, 3)
    rows = [gradient_sum(model, inputs[k : k + 1], targets[k : k + 1]) for k in range(3)]
    expected = torch.stack([torch.cat([g.flatten() for g in row]).norm() for row in rows])
    result = clipped_gradient_sum(model, inputs, targets, 1.0)
    assert len(result.gradient) == 4
    torch.testing.assert_close(result.norms, expected)


def test_neither_model_nor_hooks_remain_changed():
    model = build("digits_cnn", classes=10, seed=0)
    before = [p.clone() for p in model.parameters()]
    clipped_gradient_sum(model, torch.rand(3, 1, 8, 8), torch.zeros(3, dtype=torch.int64), 1.0)
    assert all(
        p.grad is None and torch.equal(p, q)
        for p, q in zip(model.parameters(), before, strict=True)
    )
    assert not any(module._forward_hooks for module in model.modules())


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


class Unused(Twice):
    def forward(self, x):
        return x * 1.0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), r"layer '1' \(BatchNorm1d\)"),
        (nn.Sequential(nn.Linear(3, 3), nn.RMSNorm(3)), r"layer '1' \(RMSNorm\)"),
        (
            nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, affine=False)),
            "mixes records.*use nn.GroupNorm",
        ),
        (nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True)), "changed in place"),
        (Twice(), "used twice"),
        (Unused(), "took no part"),
        (nn.Sequential(nn.Tanh()), "no trainable parameters"),
    ],
)
def test_layers_that_cannot_be_clipped_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        clipped_gradient_sum(model, torch.rand(2, 3), torch.zeros(2, dtype=torch.int64), 1.0)


def test_grouped_and_shared_layers_are_refused():
    grouped = nn.Sequential(nn.Conv2d(2, 2, 1, groups=2), nn.Flatten())
    with pytest.raises(ValueError, match="groups=1"):
        clipped_gradient_sum(
            grouped, torch.rand(2, 2, 1, 1), torch.zeros(2, dtype=torch.int64), 1.0
        )
    shared = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    shared[1].weight = shared[0].weight
    with pytest.raises(ValueError, match="shares a parameter"):
        clipped_gradient_sum(shared, torch.rand(2, 3), torch.zeros(2, dtype=torch.int64), 1.0)


@pytest.mark.parametrize("clip", [0, -1.0, float("nan"), -math.inf, None, "1"])
def test_a_clip_that_is_not_positive_is_refused(clip):
    model = build("digits_mlp", classes=10, seed=0)
    with pytest.raises(ValueError, match="clip"):
        clipped_gradient_sum(model, torch.rand(2, 1, 8, 8), torch.zeros(2, dtype=torch.int64), clip)


def test_batches_and_losses_of_the_wrong_shape_are_refused():
    model = build("digits_mlp", classes=10, seed=0)
    inputs = torch.rand(2, 1, 8, 8)
    with pytest.raises(ValueError, match="2 inputs, 3 targets"):
        clipped_gradient_sum(model, inputs, torch.zeros(3, dtype=torch.int64), 1.0)
    with pytest.raises(ValueError, match="one value per record"):
        clipped_gradient_sum(
            model, inputs, torch.zeros(2, dtype=torch.int64), 1.0, loss=lambda out, _: out.sum()
        )


# ------------------------------------------------------------------------- group norm, parts, rows


class Normed(nn.Sequential):
    """Convolutions with group normalisation, one of them without a scale to train."""

    def __init__(self):
        super().__init__(
            nn.Conv2d(2, 6, 3, padding=1, bias=False),
            nn.GroupNorm(3, 6),
            nn.ReLU(),
            nn.Conv2d(6, 4, 3, stride=2),
            nn.GroupNorm(2, 4),
            nn.Flatten(),
            nn.Linear(4 * 16, 5),
            nn.GroupNorm(1, 5),
            nn.Linear(5, 3),
        )
        self[4].weight.requires_grad_(False)
        for layer in (self[1], self[4], self[7]):
            nn.init.normal_(layer.weight, 1.0, 0.3)
            nn.init.normal_(layer.bias, 0.0, 0.3)
        self.double()


def every_gradient(model, inputs, targets):
    """The gradients of the records, one backward pass each: a list over parameters of (batch, ...)."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = [
        torch.autograd.grad(
            cross_entropy(model(inputs[i : i + 1]), targets[i : i + 1]).sum(), parameters
        )
        for i in range(len(inputs))
    ]
    return parameters, [torch.stack(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("clips", [(0.1, 0.3), (5.0, 0.01), (math.inf, 0.2), (math.inf, math.inf)])
def test_parts_with_clips_of_their_own_against_a_loop_over_records(clips):
    torch.manual_seed(0)
    model = Normed()
    inputs, targets = batch((2, 10, 10), 3, 7)
    parameters, gradients = every_gradient(model, inputs, targets)
    chosen = [parameters[0], parameters[1], parameters[5]]
    others = [p for p in parameters if not any(p is q for q in chosen)]
    found = clipped_part_sums(model, inputs, targets, [(chosen, clips[0]), (others, clips[1])])
    for k, (members, clip) in enumerate(((chosen, clips[0]), (others, clips[1]))):
        places = [i for i, p in enumerate(parameters) if any(p is q for q in members)]
        norms = sum(gradients[i].flatten(1).square().sum(1) for i in places).sqrt()
        torch.testing.assert_close(found.norms[k], norms)
        weights = (norms / clip).clamp(min=1).reciprocal()
        for i in places:
            expected = torch.tensordot(weights, gradients[i], dims=1)
            torch.testing.assert_close(found.gradient[i], expected)


def test_one_part_is_the_ordinary_clipped_sum():
    torch.manual_seed(1)
    model = Normed()
    inputs, targets = batch((2, 10, 10), 3, 4)
    whole = clipped_gradient_sum(model, inputs, targets, 0.2)
    parts = clipped_part_sums(model, inputs, targets, [(model.parameters(), 0.2)])
    assert all(torch.equal(a, b) for a, b in zip(whole.gradient, parts.gradient, strict=True))
    assert torch.equal(whole.norms, parts.norms[0])
    empty = clipped_part_sums(model, inputs[:0], targets[:0], [(model.parameters(), 0.2)])
    assert empty.norms.shape == (1, 0)


def test_parts_must_hold_every_parameter_once():
    model = Normed()
    inputs, targets = batch((2, 10, 10), 3, 2)
    everything = list(model.parameters())
    with pytest.raises(ValueError, match=r"every trainable parameter, '0.weight' is in none"):
        clipped_part_sums(model, inputs, targets, [(everything[1:], 1.0)])
    with pytest.raises(ValueError, match="must not hold a parameter twice"):
        clipped_part_sums(model, inputs, targets, [(everything, 1.0), (everything[:1], 1.0)])
    with pytest.raises(ValueError, match="clip must be positive"):
        clipped_part_sums(model, inputs, targets, [(everything, 0.0)])


def test_rows_must_be_those_that_reach_the_layer():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).double()
    inputs, targets = batch((4,), 2, 5)
    parts = [(model.parameters(), 1.0)]
    with pytest.raises(ValueError, match="rows says that 2 records reach a Linear layer, but 5 do"):
        clipped_part_sums(model, inputs, targets, parts, rows={model[1]: slice(0, 2)})
