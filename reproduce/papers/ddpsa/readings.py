"""The variants that the training figures run, in every reading of what the paper leaves open.

Every function returns the variants by name, or the tasks that run them, from a notebook's
parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from repro.federated.ddpsa.algorithm import Variant, mechanism
from reproduce.papers.ddpsa import stated
from reproduce.papers.ddpsa.runs import PILOT_SEEDS, Task, medians_task, run_task

Variants = dict[str, Variant]
Parameters = Mapping[str, Any]

DESCENT = {"adam": False, "learning_rate": 0.1}
"""The optimiser of No-Private and MPC (section VI-A)."""

QUIET = ("No-Private", "MPC")
"""The mechanisms without noise, which use gradient descent."""

_PAIR = ("LDP", "DDP-SA")


def clip_task(parameters: Parameters) -> Task:
    """The medians of the gradients' norms at the start, over half of the rounds and over all."""
    rounds = parameters["rounds"]
    return medians_task(parameters, [0, rounds // 2, rounds], PILOT_SEEDS[0])


def descent_clip_task(parameters: Parameters, rounds: int) -> Task:
    """The median of the gradients' norms over so many rounds of gradient descent."""
    return medians_task(parameters, [rounds], PILOT_SEEDS[0], **DESCENT)


def marks(rounds: int) -> list[int]:
    """Rounds at which losses are read: those of the paper, half of the rounds, and the last."""
    return sorted({*(t for t in stated.MARKS if t <= rounds), max(1, rounds // 2), rounds})


def ends(rounds: int) -> dict[str, int]:
    """The round at which a mechanism's loss is read: that of section VI-F3, or the last."""
    quiet, noisy = (min(mark, rounds) for mark in stated.MARKS[:2])
    return {"No-Private": quiet, "LDP": noisy, "MPC": quiet, "DDP-SA": noisy}


def of_rounds(parameters: Parameters, clips: Sequence[float]) -> Variants:
    """Figure 3: LDP at each clip, and No-Private."""
    common = {key: parameters[key] for key in ("clients", "epsilon")}
    return {f"LDP, Δ = {clip:g}": mechanism("LDP", clip=clip, **common) for clip in clips} | {
        "No-Private": mechanism("No-Private", clip=clips[-1], **common)
    }


def alone(parameters: Parameters, clip: float) -> Variants:
    """Figure 7: a client that trains by itself."""
    common = {"clients": 1, "clip": clip, "epsilon": parameters["epsilon"]}
    return {
        "No-Private": mechanism("No-Private", **common),
        "LDP": mechanism("LDP", **common),
        "LDP with SGD": mechanism("LDP", **common, **DESCENT),
    }


def of_clips(parameters: Parameters, clips: Mapping[str, float], clip: float) -> Variants:
    """Figure 7: LDP at each of the named clips, and with the noise on the average at `clip`."""
    common = {key: parameters[key] for key in ("clients", "epsilon")}
    return {name: mechanism("LDP", clip=value, **common) for name, value in clips.items()} | {
        "noise on the average": mechanism("LDP", clip=clip, divided=False, **common)
    }


def by_epsilon(parameters: Parameters, clip: float) -> dict[str, Variants]:
    """Figure 8: LDP and DDP-SA, with noise of their own, at every epsilon, by reading.

    "descent" has No-Private and MPC as well. The reading "alone" is a client that trains by itself
    with gradient descent.
    """
    common = {"clients": parameters["clients"], "clip": clip}
    epsilons = parameters["epsilons"]
    noisy = {
        f"{name}, ε = {e:g}": mechanism(name, epsilon=e, stream=stream, **common)
        for e in epsilons
        for stream, name in enumerate(_PAIR)
    }
    quiet = replace(noisy[f"LDP, ε = {epsilons[0]:g}"], epsilon=math.inf)
    descent = {name: replace(variant, **DESCENT) for name, variant in noisy.items()}
    plain = {name: mechanism(name, epsilon=epsilons[0], **common) for name in QUIET}
    return {
        "all records": noisy | {"no noise": quiet},
        "descent": descent | plain,
        "batches": noisy | {"no noise": quiet},
        "alone": {
            f"alone, ε = {e:g}": replace(descent[f"LDP, ε = {e:g}"], clients=1) for e in epsilons
        },
    }


def by_epsilon_tasks(parameters: Parameters, variants: Mapping[str, Variants]) -> list[Task]:
    """One task for each reading of `by_epsilon`, in its order."""
    short = {"rounds": parameters["sgd_rounds"]}
    changes = {
        "all records": {},
        "descent": short,
        "batches": {"batch": parameters["batch"]},
        "alone": {"share": parameters["clients"], **short},
    }
    return [
        run_task(parameters, list(chosen.values()), **changes[reading])
        for reading, chosen in variants.items()
    ]


def by_clients(
    parameters: Parameters, clip: float, matching: Mapping[int, float]
) -> dict[str, Variants]:
    """Figure 9: LDP and DDP-SA, with noise of their own, for every n, by reading.

    "descent" has No-Private, MPC and distributed noise as well; "batches, n = …" and "alone, n = …" are
    readings of their own, because their clients use another number of records in each.

    Args:
        parameters: of the notebook.
        clip: Delta.
        matching: n -> scale of distributed noise, in units of Delta, that gives the aggregate the
            guarantee of n clients' own noise over all rounds.
    """
    clients, common = parameters["clients"], {"clip": clip, "epsilon": parameters["epsilon"]}
    box = {
        f"{name}, n = {n}": mechanism(name, clients=n, stream=stream, **common)
        for n in clients
        for stream, name in enumerate(_PAIR)
    }
    descent = {name: replace(variant, **DESCENT) for name, variant in box.items()}
    plain = {
        f"{name}, n = {n}": mechanism(name, clients=n, **common) for name in QUIET for n in clients
    }
    shared = {n: replace(descent[f"DDP-SA, n = {n}"], distributed=True) for n in clients}
    by_round = {f"shares, equal round, n = {n}": variant for n, variant in shared.items()}
    by_total = {
        f"shares, equal total, n = {n}": replace(shared[n], epsilon=float(f"{1 / scale:.4g}"))
        for n, scale in matching.items()
    }
    single = mechanism("LDP", clients=1, **common, **DESCENT)
    pairs = {n: {f"{name}, n = {n}": box[f"{name}, n = {n}"] for name in _PAIR} for n in clients}
    return (
        {"all records": box, "descent": descent | plain | by_round | by_total}
        | {f"batches, n = {n}": pair for n, pair in pairs.items()}
        | {f"alone, n = {n}": {f"alone, n = {n}": single} for n in clients}
    )


def by_clients_tasks(parameters: Parameters, variants: Mapping[str, Variants]) -> list[Task]:
    """One task for each reading of `by_clients`, in its order."""
    clients, short = parameters["clients"], {"rounds": parameters["sgd_rounds"]}
    changes: dict[str, dict[str, Any]] = {"all records": {}, "descent": short}
    changes |= {f"batches, n = {n}": {"batch": parameters["batch"]} for n in clients}
    changes |= {f"alone, n = {n}": {"share": n, **short} for n in clients}
    return [
        run_task(parameters, list(chosen.values()), **changes[reading])
        for reading, chosen in variants.items()
    ]
