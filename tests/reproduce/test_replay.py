"""Replaying catches other outputs and other numbers; renewing is on purpose, whole, and told."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time

import nbformat
import pytest

import workbooks
from reproduce import catalogue, compare, paths, references, replay, runner
from reproduce.destination import Destination

FIG1, LEMMA = "toy/fig1", "toy/derivations"


@pytest.fixture(scope="module")
def renewed(tmp_path_factory):
    """A toy workbook whose references were renewed once; tests copy it."""
    root = tmp_path_factory.mktemp("toy")
    with pytest.MonkeyPatch.context() as patch:
        workbooks.build(root, patch)
        assert references.main(["-j", "2"]) == 0
    return root


@pytest.fixture
def toy(renewed, tmp_path, monkeypatch):
    workbooks.build(tmp_path, monkeypatch)
    shutil.copytree(renewed, tmp_path, dirs_exist_ok=True)
    return tmp_path


def notebook(figure_id=FIG1):
    return paths.NOTEBOOKS / f"{figure_id}.ipynb"


def test_renewed_notebooks_hold_outputs_and_nothing_that_varies(toy):
    book = nbformat.read(notebook(), as_version=4)
    assert book["metadata"] == references.METADATA
    assert [cell["id"] for cell in book["cells"]] == [f"c0{k}" for k in range(1, 8)]
    assert [cell["metadata"] for cell in book["cells"]] == [
        {},
        {"tags": ["parameters"]},
        {},
        {},
        {},
        {},
        {},
    ]
    assert "double" in str(book["cells"][6]["outputs"])
    stored = json.loads(compare.reference_path(FIG1, "quick").read_text())
    assert stored["data"] == {"y": [0.0, 2.0, 4.0]}
    assert stored["verdicts"] == {"double": "reproduced", "order": "reproduced"}
    assert set(stored) == {
        *("id", "parameters", "profile", "seeds", "data_source", "data", "verdicts")
    }
    costs = json.loads(paths.COSTS.read_text())["quick"]
    assert set(costs) == {FIG1, LEMMA}
    assert all(set(cost) == {"seconds", "peak_mib"} for cost in costs.values())
    assert not paths.FIGURES.exists()  # pictures are the business of `make all`
    assert list(paths.BUILD.iterdir()) == []


def test_renewing_again_changes_no_byte(toy, capsys):
    files = [notebook(), compare.reference_path(FIG1, "quick")]
    before = [path.read_bytes() for path in files]
    assert references.main([FIG1]) == 0
    assert [path.read_bytes() for path in files] == before
    assert "toy/fig1: unchanged" in capsys.readouterr().out


def test_renewing_tells_what_changed(toy, capsys):
    workbooks.edit_notebook(notebook(), "sigma * k", "sigma * k + 1e-3 * (k == 1)")
    assert references.main([FIG1]) == 0
    told = capsys.readouterr().out
    assert "1 numbers changed, most at y[1]: 2.0 -> 2.001 (relative 5.0e-04)" in told
    assert json.loads(compare.reference_path(FIG1, "quick").read_text())["data"]["y"][1] == 2.001


def test_a_failing_notebook_is_named_with_cell_and_error_and_left_alone(toy, capsys):
    workbooks.edit_notebook(notebook(), "y = [", "raise KeyError('gone')\ny = [")
    before = notebook().read_bytes(), compare.reference_path(FIG1, "quick").read_bytes()
    assert references.main([FIG1]) == 1
    told = capsys.readouterr().out
    assert "toy/fig1: FAILED, nothing written" in told
    assert "fig1.ipynb, cell c04: KeyError: 'gone'" in told
    assert (notebook().read_bytes(), compare.reference_path(FIG1, "quick").read_bytes()) == before


def test_the_parameters_cell_alone_says_what_the_quick_profile_is(toy, capsys):
    workbooks.edit_notebook(notebook(), "rounds = 3", "rounds = 4")
    assert references.main([FIG1]) == 0
    stored = json.loads(compare.reference_path(FIG1, "quick").read_text())
    assert stored["parameters"]["rounds"] == 4 and len(stored["data"]["y"]) == 4


def test_numbers_of_another_profile_come_from_its_run(toy, capsys):
    workbooks.run_toy()
    assert references.main([FIG1, "--profile", "desk"]) == 1
    assert "fig1.desk.json: make fig/toy/fig1 PROFILE=desk" in capsys.readouterr().out
    assert not compare.reference_path(FIG1, "desk").exists()
    workbooks.run_toy(profile="desk", rounds=30)
    assert references.main([FIG1, "--profile", "desk"]) == 0
    assert (
        json.loads(compare.reference_path(FIG1, "desk").read_text())["parameters"]["rounds"] == 30
    )
    assert set(json.loads(paths.COSTS.read_text())["desk"]) == {FIG1}


def test_replay_agrees_with_what_was_renewed(toy, capfd):
    assert replay.main(["-j", "1"]) == 0
    told = capfd.readouterr().out
    assert "committed outputs: agree" in told
    assert "stored numbers: agree" in told
    assert "toy/fig1: identical" in told
    assert list(paths.BUILD.iterdir()) == []
    assert not paths.FIGURES.exists()


def test_replay_catches_an_altered_output_and_an_altered_number(toy, capfd):
    path = compare.reference_path(LEMMA, "quick")
    path.write_text(path.read_text().replace('"sum": 2', '"sum": 3'))
    book = json.loads(notebook(LEMMA).read_text())
    text = json.dumps(book)
    assert "holds" in text
    notebook(LEMMA).write_text(text.replace("lemma: holds", "lemma: false"))
    assert replay.main([LEMMA]) == 1
    told = capfd.readouterr().out
    assert "committed outputs: differ" in told
    assert "sum: stored 3, got 2" in told


def test_interrupting_leaves_the_notebook_as_it_was(toy):
    workbooks.edit_notebook(
        notebook(), "y = [", "open('started', 'w'); import time; time.sleep(60)\ny = ["
    )
    before = notebook().read_bytes()
    call = [sys.executable, "-m", "reproduce.references", FIG1]
    process = subprocess.Popen(
        call,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell may ignore it
    )
    started = notebook().with_name("started")
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    assert "interrupted" in process.stderr.read()
    assert notebook().read_bytes() == before
    assert list(paths.BUILD.iterdir()) == []


def test_several_notebooks_are_spread_by_file():
    call = replay.command([notebook(FIG1), notebook(LEMMA)], jobs=8)
    at = call.index("--dist")
    assert call[at - 2 : at + 2] == ["-n", "2", "--dist", "loadscope"]
    assert "-n" not in replay.command([notebook(FIG1)], jobs=8)


def test_notebooks_that_train_are_compared_within_their_band(toy, monkeypatch):
    text = workbooks.catalogue_file().read_text()
    text = text.replace("rtol = 1e-6\ndata", "rtol = 1e-6\nseed_band = 3.0\ndata")
    workbooks.catalogue_file().write_text(text)
    calls = []

    class Done:
        returncode = 0

    def record(call, **_):
        calls.append(call)
        return Done()

    monkeypatch.setattr(replay.subprocess, "run", record)
    assert not replay.replay([FIG1, LEMMA], jobs=2)  # nothing ran, so there are no numbers
    assert [("--nbval-lax" in call, call[-1]) for call in calls] == [
        (False, str(notebook(LEMMA))),
        (True, str(notebook(FIG1))),
    ]


def test_wrong_calls(toy, capsys):
    assert replay.main(["toy/fig9"]) == 2
    assert references.main(["toy/fig9"]) == 2
    notebook().unlink()
    assert replay.main([FIG1]) == 1
    assert "no such notebook" in capsys.readouterr().err


def sanitized(text):
    pairs = re.findall(
        r"(?m)^regex: (.*)$\n^replace: (.*)$", replay.SANITIZE.read_text()
    )  # as nbval
    for pattern, replacement in pairs:
        text = re.sub(pattern, replacement, text)
    return text


def shown(ours, verdict, reason, where="Figure 1"):
    """The two forms of a workbook's table, of one decided claim and one without a result."""
    rows = [
        ("order", where, "a < b", ours, verdict, reason),
        ("x", "§ 2", "5 %", "-", "not yet", ours),
    ]
    cells = ["".join(f'<td style="text-align:left">{x}</td>' for x in row) for row in rows]
    page = "<table>\n" + "\n".join(f"<tr>{row}</tr>" for row in cells) + "\n</table>"
    plain = "\n".join(
        f"{i}: {v}\n  where: {w}\n  paper: {p}\n  ours: {o}" + (f"\n  reason: {r}" if r else "")
        for i, w, p, o, v, r in rows
    )
    return sanitized(page), sanitized(plain)


