"""Training one's own model: losses, evaluation, checkpoints."""

import copy
import math
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from repro.federated.checkpoint import Checkpoint
from repro.federated.clipping import (
    clipped_gradient_sum,
    cross_entropy,
    gradient_sum,
    squared_error,
)
from repro.federated.evaluation import Evaluation
from repro.federated.participation import BalancedIterations, PoissonIterations
from repro.federated.partitioning.algorithms import (
    NoisyDescent,
    Splitting,
    train_federated,
    train_on_submodels,
)
from repro.federated.partitioning.local_training import Local
from repro.federated.random_participation import Settings, train
from repro.models.residual import Architecture, ResidualNet

SIZES = [40, 0, 25, 35]


def points(size=100, seed=0):
    """A plane with a little noise: inputs (size, 3), targets (size, 1)."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 3, generator=generator)
    return x, x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.1 * torch.randn(
        size, 1, generator=generator
    )


def network(seed=0):
    """With dropout, which draws from PyTorch's own generator."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))


def settings(**changes):
    base = {"iterations": 12, "p": 0.6, "q": 0.4, "learning_rate": 0.05, "sigma": 0.3}
    return Settings(**{**base, **changes})


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


# Losses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [None, 1.0])
def test_float_targets_need_a_loss(clip):
    x, y = points()
    with pytest.raises(ValueError, match=r"targets must be integer labels.*torch.float32.*squared"):
        train(network(), x, y, SIZES, settings(clip=clip, sigma=0.0), 0)
    with pytest.raises(ValueError, match="targets must have the shape of the outputs"):
        train(network(), x, y[:, 0], SIZES, settings(), 0, loss=squared_error)


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int16, torch.bool])
def test_labels_of_any_whole_type_are_labels(dtype):
    x, y = points()
    whole, other = nn.Linear(3, 2), nn.Linear(3, 2)
    other.load_state_dict(whole.state_dict())
    labels = (y[:, 0] > 0).long()
    train(whole, x, labels, SIZES, settings(), 0)
    train(other, x, labels.to(dtype), torch.tensor(SIZES), settings(), 0)
    assert torch.equal(weights(whole), weights(other))


class Cut(nn.Module):
    """The first layer has no part in the loss."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 1)

    def forward(self, x):
        return self.last(self.first(x).detach())


class Own(nn.Linear):
    """A layer of one's own."""


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": np.zeros((100, 3))}, "images must be a torch.Tensor, got ndarray"),
        ({"y": [0] * 100}, "labels must be a torch.Tensor, got list"),
        ({"y": torch.eye(100).long()}, r"targets must be one label for each record.*got \(\d+, 100"),
        ({"model": nn.ReLU()}, "model must have trainable parameters"),
        ({"model": network().requires_grad_(False)}, "model must have trainable parameters"),
        ({"model": Cut()}, "loss must depend on every layer .* Linear layer: is its output detached"),
        ({"loss": lambda out, _: torch.zeros(len(out))}, "loss must depend on every layer"),
        ({"model": Own(3, 1)}, r"layer 'model' \(Own\) has trainable parameters of its own \(weight, bias\)"),
        ({"model": nn.Sequential(nn.Linear(3, 1), nn.InstanceNorm1d(1, track_running_stats=True))},
         r"layer '1' \(InstanceNorm1d\) keeps averages of the records without noise"),
        ({"checkpoint": "run.pt"}, "checkpoint must be a repro.federated.Checkpoint or None, got 'run.pt'"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_on_is_named(given, message):
    x, y = points()
    model, images, labels = (given.pop(k, v) for k, v in (("model", network()), ("x", x), ("y", y)))
    loss = {} if labels is not y else {"loss": squared_error}
    with pytest.raises(ValueError, match=message):
        train(model, images, labels, SIZES, settings(), 0, **{**loss, **given})


def test_a_run_that_diverges_unseen_is_an_error():
    x, y = points()
    x[3] = math.nan
    with pytest.raises(FloatingPointError, match="diverged by iteration 12"):
        train(network(), x, y, SIZES, settings(), 0, loss=squared_error)
    net = residual()
    torch.nn.init.constant_(next(net.parameters()), math.nan)
    with pytest.raises(FloatingPointError, match="diverged by iteration 12"):
        by_splitting(net)


def test_a_regression_learns_the_plane():
    x, y = points()
    model = nn.Linear(3, 1)
    chosen = settings(iterations=200, clip=2.0, sigma=0.05, learning_rate=0.05)
    train(model, x, y, SIZES, chosen, 0, loss=squared_error)
    truth = torch.tensor([1.0, -2.0, 0.5])
    torch.testing.assert_close(model.weight[0].detach(), truth, rtol=0, atol=0.05)


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 2, 3)])
def test_the_squared_error_of_each_record(shape):
    a, b = torch.randn(shape), torch.randn(shape)
    expected = torch.stack([((u - v) ** 2).sum() for u, v in zip(a, b, strict=True)])
    torch.testing.assert_close(squared_error(a, b), expected)


