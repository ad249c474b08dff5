"""A notebook opened from its folder in a JupyterLab that make did not start: every cell runs."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from reproduce import environment, paths

NOTEBOOK = paths.NOTEBOOKS / "partitioning/fig3.ipynb"


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """An environment as `make` leaves it: the pinned packages, and the project by `_finish`."""
    venv.create(tmp_path / ".venv", with_pip=False)
    (site,) = (tmp_path / ".venv").glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    monkeypatch.setattr(environment, "VENV", tmp_path / ".venv")
    return tmp_path


def run_all(fresh: Path, folder: Path) -> nbformat.NotebookNode:
    """Run All, with the plain kernel of the environment and no variable of the project."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    writes = {"REPRO_FIGURES": str(fresh / "figures"), "REPRO_BUILD": str(fresh / "build")}
    book = nbformat.read(NOTEBOOK, as_version=4)
    manager = AsyncKernelManager(kernel_name="python3")
    program = str(fresh / ".venv/bin/python")
    launch = [program, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=launch, language="python", display_name="plain")
    client = NotebookClient(
        book, km=manager, timeout=120, resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=kept | writes)
    return book


@pytest.mark.slow
def test_run_all_from_the_notebooks_folder(fresh):
    environment._finish()
    book = run_all(fresh, NOTEBOOK.parent)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert code[-1].outputs[0].output_type == "execute_result"
    assert (fresh / "figures/partitioning/fig3.json").is_file()


def test_an_environment_that_is_finished_finds_the_project(fresh):
    code = "import reproduce, repro; print(reproduce.__file__); print(repro.__file__)"
    call = [str(fresh / ".venv/bin/python"), "-c", code]
    options = {"cwd": NOTEBOOK.parent, "env": {}, "capture_output": True, "text": True}
    environment._finish()
    done = subprocess.run(call, check=True, **options)
    found = [Path(line) for line in done.stdout.splitlines()]
    assert found == [paths.ROOT / "reproduce/__init__.py", paths.ROOT / "src/repro/__init__.py"]
