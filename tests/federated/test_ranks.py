"""One run over several processes, as torchrun starts them: same numbers, a lost rank, the checkpoint."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import pytest
import torch

import federations
import rank_run
from repro.federated import LostRankError, Ranks, launched, train_pmsfl
from repro.federated.ranks import place
from repro.paths import ROOT

SCRIPT = Path(rank_run.__file__)


@pytest.mark.parametrize("length", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_the_parts_hold_every_record_once_and_differ_by_one_at_most(length, count):
    parts = [range(length)[Ranks(rank, count).part(length)] for rank in range(count)]
    assert [record for part in parts for record in part] == list(range(length))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_without_torchrun_there_is_one_rank(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with launched() as ranks:
        assert (ranks.rank, ranks.count, ranks.first) == (0, 1, True)
        vector = torch.arange(3.0)
        assert ranks.sum(vector) is vector and ranks.count_all(5) == 5
        ranks.check_same("anything")


def test_patience_is_checked():
    with pytest.raises(ValueError, match="patience"), launched(patience=0):
        pass


def gpus(monkeypatch, count, nccl=True):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(torch.distributed, "is_nccl_available", lambda: nccl)


@pytest.mark.parametrize(
    ("device", "count", "nccl", "expected"),
    [
        ("auto", 0, True, ("cpu", "gloo")),
        ("auto", 2, True, ("cpu", "gloo")),
        ("auto", 3, True, ("cuda:1", "nccl")),
        ("auto", 3, False, ("cpu", "gloo")),
        ("cpu", 3, True, ("cpu", "gloo")),
        ("cuda", 4, True, ("cuda:1", "nccl")),
    ],
)
def test_the_backend_follows_the_device(monkeypatch, device, count, nccl, expected):
    gpus(monkeypatch, count, nccl)
    where, backend = place(device, 1, 3)
    assert (str(where), backend) == expected


@pytest.mark.parametrize(("count", "nccl"), [(0, True), (2, True), (3, False)])
def test_cuda_is_refused_where_ranks_would_have_no_gpu(monkeypatch, count, nccl):
    gpus(monkeypatch, count, nccl)
    usable = count if nccl else 0
    with pytest.raises(
        ValueError,
        match=f"device must be .* got 'cuda' with {usable} GPUs that can be used, for 3 ranks",
    ):
        place("cuda", 1, 3)


def test_launched_takes_the_backend_of_its_place(monkeypatch):
    """Ranks of a node with GPUs, as far as a machine without one can tell: what torch is asked for."""
    gpus(monkeypatch, 8)
    asked = []
    monkeypatch.setattr(torch.cuda, "set_device", asked.append)
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, **_: asked.append(backend)
    )
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 13)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 16)
    monkeypatch.setenv("TORCH_NCCL_BLOCKING_WAIT", "")
    monkeypatch.delenv("TORCH_NCCL_BLOCKING_WAIT")
    for name, value in (("RANK", "13"), ("LOCAL_RANK", "5"), ("LOCAL_WORLD_SIZE", "8")):
        monkeypatch.setenv(name, value)
    with launched(device="cuda") as ranks:
        assert ranks == Ranks(13, 16, torch.device("cuda", 5))
        assert os.environ["TORCH_NCCL_BLOCKING_WAIT"] == "1"
    assert asked == [torch.device("cuda", 5), "nccl"]


def test_a_rank_alone_needs_no_nccl(monkeypatch):
    gpus(monkeypatch, 1, nccl=False)
    monkeypatch.delenv("RANK", raising=False)
    with launched() as ranks:
        assert ranks == Ranks(device=torch.device("cuda", 0))


def test_an_unknown_device_is_refused():
    with pytest.raises(ValueError, match="device"), launched(device="gpu"):
        pass


def environment(**more):
    search = os.pathsep.join(str(place) for place in (ROOT / "src", ROOT, SCRIPT.parent))
    return os.environ | {"PYTHONPATH": search, "OMP_NUM_THREADS": "1"} | more


@contextmanager
def held_port():
    """A port that nobody else is given: bound here without a listener, so that one process more may listen there."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield str(held.getsockname()[1])


def together(folder, count, what, device="cpu"):
    """Start all ranks as torchrun would; each one's exit code and what it said, in the order of the ranks."""
    with held_port() as port:
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        started = [
            subprocess.Popen(
                [sys.executable, SCRIPT, folder, what, device],
                stderr=subprocess.PIPE,
                text=True,
                env=environment(
                    **place,
                    **dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)),
                    **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(count)),
                ),
            )
            for rank in range(count)
        ]
        said = [one.communicate(timeout=600)[1] for one in started]
    return [one.returncode for one in started], said


def found(folder, what, count):
    return [torch.load(folder / f"{what}-{count}-{rank}.pt") for rank in range(count)]


@pytest.fixture(scope="module")
def alone():
    return computed_alone("cpu")


def computed_alone(device):
    ranks = Ranks(device=torch.device(device))
    return lru_cache(lambda name: rank_run.both(rank_run.RUNS[name], ranks))


ROUNDING = 1e-5
"""Adam divides a gradient by its own size: where it is smaller than this, rounding may move the weight."""


