"""Executed copies in place of a kernel: the same outputs agree, others do not, a wrong copy is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from reproduce.executed import INJECTED, VARIABLE, ExecutedKernel


def notebook(text: str, *, injected: bool = False, source: str = "print(1)\n2"):
    outputs = [
        new_output("stream", name="stdout", text=text),
        new_output("execute_result", data={"text/plain": "2"}, execution_count=2),
    ]
    cells = [
        new_code_cell("a = 1", execution_count=1, metadata={"tags": ["parameters"]}),
        new_code_cell(source, execution_count=2, outputs=outputs),
    ]
    if injected:
        cells.insert(1, new_code_cell("a = 1", metadata={"tags": [INJECTED]}))
    return new_notebook(cells=cells)


def replayed(folder: Path, committed, executed) -> subprocess.CompletedProcess[str]:
    paths = folder / "notebooks" / "paper", folder / "build" / "paper"
    for path, content in zip(paths, (committed, executed), strict=True):
        path.mkdir(parents=True)
        nbformat.write(content, path / "fig1.ipynb")
    call = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "reproduce.executed"]
    call += ["-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--nbval", "--nbval-current-env"]
    return subprocess.run(
        [*call, str(paths[0] / "fig1.ipynb")],
        env=os.environ | {VARIABLE: str(folder / "build"), "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("executed", "code", "said"),
    [
        (notebook("1\n", injected=True), 0, "2 passed"),
        (notebook("7\n", injected=True), 1, "1 failed, 1 passed"),
        (notebook("1\n", source="print(1)\n3"), 1, "not one of this notebook"),
    ],
)
def test_outputs_of_the_copy_are_compared(tmp_path, executed, code, said):
    done = replayed(tmp_path, notebook("1\n"), executed)
    assert done.returncode == code and said in done.stdout, done.stdout + done.stderr


def test_a_copy_that_ends_early_is_told(tmp_path):
    path = tmp_path / "fig1.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("a = 1")]), path)
    kernel = ExecutedKernel(path)
    kernel.execute_cell_input("a = 1")
    with pytest.raises(RuntimeError, match="make all"):
        kernel.execute_cell_input("b = 2")
