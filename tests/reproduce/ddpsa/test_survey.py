"""The transcribed survey: complete, consistent with itself, and shown so that it can be filtered."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from reproduce.papers.ddpsa.survey import FAMILIES, Filterable, family, load_survey

UNITS = {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "W": 1e4}


def ends(text: str) -> tuple[float, float] | None:
    """The ends of a printed range, read independently of the columns that hold them."""
    parts = re.findall(r"(?<![\w.])(\d[\d.]*(?:e-\d+)?(?:/\d+)?)([kKMW]?)", text)
    if not parts:
        return None
    values = []
    for number, unit in parts:
        top, _, bottom = number.partition("/")
        values.append(float(top) / float(bottom or 1) * UNITS[unit])
    return min(values), max(values)


@pytest.mark.parametrize("column", ["clients", "epsilon", "delta"])
def test_numbers_are_the_ends_of_what_is_printed(column):
    for row in load_survey().to_dict("records"):
        expected = ends(row[column])
        found = (row[f"{column}_low"], row[f"{column}_high"])
        if expected is None:
            assert row[column] == "-" and np.isnan(found).all()
        else:
            assert found == pytest.approx(expected, rel=1e-9)


def test_every_article_once_in_the_order_of_the_table():
    survey = load_survey()
    assert len(survey) == survey["reference"].nunique() == 76
    assert survey["reference"].tolist()[:3] == [10, 53, 47]
    blocks = survey["scenario"].drop_duplicates().tolist()
    assert blocks == ["Horizontal", "Vertical", "Transfer"]
    assert survey["scenario"].is_monotonic_increasing is False
    assert survey.groupby("scenario", sort=False).size().tolist() == [58, 9, 9]
    assert not survey[["authors", "model", "level", "mechanism", "task"]].isna().any(axis=None)


def test_labels_fit_together():
    survey = load_survey()
    local = survey["model"].isin(["LDP", "Condensed LDP"])
    assert (survey.loc[local, "level"] == "-").all()
    assert (survey.loc[~local, "level"] != "-").all()
    shuffled = survey["mechanism"].str.contains("Shuffle")
    assert (survey.loc[shuffled, "model"] == "Shuffle DP").all()


def test_every_mechanism_has_one_family():
    names = [name for group in FAMILIES.values() for name in group]
    assert len(names) == len(set(names))
    assert set(load_survey()["mechanism"]) == set(names)
    with pytest.raises(ValueError, match="mechanism"):
        family(pd.Series(["Cauchy"]))


def test_filterable_table_holds_every_cell_and_one_field_a_column():
    table = pd.DataFrame({"name": ["a < b", "c"], "n": [1, 22]})
    html = Filterable(table)._repr_html_()
    assert html.count("<input") == 2 and html.count("<tr>") == 4
    assert "a &lt; b" in html and "<td>22</td>" in html
    assert "a < b" in repr(Filterable(table))
