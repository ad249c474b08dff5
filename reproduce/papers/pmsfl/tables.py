"""Which runs stand behind Table 1, figure 4 and figure 6 of pmsfl, and what was reduced in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer
from reproduce.claims import Claim
from reproduce.papers.pmsfl.runs import RUN, keys_of
from reproduce.papers.statistics import final

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

EMPTY = {
    "cifar100": ("lg_fedavg", "depthfl"),
    **dict.fromkeys(("femnist", "mmhar", "sonichar"), ("depthfl",)),
    **dict.fromkeys(("cifar100-mixed", "femnist-mixed"), ("lg_fedavg",)),
}
"""The cells that the paper leaves empty: setting -> columns."""

FITTED = "splitfed_dp_fitted"
"""SplitFed-DP with less noise than the paper prints: as much as gives the drop that it reports."""

PER_DATA = (
    *("data", "clients", "width", "layers", "heads", "rounds", "participation", "iterations"),
    *("batch", "evaluate_every", "agreement", "seeds"),
)
"""Parameters that Table 1 has one of for each data set."""


def table_tasks(parameters: Mapping[str, Any]) -> list[Task]:
    """The runs of the settings chosen: the methods and controls of `methods_of`.

    `parameters` are those of Table 1's notebook. Order: setting, method, seed.

    Raises:
        ValueError: a list of parameters has another length than `DATA`, a setting or a cell left out is
            unknown, or fewer than 2 seeds.
    """
    for key in PER_DATA:
        if len(parameters[key]) != len(DATA):
            raise ValueError(
                f"{key} must hold one value for each of {', '.join(DATA)}, got {parameters[key]!r}"
            )
    tasks = []
    for name in chosen(parameters):
        setting = SETTINGS[name]
        own = {key: parameters[key][setting.data] for key in PER_DATA}
        values = {**parameters, **own, "heterogeneous": setting.heterogeneous}
        for method in methods_of(parameters, name):
            tasks += runs(values, method)
    return tasks


def chosen(parameters: Mapping[str, Any]) -> list[str]:
    """The settings that a run of Table 1 covers, in the table's order.

    Raises:
        ValueError: none, or one that `SETTINGS` does not have.
    """
    wanted = parameters["settings"]
    if not wanted or set(wanted) - set(SETTINGS):
        raise ValueError(f"settings must be some of {', '.join(SETTINGS)}, got {wanted!r}")
    return [name for name in SETTINGS if name in wanted]


def methods_of(parameters: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The methods run in a setting: those of which the paper prints an accuracy.

    Then SplitFed-DP with fitted noise, where there is a fit, and the control where all clients have
    one depth (it does not split the model). Without those that "left_out" names.

    Raises:
        ValueError: "left_out" names something that is not run anyway, or a method without which a setting
            decides nothing.
    """
    fitted = (FITTED,) if parameters["fitted_epsilon"] else ()
    control = () if SETTINGS[name].heterogeneous else (CONTROL,)
    every = (*(m for m in COLUMNS if m not in EMPTY[name]), *fitted, *control)
    without = _left_out(parameters["left_out"], name)
    if unknown := without - set(every) | without & set(_NEEDED):
        raise ValueError(
            f"left_out must hold cells of {name} that are run and not needed (all but "
            f"{', '.join(_NEEDED)}), got {', '.join(f'{name}/{m}' for m in sorted(unknown))}"
        )
    return tuple(m for m in every if m not in without)


_NEEDED = ("standalone", "splitfed", "pmsfl")
"""Methods that every setting has: its conditions and orders speak of them."""


def _left_out(cells: Iterable[str], name: str) -> set[str]:
    """The methods of a setting among cells such as "cifar100/splitfed_dp".

    Raises:
        ValueError: a cell of no setting.
    """
    pairs = [cell.partition("/")[::2] for cell in cells]
    if strange := sorted("/".join(pair) for pair in pairs if pair[0] not in SETTINGS):
        raise ValueError(f"left_out must hold cells such as cifar100/splitfed_dp, got {strange}")
    return {method for setting, method in pairs if setting == name}


def by_cell(parameters: Mapping[str, Any], results: Sequence[Any]) -> dict[str, dict[str, list]]:
    """The results of `table_tasks` as setting -> method -> one result per seed."""
    left = iter(results)
    return {
        key: groups(methods_of(parameters, key), left, parameters["seeds"][SETTINGS[key].data])
        for key in chosen(parameters)
    }


def figure4_tasks(parameters: Mapping[str, Any]) -> list[Task]:
    """The three curves of figure 4, PM-SFL changed in one respect each, the control; see `FIGURE4`."""
    own = {**parameters, "heterogeneous": False}
    names = figure4_names(parameters)
    return [t for n in names for t in runs({**own, **FIGURE4[n][1]}, FIGURE4[n][0])]


def figure4_names(parameters: Mapping[str, Any]) -> list[str]:
    """The runs of figure 4; that with fitted noise only where there is a fit."""
    return [name for name in FIGURE4 if name != "fitted" or parameters["fitted_epsilon"]]


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
    "fitted": (FITTED, {}),
    CONTROL: (CONTROL, {}),
}
"""Runs of figure 4: method and changes. "not kept": nothing keeps masks away from 0 and 1; "shared":
no personal masks. Without personal masks, too: "paper's rate", the paper's learning rate for the
scores; "untrained", masks are sampled and averaged, but never learned."""