def test_of_a_trained_table_everything_but_the_outcome_of_runs_is_checked():
    first = shown("76.4 ± 0.9 %", "reproduced", "")
    assert first == shown("75.2 ± 2.6 %", "differs", "within the noise: 1.3 points")
    assert first == shown("75.2 ± 2.6 %", "undecided", "the interval holds both")
    untested = shown("76.4 ± 0.9 %", "not tested", "condition not met: real data (digits)")
    assert untested == shown(
        "75.2 ± 2.6 %", "not tested", "condition not met: real data; the noise binds (2.1 points)"
    )
    for changed in (
        untested,
        shown("76.4 ± 0.9 %", "not yet", ""),
        shown("76.4 ± 0.9 %", "reproduced", "", where="Figure 2"),
    ):
        assert all(one != other for one, other in zip(first, changed, strict=True))


def test_what_make_all_has_executed_is_compared_and_not_executed_again(toy, capfd):
    assert runner.run(catalogue.select([]), "quick", 2) == 0
    capfd.readouterr()
    assert replay.replay([FIG1, LEMMA], 1)
    assert "2 of 2 notebooks were compared as make all has executed them" in capfd.readouterr().out

    stored = notebook().read_text()
    notebook().write_text(stored.replace("reproduced", "repeated"))
    assert notebook().read_text() != stored
    assert not replay.replay([FIG1], 1)  # a committed output that is not what was executed
    assert "committed outputs: differ" in capfd.readouterr().out
    notebook().write_text(stored)

    Destination(FIG1).executed.write_text("{}")  # no longer the copy that was written
    assert replay.replay([FIG1], 1)
    assert "0 of 1 notebooks were compared" in capfd.readouterr().out
