"""Which runs figures 6 and 7 need; figure 7 also those of figure 6 that it is compared with."""

from __future__ import annotations

from typing import Any

from reproduce.catalogue import figure
from reproduce.papers.random_participation.runs import curve_settings, training_tasks

__all__ = ["COMPARED", "compared_tasks", "drawn_curves", "seventh_tasks", "tasks"]

Tasks = list[tuple[str, dict[str, Any], int]]

COMPARED = ("scheme_paper", "wcs", "ols")
"""The private curves whose distances in figures 6 and 7 are compared."""


def drawn_curves(parameters: dict[str, Any]) -> dict[str, dict[str, float | None]]:
    """The curves of figure 6 or 7 and their settings.

    Args:
        parameters: those of the notebook; "slow_control" false leaves out the curve "clipped_slow".
    """
    wanted = parameters.get("slow_control", True)
    settings = curve_settings(parameters)
    return {name: row for name, row in settings.items() if wanted or name != "clipped_slow"}


def tasks(parameters: dict[str, Any]) -> Tasks:
    """The runs of `drawn_curves` as (task, configuration, seed), curve after curve."""
    return training_tasks(parameters, list(drawn_curves(parameters)))


def compared_tasks(parameters: dict[str, Any]) -> Tasks:
    """The runs of figure 6 that figure 7 is compared with, `COMPARED`, in the same profile.

    Args:
        parameters: those of figure 7's notebook; "profile" says which runs of figure 6, and
            "seeds_of_fig6" how many seeds of them.
    """
    sixth = figure("random_participation/fig6").parameters(parameters["profile"])
    sixth["seeds"] = parameters["seeds_of_fig6"]
    return training_tasks(sixth, COMPARED)


def seventh_tasks(parameters: dict[str, Any]) -> Tasks:
    """Every run that figure 7 needs: its own, then `compared_tasks`."""
    return tasks(parameters) + compared_tasks(parameters)
