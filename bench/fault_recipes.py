"""Random calls of functions that need more than numbers: what `fault_calls` makes beside the others.

A recipe takes a generator and returns the call as text, and the call. The call checks its own answer and may end in a
named `ValueError` or `TypeError`; everything else is a fault.
"""

from __future__ import annotations

import contextlib
import io
import random
from typing import Any

import dp_accounting as dp
import numpy as np
import torch
from fault_values import JUNK, Call, picked, told
from torch import nn

import repro.accounting.__main__ as command
from repro import federated
from repro.accounting import (
    BalancedIterationSubsampling,
    Federation,
    GaussianMechanism,
    Mechanism,
    ModelSplitting,
    OpacusAccountant,
    PoissonGaussian,
    RandomParticipation,
    calibrate_sigma,
    compose,
    from_dp_event,
    with_interval,
)
from repro.attacks import one_run
from repro.models import build
from repro.secagg import (
    Z32,
    Z64,
    ZP61,
    FixedPoint,
    Ring,
    discrete_laplace,
    narrowest,
    noise_tail,
    reconstruct,
    share,
)

SIGMA = [1e-6, 0.03, 0.3, 1.0, 3.0, 50.0, 1e6]
RATE = [0.0, 1e-6, 1e-3, 0.1, 0.5, 1.0]
DELTA = [1e-9, 1e-5, 0.1]
FEW = [1, 2, 3, 10]


def _part(rng: random.Random) -> Mechanism:
    """A mechanism with usual arguments."""
    sigma = rng.choice([0.5, 1.0, 3.0, 50.0])
    kind = rng.randrange(4)
    if kind == 0:
        return GaussianMechanism(sigma, sensitivity=rng.choice([0.1, 1.0]))
    if kind == 1:
        return PoissonGaussian(sigma, rate=rng.choice(RATE))
    if kind == 2:
        return RandomParticipation(
            sigma, p=rng.choice(RATE), q=rng.choice(RATE), samples_per_client=rng.choice(FEW)
        )
    return ModelSplitting(sigma, submodels=rng.choice(FEW), rate=rng.choice(RATE))


def _between(run: Any, delta: float) -> None:
    low, high = (np.asarray(run.epsilon(delta, method=m)) for m in ("lower", "upper"))
    assert np.all(np.isfinite(low)) and np.all(np.isfinite(high)), f"{low}, {high}"
    assert np.all(low <= high * (1 + 1e-9)), f"lower epsilon {low} is above upper {high}"


def composed(rng: random.Random) -> Call:
    """`compose` of several parts, nested, and over an array of rounds, which cost more and more."""
    parts: list[Any] = [_part(rng) for _ in range(rng.choice([1, 1, 2, 3]))]
    if rng.random() < 0.3:
        parts[0] = compose(parts[0], rng.choice(FEW))
    if rng.random() < 0.1:
        parts.append(rng.choice([None, "x", 3, [], compose]))
    rounds = rng.choice([1, 5, [1, 2, 7], np.array([3, 3, 100]), [], [0], "2", 2.5, [True]])
    delta = rng.choice(DELTA)

    def call() -> None:
        run = compose(parts if len(parts) > 1 else parts[0], rounds)
        _between(run, delta)
        curve = np.atleast_1d(run.epsilon(delta))
        assert np.all(np.diff(curve) >= -1e-9), f"epsilon falls with the rounds: {curve}"

    return f"compose({parts}, {rounds!r}).epsilon({delta})", call


def calibrated(rng: random.Random) -> Call:
    """`calibrate_sigma` for each kind of target; at its sigma the target is met."""
    goals = [
        {"epsilon": [1e-3, 0.5, 2.0, 50.0, 1e4], "delta": DELTA},
        {"fpr": [1e-3, 0.1], "tpr": [2e-3, 0.2, 0.9]},
        {"advantage": [1e-3, 0.1, 0.9]},
    ]
    goal = picked(rng, **rng.choice(goals))
    rate, rounds = rng.choice(RATE), rng.choice([1, 1, 20])

    def scheme(sigma: float) -> Any:
        one = PoissonGaussian(sigma, rate=rate)
        return one if rounds == 1 else compose(one, rounds)

    def call() -> None:
        run = scheme(calibrate_sigma(scheme, **goal))
        if "epsilon" in goal:
            found, limit = run.delta(goal["epsilon"]), goal["delta"]
        elif "fpr" in goal:
            found, limit = run.tpr_at_fpr(goal["fpr"]), goal["tpr"]
        else:
            found, limit = run.advantage(), goal["advantage"]
        assert found <= limit * (1 + 1e-9), f"{found} for a target of {limit}"

    return told(f"calibrate_sigma(PoissonGaussian(rate={rate}) x {rounds}, ", goal), call


