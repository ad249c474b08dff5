"""Client updates per second of MS-PAFL's rounds on one core: ours, plain loops, and Flower's simulation.

    python bench/federated_round.py [--clients 100] [--seconds 4] [--flower-rounds 6]

A client update is what Algorithm 1 of mspafl asks of one client in one round: draw Q = 5 batches of
b = 5 out of 325 records without replacement, take 5 steps of logistic regression, clip the public
half, add noise, send it; its share of the server's average is included. Every client takes part, so
that all methods do the same work. One noise-free round on all records must give the right average; a
method for which it does not is named and left out.

Measured one after the other in one run, with one thread each; the best repetition counts. Flower has
one worker for its clients, and may use further cores for its server and for Ray. Its clients do their
arithmetic in numpy, in closed form: what remains is the cost of its machinery. Its time starts when
its first round has ended, so that starting Ray is not counted.

Flower is not a dependency of the workbook, whose pins of rich and packaging it does not accept. To
have it in the table, put it into a folder of its own:

    pip install --target build/flower "flwr[simulation]==1.41.0"
    PYTHONPATH=build/flower python bench/federated_round.py
"""

from __future__ import annotations

import argparse
import importlib
import logging
import math
import os
import platform
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, util

import numpy as np
import torch
from torch.nn import functional

from repro.datasets.adult import load_adult
from repro.federated.client_data import deal
from repro.federated.mspafl.algorithm import LocalTraining, Round, Variant, train
from repro.models.logistic import signed

RECORDS, CLIP, SIGMA, RATE, STACKED = 325, 1.0, 8.687, 0.1, 20
AIM_OURS, AIM_FLOWER = 100_000, 100


@dataclass(frozen=True)
class Work:
    """What every method is given: each client's records as v = y x, and how it uses them."""

    vectors: np.ndarray  # (N, 325, m)
    steps: int = 5
    batch: int = 5
    sigma: float = SIGMA

    @property
    def clients(self) -> int:
        """Number of clients."""
        return len(self.vectors)

    @property
    def whole(self) -> Work:
        """The same clients, one step on all their records, no noise: one right answer."""
        return Work(self.vectors, steps=1, batch=self.vectors.shape[1], sigma=0.0)

    @property
    def public(self) -> int:
        """Coordinates shared with the server, the last ones."""
        return self.vectors.shape[2] // 2


Method = Callable[[Work, int], tuple[float, np.ndarray]]
"""Rounds -> client updates per second, and the server's model after the last round."""


def ours(stacked: int) -> Method:
    """Our simulation, of one federation or of several seeds at once."""

    def run(work: Work, rounds: int) -> tuple[float, np.ndarray]:
        clients, held, size = work.vectors.shape
        variant = Variant(1.0, work.public, RATE, CLIP, work.sigma)
        local = LocalTraining(work.steps, work.batch)
        holdings = np.tile(np.arange(clients * held).reshape(clients, held), (stacked, 1, 1))
        last: list[Round] = []
        start = time.perf_counter()
        models = train(
            work.vectors.reshape(-1, size),
            holdings,
            [variant],
            local,
            rounds,
            range(stacked),
            last.append,
            rounds,
        )
        seconds = time.perf_counter() - start
        return stacked * clients * rounds / seconds, models[0, 0, 0, -work.public :]

    return run


def local_update(
    model: np.ndarray, held: np.ndarray, work: Work, rng: np.random.Generator
) -> np.ndarray:
    """One client's steps, in closed form, without any stacking."""
    drawn = rng.choice(len(held), work.steps * work.batch, replace=False)
    for batch in np.split(held[drawn], work.steps):
        model = model + RATE * (batch.T @ (1.0 / (1.0 + np.exp(batch @ model)))) / work.batch
    return model


def upload(public: np.ndarray, work: Work, rng: np.random.Generator) -> np.ndarray:
    """What leaves the client: its public half, clipped and with noise."""
    clipped = public / max(1.0, float(np.linalg.norm(public)) / CLIP)
    return clipped + work.sigma * rng.standard_normal(len(public))


