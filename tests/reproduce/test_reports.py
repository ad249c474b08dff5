"""The generated reports: written with the ledger, stale when it changes, and titled by the verdicts."""

from __future__ import annotations

import json

import matplotlib

matplotlib.use("agg")

import pytest

import workbooks
from reproduce import findings, ledger, paths, reports

README = f"# Toys\n\n{reports.BEGIN}\nbefore\n{reports.END}\n\nafter\n"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    root = workbooks.build(tmp_path, monkeypatch)
    (root / "README.md").write_text(README)
    write(root)
    workbooks.run_toy(picture=True)
    workbooks.run_derivations()
    return root


def write(
    root, central='"fig1/double", "derivations/lemma"', text="It is {claim:toy/fig1/double:ours}."
):
    head = workbooks.FINDINGS_HEAD.replace('"fig1/a"', central)
    path = root / "reproduce/papers/toy" / findings.FILE
    path.write_text(head + workbooks.FINDINGS.replace("text", text))


def report():
    return (paths.FIGURES / "toy" / reports.FILE).read_text()


def test_the_report_has_the_ledger_s_numbers_with_links(toy):
    assert ledger.main([]) == 0
    text = report()
    assert text.startswith("# [Re] A toy paper\n")
    assert "It is 4 ([section](../../notebooks/toy/fig1.ipynb#A-line))." in text
    assert "| twice σ | Section 1 | [reproduced](../../notebooks/toy/fig1.ipynb#A-line) |" in text
    for title in (*findings.SECTIONS, "Method", "Verdicts", "Artifact appendix"):
        assert f"\n## {title}\n" in text
    assert "`make fig/toy/fig1`" in text and "compute-minutes unknown" in text


def test_a_central_claim_that_falls_or_is_open_gives_the_title(toy):
    path = paths.FIGURES / "toy/fig1.json"
    for verdict, mark in (("differs", "¬Re"), ("undecided", "Re, open")):
        record = json.loads(path.read_text())
        record["claims"][0]["verdict"] = verdict
        path.write_text(json.dumps(record))
        ledger.main([])
        assert report().startswith(f"# [{mark}] A toy paper\n")


def test_minutes_are_those_of_the_reference_run(toy):
    cost = {"quick": {"toy/fig1": {"seconds": 90.0, "peak_mib": 201.0}}}
    paths.COSTS.write_text(json.dumps(cost))
    ledger.main([])
    assert "* *Time:* 2 human-minutes, 1.5 compute-minutes" in report()
    assert "at most 250 MiB each" in report()


def test_the_opening_of_the_readme_is_between_its_marks(toy):
    ledger.main([])
    text = (toy / "README.md").read_text()
    assert text.startswith("# Toys\n\n<!-- findings") and text.endswith("\n\nafter\n")
    assert "### toy: \\[Re\\] A toy paper" in text and "before" not in text
    assert "It is 4 ([section](notebooks/toy/fig1.ipynb#A-line))." in text
    assert '<img src="figures/toy/fig1.png"' in text


def test_check_finds_whatever_is_stale(toy, capsys):
    ledger.main([])
    assert ledger.main(["--check"]) == 0
    for path in (paths.FIGURES / "toy" / reports.FILE, toy / "README.md", toy / "codecheck.yml"):
        text = path.read_text()
        path.write_text(text.replace("reproduced", "x").replace("It is 4", "x").replace("toy", "x"))
        capsys.readouterr()
        assert ledger.main(["--check"]) == 1
        assert f"stale: {path} (make ledger writes it)" in capsys.readouterr().err
        path.write_text(text)
    write(toy, text="It is {claim:toy/fig1/double:=differs}.")
    ledger.main([])
    assert ledger.main(["--check"]) == 1
    assert "written for toy/fig1/double differs" in capsys.readouterr().err


def test_the_manifest_lists_files_that_exist(toy):
    ledger.main([])
    text = (toy / "codecheck.yml").read_text()
    assert text.startswith("---\n") and "\nmanifest:\n" in text
    files = [line.split(": ")[1] for line in text.splitlines() if line.startswith("  - file: ")]
    assert "figures/toy/fig1.png" in files and all((toy / name).is_file() for name in files)


def test_a_paper_without_findings_has_a_report_and_no_opening(toy):
    (toy / "reproduce/papers/toy" / findings.FILE).unlink()
    assert ledger.main([]) == 0
    assert "No findings are written yet." in report()
    assert "### toy" not in (toy / "README.md").read_text()


def test_an_ill_formed_file_is_one_line(toy, capsys):
    (toy / "reproduce/papers/toy" / findings.FILE).write_text("nothing")
    assert ledger.main([]) == 1
    told = capsys.readouterr().err
    assert told.startswith("ledger: ") and told.count("\n") == 1


def test_the_project_s_readme_has_the_marks():
    text = (paths.ROOT / "README.md").read_text()
    assert reports.BEGIN in text and reports.END in text
