"""The page of audits holds the numbers of the figures' records, as shares of what upper bounds allow."""

from __future__ import annotations

import json
import re

import pytest

from reproduce import audited, catalogue, paths, results


@pytest.fixture(scope="module")
def page():
    entries = [entry for entry in catalogue.figures() if entry.name == audited.NAME]
    return audited.page([results.result(entry) for entry in entries])


def rows(page, heading):
    """The cells of the table below a heading, without its head."""
    part = page.split(heading, 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_setting_of_every_system_stands_with_its_shares(page):
    found = {(re.sub(r"\[(\w+)\].*", r"\1", row[0]), row[1]): row[2:] for row in rows(page, "#")}
    assert {system for system, _ in found} == set(catalogue.papers())
    for (system, name), (_, upper, *shares) in found.items():
        record = json.loads((paths.FIGURES / system / "audit.desk.json").read_text("utf-8"))
        bounds = record["data"][name]["bounds"]
        assert float(upper) == pytest.approx(bounds["upper"], abs=6e-4)
        wanted = [
            bounds["free"] / bounds["upper"],
            bounds["implied"] / bounds["upper"],
            bounds["tpr"][0] / bounds["tpr_limit"],
        ]
        assert [float(x) for x in shares] == pytest.approx(wanted, abs=6e-3)


def test_guarantees_and_attackers_are_listed(page):
    assert len(rows(page, "## Guarantees")) >= 15
    for _, _, *shares in rows(page, "## What an attacker finds"):
        reached, most, *told = (in_percent(share) for share in shares if share != "-")
        assert 1 <= reached <= most <= 100
        assert all(1 <= share <= 100 for share in told)


def in_percent(share):
    """The number of "33.7 %"; a share that rounds to 100 % is told as a bound."""
    return 99.9 if share == "more than 99.9 %" else float(share.removesuffix(" %"))


def test_a_share_below_one_is_never_told_as_all(page):
    assert "100 %" not in page
    assert "more than 99.9 %" in page


def test_chances_are_multiplied_and_never_above_one():
    assert audited._chance(-80, 4) == "< 1e-79"
    assert audited._chance(-10, 4) == "4.0e-10"
    assert audited._chance(-0.1, 4) == "1.0e+00"
