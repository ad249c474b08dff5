"""Mutants of tiny notebooks: a good cell has no survivors, one that cannot fail has."""

from __future__ import annotations

import json
import sys
from functools import cache

import pytest

import reproduce.papers
import workbooks
from reproduce import catalogue, mutants, paths
from reproduce.claim import find
from reproduce.mutation import corrected, faults, trial
from reproduce.mutation.observed import Bench, Slices, forked, observe

LAW = '''"""A law under test."""


def bound(x, slope=2.0):
    """Twice x."""
    return slope * x


def printed(x):
    """As a paper prints it."""
    return 3.0 * x


def count(stop):
    """Up to stop, step by step."""
    k = 0
    while k != stop:
        k += 1
    return float(k)
'''
ROUTE = '"""Second routes."""\n\n\ndef truth(x):\n    """By another way."""\n    return x + x\n'
IMPORTS = (
    "import numpy as np\nfrom reproduce.papers.toy.law import bound, count, printed\n"
    "from reproduce.papers.toy.second_routes import truth\n"
    "from reproduce.notebook import Workbook\n"
    'book = Workbook("toy/derivations", globals())'
)


@pytest.fixture
def toy(tmp_path, monkeypatch):
    root = workbooks.build(tmp_path, monkeypatch)
    folder = paths.PAPERS / "toy"
    (folder / "__init__.py").touch()
    (folder / "law.py").write_text(LAW)
    (folder / "second_routes.py").write_text(ROUTE)
    monkeypatch.setattr(
        reproduce.papers, "__path__", [*reproduce.papers.__path__, str(paths.PAPERS)]
    )
    monkeypatch.setattr(trial, "LEAST", 60.0)  # other tests may take the processor
    yield root
    for name in [name for name in sys.modules if name.startswith("reproduce.papers.toy")]:
        del sys.modules[name]


def write(code):
    """Write the notebook with one claim that this code decides."""
    cells = (*workbooks.DERIVATIONS[:2], ("d03", "code", IMPORTS), ("d04", "code", code))
    workbooks.write_notebook(paths.NOTEBOOKS / "toy/derivations.ipynb", cells)


def results(code, **options):
    """What becomes of the mutants of the notebook."""
    write(code)

    def work():
        rows = list(trial.examine(catalogue.figure("toy/derivations"), **options))
        return json.dumps(rows).encode()

    told = forked(work, 120.0)  # the functions of this process stay as they are
    assert told
    return trial.judged(json.loads(told), whole=True)


def by(rows, result):
    return {row["mutant"] for row in rows if row["result"] == result}


EQUAL = 'book.check("lemma", abs(bound(3.0) / truth(3.0) - 1) < 1e-9, "counted", "another")'


def test_a_good_cell_has_no_survivors(toy):
    rows = results(EQUAL)
    assert {row["result"] for row in rows} == {"changed", "spared"}
    assert {row["kind"] for row in rows} == {"value", "source", "cell"}
    law = "reproduce.papers.toy.law.bound"
    caught = {f"{law}: value * 1.02", f"{law}: constant 2.0 -> 2.1"}
    spared = {f"{law}: value * 0.98", f"{law}: constant 2.0 -> 1.9"}
    assert by(rows, "changed") >= caught and by(rows, "spared") >= spared
    assert any(one.startswith("d04: comparison") for one in by(rows, "changed"))


def test_an_inequality_reacts_to_one_direction(toy):
    rows = results('book.check("lemma", truth(3.0) <= bound(3.0), "counted", "another")')
    values = {row["mutant"][-4:]: row["result"] for row in rows if row["kind"] == "value"}
    assert values == {"1.02": "safer", "0.98": "changed"}
    assert not by(rows, "survived")


@pytest.mark.parametrize(
    "code",
    [
        'book.check("lemma", bound(3.0) > 0, "counted", "another")',  # much too weak
        'book.derivation("lemma", "holds", f"{bound(3.0)}")',  # typed in
        'ok = bound(3.0) > 5\nbook.check("lemma", ok or True, "counted", "another")',
        'book.check("lemma", max(bound(3.0), truth(3.0)) >= truth(3.0), "counted", "another")',
        'book.check("lemma", bound(3.0) == bound(3.0), "counted", "another")',
    ],
)
def test_a_cell_that_cannot_fail_has_survivors(toy, code):
    survivors = by(results(code), "survived")
    assert any("value * 0.98" in one for one in survivors), survivors


