"""Every run of the quick profile on Slurm and in the local pool: the records must be the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from daemons import Slurm, SlurmError

from reproduce import catalogue, paths, records

COMPARED = ("config", "seed", "result")
_LAST = 15
"""Lines of a sweep's output that are shown where it fails unseen."""


def run(slurm: Slurm, folder: Path, found: list[str], limit: float | None = None) -> None:
    """Sweep on Slurm into an empty folder, in the local pool into the usual one; add the differences to `found`.

    Runs that the local pool has made before, with the present code, are not made again. A run that
    has a published record is made by neither and not compared.

    Args:
        slurm: the daemons.
        folder: empty, for the records of Slurm.
        found: what is wrong.
        limit: seconds after which a sweep is given up; its output is then shown only where it fails. None:
            no limit, and the output is shown as it comes.

    Raises:
        SlurmError: a sweep took longer than that.
    """
    start = time.monotonic()
    published = {path.stem for path in paths.PUBLISHED.rglob("*.json")}
    wanted = {
        task.key: task
        for one in catalogue.figures()
        for task in records.tasks_of(one, "quick")
        if task.key not in published
    }
    if _sweep(slurm.environment | {"REPRO_RUNS": str(folder)}, limit, "SLURM=main"):
        found.append("sweeps: make sweep SLURM=main failed")
        return
    seconds = time.monotonic() - start
    if _sweep(os.environ, limit):
        found.append("sweeps: make sweep failed")
        return
    before = len(found)
    for task in wanted.values():
        here = records.record_path(task)
        ours, theirs = (
            records.read_record(one, task) for one in (here, folder / here.relative_to(paths.RUNS))
        )
        if ours is None or theirs is None:
            found.append(f"sweeps: {task} has no whole record")
        elif differing := [key for key in COMPARED if _bytes(ours[key]) != _bytes(theirs[key])]:
            found.append(
                f"sweeps: {task}: {', '.join(differing)} of Slurm and of the local pool differ"
            )
    files = [path for path in folder.rglob("*.json") if ".slurm" not in path.parts]
    if len(files) != len(wanted):
        found.append(f"sweeps: {len(files)} files for {len(wanted)} runs")
    papers = {task.name.partition("/")[0] for task in wanted.values()}
    print(
        f"sweeps: {len(wanted)} records of {len(papers)} systems compared, {len(found) - before} "
        f"differences; {seconds:.0f} s on Slurm, {time.monotonic() - start:.0f} s in all",
        flush=True,
    )


def _bytes(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _sweep(environment: Mapping[str, str], limit: float | None, *options: str) -> int:
    command = ["make", "--no-print-directory", "sweep", "PROFILE=quick", *options]
    variables = {**environment, "VIRTUAL_ENV": sys.prefix}
    if limit is None:
        return subprocess.run(command, cwd=paths.ROOT, env=variables, check=False).returncode
    with subprocess.Popen(
        command,
        cwd=paths.ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            told, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            words = " ".join(("make", *command[2:]))
            raise SlurmError(f"{words} had not ended after {limit:.0f} s") from None
    if process.returncode:
        print("\n".join(told.splitlines()[-_LAST:]), flush=True)
    return process.returncode
