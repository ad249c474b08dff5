"""What several ranks give for one heavy run: a model of the seconds of a step, and its check on this machine.

    sh reproduce/python.sh bench/several_machines.py            # the tables of docs/several-machines.md
    sh reproduce/python.sh bench/several_machines.py measure    # gloo over loopback: measured, and by the model

A step is the largest part of the batch, what every rank repeats (noise and momentum), the sum over the ranks, and a
share of the evaluations, which rank 0 does while the others wait. Nothing overlaps in this code, so the times add up.
Shapes, operations and memory come from the device "meta"; rates of processors and links from the sources below.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median

import torch

from repro.federated import Ranks, clipped_gradient_sum, launched
from repro.federated.server import Momentum, gaussian
from repro.models.residual import build_residual
from reproduce import catalogue
from reproduce.papers.partitioning.work import CLASSES, SETS
from reproduce.papers.run_work import FLOAT, MIB, NetworkCost, network_cost
from reproduce.records import tasks_of

PASSES = 20
"""Numbers that every rank reads or writes for each parameter in a step: the zeros, the sum, the noise, the scaled
gradient, the momentum and the weights."""
COPIES = 6
"""Vectors of all parameters that a rank holds: weights, gradients, momentum, noise, their sum, the sum of a chunk."""
EXCHANGED = 3
"""More of them with several ranks: what is sent, what is received, the sum."""


@dataclass(frozen=True)
class Processor:
    """What computes at a rank: operations a second in training, bytes of memory a second for long vectors."""

    name: str
    operations: float
    memory: float


@dataclass(frozen=True)
class Link:
    """What connects the ranks: bytes a second out of each, seconds of a message, and of starting an exchange."""

    name: str
    bandwidth: float
    message: float
    start: float


RESNET50 = 938 * 3 * 8.18e9
"""Operations a second: 938 images a second, each three times a forward pass of 4.09e9 multiply-adds. Training
throughput of ResNet-50 on one A100 in TF32: NVIDIA/DeepLearningExamples, resnet50v1.5, "Training performance"."""
A100 = Processor("A100", RESNET50, 2.039e12)  # memory: data sheet of the A100 of 80 GB
CORE = Processor("core", 4.0e10, 8.6e9)  # one core of an AMD EPYC: `measure`
NVLINK = Link("NVLink", 235e9, 3.4e-6, 8.4e-6)
"""Of eight A100: NCCL's own model of its rings, NVIDIA/nccl, src/graph/tuning.cc (busBw, hwLat, baseLat)."""
FAST = Link("100 Gb/s", 12.2e9, 9.6e-6, 8.4e-6)
"""Bandwidth: measured with one card of 100 Gb/s, NVIDIA/nccl-tests, issue 29; the rest as above, for networks."""
SLOW = Link("10 Gb/s", 1.18e9, 9.6e-6, 8.4e-6)
"""What TCP leaves of 10 Gb/s in frames of 1,500 bytes; not measured."""


@dataclass(frozen=True)
class Run:
    """A training run: records in a batch, their cost, steps, images of the evaluations in one step's share."""

    batch: float
    cost: NetworkCost
    steps: int
    evaluated: float
    images: float
    chunk: float


