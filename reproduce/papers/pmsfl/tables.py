"""Which runs stand behind Table 1, figure 4 and figure 6 of pmsfl, and what was reduced in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer
from reproduce.papers.pmsfl.runs import RUN, keys_of

Task = tuple[str, dict[str, Any], int]


@dataclass(frozen=True)
class TableRow:
    """A row of Table 1.

    Attributes:
        data: place of its data set in `DATA`.
        heterogeneous: whether clients differ in depth.
        title: of the row, with the paper's data.
    """

    data: int
    heterogeneous: bool
    title: str


DATA = ("CIFAR-100", "FEMNIST", "mmHAR", "sonicHAR")
"""The paper's data sets in the order of the lists of parameters."""

SETTINGS = {
    "cifar100": TableRow(0, False, "CIFAR-100, Dirichlet"),
    "femnist": TableRow(1, False, "FEMNIST, personalized"),
    "mmhar": TableRow(2, False, "mmHAR, personalized"),
    "sonichar": TableRow(3, False, "sonicHAR, personalized"),
    "cifar100-mixed": TableRow(0, True, "CIFAR-100, Dirichlet, mixed depths"),
    "femnist-mixed": TableRow(1, True, "FEMNIST, personalized, mixed depths"),
}
"""The rows of Table 1 in order."""

COLUMNS = {
    "standalone": "Standalone",
    "splitfed": "SplitFed",
    "splitfed_dp": "SplitFed-DP",
    "splitfed_pm": "SplitFed-PM",
    "lg_fedavg": "LG-FedAvg",
    "depthfl": "DepthFL",
    "pmsfl": "PM-SFL",
}
"""The columns of Table 1 in order."""

CONTROL = "local_only"

PER_DATA = (
    *("data", "clients", "width", "layers", "heads", "rounds", "participation", "iterations"),
    *("batch", "evaluate_every", "agreement"),
)
"""Parameters that Table 1 has one of for each data set."""


def table_tasks(parameters: Mapping[str, Any]) -> list[Task]:
    """All seven methods in all six settings, and the control once for each data set.

    `parameters` are those of Table 1's notebook. Order: setting, method, seed; the control is the
    last method of the settings without heterogeneity (it does not split the model).

    Raises:
        ValueError: a list of parameters has another length than `DATA`, or fewer than 2 seeds.
    """
    for key in PER_DATA:
        if len(parameters[key]) != len(DATA):
            raise ValueError(
                f"{key} must hold one value for each of {', '.join(DATA)}, got {parameters[key]!r}"
            )
    tasks = []
    for setting in SETTINGS.values():
        own = {key: parameters[key][setting.data] for key in PER_DATA}
        chosen = {**parameters, **own, "heterogeneous": setting.heterogeneous}
        for method in methods_of(setting):
            tasks += runs(chosen, method)
    return tasks


def methods_of(setting: TableRow) -> tuple[str, ...]:
    """The methods run in a setting, the control last."""
    return (*COLUMNS, *(() if setting.heterogeneous else (CONTROL,)))


def by_cell(parameters: Mapping[str, Any], results: Sequence[Any]) -> dict[str, dict[str, list]]:
    """The results of `table_tasks` as setting -> method -> one result per seed."""
    left = iter(results)
    return {
        key: {m: [next(left) for _ in range(parameters["seeds"])] for m in methods_of(setting)}
        for key, setting in SETTINGS.items()
    }


def figure4_tasks(parameters: Mapping[str, Any]) -> list[Task]:
    """The three curves of figure 4, PM-SFL changed in one respect each, the control; see `FIGURE4`."""
    chosen = {**parameters, "heterogeneous": False}
    return [t for method, changes in FIGURE4.values() for t in runs({**chosen, **changes}, method)]


FIGURE4: dict[str, tuple[str, dict[str, Any]]] = {
    "splitfed": ("splitfed", {}),
    "splitfed_dp": ("splitfed_dp", {}),
    "pmsfl": ("pmsfl", {}),
    "splitfed_pm": ("splitfed_pm", {}),
    "not kept": ("pmsfl", {"floor": 0.0}),
    "shared": ("pmsfl", {"ratio": 0.0}),
    "shared, not kept": ("pmsfl", {"ratio": 0.0, "floor": 0.0}),
    "paper's gradient": ("pmsfl", {"gradient": "paper"}),
    "paper's rate": ("pmsfl", {"ratio": 0.0, "mask_rate": 1e-3}),
    "untrained": ("pmsfl", {"ratio": 0.0, "mask_rate": 1e-9}),
    "untrained, not kept": ("pmsfl", {"ratio": 0.0, "mask_rate": 1e-9, "floor": 0.0}),
    CONTROL: (CONTROL, {}),
}
"""Runs of figure 4: method and changes. "not kept": nothing keeps masks away from 0 and 1; "shared":
no personal masks. Without personal masks, too: "paper's rate", the paper's learning rate for the
scores; "untrained", masks are sampled and averaged, but never learned."""


