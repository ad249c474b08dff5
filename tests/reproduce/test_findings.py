"""Findings written by hand: their form, and placeholders that only the ledger fills."""

from __future__ import annotations

import pytest

from reproduce import catalogue, findings, paths
from workbooks import FINDINGS, FINDINGS_HEAD


def row(name, verdict="reproduced", **more):
    own = {"id": name, "figure": name.rsplit("/", 1)[0], "verdict": verdict, "own": False}
    texts = {"ours": "about 4 (2; 3); or *5*. Once", "reason": "", "where": "Table 1", "paper": "4"}
    return own | texts | {"link": "notebooks/toy/fig1.ipynb#c04"} | more


@pytest.fixture
def filling():
    rows = [
        row("toy/fig1/a"),
        row("toy/fig1/b", "not yet", reason="needs a GPU"),
        row("toy/fig2/c", "not yet", reason="needs a GPU"),
        row("toy/fig2/d", own=True),
    ]
    return findings.Filling({one["id"]: one for one in rows})


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{claim:toy/fig1/a:verdict}", "[reproduced](../notebooks/toy/fig1.ipynb#c04)"),
        ("{claim:toy/fig1/a:=holds|reproduced}", "[reproduced](../notebooks/toy/fig1.ipynb#c04)"),
        (
            "{claim:toy/fig1/a:ours}",
            r"about 4 (2; 3); or \*5\*. Once ([section](../notebooks/toy/fig1.ipynb#c04))",
        ),
        ("{claim:toy/fig1/a:Short}", "About 4 (2; 3) ([section](../notebooks/toy/fig1.ipynb#c04))"),
        ("{claim:toy/fig1/a:where}, {claim:toy/fig1/a:paper}", "Table 1, 4"),
        ("{count:toy:reproduced} of {count:toy:all}", "1 of 3"),
        (
            "{list:toy:not yet,undecided}",
            "* not yet: [fig1/b](../notebooks/toy/fig1.ipynb#c04), "
            "[fig2/c](../notebooks/toy/fig1.ipynb#c04): needs a GPU",
        ),
        ("{list:toy:false}", "* none"),
        ("a set {1, 2}", "a set {1, 2}"),
    ],
)
def test_placeholders_are_filled_from_the_ledger(filling, text, filled):
    assert filling.fill(text, "../", "here") == filled
    assert filling.problems == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{claim:toy/fig1/aa:ours}", "here: no claim 'toy/fig1/aa' (the nearest: toy/fig1/a)"),
        (
            "{claim:toy/fig1/a:=false}",
            "here: written for toy/fig1/a false, the ledger has reproduced",
        ),
        ("{claim:toy/fig1/a:value}", "here: toy/fig1/a: unknown word 'value'"),
        ("{count:joy:all}", "here: no paper 'joy'"),
    ],
)
def test_what_does_not_fit_is_told_once(filling, text, told):
    filling.fill(f"{text} {text}", "", "here")
    assert filling.problems == [told]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FINDINGS, "facts between two lines"),
        (FINDINGS_HEAD.replace("year = 1", "year ="), "findings.md"),
        (FINDINGS_HEAD.replace("year = 1\n", "") + FINDINGS, "the facts must be"),
        (FINDINGS_HEAD + FINDINGS.replace("What falls", "What fails"), "the sections must be"),
    ],
)
def test_an_ill_formed_file_is_one_clear_error(tmp_path, monkeypatch, text, message):
    monkeypatch.setattr(paths, "PAPERS", tmp_path)
    (tmp_path / "toy").mkdir()
    assert findings.read("toy") is None
    (tmp_path / "toy" / findings.FILE).write_text(FINDINGS_HEAD + FINDINGS)
    assert findings.read("toy").central == ("fig1/a",)
    (tmp_path / "toy" / findings.FILE).write_text(text)
    with pytest.raises(findings.FindingsError, match=message):
        findings.read("toy")


def test_every_paper_has_findings_on_its_own_claims():
    for paper in catalogue.papers():
        found = findings.read(paper)
        own = {claim.full_id for entry in catalogue.figures(paper) for claim in entry.claims}
        assert {f"{paper}/{name}" for name in found.central} <= own
        assert found.picture in {entry.name for entry in catalogue.figures(paper)}
        for title, text in found.sections.items():
            assert text, f"{paper}: {title} is empty"
            named = [match[2] for match in findings.PLACEHOLDER.finditer(text)]
            strange = [one for one in named if one != paper and one not in own]
            assert strange == [], f"{paper}: {title}"