def resnet101() -> Run:
    """The runs of partitioning, Table 1, at the paper's settings; all of them take as much without splitting."""
    entry = catalogue.figure("partitioning/table1")
    config = next(
        task.config for task in tasks_of(entry, "paper") if task.config["model"] == "resnet101"
    )
    shape, images, tested, _ = SETS[config["data"]]
    cost = network_cost(lambda: build_residual("resnet101", classes=CLASSES, seed=0), shape)
    batch = config["participations"] * (images // 2) / config["iterations"]
    pixels = math.prod(shape) * (images + tested)
    steps, every = config["iterations"], config["evaluate_every"]
    return Run(batch, cost, steps, tested / every, 2 * pixels, config["memory"] * MIB)


def sum_seconds(link: Link, ranks: int, size: float) -> float:
    """Of `Ranks.sum` for so many bytes: every rank sends and receives each other rank's piece, and then its own sum."""
    if ranks == 1:
        return 0.0
    return 2 * (link.start + (ranks - 1) * (link.message + size / ranks / link.bandwidth))


@dataclass(frozen=True)
class Step:
    """Seconds of a step, by what they go to, and MiB of a rank."""

    gradients: float
    repeated: float
    sum: float
    evaluations: float
    mib: float

    @property
    def seconds(self) -> float:
        """Of the whole step."""
        return self.gradients + self.repeated + self.sum + self.evaluations


def step(run: Run, processor: Processor, link: Link, ranks: int) -> Step:
    """One step of a run. A rank's part of the batch is a whole number of records."""
    part, size = math.ceil(run.batch / ranks), FLOAT * run.cost.parameters
    vectors = COPIES + (EXCHANGED if ranks > 1 else 0)
    held = min(run.chunk, part * run.cost.activations) + vectors * size + run.images
    return Step(
        gradients=part * run.cost.training / processor.operations,
        repeated=PASSES * size / processor.memory,
        sum=sum_seconds(link, ranks, size),
        evaluations=run.evaluated * run.cost.forward / processor.operations,
        mib=held / MIB,
    )


SETUPS = (
    ("1 GPU", A100, NVLINK, 1),
    ("8 GPUs of one machine, NVLink", A100, NVLINK, 8),
    ("8 nodes of one GPU, 10 Gb/s", A100, SLOW, 8),
    ("100 nodes of one GPU, 100 Gb/s", A100, FAST, 100),
    ("100 nodes of one GPU, 10 Gb/s", A100, SLOW, 100),
    ("1 core", CORE, SLOW, 1),
    ("100 nodes of one core, 10 Gb/s", CORE, SLOW, 100),
)


def digits(value: float) -> str:
    """Two digits, without an exponent."""
    return f"{float(f'{value:.2g}'):,g}"


def tables() -> str:
    """The run, and what each setup makes of it, as Markdown."""
    run = resnet101()
    cost = run.cost
    columns = (
        "setup", "gradients, s", "noise and momentum, s", "sum, s", "evaluations, s", "a run, h", "speed-up",
        "without evaluations", "GiB a rank",
    )  # fmt: skip
    sent = 2 * FLOAT * cost.parameters / 1e6
    lines = [
        f"A step takes {run.batch:,.0f} images on average and {cost.training / 1e9:.1f}e9 operations for each. The "
        f"network has {cost.parameters / 1e6:.1f}e6 parameters, so that a rank sends up to {sent:.0f} MB. "
        f"A run has {run.steps:,} steps.",
        "",
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
    ]
    for name, processor, link, ranks in SETUPS:
        alone, found = (step(run, processor, link, n) for n in (1, ranks))
        trained, first = (one.seconds - one.evaluations for one in (found, alone))
        cells = [
            *(digits(x) for x in (found.gradients, found.repeated, found.sum, found.evaluations)),
            digits(found.seconds * run.steps / 3600),
            digits(alone.seconds / found.seconds),
            digits(first / trained),
            digits(found.mib / 1024),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


# The check ----------------------------------------------------------------------------------------

SIZES = (1_000, 3_000_000, 30_000, 300_000, 1_000_000, 10_000_000)
"""Floats in a sum. The model's link is made from the first two, with two ranks."""


def of_one_rank() -> None:
    """What each process of `measure` does: rank 0 prints the least seconds of each size, the least disturbed."""
    torch.set_num_threads(1)
    with launched(device="cpu", patience=120) as ranks:
        for size in SIZES:
            taken = [_timed(ranks, torch.ones(size)) for _ in range(25)]
            if ranks.first:
                print(min(taken), flush=True)


def _timed(ranks: Ranks, vector: torch.Tensor) -> float:
    ranks.count_all(1)  # so that all begin together
    start = time.perf_counter()
    ranks.sum(vector)
    return time.perf_counter() - start


def measured(ranks: int) -> list[float]:
    """Seconds of a sum of each of `SIZES` over gloo on this machine's loopback."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={ranks}", __file__, "rank"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [float(line) for line in done.stdout.split()]


def loopback(seconds: list[float]) -> Link:
    """The link that explains the first two sums of two ranks."""
    short, long = (FLOAT * size for size in SIZES[:2])
    per_byte = (seconds[1] - seconds[0]) / (long - short)
    return Link("loopback", 1 / per_byte, (seconds[0] - short * per_byte) / 2, 0.0)


def core(images: int = 8) -> Processor:
    """What one core of this machine does in a second of computing for the run above, `images` at a time."""
    torch.set_num_threads(1)
    run, net = resnet101(), build_residual("resnet101", classes=CLASSES, seed=0)
    x = torch.randint(256, (images, 3, 32, 32), dtype=torch.uint8)
    y = torch.randint(CLASSES, (images,))
    weights, noises = Momentum(net, 0.1, 0.9), torch.Generator()
    of_gradients, of_rest = [], []
    for _ in range(4):
        start = time.process_time()
        gradients = clipped_gradient_sum(net, x, y, 1.0).gradient
        of_gradients.append(time.process_time() - start)
        total = weights.flatten(gradients)
        start = time.process_time()
        weights.step((total + gaussian(total, 1.0, noises)).mul_(1e-3))
        of_rest.append(time.process_time() - start)
    taken, rest = (median(times[1:]) for times in (of_gradients, of_rest))
    size = FLOAT * run.cost.parameters
    return Processor("core", images * run.cost.training / taken, PASSES * size / rest)


def measure() -> str:
    """A core of this machine, and sums over loopback: measured seconds beside those of the model, as Markdown."""
    found = {ranks: measured(ranks) for ranks in (2, 3)}
    link, here = loopback(found[2]), core()
    lines = [
        f"one core: {here.operations:.2e} operations a second, {here.memory:.2e} bytes a second; loopback: "
        f"{link.bandwidth / 1e9:.2f} GB/s and {link.message * 1e6:.0f} µs a message",
        "",
        "| ranks | floats | measured, ms | by the model, ms |",
        "|---|---|---|---|",
    ]
    for ranks, seconds in found.items():
        for size, taken in zip(SIZES, seconds, strict=True):
            told = 1e3 * sum_seconds(link, ranks, FLOAT * size)
            lines.append(f"| {ranks} | {size:,} | {digits(1e3 * taken)} | {digits(told)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        of_one_rank()
    else:
        print(measure() if sys.argv[1:] == ["measure"] else tables())
