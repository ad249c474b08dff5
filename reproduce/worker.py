"""The process that runs notebooks, one after the other: `python -m reproduce.worker`, started by the runner.

With the argument `nursery` the kernels come from there (`reproduce.nursery`).

It reads orders (lines of JSON) from its standard input and writes the outcome of each (one line of
JSON) to its standard output. When the input ends, the runner has no more orders, or has died: the
worker ends itself and all that it has started, so that no orphan writes into `figures/`.
"""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import psutil

from reproduce import nursery
from reproduce.machine import peak_memory, read_line

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SAMPLE = 0.2
"""Seconds between two looks at the memory."""


def main() -> NoReturn:
    """Run the ordered notebooks; each outcome says whether it worked."""
    outcomes = os.fdopen(os.dup(1), "w")
    kernels = None
    if sys.argv[1:] == ["nursery"]:
        kernels = nursery.Nursery()
        kernels.adopt()
    orders: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: end())
    while True:
        order = json.loads(orders.get())
        with open(order["log"], "ab") as log:  # what papermill or the kernel prints
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        os.environ.clear()
        os.environ.update(order["environment"])
        if kernels:
            kernels.log = order["log"]
        start = time.monotonic()
        with Memory(kernels.pid if kernels else 0) as memory:
            result = execute(order)
        result |= {"seconds": round(time.monotonic() - start, 1), "peak_mib": memory.peak()}
        print(json.dumps(result), file=outcomes, flush=True)


def end() -> NoReturn:
    """End this process and everything it has started, at once."""
    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.NoSuchProcess:
            continue
    os._exit(1)


def _listen(orders: queue.Queue[bytes]) -> None:
    while line := read_line(0):
        orders.put(line)
    end()


def execute(order: Mapping[str, Any]) -> dict[str, Any]:
    """Run a notebook with papermill; return `{"error": ""}` or what went wrong and where.

    Args:
        order: `notebook` and `output` (paths), `parameters` (by name); `log` (path) and
            `environment` (by name) are for `main`.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError

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
    """The peak memory of this process and its descendants, looked at a few times a second.

    Args:
        without: the process number of a descendant that does not count.
    """

    def __init__(self, without: int = 0) -> None:
        self._without = without
        self._peak = 0
        self._lock = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Memory:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._look()

    def peak(self) -> float:
        """The largest sum so far, in MiB."""
        return round(self._peak / 2**20, 1)

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE):
            self._look()

    def _look(self) -> None:
        total = 0
        me = psutil.Process()
        for process in [me, *me.children(recursive=True)]:
            try:
                total += peak_memory(process) if process.pid != self._without else 0
            except psutil.Error:
                continue
        with self._lock:
            self._peak = max(self._peak, total)


if __name__ == "__main__":
    main()
