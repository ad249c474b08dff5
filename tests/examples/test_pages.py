"""The code on the pages of docs/, run from top to bottom, and the numbers that the pages state."""

import re
import warnings

import pytest

from reproduce import paths

BLOCK = re.compile(r"^```python( \w+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page(name):
    return (paths.ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def run(name):
    """What the page's code defines. Blocks that are marked with a library are compiled only."""
    space = {}
    for number, (mark, code) in enumerate(BLOCK.findall(page(name))):
        made = compile(code, f"{name}.md, block {number}", "exec")
        if not mark:
            exec(made, space)
    return space


def test_from_opacus(tmp_path, monkeypatch):
    pytest.importorskip("opacus", reason="Opacus is not installed (pip install .[bench])")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run("from-opacus")
    text = page("from-opacus")
    assert found["opacus_accuracy"] > 0.9 and found["our_accuracy"] > 0.9
    guarantee, federated = found["guarantee"], found["federated"]
    assert f"are both {guarantee.lower:.2f};" in text
    assert f"{guarantee.lower:.2f}" == f"{guarantee.upper:.2f}"
    assert f"reports {found['opacus_epsilon']:.2f}" in text
    assert guarantee.upper <= found["opacus_epsilon"]
    assert f"certified epsilon is {federated.upper:.2f}" in text
    assert f"leaks more than\n{federated.lower:.2f}" in text
    assert federated.lower > guarantee.upper  # multiplying the rates under-counts
    rows = found["scores"].history
    assert [row["round"] for row in rows] == [20, 40, 60]
    assert rows[-1]["error"] < 0.01 and (tmp_path / "run.pt").exists()


def test_from_flower():
    found = run("from-flower")
    guarantee, text = found["guarantee"], page("from-flower")
    assert f"epsilon = {guarantee.upper:.2f}" in text and f"and {guarantee.lower:.2f}\n" in text
    assert guarantee.neighbours == "client"
    images, labels = found["images"].flatten(0, 1), found["labels"].flatten()
    accuracy = float((found["net"].eval()(images).argmax(1) == labels).double().mean())
    assert accuracy > 0.6  # the labels are balanced