def _federation(rng: random.Random) -> dict[str, Any]:
    return picked(
        rng,
        clients=[1, 3, 500],
        records_per_client=[1, 2, 100, 10**5, [0]],
        rounds=[1, 10, 1000],
        participation=RATE,
        local_rate=RATE,
        adjacency=["record", "record", "client", "client", "replace"],
        observer=["sums", "sums", "sums", "participants", "uploads", "draws", "state"],
        clip=[1e-3, 1.0, 10.0],
        submodels=[1, 1, 4],
        sampling=[*["poisson"] * 8, "fixed", "shuffled"],
    )


def federations(rng: random.Random) -> Call:
    """`Federation`: a run with less noise costs no less."""
    given, sigma, delta = _federation(rng), rng.choice([0.5, 1.0, 10.0]), rng.choice(DELTA)

    def call() -> None:
        one = Federation(**given)
        noise = sigma * one.clip
        _between(one.run(noise), delta)
        more, less = (one.run(s * noise).epsilon(delta) for s in (1.0, 1.5))
        assert less <= more * (1 + 1e-6), f"epsilon {less} at 1.5 times the noise, {more} at once"

    return told("Federation", given) + f".run({sigma}).epsilon({delta})", call


def commands(rng: random.Random) -> Call:
    """`python -m repro.accounting` with random options: a table, or one line and status 2."""
    given = _federation(rng)
    given["records"] = given.pop("records_per_client")
    options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    options += [f"--noise={rng.choice([0.0, 0.5, 1.0, 1e3])}", f"--delta={rng.choice(DELTA)}"]

    def call() -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            with contextlib.redirect_stdout(io.StringIO()) as table:
                try:
                    status = command.main(options)
                except SystemExit as end:
                    status = end.code
        assert status in (0, 2), f"status {status}"
        assert bool(said.getvalue()) == (status == 2), said.getvalue()
        assert "nan" not in table.getvalue() and "inf" not in table.getvalue(), table.getvalue()

    return f"python -m repro.accounting {' '.join(options)[:300]}", call


def events(rng: random.Random) -> Call:
    """`from_dp_event` of events with and without a mechanism."""
    noise, count = rng.choice([*SIGMA, 0.0, -1.0]), rng.choice([0, 1, 5, 2.0])
    plain = rng.choice([dp.GaussianDpEvent(noise), dp.LaplaceDpEvent(noise), dp.NoOpDpEvent()])
    made = [
        plain,
        dp.PoissonSampledDpEvent(rng.choice([*RATE, 2.0]), plain),
        dp.SelfComposedDpEvent(plain, count),
        dp.ComposedDpEvent([plain, dp.GaussianDpEvent(3.0)]),
        dp.ComposedDpEvent([]),
        dp.NonPrivateDpEvent(),
        rng.choice(JUNK),
    ]
    event = rng.choice(made)
    return f"from_dp_event({event!r})", lambda: _between(from_dp_event(event), 1e-5)


def opacus(rng: random.Random) -> Call:
    """`OpacusAccountant` over a few kinds of steps."""
    steps = [picked(rng, noise_multiplier=[0.5, 1.0, 3.0], sample_rate=RATE) for _ in range(3)]
    delta = rng.choice([*DELTA, 0.0, 1.0])

    def call() -> None:
        accountant = OpacusAccountant()
        for one in steps:
            accountant.step(**one)
        ends = [accountant.get_epsilon(delta, method=m) for m in ("lower", "upper")]
        assert 0 <= ends[0] <= ends[1] < np.inf, f"{ends}"

    return f"OpacusAccountant, steps {steps}, get_epsilon({delta})", call


def grids(rng: random.Random) -> Call:
    """`with_interval`: a coarser grid never makes an upper bound smaller."""
    part, interval = _part(rng), rng.choice([1e-4, 1e-3, 0.01, 0.0, -1.0, "x", True])

    def call() -> None:
        fine = part.pld(interval=1e-4)
        coarse = with_interval(fine, interval)
        before, after = (one.get_epsilon_for_delta(1e-5) for one in (fine, coarse))
        assert after >= before - 1e-9, f"{after} on the coarser grid, {before} on the finer"

    return f"with_interval({part}, {interval!r})", call