def gap(ours, theirs):
    """The largest difference of weights. Of two rows, weights and gradients, that of all gradients as a share of the
    largest of them, and of the weights whose gradient is 0 or more than rounding.
    """
    differences = (ours - theirs).abs()
    if differences.ndim == 2:
        gradients = ours[1].abs()
        differences[1] /= max(1.0, gradients.max())
        unsure = (gradients > 0) & (gradients < ROUNDING)
        assert unsure.sum() < len(unsure) / 50
        differences[0, unsure] = 0
    return differences.max()


def agree(alone, answers, names):
    """One step in float32 to 1e-6, many in float64 to 1e-9, the same bits at every rank."""
    for name in names:
        expected = alone(name)
        for (weights, steps), limit, found in zip(
            expected,
            (1e-6, 1e-9),
            zip(*(answer[name] for answer in answers), strict=True),
            strict=True,
        ):
            assert all(torch.equal(one[0], found[0][0]) for one in found), name
            assert gap(weights, found[0][0]) <= limit, name
            assert all(one[1] == [] for one in found[1:])  # rank 0 reports
            for ours, theirs in zip(steps, found[0][1], strict=True):
                assert theirs == pytest.approx(ours, rel=1e3 * limit)
                drawn = ours.keys() - {"signal", "loss"}
                assert {k: ours[k] for k in drawn} == {k: theirs[k] for k in drawn}
    words = "every rank must have the same settings, seed, records, first model and checkpoint, got others at rank 1"
    if len(answers) > 1:
        assert all(answer["other seeds"].startswith(words) for answer in answers)


def test_three_ranks_of_torchrun_agree_with_one(tmp_path, alone):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=3"]
    subprocess.run(
        [*command, SCRIPT, tmp_path, "agree", "cpu"], check=True, env=environment(), timeout=600
    )
    agree(alone, found(tmp_path, "agree", 3), rank_run.QUICK)


def test_two_ranks_agree_with_one(tmp_path, alone):
    assert together(tmp_path, 2, "agree-few")[0] == [0, 0]
    agree(alone, found(tmp_path, "agree-few", 2), rank_run.FEW)


def needs_gpus(count):
    """Over nccl every rank has a GPU of its own."""
    usable = torch.cuda.is_available() and torch.distributed.is_nccl_available()
    have = torch.cuda.device_count() if usable else 0
    return pytest.mark.skipif(have < count, reason=f"{count} GPUs for nccl, here are {have}")


@pytest.mark.parametrize("count", [pytest.param(n, marks=needs_gpus(n)) for n in (1, 2, 3)])
def test_ranks_agree_over_nccl(tmp_path, count):
    assert together(tmp_path, count, "agree-all", "cuda")[0] == [0] * count
    agree(computed_alone("cuda"), found(tmp_path, "agree-all", count), rank_run.RUNS)


@needs_gpus(2)
def test_a_lost_rank_ends_the_run_with_one_line_over_nccl(tmp_path):
    (first, lost), (said, _) = together(tmp_path, 2, "lose", "cuda")
    assert (first, lost) == (1, -9)
    assert said.splitlines()[-1].startswith("rank 0 of 2 lost another rank; start all again")


@pytest.mark.slow
def test_three_ranks_agree_with_one_on_the_other_runs(tmp_path, alone):
    assert together(tmp_path, 3, "agree-rest")[0] == [0, 0, 0]
    agree(alone, found(tmp_path, "agree-rest", 3), rank_run.REST)


@pytest.mark.parametrize(
    ("name", "count", "words"),
    [
        ("splitfed_dp", 2, "method must be PMSFL for several ranks, got SplitFedDP"),
        ("pmsfl", 4, "ranks must be at most the 3 participants of a round, got 4"),
    ],
)
def test_what_ranks_cannot_share_is_refused(name, count, words):
    with pytest.raises(ValueError, match=words):
        train_pmsfl(federations.make(name), ranks=Ranks(0, count))


@pytest.mark.slow
def test_a_lost_rank_ends_the_run_with_one_line_and_the_checkpoint_goes_on(tmp_path, alone):
    for what in ("lose", "lose-masks"):
        (first, lost), (said, _) = together(tmp_path, 2, what)
        assert (first, lost) == (1, -9)
        assert said == (
            "rank 0 of 2 lost another rank; start all again, and the run goes on from its last checkpoint\n"
        )
    kept = torch.load(tmp_path / "run.pt")["finished"]
    assert rank_run.EVERY <= kept <= rank_run.LOST_AFTER and kept % rank_run.EVERY == 0
    assert torch.load(tmp_path / "masks.pt")["finished"] == rank_run.LOST_AFTER_ROUND - 1
    assert together(tmp_path, 2, "resume")[0] == [0, 0]
    answers = found(tmp_path, "resume", 2)
    agree(alone, answers, rank_run.RUNS)
    for one in answers:
        assert torch.equal(one["random participation"][1][0], one["saved"][0])
        assert torch.equal(one[rank_run.MASKS][1][0], one["saved masks"][0])


def test_a_rank_whose_others_do_not_come_says_so(monkeypatch):
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1")):
        monkeypatch.setenv(name, value)
    with held_port() as port:
        monkeypatch.setenv("MASTER_PORT", port)
        with (
            pytest.raises(LostRankError, match="the other ranks did not come"),
            launched(patience=1),
        ):
            pass
