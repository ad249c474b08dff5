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


def test_secure_sums():
    """The rings that the page's table gives, at 100,000 clients."""
    pytest.importorskip("cryptography")
    from repro.secagg import Z32, FixedPoint, narrowest, noise_tail

    clients, text = 100_000, page("secure-sums")
    values, tail = 2**14, noise_tail(98, 10**10)
    rows = {f"| {values:,} |": "2^32", f"| {values + tail:,} |": "2^32", "| 10^10 |": "2^64"}
    units = [values, values + tail, 10**10]
    for (cell, ring), largest in zip(rows.items(), units, strict=True):
        (line,) = [line for line in text.splitlines() if cell in line]
        assert ring in line and str(narrowest(largest, clients)) == f"Z_({ring})"
    assert f"beyond {tail:,} units" in text
    assert f"room for {FixedPoint(bits=14, ring=Z32).units(clients):,}" in text


def test_several_machines(tmp_path, monkeypatch):
    """The code, in one process, and the tables of the model."""
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(paths.ROOT / "bench"))
    import several_machines

    assert run("several-machines")["ranks"].count == 1 and (tmp_path / "run.pt").exists()
    assert several_machines.tables() in page("several-machines")
