"""Code run in a fresh Jupyter kernel, cell by cell, for its printed text alone.

It speaks to the kernel itself: nbclient and nbformat, which keep whole notebooks, take longer to import than most
claims take to decide.
"""

from __future__ import annotations

import queue
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

READY = 120.0
"""Seconds that a kernel may take to start."""


class DeadKernel(Exception):
    """The kernel ended before its cells did."""


def execute(cells: Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[str, str]:
    """Run `cells` in a fresh kernel, in `folder`, up to the first that fails.

    Returns:
        What the last cell that ran printed, and the error that ended the run: "name: message", or "".

    Raises:
        DeadKernel: the kernel did not start, or died.
    """
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env=dict(environment), cwd=str(folder), stderr=subprocess.DEVNULL)
    client = manager.client()
    try:
        client.start_channels()
        try:
            client.wait_for_ready(timeout=READY)
        except RuntimeError:
            raise DeadKernel from None
        printed, error = "", ""
        for cell in cells:
            printed, error = _one(manager, client, cell)
            if error:
                break
        return printed, error
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def _one(manager: Any, client: Any, cell: str) -> tuple[str, str]:
    """Run one cell: what it printed, and its error or ""."""
    sent = client.execute(cell, store_history=False, allow_stdin=False)
    printed, error = "", ""
    while True:
        try:
            message = client.get_iopub_msg(timeout=1)
        except queue.Empty:
            if not manager.is_alive():
                raise DeadKernel from None
            continue
        if message["parent_header"].get("msg_id") != sent:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            printed += content["text"]
        elif kind == "error":
            error = f"{content['ename']}: {content['evalue']}"
        elif kind == "status" and content["execution_state"] == "idle":
            return printed, error
