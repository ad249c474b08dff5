"""What runs take: against counts by hand, and against the real networks and runs."""

import pytest
import torch
from torch import nn

from repro.models import build, count_parameters
from repro.models.residual import build_residual
from repro.models.split import resnet18
from reproduce import catalogue, needs, work
from reproduce.papers.run_work import network_cost
from reproduce.records import tasks_of


def test_operations_of_a_convolution_and_a_linear_layer_by_hand():
    cost = network_cost(
        lambda: nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.Flatten(), nn.Linear(5 * 64, 7)),
        (3, 8, 8),
    )
    forward = 2 * (5 * 64) * (3 * 9) + 2 * (5 * 64) * 7
    assert cost.forward == forward
    # backwards as much again for the weights, and for what a layer got unless it is the first
    assert cost.training == 2 * forward + 2 * (5 * 64) * 7
    assert cost.parameters == 5 * 27 + 5 + 5 * 64 * 7 + 7
    assert cost.activations == 4 * (3 * 64 + 5 * 64)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: build("emnist_cnn", classes=62, seed=0), (1, 28, 28)),
        (lambda: build_residual("small_letters", classes=10, seed=0), (1, 14, 14)),
        (lambda: resnet18(classes=10, channels=1, width=4, layers=1), (1, 8, 8)),
    ],
)
def test_shapes_without_numbers_tell_the_same_as_numbers(make, shape):
    """The bytes kept for the backward pass of real numbers, by address; and the parameters."""
    cost, network, kept = network_cost(make, shape), make(), {}
    own = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}

    def note(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        answer = network(torch.zeros(1, *shape))
    assert answer.requires_grad and cost.parameters == count_parameters(network)
    assert cost.activations == sum(size for place, size in kept.items() if place not in own)


def test_random_participation_computes_the_gradients_of_its_batches_and_its_evaluations():
    config = {
        "data": "emnist_embedded", "model": "emnist_cnn", "clients": 600, "records": 30, "p": 0.05,
        "q": 0.1, "iterations": 25, "evaluate_every": 10,
    }  # fmt: skip
    cost = network_cost(lambda: build("emnist_cnn", classes=62, seed=0), (1, 28, 28))
    at_the_start_and_after_10_20_and_25 = 4 * 3_000 * cost.forward
    takes = work.of("random_participation/training", config)
    assert takes.least == takes.most
    assert takes.most == pytest.approx(
        25 * 90 * cost.training + at_the_start_and_after_10_20_and_25
    )


@pytest.mark.parametrize("paper", ["random_participation", "partitioning", "pmsfl"])
def test_every_run_of_the_paper_profile_has_an_estimate(paper):
    entries = [entry for entry in catalogue.figures(paper) if entry.runs]
    kinds = {
        (task.name, str(task.config)): task
        for entry in entries
        for task in tasks_of(entry, "paper")
    }
    assert kinds
    for task in kinds.values():
        need = needs.of(task)
        assert need.known and 0 < need.least <= need.seconds and need.mib > 100, task


def test_the_papers_runs_take_more_than_those_that_stand_for_them():
    for paper, name in (
        ("random_participation", "fig6"),
        ("partitioning", "table1"),
        ("pmsfl", "fig4"),
    ):
        entry = catalogue.figure(f"{paper}/{name}")
        quick, whole = (
            max(work.of(task.name, task.config).most for task in tasks_of(entry, profile))
            for profile in ("quick", "paper")
        )
        assert whole > 100 * quick
