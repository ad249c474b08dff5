"""Which runs stand behind table 1, figure 4 and figure 6 of pmsfl."""

from __future__ import annotations

import pytest

from reproduce import catalogue
from reproduce.papers.pmsfl import tables as pmsfl_tables
from reproduce.papers.pmsfl.runs import keys_of
from reproduce.papers.statistics import ENOUGH


@pytest.mark.parametrize("profile", ["quick", "desk", "long", "paper"])
@pytest.mark.parametrize("figure", ["table1", "fig4", "fig6"])
def test_the_runs_of_every_profile_have_their_keys(figure, profile):
    entry = catalogue.figure(f"pmsfl/{figure}")
    if profile != "quick" and profile not in entry.overrides:
        pytest.skip("the figure has no such profile")
    module, name = entry.runs.split(":")
    assert module == pmsfl_tables.__name__
    parameters = entry.parameters(profile)
    tasks = getattr(pmsfl_tables, name)(parameters)
    for _, config, seed in tasks:
        assert set(config) == set(keys_of(config["method"])) and seed in range(10)
    if figure == "table1":
        cells = pmsfl_tables.by_cell(parameters, [{"accuracy": [k]} for k in range(len(tasks))])
        assert list(cells) == pmsfl_tables.chosen(parameters)
        flat = [r["accuracy"][0] for row in cells.values() for runs in row.values() for r in runs]
        assert flat == list(range(len(tasks)))


def test_the_profile_that_decides_has_seeds_enough_and_both_noises():
    long = catalogue.figure("pmsfl/table1").parameters("long")
    assert min(long["seeds"]) >= ENOUGH
    methods = pmsfl_tables.methods_of(long, "femnist")
    assert {"splitfed_dp", pmsfl_tables.FITTED, pmsfl_tables.CONTROL} <= set(methods)
    fitted = [task[1] for task in pmsfl_tables.runs(setting(long, 1), pmsfl_tables.FITTED)]
    assert {one["smashed_epsilon"] for one in fitted} == {long["fitted_epsilon"]}
    assert {one["method"] for one in fitted} == {"splitfed_dp"}


def setting(parameters, place):
    own = {key: parameters[key][place] for key in pmsfl_tables.PER_DATA}
    return {**parameters, **own, "heterogeneous": False}


def test_quick_runs_are_shared_between_the_figures():
    def made(figure):
        entry = catalogue.figure(f"pmsfl/{figure}")
        tasks = getattr(pmsfl_tables, entry.runs.split(":")[1])(entry.parameters("quick"))
        return {str((sorted(config.items()), seed)) for _, config, seed in tasks}

    seeds = catalogue.figure("pmsfl/fig6").parameters("quick")["seeds"]
    assert len(made("table1") & made("fig6")) == 2 * seeds  # PM-SFL and the control


def test_settings_that_a_profile_leaves_out_and_cells_that_the_paper_leaves_empty():
    quick = catalogue.figure("pmsfl/table1").parameters("quick")
    with pytest.raises(ValueError, match="settings must be some of"):
        pmsfl_tables.chosen(quick | {"settings": ["mnist"]})
    assert pmsfl_tables.chosen(quick | {"settings": ["mmhar", "femnist"]}) == ["femnist", "mmhar"]
    for name, columns in pmsfl_tables.EMPTY.items():
        assert not set(columns) & set(pmsfl_tables.methods_of(quick, name))


def test_cells_that_a_profile_leaves_out():
    quick = catalogue.figure("pmsfl/table1").parameters("quick")
    some = quick | {"left_out": ["femnist/splitfed_dp", "femnist/local_only"]}
    every = pmsfl_tables.methods_of(quick, "femnist")
    kept = pmsfl_tables.methods_of(some, "femnist")
    assert set(every) - set(kept) == {"splitfed_dp", "local_only"}
    assert pmsfl_tables.methods_of(some, "mmhar") == pmsfl_tables.methods_of(quick, "mmhar")
    fewer = len(pmsfl_tables.table_tasks(quick)) - len(pmsfl_tables.table_tasks(some))
    assert fewer == 2 * quick["seeds"][1]
    for wrong in ("femnist/pmsfl", "femnist/depthfl", "femnist"):  # needed, never run, no method
        with pytest.raises(ValueError, match="left_out must hold cells of femnist"):
            pmsfl_tables.methods_of(quick | {"left_out": [wrong]}, "femnist")
    with pytest.raises(ValueError, match="such as cifar100/splitfed_dp, got .'mnist/splitfed'"):
        pmsfl_tables.methods_of(quick | {"left_out": ["mnist/splitfed"]}, "femnist")


def test_only_the_papers_own_data_and_size_decide_its_numbers():
    settings = pmsfl_tables.SETTINGS
    paper = catalogue.figure("pmsfl/table1").parameters("paper")
    desk = catalogue.figure("pmsfl/table1").parameters("desk")
    assert pmsfl_tables.full_size(paper, settings["cifar100"])[0]
    assert not pmsfl_tables.full_size(paper, settings["mmhar"])[0]
    assert not pmsfl_tables.full_size(desk, settings["cifar100"])[0]
