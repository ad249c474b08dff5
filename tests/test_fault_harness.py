"""The fault harness finds the faults that it is there for, and none where there is none."""

import importlib
import itertools
import random
import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from repro import paths
from repro.secagg import RoundError

sys.path.append(
    str(paths.ROOT / "bench")
)  # after the helpers, one of which has the name of a benchmark

import fault_calls
import fault_kills
import fault_places
import fault_recipes
import fault_sums


def wrong_type():
    raise KeyError("sigma")


def nameless():
    raise ValueError("math range error")


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda: fault_calls.finite({"a": [1.0, float("nan")]}), "AssertionError: not finite"),
        (lambda: fault_calls.finite(float("inf")), "AssertionError: not finite"),
        (wrong_type, "uncaught KeyError"),
        (nameless, "nameless ValueError: math range error"),
        (lambda: np.log(np.zeros(1)), "uncaught RuntimeWarning: divide by zero"),
        (lambda: bytearray(1 << 60), "MemoryError"),
    ],
)
def test_a_fault_is_told(call, fault):
    assert fault_calls.attempt(call).startswith(fault)


def test_a_good_call_and_a_named_error_are_none():
    from repro.accounting import GaussianMechanism

    assert fault_calls.attempt(lambda: fault_calls.finite(GaussianMechanism(1.0).delta(1.0))) == ""
    assert fault_calls.attempt(lambda: GaussianMechanism(-1.0)) == ""


def test_public_functions_and_mechanisms_are_found():
    names = [name for name, _ in fault_calls.public()]
    assert len(names) > 10 and all("._" not in name for name in names)
    kinds = {kind.__name__ for kind in fault_calls._mechanisms()}
    assert {"GaussianMechanism", "SummedLaplace", "CarriedRun", "SampledMask"} <= kinds


def test_so_many_calls_are_made_and_no_more(capsys):
    assert fault_calls.run(seed=0, seconds=1e9, count=3) == []
    told = capsys.readouterr().out
    below, above = (
        int(part.split()[-1])
        for part in told.replace(" below", "|").replace(" above", "|").split("|")[:2]
    )
    assert below + above == 3


def test_every_public_name_is_called_or_named_with_the_reason():
    called = {name.rsplit(".", 1)[-1] for name in fault_calls.sources()}
    text = (paths.ROOT / "bench/fault_recipes.py").read_text().partition("ELSEWHERE = ")[0]
    text += (paths.ROOT / "bench/fault_training.py").read_text()
    called |= set(re.findall(r"\w+", text))
    for room in ("accounting", "federated", "secagg"):
        public = set(importlib.import_module(f"repro.{room}").__all__)
        assert not public - called - set(fault_recipes.ELSEWHERE), room
        assert not public & set(fault_recipes.ELSEWHERE) & set(fault_calls.sources())


def test_where_a_name_is_tried_instead_there_are_tests():
    for reason in fault_recipes.ELSEWHERE.values():
        for path in re.findall(r"tests/\S+\.py", reason):
            assert (paths.ROOT / path).is_file(), reason


def test_cheap_and_costly_calls_are_counted_apart():
    assert fault_calls._wanted([7, 3], None, None) == [0, 1]
    assert fault_calls._wanted([7, 3], 10, None) == []
    assert fault_calls._wanted([7, 3], 7, 5) == [1]
    assert fault_calls._wanted([6, 5], 7, 5) == [0]
    assert fault_calls._wanted([7, 5], 7, 5) == []


@pytest.mark.parametrize(
    "name", ["encoded", "exact_noise", "rings", "clipped", "losses", "guesses"]
)
def test_recipes_find_nothing(name):
    for seed in range(20):
        text, call = fault_recipes.RECIPES[name](random.Random(seed))
        assert fault_calls.attempt(call) == "", text