def test_symbols_of_the_opening_cell_are_points(toy, monkeypatch):
    rows = results(EQUAL)
    assert [row for row in rows if "bound: value" in row["mutant"]]
    monkeypatch.setitem(globals(), "IMPORTS", f"{IMPORTS}\nside = 2.0 * bound(1.5)")
    rows = results('book.check("lemma", abs(side / 6 - 1) < 1e-9, "counted", "another")')
    assert {row["mutant"].split(":")[0] for row in rows} == {"d04"}


def test_a_fault_in_an_earlier_draw_is_none_of_a_claim(toy):
    drawn = "rng = np.random.default_rng(0)\nx = [bound(v) < 0.7 for v in rng.uniform(size=9)]\n"
    rows = results(f"{drawn}y = 1 + rng.uniform()\n{EQUAL.replace('3.0', 'y')}")
    assert not by(rows, "survived") and by(rows, "changed")
    assert not [row for row in rows if "0.7" in row["mutant"]]


def test_a_loose_bound_is_tried_with_large_faults(toy):
    rows = results(
        'ratio = bound(3.0) / truth(1.0)\nword = "false" if ratio < 1 else "loose"\n'
        'book.derivation("lemma", word, f"{ratio}")'
    )
    kinds = {row["mutant"].rpartition(": ")[2].split()[0] for row in rows}
    values = {row["mutant"].split()[-1]: row["result"] for row in rows if row["kind"] == "value"}
    assert values == {"2.0": "safer", "0.5": "survived"}  # the factor is 3: half of it is no fault
    assert "constant" not in kinds


def test_what_is_only_shown_is_left_out(toy):
    rows = results(f"shown = count(3)\n{EQUAL}\nprint(shown)")
    assert not [row for row in rows if "count" in row["mutant"]]
    rows = results(f"shown = count(3)\n{EQUAL[:-1].replace('counted', '{shown}')})")
    assert not by(rows, "survived")


def test_a_mutant_without_an_end_is_caught_in_time(toy, monkeypatch):
    monkeypatch.setattr(trial, "LEAST", 3.0)
    rows = results('book.check("lemma", abs(count(3) - 3) < 1e-9, "counted", "another")')
    assert any("k += 1 -> k -= 1" in one for one in by(rows, "timeout"))
    assert not by(rows, "survived")


def test_a_cell_that_fails_is_caught_and_the_error_is_told(toy):
    rows = results(
        'x = [bound(3.0)]\nbook.check("lemma", abs(x[0] - 6) < 1e-9, "counted", "another")'
    )
    (row,) = [row for row in rows if row["result"] == "raised"]
    assert row["mutant"] == "d04: index x[0] -> x[1]" and "IndexError" in row["reason"]


def test_statements_that_do_not_run_are_told(toy):
    (row,) = results('book.check("lemma", unknown < 1, "counted", "another")')
    assert row["result"] == "error" and row["reason"].startswith("NameError")


FALSE = 'book.check("lemma", printed(3.0) == truth(3.0), "no", "2 x")'
CORRECTED = '[[corrected]]\nclaim = "toy/derivations/lemma"\n'


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        ("", "open"),
        ('replace = "reproduce.papers.toy.law:printed"\nby = "reproduce.papers.toy.law:bound"', "changed"),
        ('old = "printed(3.0)"\nnew = "bound(3.0)"', "changed"),
        ('old = "printed(3.0)"\nnew = "printed(4.0)"', "survived"),
        ('old = "printed(3.0)"\nnew = "unknown"', "survived"),
        ('old = "printed(5.0)"\nnew = "bound(3.0)"', "open"),
        ('old = ["printed(3.0)", "truth(3.0)"]\nnew = ["bound(4.0)", "truth(4.0)"]', "changed"),
        ('old = ["printed(3.0)", "truth(5.0)"]\nnew = ["bound(3.0)", "truth(3.0)"]', "open"),
        ('none = "the text contradicts itself"', "none"),
    ],
)  # fmt: skip
def test_a_refuted_claim_is_tried_with_its_corrected_form(toy, entry, result):
    if entry:
        corrected.path_of("toy").write_text(CORRECTED + entry)
    (row,) = results(FALSE)
    assert (row["verdict"], row["result"]) == ("false", result)


def test_an_ill_formed_correction_is_refused(toy):
    for entry in (
        "",
        'none = ""',
        'old = ["a"]\nnew = []',
        'old = "a"\nnew = "b"\nnone = "c"',
        'old = "a"',
        'old = "a b"\nnew = "c"',
        'old = "a"\nby = "c"',
        "old = 1",
    ):
        corrected.path_of("toy").write_text(CORRECTED + entry)
        with pytest.raises(catalogue.CatalogueError, match="corrected.toml, entry 1"):
            corrected.read("toy")


