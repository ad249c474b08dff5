"""What protection costs in accuracy, for figure 2: the runs of Table 1 say it."""

from __future__ import annotations

from reproduce import catalogue
from reproduce.papers.pmsfl import tables
from reproduce.papers.statistics import Interval, interval
from reproduce.tasks import Task, run_tasks

SETTING = "cifar100"
METHODS = ("splitfed", "splitfed_dp")


def protection_cost(profile: str) -> tuple[dict[str, Interval], tuple[bool, str]]:
    """Test accuracies on CIFAR-100 without noise and at the printed noise, from Table 1's runs.

    Args:
        profile: of figure 2; other profiles than `paper` read Table 1's runs on a subset of real images
            (`desk`), which are published.

    Returns:
        method -> interval over the seeds, of accuracies in [0, 1]; and whether the runs have the paper's
        data, network and rounds, with their sizes and accuracies.
    """
    source = "paper" if profile == "paper" else "desk"
    parameters = {
        **catalogue.figure("pmsfl/table1").parameters(source),
        "settings": [SETTING],
    }
    made = run_tasks([Task(*task) for task in tables.table_tasks(parameters)])
    cells = tables.by_cell(parameters, [record["result"] for record in made])[SETTING]
    found = {method: interval(tables.finals(cells[method])) for method in METHODS}
    full, sizes = tables.full_size(parameters, tables.SETTINGS[SETTING])
    return found, (full, f"Table 1's runs of profile {source}: {sizes}")