def curves(rng: random.Random) -> Call:
    """`tradeoff`: between 0 and 1 - alpha, falling, the upper curve below the lower one."""
    part = _part(rng)
    alpha = rng.choice([np.linspace(0, 1, 7), 0.3, [0.1, 0.01], [], -0.1, 1.5, "0.1", [True]])

    def call() -> None:
        best, least = (np.asarray(part.tradeoff(alpha, method=m)) for m in ("upper", "lower"))
        assert np.all(best <= least + 1e-9), f"{best} is above {least}"
        for one in (best, least):
            assert np.all((one >= 0) & (one <= 1 - np.asarray(alpha) + 1e-12)), f"{one} at {alpha}"

    return f"{part}.tradeoff({alpha!r})", call


def balanced(rng: random.Random) -> Call:
    """More participations never cost less."""
    sigma, iterations = rng.choice([0.5, 1.0, 3.0]), rng.choice([4, 10, 40])
    taken = sorted(rng.sample(range(1, iterations + 1), 2))

    def call() -> None:
        few, many = (
            BalancedIterationSubsampling(sigma, iterations=iterations, participations=k).delta(0.5)
            for k in taken
        )
        assert few <= many * (1 + 1e-6), f"delta {few} and {many} for {taken} participations"

    return f"BalancedIterationSubsampling({sigma}, iterations={iterations}, …{taken})", call


# Secure sums --------------------------------------------------------------------------------------


def encoded(rng: random.Random) -> Call:
    """`FixedPoint`, `share` and `reconstruct`: the sum of what was encoded, or an error."""
    given = picked(rng, decimals=[0, 3, 10, 30, 400])
    modulus = rng.choice([Z64, Z32, ZP61, 7, 0, 2**70, "x"])
    size = rng.choice([1e-30, 1.0, 1e3, 1e30])
    rows, servers = rng.choice([1, 2, 5]), rng.choice([0, 1, 2, 3, 7])
    seed = rng.getrandbits(32)

    def call() -> None:
        ring = modulus if isinstance(modulus, Ring) else Ring(modulus)
        encoding = FixedPoint(**given, ring=ring)
        values = np.random.default_rng(seed).normal(scale=size, size=(rows, 4))
        elements = encoding.encode(values, clients=rows)
        sums = share(elements, servers=servers, ring=ring).expanded()
        sums = np.stack([ring.sum(one) for one in sums])
        got = encoding.decode(reconstruct(sums, ring))
        most = (
            rows * 10.0 ** -(10 if given["decimals"] is None else given["decimals"])
            + 1e-12 * np.abs(values).sum()
        )
        assert np.abs(got - values.sum(axis=0)).max() <= most, f"{got} for {values.sum(axis=0)}"

    return told("FixedPoint", {**given, "modulus": modulus, "size": size, "servers": servers}), call


def exact_noise(rng: random.Random) -> Call:
    """`discrete_laplace` of any scale."""
    given = picked(rng, scale=[1e-6, 0.5, 3, 1e6, 10**15, 1e300], size=[1, (2, 3), 0, 1000, -1])
    return told("discrete_laplace", given), lambda: discrete_laplace(**given)


def rings(rng: random.Random) -> Call:
    """`noise_tail` and `narrowest`: the ring has room for every client's largest number."""
    given = picked(rng, scale=[0.5, 3.0, 1e6, 1e15, 1e300], draws=[1, 100, 10**6, 0])
    units, clients = rng.choice([0, 1, 10**6, 2**40, 2**62]), rng.choice([0, 1, 1000, 10**9])

    def call() -> None:
        tail = noise_tail(**given)
        ring = narrowest(units + tail, clients)
        assert (units + tail) * clients <= ring.half, f"{ring} for {units} + {tail}"

    return told("noise_tail, narrowest", {**given, "units": units, "clients": clients}), call


# Training -----------------------------------------------------------------------------------------


def _network(kind: int) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    flat = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3))
    along = nn.Sequential(
        nn.Conv1d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(20, 3)
    )
    batch = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))
    image = build("digits_cnn", classes=3, seed=0)
    return [(flat, (4,)), (along, (2, 5)), (batch, (4,)), (image, (1, 8, 8))][kind]


