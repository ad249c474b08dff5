"""What a GPU needs of the code, on a machine without one: every tensor is made where it is used."""

import sys

import pytest
import torch
from torch.overrides import TorchFunctionMode

from federations import config, data, make
from reproduce import paths
from reproduce.papers.pmsfl.evaluation import client_accuracies
from reproduce.papers.pmsfl.runs import METHODS, pmsfl_run

FACTORIES = {
    torch.arange, torch.empty, torch.eye, torch.full, torch.linspace, torch.ones, torch.rand,
    torch.randint, torch.randn, torch.randperm, torch.tensor, torch.zeros,
}  # fmt: skip


class Placed(TorchFunctionMode):
    """Notes every place of the package that makes a tensor without saying on which device."""

    def __init__(self):
        super().__init__()
        self.calls, self.careless = 0, set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        frame = sys._getframe(1)
        if function in FACTORIES and "/repro/" in frame.f_code.co_filename:
            self.calls += 1
            if kwargs.get("device") is None:
                self.careless.add(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return function(*args, **kwargs)


@pytest.mark.parametrize("name", METHODS)
def test_no_tensor_is_made_on_a_device_of_its_own(name):
    method = make(name, data(clients=4), mixed=True, participation=1.0)
    with Placed() as seen:
        method.round(0)
        client_accuracies(method, 0, reference=4, chunk=4)
        method.restore(method.state())
    assert seen.calls > 3 and not seen.careless


def test_the_watch_sees_a_tensor_without_a_device():
    code = compile("import torch\ntorch.zeros(3)", "/x/repro/federated/careless.py", "exec")
    with Placed() as seen:
        exec(code, {})
    assert seen.careless == {"/x/repro/federated/careless.py:2"}


def test_a_state_is_read_to_the_cpu_and_the_run_pinned_to_one_algorithm(tmp_path, monkeypatch):
    # Adam keeps its step counts on the CPU on every device; a state mapped to a GPU would move them
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    pieces = config("depthfl", checkpoint=1)
    original, load, seen = METHODS["depthfl"].round, torch.load, []

    def interrupted(self, number):
        assert torch.backends.cudnn.deterministic and not torch.backends.cudnn.benchmark
        if number == 1 and not seen:
            raise KeyboardInterrupt
        original(self, number)

    def watched(path, **more):
        seen.append(more)
        return load(path, **more)

    monkeypatch.setattr(METHODS["depthfl"], "round", interrupted)
    monkeypatch.setattr(torch, "load", watched)
    with pytest.raises(KeyboardInterrupt):
        pmsfl_run(pieces, 0)
    pmsfl_run(pieces, 0)
    assert [more["map_location"] for more in seen] == ["cpu"]
    assert not torch.backends.cudnn.deterministic