def figure6_tasks(parameters: Mapping[str, Any]) -> list[Task]:
    """PM-SFL over the agreement rounds, then over the ratio, then the control; all seeds of each."""
    chosen = {**parameters, "heterogeneous": False}
    changes = [{"agreement": a, "ratio": parameters["ratio"]} for a in parameters["agreements"]]
    changes += [{"agreement": parameters["agreement"], "ratio": r} for r in parameters["ratios"]]
    made = [task for change in changes for task in runs({**chosen, **change}, "pmsfl")]
    return made + runs(chosen, CONTROL)


def runs(parameters: Mapping[str, Any], method: str) -> list[Task]:
    """One method with all seeds, 2 or more: the figures show intervals over seeds.

    Raises:
        ValueError: fewer than 2 seeds.
    """
    config = {key: parameters[key] for key in keys_of(method) if key != "method"}
    config["method"] = method
    return [(RUN, config, seed) for seed in range(integer("seeds", parameters["seeds"], 2))]


def decides(parameters: Mapping[str, Any], setting: TableRow) -> bool:
    """Whether the runs of a setting can decide about the paper's number.

    They can with the paper's network and rounds on CIFAR-100 as a whole, or on the writers of
    FEMNIST that are at hand. mmHAR and sonicHAR were never published.
    """
    data, rounds, width = (parameters[key][setting.data] for key in ("data", "rounds", "width"))
    return (data, rounds, width) in (("cifar100", 1000, 64), ("femnist", 500, 64))


def decides_alone(parameters: Mapping[str, Any]) -> bool:
    """Whether the runs of a figure with one data set can decide about the paper's CIFAR-100."""
    own = {key: [parameters[key]] for key in ("data", "rounds", "width")}
    return decides(own, SETTINGS["cifar100"])


def claim_of(setting: str, method: str) -> str:
    """The catalogue's claim about a cell of Table 1."""
    return f"{setting}-{method}".replace("_", "-")


def groups(names: Sequence[str], results: Sequence[Any], seeds: int) -> dict[str, list]:
    """Results that follow each other, `seeds` of each name."""
    left = iter(results)
    return {name: [next(left) for _ in range(seeds)] for name in names}


def curves(found: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Accuracies, shape (seeds, evaluated rounds)."""
    return np.array([result["accuracy"] for result in found])


def finals(found: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Final accuracies, shape (seeds,)."""
    return curves(found)[:, -1]


def reduction(results: Sequence[Mapping[str, Any]], rounds: Sequence[int]) -> str:
    """What was reduced against the paper, for a picture's footer."""
    stand_ins = dict.fromkeys(r["data"]["stand_in"] for r in results if r["data"]["stand_in"])
    sizes = sorted({sum(result["sizes"]) for result in results})
    many = f"{min(rounds)} to {max(rounds)}" if min(rounds) < max(rounds) else f"{max(rounds)}"
    return "; ".join(
        [*stand_ins, f"networks of {sizes[0]:,} to {sizes[-1]:,} block weights; {many} rounds"]
        if len(sizes) > 1
        else [*stand_ins, f"a network of {sizes[0]:,} block weights; {many} rounds"]
    )


def sources(results: Sequence[Mapping[str, Any]]) -> str:
    """Every data set of some results with its checksum."""
    described = dict.fromkeys(
        f"{r['data']['name']}: {r['data']['source']}, sha256 {r['data']['sha256']}" for r in results
    )
    return "; ".join(described)


def commits(records: Sequence[Mapping[str, Any]], profile: str) -> str:
    """The commits that published records were made with, for a caption; "" for quick runs."""
    if profile == "quick":
        return ""
    made = sorted({str(record["provenance"].get("commit"))[:10] for record in records})
    return f" Runs of commit {', '.join(made)}."
