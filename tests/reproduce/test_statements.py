"""The statements of the papers: well-formed, complete, and each with a claim or a reason."""

from __future__ import annotations

import pytest

import workbooks
from reproduce import catalogue, ledger, paths, statements

GOOD = """
[[statement]]
place = "Section 1"
quote = "twice sigma"
row = "toy/fig1/double"
[[statement]]
place = "Figure 1"
quote = "it rises, since one and one is two"
row = ["toy/fig1/order", "toy/derivations/lemma"]
[[statement]]
place = "Abstract"
quote = "a simple line"
reason = "a matter of taste"
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    return workbooks.build(tmp_path, monkeypatch)


def write(text: str) -> None:
    statements.path_of("toy").write_text(text)


def test_a_paper_without_a_file_has_no_statements_and_no_problems(toy):
    assert statements.read("toy") == [] == statements.problems("toy")


def test_a_good_file_has_no_problems_and_is_counted(toy):
    write(GOOD)
    found = statements.read("toy")
    assert [one.rows for one in found] == [
        ("toy/fig1/double",),
        ("toy/fig1/order", "toy/derivations/lemma"),
        (),
    ]
    assert found[2].reason == "a matter of taste"
    assert statements.problems("toy") == []
    assert statements.counts(found) == (3, 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[statement]]", "[[claim]]", "nothing else"),
        ('quote = "twice sigma"', 'quote = "  "', "not empty"),
        ('quote = "twice sigma"', "quote = 2", "not empty"),
        ('quote = "twice sigma"', "", "not empty"),
        ('quote = "twice sigma"', 'quote = "x"\nnote = "y"', "keys"),
        ('row = "toy/fig1/double"', "", "either"),
        ('row = "toy/fig1/double"', 'row = "a"\nreason = "b"', "either"),
        ('row = "toy/fig1/double"', "row = []", "list of ids"),
        ('row = "toy/fig1/double"', "row = 3", "list of ids"),
        ('reason = "a matter of taste"', 'reason = ""', "not empty"),
        ("[[statement]]", "[[statement", "toml"),
    ],
)
def test_an_ill_formed_file_is_refused(toy, old, new, message):
    write(GOOD.replace(old, new, 1))
    with pytest.raises(statements.StatementsError, match=message) as problem:
        statements.read("toy")
    assert str(statements.path_of("toy")) in str(problem.value)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            '"toy/fig1/double"',
            '"toy/fig1/treble"',
            ["no claim 'toy/fig1/treble'", "no statement names the claim toy/fig1/double"],
        ),
        (', "toy/derivations/lemma"', "", ["no statement names the claim toy/derivations/lemma"]),
        (
            'place = "Abstract"\nquote = "a simple line"',
            'place = "section 1"\nquote = "twice  sigma"',
            ["there twice: section 1: twice  sigma"],
        ),
    ],
)
def test_what_does_not_fit_the_catalogue_is_told(toy, old, new, expected):
    write(GOOD.replace(old, new))
    assert statements.problems("toy") == expected


def test_a_statement_of_our_own_needs_no_place_in_the_paper(toy):
    path = workbooks.catalogue_file()
    path.write_text(path.read_text().replace('id = "lemma"', 'id = "lemma"\nown = true'))
    write(GOOD.replace(', "toy/derivations/lemma"', ""))
    assert statements.problems("toy") == []


def test_ledger_and_report_count_the_statements(toy, capsys):
    ledger.main([])
    assert "statements that can be checked" not in (paths.FIGURES / "CLAIMS.md").read_text()
    write(GOOD)
    assert ledger.main([]) == 0
    assert "| toy | 3 | 2 | 1 |" in (paths.FIGURES / "CLAIMS.md").read_text()
    report = (paths.FIGURES / "toy/REPORT.md").read_text()
    assert "3 statements of the paper can be checked; claims decide 2 of them" in report
    write(GOOD.replace("reason =", "reasons ="))
    assert ledger.main([]) == 1
    assert "statements.toml" in capsys.readouterr().err


WRITTEN = [paper for paper in catalogue.papers() if statements.path_of(paper).exists()]


@pytest.mark.parametrize("paper", WRITTEN)
def test_the_statements_of_a_paper_fit_its_catalogue(paper):
    assert statements.read(paper)
    assert statements.problems(paper) == []