def test_any_loss_per_record_is_clipped_record_by_record():
    x, y = points(7)
    model = network().double().eval()
    x, y = x.double(), y.double()

    def huber(outputs, targets):
        return nn.functional.huber_loss(outputs, targets, reduction="none")[:, 0]

    found = clipped_gradient_sum(model, x, y, 0.3, loss=huber).gradient
    total = [torch.zeros_like(p) for p in model.parameters()]
    for k in range(7):
        one = gradient_sum(model, x[k : k + 1], y[k : k + 1], loss=huber)
        norm = float(torch.cat([g.flatten() for g in one]).norm())
        total = [t + g / max(1.0, norm / 0.3) for t, g in zip(total, one, strict=True)]
    for ours, theirs in zip(found, total, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


# Evaluation ---------------------------------------------------------------------------------------


def test_evaluating_changes_nothing_and_keeps_the_scores():
    x, y = points()
    plain, watched = network(), network()
    torch.manual_seed(5)
    train(plain, x, y, SIZES, settings(), 1, loss=squared_error)

    def error(model):
        assert not model.training and not torch.is_grad_enabled()
        torch.rand(3)  # draws of the evaluation must not shift those of training
        return {"error": squared_error(model(x), y).mean()}

    scores = Evaluation(watched, error, rounds=12)
    torch.manual_seed(5)
    train(watched, x, y, SIZES, settings(), 1, loss=squared_error, watch=scores, watch_every=5)
    assert torch.equal(weights(plain), weights(watched)) and watched.training
    assert [row["round"] for row in scores.history] == [5, 10, 12]
    assert repr(scores).startswith(
        "<Evaluation: 3 rows in history, the last {'round': 12, 'error': "
    )
    assert scores.history[-1]["error"] == float(squared_error(watched.eval()(x), y).mean().detach())


def test_a_bar_is_shown_on_terminals_only(monkeypatch, capsys):
    model = network()
    step = type("Step", (), {"iteration": 3})()
    Evaluation(model, lambda m: {"a": 1.0}, rounds=6)(step)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    Evaluation(model, lambda m: {"a": 1.0}, rounds=6)(step)
    assert "50% a 1" in capsys.readouterr().err
    Evaluation(model, lambda m: {"a": 1.0}, rounds=6, progress=False)(step)
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="rounds must"):
        Evaluation(model, lambda m: {}, rounds=0)


# Checkpoints --------------------------------------------------------------------------------------


class KilledError(Exception):
    pass


def killed_after(number):
    def watch(step):
        if step.iteration == number:
            raise KilledError

    return watch


def by_random_participation(model, checkpoint=None, watch=None, **changes):
    x, y = points()
    chosen = settings(**changes)
    train(model, x, y, SIZES, chosen, 7, loss=squared_error, checkpoint=checkpoint, watch=watch)


NARROW = Architecture(((2, 4, 1), (5, 4, 1), (1, 8, 2)), (4, 1), False, 2, 1)
DESCENT = NoisyDescent(clip=0.3, unsplit_clip=0.2, sigma=0.05, learning_rate=0.5, momentum=0.5)


def residual():
    torch.manual_seed(0)
    net = ResidualNet(NARROW, 3)
    net.pixels = nn.Identity()
    return net