def test_a_wrong_sum_a_missing_one_and_a_late_one_are_told(monkeypatch):
    """The round of a cluster, played: what it returns and how long it takes are given."""

    class Played:
        processes = {}
        session = SimpleNamespace(clients=range(4))

        def __init__(self, end):
            self.end = end

        def round(self, numbers):
            return self.end(numbers)

    def refused(numbers):
        raise RoundError("a server has left")

    clock = iter([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e3])
    monkeypatch.setattr(fault_sums, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    right = lambda numbers: SimpleNamespace(total=numbers.sum(axis=0))  # noqa: E731
    wrong = lambda numbers: SimpleNamespace(total=numbers.sum(axis=0) + 1e-6)  # noqa: E731
    ends = (right, wrong, refused, right)
    tally = fault_sums.Tally()
    told = [
        fault_sums._round(fault_sums.Attack(Played(end), random.Random(0)), "", tally)
        for end in ends
    ]
    assert told == ["", "a wrong sum", "no sum: a server has left", "no end for 1000 s"]
    assert tally.faults == 0 and tally.table("here").splitlines()[1].split() == [
        *("none", "4", "1", "1000.0"),
    ]


def test_every_kind_of_fault_is_in_the_harness():
    asked = (
        "kill drop duplicate reorder truncate alter replay wrong_certificate slow flood half_open"
    )
    assert {*asked.split(), "restarted_operator"} <= set(fault_sums.KINDS)
    assert {"full disk", "closed stderr"} <= set(fault_sums.LOGS)


@pytest.mark.parametrize("log", ["full disk", "closed stderr"])
def test_a_killed_server_is_started_again_and_the_next_round_works(log):
    """Also the parameter server, which begins at round 1 while the others have seen more."""
    with fault_sums.Servers(log, clients=2, servers=2, time_limit=60.0) as cluster:
        assert cluster.round(np.ones((2, 3))).number == 1
        for name in ("parameters", "server-1"):
            victim = cluster.processes[name]
            victim.kill()
            victim.wait()
            with pytest.raises(RoundError, match=f"{name} has ended"):
                cluster.round(np.ones((2, 3)))
            cluster.start_again()
            cluster.session.close()
            assert cluster.round(np.ones((2, 3))).total.tolist() == [2.0, 2.0, 2.0]


def test_a_changed_a_missing_and_a_new_file_are_told():
    old, new = {"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}
    assert fault_kills._differences("x", old, new) == ["x: b differs", "x: c differs"]
    assert fault_kills._differences("x", old, {"b": "2"}) == ["x: a differs"]
    assert fault_kills._differences("x", old, dict(old)) == []


def test_measured_costs_in_reports_are_no_difference(tmp_path):
    """`make references` renews them: two places may show other ones."""
    report = tmp_path / "REPORT.md"
    told = []
    for cost, epsilon in (("6", "1.5"), ("1.3", "1.5"), ("1.3", "1.6")):
        report.write_text(f"* *Time:* 9 human-minutes, {cost} compute-seconds; epsilon {epsilon}")
        told.append(fault_places._lasting(report))
    assert told[0] == told[1] != told[2]


def test_kills_that_hit_are_told_from_those_that_came_too_late(tmp_path):
    state, sleeps = tmp_path / "build" / "state", [sys.executable, "-c", "input()"]
    state.mkdir(parents=True)
    (state / "one.json").touch()
    waits = subprocess.Popen(sleeps, start_new_session=True, stdin=subprocess.PIPE)
    assert fault_kills._kill(waits, tmp_path, 1, 0.0) and waits.returncode == -9
    ends = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    assert not fault_kills._kill(ends, tmp_path, 2, 0.0)


def test_kills_are_collected_over_several_evenings(monkeypatch, tmp_path):
    """A run whose end is played: the kills that are kept, an interruption, and a file that differs."""
    root, above = tmp_path / "project", tmp_path / "kept"
    (root / "figures" / "certificates").mkdir(parents=True)
    (root / "figures" / "certificates" / "chosen.json").write_text("not made by a run")
    (root / "figures" / "one.png").write_text("from another kind of processor")
    texts = itertools.chain(["undisturbed"] * 6, ["undisturbed anew", "wrong"])
    evening = iter([True, True, KeyboardInterrupt])

    def kill(process, place, goal, part):
        if (hit := next(evening, True)) is KeyboardInterrupt:
            raise hit
        return hit

    def end(process):
        assert not (above / "source" / "figures" / "one.png").exists()
        (above / "run" / "figures" / "one.png").write_text(next(texts, "undisturbed anew"))
        return 0

    monkeypatch.setattr(fault_places, "ROOT", root)
    monkeypatch.setattr(fault_kills, "_start", lambda place, ids, jobs: None)
    monkeypatch.setattr(fault_kills, "_kill", kill)
    monkeypatch.setattr(fault_kills, "_end", end)
    with pytest.raises(KeyboardInterrupt):
        fault_kills.run(0, True, 1, above)
    assert fault_kills._known(above)["kills"] == 2
    assert fault_kills.run(0, True, 1, above) == []
    assert [one["kills"] for one in fault_kills._known(above)["runs"]] == [10] * 5
    (root / "new.py").touch()  # another project begins anew
    assert fault_kills.run(0, True, 1, above) == ["kills: run 0: figures/one.png differs"]
    with pytest.raises(ValueError, match="must lie outside the project"):
        fault_kills.run(0, True, 1, root / "kept")


@pytest.fixture
def project(monkeypatch, tmp_path):
    """A project of one file, with one command that is given."""
    (tmp_path / "source" / "figures").mkdir(parents=True)
    (tmp_path / "source" / "figures" / "a.json").write_text("old")

    def run(command):
        monkeypatch.setattr(fault_places, "COMMANDS", {"try": command})
        found = []
        source = tmp_path / "source"
        friendly = fault_places.Place(tmp_path / "one é", source)
        expected = fault_places._friendly(friendly, found)
        for what in ("locale", "full disk"):
            with fault_places._locale(tmp_path / what, source) as place:
                found += fault_places._compared(what, place, expected)
        return found

    return run


@pytest.mark.parametrize(
    ("command", "faults_found"),
    [
        ("printf new > figures/a.json", []),
        (
            "echo Traceback",
            ["friendly: try ended", "locale: try ends in a trace", "disk: try ends"],
        ),
        ("false", ["friendly: try ended with 1"]),
        ("printf ${TZ:-none} > figures/a.json", ["locale: try leaves", "disk: try leaves 1 other"]),
        ('test -z "$TZ"', ["locale: try ended with 1", "full disk: try does not say why"]),
    ],
)
def test_commands_are_compared_between_places(project, command, faults_found):
    found = project(command)
    assert len(found) == len(faults_found), found
    assert all(part in one for part, one in zip(faults_found, found, strict=True)), found