LABELS = {
    "splitfed": "SplitFed",
    "splitfed_dp": "SplitFed-DP",
    "pmsfl": "PM-SFL",
    "fitted": "SplitFed-DP, less noise",
    "splitfed_pm": "SplitFed-PM",
    "shared": "PM-SFL, none personal",
    "not kept": "PM-SFL, c = 0",
    "shared, not kept": "none personal, c = 0",
    "paper's gradient": "PM-SFL, gradient (4)",
    "paper's rate": "none personal, score rate 0.001",
    "untrained": "none personal, not trained",
    "untrained, not kept": "not trained, c = 0",
    CONTROL: "local only",
}
"""The runs of figure 4 in words."""


def figure6_tasks(parameters: Mapping[str, Any]) -> list[Task]:
    """PM-SFL over the agreement rounds, then over the ratio, then the control; all seeds of each."""
    chosen = {**parameters, "heterogeneous": False}
    changes = [{"agreement": a, "ratio": parameters["ratio"]} for a in parameters["agreements"]]
    changes += [{"agreement": parameters["agreement"], "ratio": r} for r in parameters["ratios"]]
    made = [task for change in changes for task in runs({**chosen, **change}, "pmsfl")]
    return made + runs(chosen, CONTROL)


def runs(parameters: Mapping[str, Any], method: str) -> list[Task]:
    """One method with all seeds, 2 or more: the figures show intervals over seeds.

    `FITTED` is SplitFed-DP with the budgets `fitted_epsilon` and `fitted_update_epsilon`.

    Raises:
        ValueError: fewer than 2 seeds.
    """
    if method == FITTED:
        budgets = {k: parameters[f"fitted_{k.removeprefix('smashed_')}"] for k in _BUDGETS}
        return runs({**parameters, **budgets}, "splitfed_dp")
    config = {key: parameters[key] for key in keys_of(method) if key != "method"}
    config["method"] = method
    return [(RUN, config, seed) for seed in range(integer("seeds", parameters["seeds"], 2))]


_BUDGETS = ("smashed_epsilon", "update_epsilon")


def full_size(parameters: Mapping[str, Any], setting: TableRow) -> tuple[bool, str]:
    """Whether a setting has the paper's data, network and rounds, so that its number can be compared.

    That is CIFAR-100 as a whole or the writers of FEMNIST that are at hand. mmHAR and sonicHAR were
    never published. Returns the answer, and the sizes.
    """
    keys = ("data", "rounds", "width", "clients")
    data, rounds, width, clients = (parameters[key][setting.data] for key in keys)
    return (
        (data, rounds, width) in (("cifar100", 1000, 64), ("femnist", 500, 64)),
        f"{data}, {clients} clients, width {width}, {rounds} rounds",
    )


def claim_of(setting: str, method: str) -> str:
    """The catalogue's claim about a cell of Table 1."""
    return f"{setting}-{method}".replace("_", "-")


def accuracies(claims: Iterable[Claim]) -> dict[tuple[str, str], float]:
    """The cells of the paper's Table 1: (setting, method) -> accuracy in [0, 1]."""
    stated = {claim.id: claim.paper for claim in claims if claim.kind == "number"}
    return {
        (key, method): stated[claim_of(key, method)] / 100
        for key in SETTINGS
        for method in COLUMNS
        if claim_of(key, method) in stated
    }


def setting_of(data: str) -> str:
    """The setting of Table 1, one depth for all, that a federation of figure 4 corresponds to."""
    return {"femnist": "femnist", "radhar": "mmhar", "ucihar": "sonichar"}.get(data, "cifar100")


def groups(names: Sequence[str], results: Iterable[Any], seeds: int) -> dict[str, list]:
    """Results that follow each other, `seeds` of each name."""
    left = iter(results)
    return {name: [next(left) for _ in range(seeds)] for name in names}


def curves(found: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Accuracies, shape (seeds, evaluated rounds)."""
    return np.array([result["accuracy"] for result in found])


def finals(found: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Accuracies at the end, the mean of the last quarter of the evaluations, shape (seeds,)."""
    return final(curves(found)[:, 1:])


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


def seeds_in_words(finals: Mapping[str, Mapping[str, NDArray]]) -> str:
    """How many seeds the settings of Table 1 have, for a caption: `5 seeds`, `5 to 10 seeds`."""
    counts = sorted({len(ends["pmsfl"]) for ends in finals.values()})
    return f"{counts[0]} to {counts[-1]} seeds" if len(counts) > 1 else f"{counts[0]} seeds"


def fitted_words(parameters: Mapping[str, Any]) -> str:
    """What "SplitFed-DP, less noise" is, for a caption; "" where it is not run."""
    if not parameters["fitted_epsilon"]:
        return ""
    fitted, printed = (
        f"{parameters[a]:g} for an activation and {parameters[b]:g} for the updates"
        for a, b in (("fitted_epsilon", "fitted_update_epsilon"), _BUDGETS)
    )
    return f" SplitFed-DP, less noise: ε = {fitted}, our choice, in place of the printed {printed}."


def commits(records: Sequence[Mapping[str, Any]], profile: str) -> str:
    """The commits that published records were made with, for a caption; "" for quick runs."""
    if profile == "quick":
        return ""
    made = sorted({str(record["provenance"].get("commit"))[:10] for record in records})
    return f" Runs of commit {', '.join(made)}."
