"""The verdict box of a section: what the cell has just decided, and nothing else."""

from reproduce.papers.verdict_box import box


class Book:
    def __init__(self, found):
        self.found = found

    def decision(self, claim):
        return self.found.get(claim, {})


FOUND = {
    "a": {"verdict": "holds", "ours": "5 of 5", "reason": ""},
    "b": {"verdict": "false", "ours": "2 > 1", "reason": "at most 2"},
}


def test_every_verdict_is_shown_with_its_evidence_and_correction():
    shown = box(Book(FOUND), "a", "b")
    assert repr(shown) == "a: holds\n  5 of 5\nb: false\n  2 > 1\n  instead: at most 2"
    blocks = shown._repr_markdown_().split("\n\n")
    assert blocks[0] == "> **a: holds.** 5 of 5"
    assert blocks[1] == "> **b: false.** 2 > 1  \n> *Instead:* at most 2"


def test_a_claim_that_is_open_is_no_verdict():
    assert repr(box(Book({}), "a")).startswith("a: not decided")