def numpy_loop(work: Work, rounds: int) -> tuple[float, np.ndarray]:
    """A Python loop over clients in numpy, with the gradient in closed form."""
    rng = np.random.default_rng(0)
    models = np.zeros((work.clients, work.vectors.shape[2]))
    start = time.perf_counter()
    for _ in range(rounds):
        sent = []
        for k, held in enumerate(work.vectors):
            models[k] = local_update(models[k], held, work, rng)
            sent.append(upload(models[k, -work.public :], work, rng))
        server = np.mean(sent, axis=0)
        models[:, -work.public :] = server
    return work.clients * rounds / (time.perf_counter() - start), server


def torch_loop(work: Work, rounds: int) -> tuple[float, np.ndarray]:
    """The usual way: a loop over clients, autograd, an optimiser."""
    generator = torch.Generator().manual_seed(0)
    held = [torch.from_numpy(rows) for rows in work.vectors]
    size, draws = work.vectors.shape[2], work.steps * work.batch
    models = [torch.zeros(size, dtype=torch.float64, requires_grad=True) for _ in held]
    start = time.perf_counter()
    for _ in range(rounds):
        sent = []
        for model, records in zip(models, held, strict=True):
            optimiser = torch.optim.SGD([model], lr=RATE)
            drawn = torch.randperm(len(records), generator=generator)[:draws]
            for batch in records[drawn].split(work.batch):
                optimiser.zero_grad()
                functional.softplus(-(batch @ model)).mean().backward()
                optimiser.step()
            public = model.detach()[-work.public :]
            clipped = public / torch.clamp(public.norm() / CLIP, min=1.0)
            noise = torch.randn(work.public, generator=generator, dtype=torch.float64)
            sent.append(clipped + work.sigma * noise)
        server = torch.stack(sent).mean(0)
        for model in models:
            model.data[-work.public :] = server
    return work.clients * rounds / (time.perf_counter() - start), server.numpy()


