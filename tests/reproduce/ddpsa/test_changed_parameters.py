"""With changed parameters every notebook of ddpsa runs to its end, and no verdict raises."""

import importlib
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from reproduce import catalogue, notebook, paths, tasks
from reproduce.claims import NOT_APPLICABLE

SMALL = {"records": 500, "runs": 2, "rounds": 30}
"""300 training records: 1 to 6 clients divide them evenly."""


def in_this_process(wanted, **_):
    """`run_tasks` without records and without worker processes."""
    found = []
    for task in wanted:
        module, _, name = catalogue.task_function(task.name).partition(":")
        result = getattr(importlib.import_module(module), name)(task.config, task.seed)
        found.append({"config": task.config, "result": json.loads(json.dumps(result))})
    return found


@pytest.fixture
def execute(monkeypatch):
    """A function that executes a notebook with changes and returns verdicts by claim."""
    monkeypatch.setattr(tasks, "run_tasks", in_this_process)
    monkeypatch.setattr(notebook.figure, "render", lambda *args, **options: {})
    monkeypatch.setattr(notebook.figure, "write", lambda *args, **options: None)
    monkeypatch.setattr(notebook.measured, "keep", lambda *args: None)

    def run(name, changes):
        cells = json.loads(Path(paths.ROOT, f"notebooks/ddpsa/{name}.ipynb").read_text("utf-8"))
        names = {}
        for cell in cells["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
            if "parameters" in cell["metadata"].get("tags", []):
                names.update(changes)
        plt.close("all")
        table = names["book"].table()
        return dict(zip(table["claim"], table["verdict"], strict=True))

    return run


@pytest.mark.parametrize(
    ("name", "changes", "decided"),
    [
        ("fig3", {**SMALL, "clients": 3, "epsilon": 1.0}, "optimiser"),
        ("fig3", {**SMALL, "rounds": 2}, "like-ldp"),
        ("fig4", {"servers": 2, "most_servers": 2}, "linear-m"),
        ("fig7", {**SMALL, "clients": 3, "reading_runs": 2, "batches": [0, 25]}, "lossless"),
        ("fig7", {**SMALL, "rounds": 1, "reading_runs": 2, "batches": [0]}, "better-than-ldp"),
        ("fig8", {**SMALL, "epsilons": [0.5], "sgd_rounds": 10, "clients": 3}, "budget"),
        (
            "fig9",
            {**SMALL, "clients": [3, 5], "equal_clients": [2], "sgd_rounds": 10, "batch": 5},
            "averaging",
        ),
        ("fig9", {**SMALL, "clients": [1], "sgd_rounds": 4, "batch": 5}, "falls"),
        ("fig10", {**SMALL, "epsilon": 1.0, "clients": 1}, "more-rounds"),
        ("table1", {"epsilon": 1.0, "clients": [1]}, "years"),
        ("table3", {"servers": 2, "decimals": 2, "clients": 1}, "ldp-free"),
        pytest.param(
            "fig5",
            {**SMALL, "servers": 2, "repeats": 6, "complete": 3, "loops": 1},
            "same-models",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "fig6",
            {"records": 60, "servers": 2, "repeats": 6, "loops": 1},
            "additive",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "table2",
            {"records": 60, "sizes": [10, 100], "repeats": 6, "servers": 2, "many_servers": 4},
            "per-client",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "derivations",
            {"epsilon": 1.0, "servers": 2, "modulus": 5},
            "lemma-1",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "derivations-algorithm-2",
            {"epsilon": 1.0, "servers": 2, "clients": [2, 4], "pieces": 6},
            "alg-2-sums",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "derivations-runs-and-accuracy",
            {"epsilon": 1.0, "servers": 2},
            "system-linear",
            marks=pytest.mark.slow,
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_every_claim_has_a_verdict(execute, name, changes, decided):
    """Claims that the changes leave meaningful are decided; the others say "not applicable"."""
    verdicts = execute(name, changes)
    entry = catalogue.figure(f"ddpsa/{name}")
    assert list(verdicts) == [claim.id for claim in entry.claims]
    assert verdicts[decided] not in (NOT_APPLICABLE, "not yet")
    for claim in entry.claims:
        if not set(changes) <= set(claim.free):
            assert verdicts[claim.id] == NOT_APPLICABLE
