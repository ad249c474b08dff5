"""The process that runs one notebook: forked by `reproduce.forked`, or `python -m reproduce.worker`.

It reads the order (one line of JSON) from its standard input and writes the outcome (one line of
JSON) to its standard output. The input stays open: when it ends, the runner has died, and the
worker ends itself and the notebook's kernel, so that no orphan writes into `figures/`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from reproduce.machine import peak_memory, read_line
from reproduce.waiting import GRAMMAR, WaitingKernel

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SAMPLE = 0.2
"""Seconds between two looks at the memory."""


def main() -> int:
    """Run the ordered notebook; the outcome says whether it worked, so the exit code is 0.

    A forked worker gets its environment with the order, and forks its kernel.
    """
    order = json.loads(read_line(0))
    kernel = None
    if "environment" in order:
        os.environ.clear()
        os.environ.update(order["environment"])
        kernel = WaitingKernel()
    threading.Thread(target=_end_with_runner, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: end())
    outcome = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what papermill or the kernel prints belongs into the log
    memory = Memory()
    start = time.monotonic()
    result = execute(order, kernel)
    result |= {"seconds": round(time.monotonic() - start, 1), "peak_mib": memory.peak()}
    print(json.dumps(result), file=outcome, flush=True)
    return 0


def end() -> None:
    """End this process and everything it has started, at once."""
    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    os._exit(1)


def _end_with_runner() -> None:
    while os.read(0, 1):
        pass
    end()


def execute(order: Mapping[str, Any], kernel: WaitingKernel | None = None) -> dict[str, Any]:
    """Run a notebook with papermill; return `{"error": ""}` or what went wrong and where.

    Args:
        order: `notebook` and `output` (paths), `parameters` (by name).
        kernel: what becomes the notebook's kernel; None: a process of its own.
    """
    sys.modules.setdefault(GRAMMAR, None)
    import papermill
    from jupyter_client.provisioning import local_provisioner
    from nbclient.exceptions import DeadKernelError

    if kernel is not None:
        local_provisioner.launch_kernel = kernel.launch
    notebook = Path(order["notebook"])
    try:
        papermill.execute_notebook(
            str(notebook),
            order["output"],
            parameters=order["parameters"],
            kernel_name="python3",
            language="python",
            cwd=str(notebook.parent),
            progress_bar=False,
        )
    except papermill.PapermillExecutionError as problem:
        return _cell_error(notebook, problem)
    except DeadKernelError:
        return {"error": "the kernel died (killed, or out of memory?)"}
    except OSError as problem:
        reason = problem.strerror or problem
        return {"error": f"cannot write {problem.filename or order['output']}: {reason}"}
    except Exception as problem:  # whatever it is, the runner must hear of it
        return {"error": f"{type(problem).__name__}: {problem}"}
    return {"error": ""}


def _cell_error(notebook: Path, problem: Any) -> dict[str, Any]:
    """Name the failed cell by its place and id in the committed notebook."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    tags = [cell.get("metadata", {}).get("tags", []) for cell in cells]
    injected = next((k + 1 for k, tag in enumerate(tags) if "parameters" in tag), 0)
    place = problem.cell_index - (problem.cell_index >= injected)
    name = cells[place].get("id", "") if place < len(cells) else ""
    value = _COLOUR.sub("", str(problem.evalue)).strip()
    first = value.splitlines()[0] if value else ""
    trace = _COLOUR.sub("", "\n".join(problem.traceback or [])).splitlines()
    return {
        "error": f"cell {place + 1}{f' ({name})' if name else ''}: {problem.ename}: {first}",
        "trace": [line for line in trace if line.strip()][-8:],
    }


class Memory:
    """The peak memory of this process and its descendants, looked at a few times a second."""

    def __init__(self) -> None:
        self._peak = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def peak(self) -> float:
        """The largest sum so far, in MiB."""
        self._look()
        return round(self._peak / 2**20, 1)

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(_SAMPLE)

    def _look(self) -> None:
        total = 0
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            try:
                total += peak_memory(process)
            except psutil.Error:
                continue
        with self._lock:
            self._peak = max(self._peak, total)


if __name__ == "__main__":
    sys.exit(main())
