"""A seeded sample of the mutants of all derivations, a few minutes of it."""

import pytest

from reproduce import mutants
from reproduce.mutation.trial import judged

SECONDS, SEED = 300.0, 20
"""How long the sample may take on one core, and its seed."""

REACHED = 0.9
"""The share that a sample must have caught or explained. `make mutants` wants `mutants.SHARE`, 0.95; samples that do
not look at costs had 0.97 to 0.98. A sample of 60 is uncertain by 3 points, and which mutants are in it depends on the
machine, so that the floor lies two of these below."""


@pytest.mark.slow
def test_verdicts_notice_a_sample_of_faults():
    entries = [
        entry
        for entry in mutants.subjects([])
        if any(one.kind == "derivation" for one in entry.claims)
    ]
    rows = list(mutants.tried(entries, 1, SECONDS, SEED))
    assert [row for row in rows if row["result"] == "error"] == []
    told = {
        paper: mutants.summary(
            judged([row for row in rows if row["claim"].startswith(f"{paper}/")], whole=False),
            mutants.reasons(paper),
        )
        for paper in dict.fromkeys(entry.paper for entry in entries)
    }
    total = sum(one["mutants"] for one in told.values())
    assert total >= 20, "too few to say anything: the notebooks have become slow"
    caught = total - sum(one["without"] for one in told.values())
    text = "\n".join(mutants.report(paper, one) for paper, one in told.items())
    assert caught >= REACHED * total, text
