"""A pytest plugin for nbval: compare notebooks that were just executed, without executing them again.

`make all` leaves an executed copy of every notebook in `build/`, together with a note on all that the
copy depends on. While that note holds, running the cells once more would only compute the same again, so
nbval gets the outputs of the copy in place of those of a kernel. Everything else, the comparison with the
committed outputs above all, is nbval's own.

    REPRO_EXECUTED=build/executed python -m pytest -p reproduce.executed --nbval notebooks/mspafl/fig3.ipynb
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbval.plugin import IPyNbFile

VARIABLE = "REPRO_EXECUTED"
"""The environment variable that names the folder with the executed copies, `<paper>/<id>.ipynb`."""

INJECTED = "injected-parameters"
"""The tag of the cell that papermill adds; the committed notebook does not have it."""


class ExecutedKernel:
    """What nbval asks of a kernel, answered from an executed notebook, cell after cell.

    Args:
        path: the executed copy.

    Raises:
        OSError: there is no such file.
    """

    def __init__(self, path: Path) -> None:
        cells = nbformat.read(path, as_version=4).cells
        self._cells: Iterator[Any] = iter(
            cell
            for cell in cells
            if cell.cell_type == "code" and INJECTED not in cell.metadata.get("tags", [])
        )
        self._messages: deque[dict[str, Any]] = deque()
        self._count = 0

    def is_alive(self) -> bool:
        """A copy never dies."""
        return True

    def execute_cell_input(self, source: str, allow_stdin: bool | None = None) -> str:
        """Take the outputs of the next cell, which must have this source; return a message id."""
        cell = next(self._cells, None)
        if cell is None or cell.source != source:
            raise RuntimeError("the executed copy is not one of this notebook; run make all")
        self._count += 1
        parent = {"msg_id": str(self._count)}
        for output in cell.outputs:
            content = {key: value for key, value in output.items() if key != "output_type"}
            self._messages.append(
                {"msg_type": output.output_type, "content": content, "parent_header": parent}
            )
        self._messages.append(
            {"msg_type": "status", "content": {"execution_state": "idle"}, "parent_header": parent}
        )
        return parent["msg_id"]

    def await_reply(self, msg_id: str, timeout: float | None = None) -> None:
        """Every reply is there at once."""

    def get_message(self, stream: str, timeout: float | None = None) -> dict[str, Any]:
        """The next message of the channel `stream`; nbval reads "iopub" only."""
        return self._messages.popleft()

    def stop(self) -> None:
        """There is nothing to stop."""


def pytest_configure(config: pytest.Config) -> None:
    """Give every notebook a kernel that plays back its executed copy."""
    folder = Path(os.environ[VARIABLE])

    def setup(self: IPyNbFile) -> None:
        self.kernel = ExecutedKernel(folder / self.path.parent.name / self.path.name)
        self.setup_sanitize_files()

    IPyNbFile.setup = setup