def test_the_same_seed_gives_the_same_sample(toy):
    write(EQUAL)

    def work():
        found = Slices(catalogue.figure("toy/derivations"))
        bench = Bench(found)
        bench.prepare()
        done = observe(bench)
        every = faults.mutants(found, done)
        samples = [trial.sample(found, done, every, seed, 100.0) for seed in (1, 1, 2)]
        few = trial.sample(found, done, every, 1, 0.6)
        return json.dumps([[one.id for one in chosen] for chosen in (*samples, few)]).encode()

    first, again, other, few = json.loads(forked(work, 60.0))
    assert first == again and first != other and sorted(first) == sorted(other)
    assert set(few) < set(first)


def test_a_fault_inside_a_function_counts_once_for_all_claims():
    row = {"mutant": "f: 1 -> 2", "move": "f", "kind": "source", "verdict": "holds"}
    told = {"a": "same", "b": "survived", "c": "changed"}
    rows = [row | {"claim": name, "result": result} for name, result in told.items()]
    assert [one["claim"] for one in trial.judged(rows, whole=True)] == ["c"]
    assert trial.judged(rows[:2], whole=False)[0]["result"] == "survived"
    other = row | {"mutant": "f: 1 -> 0", "claim": "a", "result": "survived"}
    assert trial.judged([*rows, other], whole=False)[1]["result"] == "safer"
    assert trial.judged([*rows[:2], other], whole=False)[1]["result"] == "survived"


# The command --------------------------------------------------------------------------------------


ROW = {"claim": "toy/derivations/lemma", "verdict": "holds", "move": "m", "kind": "value"}


def reason(mutant, claim="toy/derivations/lemma"):
    text = f"[[survivor]]\nclaim = '{claim}'\nmutant = '{mutant}'\nreason = 'it is so'\n"
    mutants.path_of("toy").write_text(text)


def test_the_share_counts_survivors_with_a_reason(toy):
    rows = [ROW | {"mutant": f"f: {k}", "result": "changed"} for k in range(8)]
    rows += [ROW | {"mutant": name, "result": "survived"} for name in ("g: x * 2 -> x", "h: 1")]
    rows += [ROW | {"mutant": "i", "result": one} for one in ("safer", "same", "open")]
    told = mutants.summary(rows, mutants.reasons("toy"))
    assert (told["mutants"], told["caught"], told["without"], told["share"]) == (10, 8, 2, 0.8)
    reason("g: x * 2*")
    told = mutants.summary(rows, mutants.reasons("toy"))
    assert (told["with reason"], told["share"]) == (1, 0.8)
    text = mutants.report("toy", told)
    assert (
        "survived: toy/derivations/lemma | h: 1" in text and "80.0%" in text and "g: x" not in text
    )


def test_a_reason_for_several_mutants_is_stale_in_a_whole_run_only(toy):
    reason("f: *")
    rows = [ROW | {"mutant": "f: 1", "result": "changed"}]
    known = mutants.reasons("toy")
    assert mutants.summary(rows, known)["stale"] == []
    assert mutants.summary(rows, known, whole=True)["stale"] == ["toy/derivations/lemma | f: *"]
    rows.append(ROW | {"mutant": "f: 2", "result": "survived"})
    assert mutants.summary(rows, known, whole=True)["stale"] == []


GOOD = [ROW | {"mutant": f"f: {k}", "result": "changed"} for k in range(19)]


@pytest.mark.parametrize(
    ("more", "explained", "good"),
    [
        ([], False, True),
        ([ROW | {"mutant": "g", "result": "survived"}], False, False),
        ([ROW | {"mutant": "g", "result": "survived"}], True, True),
        ([ROW | {"mutant": "g", "result": "survived", "claim": "a/b/c"}], True, False),
        ([ROW | {"mutant": "g", "result": "changed"}], True, False),  # a stale reason
        (
            [ROW | {"mutant": "h", "result": "changed"}],
            True,
            True,
        ),  # its mutant is not in the sample
        ([ROW | {"mutant": "g", "result": "survived"}] * 2, True, False),  # fewer than 95 %
        ([ROW | {"mutant": "", "result": "open"}], False, False),
        ([ROW | {"mutant": "", "result": "none", "reason": "why"}], False, True),
        ([ROW | {"mutant": "", "result": "error", "reason": "why"}], False, False),
    ],
)
def test_what_makes_the_command_fail(toy, more, explained, good):
    if explained:
        reason("g")
    assert mutants.passes(mutants.summary(GOOD + more, mutants.reasons("toy"))) is good