def clipped(rng: random.Random) -> Call:
    """`clipped_gradient_sum`: no longer than the number of records times the clip."""
    kind, records = rng.randrange(4), rng.choice([0, 1, 5])
    size = rng.choice([1e-20, 1.0, 1e10])
    clip = rng.choice([1e-6, 1.0, 1e6, float("inf"), *JUNK])
    targets = rng.choice([torch.zeros(records), torch.zeros(records + 1, dtype=torch.long)])
    if rng.random() < 0.8:
        targets = torch.zeros(records, dtype=torch.long)

    def call() -> None:
        model, shape = _network(kind)
        inputs = size * torch.randn(records, *shape, generator=torch.Generator().manual_seed(1))
        found = federated.clipped_gradient_sum(model, inputs, targets, clip)
        length = float(torch.cat([g.flatten() for g in found.gradient]).norm())
        if records and clip < np.inf:
            assert length <= records * clip * (1 + 1e-5), f"{length} with {records} records"

    given = {"network": kind, "records": records, "size": size, "clip": clip, "y": targets.dtype}
    return told("clipped_gradient_sum", given), call


def losses(rng: random.Random) -> Call:
    """`cross_entropy`, `squared_error` and `gradient_sum` on outputs and targets of several shapes."""
    outputs = rng.choice([torch.zeros(3, 2), torch.zeros(3), torch.zeros(0, 2), torch.ones(3, 1)])
    targets = rng.choice([torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), torch.zeros(0)])
    one = rng.choice([federated.cross_entropy, federated.squared_error])

    def call() -> None:
        assert torch.isfinite(one(outputs, targets)).all(), "not finite"
        model, shape = _network(0)
        inputs = torch.ones(len(targets), *shape)
        for gradient in federated.gradient_sum(model, inputs, targets, loss=one):
            assert torch.isfinite(gradient).all(), "not finite"

    return f"{one.__name__}({tuple(outputs.shape)}, {tuple(targets.shape)} {targets.dtype})", call


def training(rng: random.Random) -> Call:
    """`train_random_participation` with its guarantee: weights are finite, or the end is a named error."""
    given = picked(
        rng,
        iterations=[1, 3, 0],
        p=RATE,
        q=RATE,
        learning_rate=[1e-3, 0.1, 1e30],
        clip=[0.1, 1.0, None, 0.0],
        sigma=[0.0, 1.0, 1e-30],
        momentum=[0.0, 0.9, 1.5],
        average=["expected", "realised", "no"],
    )
    sizes, seed = rng.choice([[5, 5], [10], [0, 10]]), rng.choice([0, 7])
    if rng.random() < 0.2:
        sizes = rng.choice([[3], [], [-1, 11], 10, [5.0, 5.0], None])
        seed = rng.choice([-1, "0", 2**70, None])

    def call() -> None:
        settings = federated.RandomParticipationSettings(**given)
        model, _ = _network(0)
        x = torch.randn(10, 4, generator=torch.Generator().manual_seed(1))
        y = torch.arange(10) % 3
        try:
            federated.train_random_participation(model, x, y, sizes, settings, seed)
        except FloatingPointError as problem:
            assert "diverged" in str(problem), f"{problem}"
            return
        for weight in model.parameters():
            assert torch.isfinite(weight).all(), "weights are not finite"
        bounds = settings.guarantee(1e-5, sizes=sizes)
        assert 0 <= bounds.lower <= bounds.upper < np.inf, f"{bounds.lower}, {bounds.upper}"

    return told("train_random_participation", {**given, "sizes": sizes, "seed": seed}), call


