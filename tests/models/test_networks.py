"""Shapes of the networks, and that a record's output depends on that record alone."""

import pytest
import torch

from repro.models import Pixels, build, count_parameters, evaluate


def test_the_paper_s_network_has_the_sizes_its_figure_states():
    model = build("emnist_cnn", classes=62, seed=0)
    shapes, x = [], torch.zeros(2, 1, 28, 28)
    for layer in model:
        x = layer(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes[0] == (16, 14, 14) and shapes[2] == (16, 13, 13) and shapes[3] == (32, 5, 5)
    assert (
        shapes[5] == (32, 4, 4)
        and shapes[6] == (32 * 4 * 4,)
        and shapes[8] == (256,)
        and shapes[9] == (62,)
    )
    first, second = model[0], model[3]
    assert (first.kernel_size, first.stride, first.padding) == ((8, 8), (2, 2), (3, 3))
    assert (second.kernel_size, second.stride, second.padding) == ((4, 4), (2, 2), (0, 0))
    by_hand = (8 * 8 + 1) * 16 + (16 * 4 * 4 + 1) * 32 + (512 + 1) * 256 + (256 + 1) * 62
    assert count_parameters(model) == by_hand == 156_526


@pytest.mark.parametrize(("name", "count"), [("digits_mlp", 2410), ("digits_cnn", 1898)])
def test_the_small_networks(name, count):
    model = build(name, classes=10, seed=0)
    assert model(torch.rand(3, 1, 8, 8)).shape == (3, 10) and count_parameters(model) == count


@pytest.mark.parametrize(
    ("name", "side", "classes"),
    [("emnist_cnn", 28, 62), ("digits_mlp", 8, 10), ("digits_cnn", 8, 10)],
)
def test_records_do_not_mix(name, side, classes):
    model, images = (
        build(name, classes=classes, seed=0).double(),
        torch.rand(5, 1, side, side).double(),
    )
    together = model(images)
    changed = images.clone()
    changed[1:] = 0
    torch.testing.assert_close(model(changed)[0], together[0])
    assert not torch.allclose(model(changed)[1], together[1])


def test_the_seed_decides_the_start_and_nothing_else_is_touched():
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first, again, other = (build("digits_mlp", classes=10, seed=s) for s in (5, 5, 6))
    assert torch.equal(first[1].weight, again[1].weight) and not torch.equal(
        first[1].weight, other[1].weight
    )
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_memory_layout_changes_no_value():
    model, images = build("emnist_cnn", classes=62, seed=0), torch.rand(4, 1, 28, 28)
    last = model(images)
    plain = model.to(memory_format=torch.contiguous_format)
    torch.testing.assert_close(plain(images), last, rtol=1e-4, atol=1e-5)


def test_pixels():
    images = torch.tensor([[[[0, 51], [255, 102]]]], dtype=torch.uint8)
    expected = (images.double() / 255 - 0.2) / 0.4
    torch.testing.assert_close(Pixels(255, 0.2, 0.4)(images), expected.float())
    assert images[0, 0, 1, 0] == 255  # the bytes are left alone
    with pytest.raises(ValueError, match="brightest"):
        Pixels(0)


def test_evaluation_does_not_depend_on_the_chunk():
    model, images = build("digits_mlp", classes=10, seed=0), torch.rand(23, 1, 8, 8)
    with torch.no_grad():
        logits = model(images)
    labels = logits.argmax(dim=1)
    labels[:5] = (labels[:5] + 1) % 10
    for chunk in (1, 7, 100):
        accuracy, loss = evaluate(model, images, labels, chunk)
        assert accuracy == pytest.approx(18 / 23)
        assert loss == pytest.approx(
            float(torch.nn.functional.cross_entropy(logits, labels)), rel=1e-5
        )


@pytest.mark.parametrize(
    ("name", "classes", "seed", "message"),
    [
        ("resnet", 10, 0, "name must"),
        ("digits_mlp", 1, 0, "classes must"),
        ("digits_mlp", 10, -1, "seed must"),
    ],
)
def test_bad_input_is_named(name, classes, seed, message):
    with pytest.raises(ValueError, match=message):
        build(name, classes=classes, seed=seed)