def test_the_interval_counts_moves_and_not_their_directions():
    rows = [ROW | {"move": f"m {k}", "mutant": f"f: {k}", "result": "changed"} for k in range(30)]
    one = mutants.summary(rows, [])["interval"]
    assert one == mutants.summary(rows * 2, [])["interval"]
    assert one == pytest.approx((0.025 ** (1 / 30), 1.0))
    lost = [ROW | {"move": "m 0", "mutant": "other claim", "result": "survived"}]
    assert mutants.summary(rows + lost, [])["interval"][1] < 1


def test_a_share_is_drawn_by_the_names_of_moves_and_does_not_look_at_costs():
    every = [
        faults.Mutant(f"{k} {way}", kind, f"move {k}", k, ("a",), dict)
        for k in range(2000)
        for way, kind in (("up", faults.VALUE), ("down", faults.VALUE))
    ]
    every.append(faults.Mutant("c", faults.CORRECTED, "a", 0, ("a",), dict))
    assert trial.drawn(every, 1, 1.0) == every
    tenth = trial.drawn(every, 1, 0.1)
    assert 150 < len({one.move for one in tenth}) < 250
    assert len(tenth) == 2 * (len({one.move for one in tenth}) - 1) + 1, "both directions, once"
    assert tenth[-1] is every[-1], "all corrections"
    some = trial.drawn(every[1000:], 1, 0.1)
    assert some == [one for one in tenth if one in every[1000:]], "the same in another notebook"
    assert {one.move for one in trial.drawn(every, 2, 0.1)} != {one.move for one in tenth}


@pytest.mark.parametrize("share", ["0", "1.5", "-1"])
def test_an_impossible_share_is_refused(share, capsys):
    with pytest.raises(SystemExit):
        mutants.main(["--share", share])
    assert "must be above 0 and at most 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mutant", "claim", "orphan"),
    [
        ("reproduce.papers.toy.law.bound: value * 0.98", "lemma", False),
        ("reproduce.papers.toy.law.bound[Toy](method=upper): value * 0.98", "lemma", False),
        ("reproduce.papers.toy.law.bound: constant*", "lemma", False),
        ("d04: sign*", "lemma", False),
        ("d05: sign*", "lemma", True),
        ("reproduce.papers.toy.law.gone: value * 0.98", "lemma", True),
        ("*", "theorem", True),
    ],
)
def test_reasons_without_a_mutant_are_told(toy, mutant, claim, orphan):
    write(EQUAL)
    reason(mutant, f"toy/derivations/{claim}")
    assert bool(mutants.orphans("toy")) is orphan


def test_an_ill_formed_reason_is_refused(toy):
    empty = "[[survivor]]\nclaim = ''\nmutant = 'a'\nreason = 'b'"
    for text in ("[[survivor]]\nclaim = 'a'", "[survivor]\nclaim = 'a'", "x", empty):
        mutants.path_of("toy").write_text(text)
        with pytest.raises(catalogue.CatalogueError, match="survivors.toml"):
            mutants.reasons("toy")


# The workbook's own -------------------------------------------------------------------------------


EXPLAINED = [paper for paper in catalogue.papers() if mutants.path_of(paper).exists()]


@pytest.mark.parametrize("paper", EXPLAINED)
def test_every_reason_has_its_mutant(paper):
    assert mutants.reasons(paper)
    assert mutants.orphans(paper) == []


CORRECTIONS = [
    (paper, one.claim, one) for paper in catalogue.papers() for one in corrected.read(paper)
]


@cache
def whole(figure):
    """The slices of all claims of a notebook."""
    return Slices(catalogue.figure(figure))


@pytest.mark.parametrize(("paper", "claim", "one"), CORRECTIONS)
def test_every_correction_has_its_claim_and_its_place(paper, claim, one):
    entry, name = find(claim)[0], claim.rpartition("/")[2]
    assert entry.paper == paper
    if one.old:
        found = whole(entry.id)
        hits = [corrected.changed(found.all[place].node, one)[1] for place in found.places[name]]
        missing = set(range(len(one.old))) - set().union(*hits)
        assert not missing, f"no cell of {claim} has the expression {[one.old[k] for k in missing]}"


def test_every_refuted_claim_has_its_corrected_form_or_says_why_not():
    rows = json.loads((paths.FIGURES / "claims.json").read_text())["claims"]
    known = {claim for _, claim, _ in CORRECTIONS}
    fallen = [row["id"] for row in rows if faults.falling(find(row["id"])[1], row["verdict"])]
    assert len(fallen) > 130
    assert [one for one in fallen if one not in known and by_formula(one)] == []


def by_formula(claim):
    entry, one = find(claim)
    return one.by == "formula" and one.id in whole(entry.id).places
