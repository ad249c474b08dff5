"""Which runs stand behind table 1, figure 4 and figure 6 of pmsfl."""

from __future__ import annotations

import pytest

from reproduce import catalogue
from reproduce.papers.pmsfl import tables as pmsfl_tables
from reproduce.papers.pmsfl.runs import METHODS, keys_of


@pytest.mark.parametrize("profile", ["quick", "desk", "paper"])
@pytest.mark.parametrize("figure", ["table1", "fig4", "fig6"])
def test_the_runs_of_every_profile_have_their_keys(figure, profile):
    entry = catalogue.figure(f"pmsfl/{figure}")
    module, name = entry.runs.split(":")
    assert module == pmsfl_tables.__name__
    tasks = getattr(pmsfl_tables, name)(entry.parameters(profile))
    for _, config, seed in tasks:
        assert set(config) == set(keys_of(config["method"])) and seed in range(3)
    if figure == "table1":
        assert len(tasks) == (6 * 7 + 4) * 3
        assert {config["method"] for _, config, _ in tasks} == set(METHODS)
        results = [{"accuracy": [k]} for k in range(len(tasks))]
        cells = pmsfl_tables.by_cell(entry.parameters(profile), results)
        flat = [r["accuracy"][0] for row in cells.values() for runs in row.values() for r in runs]
        assert flat == list(range(len(tasks)))


def test_quick_runs_are_shared_between_the_figures():
    def made(figure):
        entry = catalogue.figure(f"pmsfl/{figure}")
        tasks = getattr(pmsfl_tables, entry.runs.split(":")[1])(entry.parameters("quick"))
        return {str((sorted(config.items()), seed)) for _, config, seed in tasks}

    # with the control of each
    assert len(made("table1") & made("fig4")) == 5 * 3
    assert len(made("table1") & made("fig6")) == 2 * 3


def test_only_the_papers_own_data_decide_its_numbers():
    setting = pmsfl_tables.SETTINGS
    paper = catalogue.figure("pmsfl/table1").parameters("paper")
    desk = catalogue.figure("pmsfl/table1").parameters("desk")
    assert pmsfl_tables.decides(paper, setting["cifar100"])
    assert not pmsfl_tables.decides(paper, setting["mmhar"])
    assert not pmsfl_tables.decides(desk, setting["cifar100"])