def flower(work: Work, rounds: int) -> tuple[float, np.ndarray]:
    """Flower's simulation with its own FedAvg; clients keep their private half in Flower's state.

    One round of `work.whole` comes first, so that Flower is started once only; its average is what
    is returned, and the time starts at its end.
    """
    os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # read when Flower is imported
    # Flower is no dependency of the project, so nothing here imports it by name.
    app = importlib.import_module("flwr.app")
    ArrayRecord, ConfigRecord, Message = app.ArrayRecord, app.ConfigRecord, app.Message
    MetricRecord, RecordDict = app.MetricRecord, app.RecordDict
    ClientApp = importlib.import_module("flwr.clientapp").ClientApp
    ServerApp = importlib.import_module("flwr.serverapp").ServerApp
    FedAvg = importlib.import_module("flwr.serverapp.strategy").FedAvg
    run_simulation = importlib.import_module("flwr.simulation").run_simulation

    client_app, server_app = ClientApp(), ServerApp()
    half = work.vectors.shape[2] - work.public
    ends: list[float] = []
    averages: list[np.ndarray] = []

    @client_app.train()
    def update(message: Message, context) -> Message:
        place = int(context.node_config["partition-id"])
        number = message.content["config"]["server-round"]
        task = work.whole if number == 1 else work
        rng = np.random.default_rng((place, number))
        public = message.content["arrays"].to_numpy_ndarrays()[0]
        kept = context.state.get("private")
        private = np.zeros(half) if kept is None else kept.to_numpy_ndarrays()[0]
        model = local_update(np.concatenate([private, public]), work.vectors[place], task, rng)
        context.state["private"] = ArrayRecord([model[:half]])
        content = {
            "arrays": ArrayRecord([upload(model[half:], task, rng)]),
            "metrics": MetricRecord({"num-examples": RECORDS}),
        }
        return Message(content=RecordDict(content), reply_to=message)

    class Timed(FedAvg):
        def aggregate_train(self, server_round, replies):
            average, metrics = super().aggregate_train(server_round, replies)
            ends.append(time.perf_counter())
            averages.append(average.to_numpy_ndarrays()[0])
            return average, metrics

        def summary(self) -> None:
            pass

    @server_app.main()
    def main(grid, context) -> None:
        strategy = Timed(
            fraction_evaluate=0.0, min_train_nodes=work.clients, min_available_nodes=work.clients
        )
        start = ArrayRecord([np.zeros(work.public)])
        strategy.start(
            grid, start, num_rounds=rounds + 1, train_config=ConfigRecord({}), timeout=3600
        )

    for name in ("flwr", "ray"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    backend = {
        "init_args": {"num_cpus": 1, "log_to_driver": False, "include_dashboard": False},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(server_app, client_app, num_supernodes=work.clients, backend_config=backend)
    return work.clients * rounds / (ends[-1] - ends[0]), averages[0]


def wrong(average: np.ndarray, work: Work) -> str:
    """Empty when `average` is that of one round of `work.whole` from zero, else what is wrong."""
    slope = (0.5 * work.vectors).mean(axis=1)  # minus the gradient at W = 0
    public = RATE * slope[:, -work.public :]
    norms = np.linalg.norm(public, axis=1, keepdims=True)
    truth = (public / np.maximum(1.0, norms / CLIP)).mean(axis=0)
    error = float(np.linalg.norm(average - truth) / np.linalg.norm(truth))
    return "" if error < 1e-6 else f"its average of one round is wrong by {error:.1%}"


def measure(method: Method, work: Work, seconds: float) -> float:
    """The best rate of repetitions that last `seconds` together."""
    rounds, best = 1, 0.0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        rate, _ = method(work, rounds)
        best = max(best, rate)
        rounds = max(1, math.ceil(0.2 * seconds * rate / work.clients))
    return best


def main() -> None:
    """Print one table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--clients", type=int, default=100)
    options.add_argument("--seconds", type=float, default=4.0, help="per method, without Flower")
    options.add_argument("--flower-rounds", type=int, default=6, help="0 leaves Flower out")
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)

    table = load_adult()
    holdings = deal(table.labels, given.clients, RECORDS, "shuffled", np.random.default_rng(0))
    work = Work(signed(table.features, table.labels)[holdings])
    methods: dict[str, Method] = {
        "ours, one federation": ours(1),
        f"ours, {STACKED} seeds at once": ours(STACKED),
        "numpy loop, closed form": numpy_loop,
        "torch loop, autograd": torch_loop,
    }
    peer = "Flower is left out (--flower-rounds 0)"
    if given.flower_rounds:
        if util.find_spec("flwr") and util.find_spec("ray"):
            methods["Flower, simulation"] = flower
            peer = f"flwr {metadata.version('flwr')}, ray {metadata.version('ray')}"
        else:
            peer = "Flower is not installed: left out (see the head of this file)"
    print(
        f"one core; Python {platform.python_version()}, numpy {np.__version__}, torch "
        f"{torch.__version__}, {peer}\n{given.clients} clients x {RECORDS} records, Q = "
        f"{work.steps}, b = {work.batch}, {work.vectors.shape[2]} coordinates"
    )
    rates: dict[str, float] = {}
    for name, method in methods.items():
        try:
            if method is flower:
                rate, average = flower(work, given.flower_rounds)
            else:
                rate, average = measure(method, work, given.seconds), method(work.whole, 1)[1]
            problem = wrong(average, work)
        except RuntimeError as failure:  # Flower on a machine too busy to start Ray in 30 s
            problem = str(failure).splitlines()[0]
        if problem:
            print(f"  left out: {name}: {problem}")
        else:
            rates[name] = rate
    mine = rates["ours, one federation"]
    print(f"\n  {'':32}{'client updates/s':>18}{'ours is faster by':>20}")
    for name, rate in rates.items():
        print(f"  {name:32}{rate:18,.0f}{mine / rate:19.1f}x")
    verdict = "reached" if mine >= AIM_OURS else "MISSED"
    print(f"  aim, {AIM_OURS:,} client updates/s on one core: {verdict}")
    if "Flower, simulation" in rates:
        ratio = mine / rates["Flower, simulation"]
        verdict = "reached" if ratio >= AIM_FLOWER else "MISSED"
        print(f"  aim, {AIM_FLOWER} times Flower: {verdict} ({ratio:,.0f}x)")


if __name__ == "__main__":
    main()