def by_splitting(net, checkpoint=None, watch=None):
    x = torch.randn(30, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    sampling = BalancedIterations(records=30, iterations=12, participations=4)
    split = Splitting(2, shuffled=True)
    train_on_submodels(
        net,
        x,
        torch.arange(30) % 3,
        sampling,
        split,
        DESCENT,
        1,
        checkpoint=checkpoint,
        watch=watch,
    )


def by_clients(net, checkpoint=None, watch=None):
    x = torch.randn(10, 4, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(40).view(10, 4) % 3
    sampling = PoissonIterations(records=10, iterations=12, rate=0.5)
    train_federated(
        net, x, labels, sampling, Splitting(2), Local(2, 0.1), DESCENT, 1,
        checkpoint=checkpoint, watch=watch,
    )  # fmt: skip


RUNS = [
    *((by_random_participation, network, every, at) for every in (1, 5) for at in (1, 5, 7, 12)),
    *((by_splitting, residual, every, 7) for every in (1, 5)),
    (by_clients, residual, 5, 7),
]


@pytest.mark.parametrize(("run", "start", "every", "number"), RUNS)
def test_a_run_killed_in_any_round_ends_with_the_same_model(tmp_path, run, start, every, number):
    whole = start()
    torch.manual_seed(3)
    run(whole)
    checkpoint = Checkpoint(tmp_path / "run.pt", every)
    doomed = start()
    torch.manual_seed(3)
    with pytest.raises(KilledError):
        run(doomed, checkpoint, watch=killed_after(number))
    torch.manual_seed(99)  # another process has another state
    resumed, seen = start(), []
    run(resumed, checkpoint, watch=lambda step: seen.append(step.iteration))
    assert torch.equal(weights(whole), weights(resumed))
    last = 12 if number == 12 else number - number % every
    assert seen == list(range(last + 1, 13))
    assert [path.name for path in tmp_path.iterdir()] == ["run.pt"]


def test_a_finished_run_is_not_run_again(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.pt", 100)
    first, again = network(), network()
    by_random_participation(first, checkpoint)
    by_random_participation(again, checkpoint, watch=killed_after(12))
    assert torch.equal(weights(first), weights(again))


@pytest.mark.parametrize(
    "change", [{"sigma": 0.4}, {"iterations": 13}, {"q": 0.5}, {"start": 1}, {"data": 1}]
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change):
    checkpoint = Checkpoint(tmp_path / "run.pt")
    by_random_participation(network(), checkpoint)
    model = network(change.pop("start", 0))
    if change.pop("data", 0):
        x, y = points(seed=1)
        with pytest.raises(ValueError, match="checkpoint must be of the same settings"):
            train(model, x, y, SIZES, settings(), 7, loss=squared_error, checkpoint=checkpoint)
        return
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="checkpoint must be of the same settings"):
        by_random_participation(model, checkpoint, **change)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "run.pt").write_bytes(content)
    with pytest.raises(ValueError, match="checkpoint must be a file of `Checkpoint`"):
        by_random_participation(network(), Checkpoint(tmp_path / "run.pt"))
    with pytest.raises(ValueError, match="every must be an integer"):
        Checkpoint(tmp_path / "run.pt", 0)
    with pytest.raises(ValueError, match="path must be a path, got None"):
        Checkpoint(None)


PROGRAM = """
import sys
sys.path[:0] = {paths!r}
from test_own_model import long_run
from repro.federated.checkpoint import Checkpoint
told = lambda step: print(step.iteration, flush=True)
print(long_run(watch=told, checkpoint=Checkpoint({place!r}, 1)))
"""


def long_run(**options):
    """The weights after 400 rounds."""
    x, _ = points(60)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    chosen = settings(iterations=400)
    train(model, x, x[:, :1], [20, 20, 20], chosen, 1, loss=squared_error, **options)
    return weights(model).double().tolist()


def test_a_process_that_is_killed_hard_can_be_resumed(tmp_path):
    """`kill -9` while rounds run and files are written; the model is that of one go."""
    paths = [os.path.dirname(__file__), *(path for path in sys.path if path)]
    script = tmp_path / "run.py"
    script.write_text(PROGRAM.format(paths=paths, place=str(tmp_path / "run.pt")))
    child = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        if int(line) >= 20:
            os.kill(child.pid, signal.SIGKILL)
            break
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    again = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    first, *_, last = again.stdout.splitlines()
    assert 20 <= int(first) < 400
    assert last == str(long_run())


def test_sizes_may_be_a_list_or_an_array(tmp_path):
    x, y = points()
    for sizes in (SIZES, np.array(SIZES)):
        train(network(), x, y, sizes, settings(), 7, loss=squared_error,
              checkpoint=Checkpoint(tmp_path / "run.pt"))  # fmt: skip


@pytest.mark.parametrize(
    ("outputs", "targets"), [((3,), (3,)), ((0, 2), (3,)), ((3, 2, 1), (3,)), ((), (1,))]
)
def test_outputs_that_are_no_logits_are_named(outputs, targets):
    with pytest.raises(ValueError, match="outputs must have one row of logits for each of"):
        cross_entropy(torch.zeros(outputs), torch.zeros(targets, dtype=torch.long))