def settings(rng: random.Random) -> Call:
    """The other settings and samplers, and what they guarantee."""
    kind = rng.choice(["mspafl", "ddpsa", "partitioning", "clients", "poisson", "balanced"])
    delta, rounds = rng.choice([*DELTA, 0.0, "x"]), rng.choice([1, 5, 0])
    if kind == "mspafl":
        given = picked(
            rng,
            p=RATE,
            public=[0, 1, 3],
            learning_rate=[0.1, 0.0],
            clip=[1.0, 0.1],
            sigma=[0.0, 1.0, 10.0],
            informative=[True, False],
        )
        steps = picked(rng, steps=[1, 3, 0], batch=[1, 2, 0], replacement=[True, False])
        held = rng.choice([1, 4, 0, "x"])

        def call() -> Any:
            local = federated.MspaflLocalTraining(**steps)
            one = federated.MspaflVariant(**given)
            return one.guarantee(delta, rounds, local, held=held, size=3, clients=2)

        given = {**given, **steps, "held": held}
    elif kind == "ddpsa":
        given = picked(
            rng,
            clients=FEW,
            clip=[0.1, 1.0],
            epsilon=[0.1, 1.0, 10.0],
            shared=[True, False],
            adam=[True, False],
            learning_rate=[0.1, 1e-3],
            distributed=[True, False],
        )

        def call() -> Any:
            return federated.DdpsaVariant(**given).guarantee(delta, rounds)

    elif kind == "partitioning":
        given = picked(
            rng,
            clip=[0.1, 1.0],
            unsplit_clip=[0.0, 0.5],
            sigma=[0.0, 1.0, 10.0],
            learning_rate=[0.1],
            momentum=[0.0, 0.9],
        )
        parts = picked(rng, submodels=FEW, first=[0, 1], last=[0, 1], shuffled=[True, False])
        balanced_draw = rng.random() < 0.5

        def call() -> Any:
            sampling = (
                federated.BalancedIterations(20, 10, 4)
                if balanced_draw
                else federated.PoissonIterations(20, 10, 0.2)
            )
            split = federated.Splitting(**parts)
            return federated.NoisyDescent(**given).guarantee(delta, sampling, split)

        given = {**given, **parts}
    else:
        makers = {
            "clients": (federated.TwoLevelPoisson, {"sizes": [[3, 4], [0], 5, []]}),
            "poisson": (federated.PoissonIterations, {"records": [1, 20], "iterations": [1, 3]}),
            "balanced": (federated.BalancedIterations, {"records": [1, 20], "iterations": [1, 3]}),
        }
        rates = {
            "clients": {"p": RATE, "q": RATE},
            "poisson": {"rate": RATE},
            "balanced": {"participations": [0, 1, 3, 4]},
        }
        made, values = makers[kind]
        given = picked(rng, **values, **rates[kind])

        def call() -> Any:
            sampler, draws = made(**given), np.random.default_rng(0)
            return sampler.draw(draws) if kind == "clients" else list(sampler.batches(draws))

    def checked() -> None:
        answer = call()
        if isinstance(answer, federated.Guarantee):
            ends = answer.lower, answer.upper
            assert 0 <= ends[0] <= ends[1] < np.inf, f"{ends}"

    return told(f"settings of {kind}", {**given, "delta": delta, "rounds": rounds}), checked


# Attacks ------------------------------------------------------------------------------------------


def guesses(rng: random.Random) -> Call:
    """Audits from one training: a chance is one, and a bound on epsilon is not negative."""
    given = picked(
        rng,
        right=[0, 1, 50, 100],
        guesses=[0, 1, 50, 100],
        canaries=[1, 100, 1000],
        epsilon=[0.0, 1.0, 50.0],
        delta=[0.0, *DELTA],
    )

    def call() -> None:
        chance = one_run.guess_p_value(**given)
        assert 0 <= chance <= 1, f"{chance}"
        right, asked = [given["right"]], [given["guesses"]]
        least = one_run.guess_epsilon(right, asked, given["canaries"], given["delta"])
        assert 0 <= least < np.inf, f"{least}"

    return told("guess_p_value, guess_epsilon", given), call


RECIPES = {
    one.__name__: one
    for one in (
        composed,
        calibrated,
        federations,
        commands,
        events,
        opacus,
        grids,
        curves,
        balanced,
        encoded,
        exact_noise,
        rings,
        clipped,
        losses,
        training,
        settings,
        guesses,
    )
}
"""Every recipe by its name."""


ELSEWHERE = {
    "Client": "a process or a thread of a sum: the part sums",
    "ClippedSum": "an answer of clipped_gradient_sum",
    "Cluster": "processes of a sum: the part sums",
    "DdpsaTraining": "train_ddpsa makes it and runs its rounds",
    "Guarantee": "an answer of the settings",
    "HostedClients": "a process of a sum: tests/secagg/test_hosted.py",
    "InvalidBoundWarning": "a warning",
    "LostRankError": "an error",
    "Operator": "a process or a thread of a sum: the part sums",
    "Ranks": "processes: tests/federated/test_ranks.py",
    "Round": "an answer of a sum",
    "RoundError": "an error",
    "Session": "processes of a sum: the part sums",
    "Shares": "an answer of share",
    "Traffic": "an answer of a sum",
    "issue": "writes keys: the part sums, tests/secagg/test_channel.py",
    "launched": "processes: tests/federated/test_ranks.py",
}
"""Public names that random calls leave out, and why, or where they are tried."""
