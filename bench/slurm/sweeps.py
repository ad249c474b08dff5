"""Every run of the quick profile on Slurm and in the local pool: the records must be the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from daemons import Slurm

from reproduce import catalogue, paths, records

COMPARED = ("config", "seed", "result")


def run(slurm: Slurm, folder: Path) -> list[str]:
    """Sweep on Slurm into an empty folder, in the local pool into the usual one; the differences.

    Runs that the local pool has made before, with the present code, are not made again. A run that
    has a published record is made by neither and not compared.
    """
    start = time.monotonic()
    published = {path.stem for path in paths.PUBLISHED.rglob("*.json")}
    wanted = {
        task.key: task
        for one in catalogue.figures()
        for task in records.tasks_of(one, "quick")
        if task.key not in published
    }
    if _sweep(slurm.environment | {"REPRO_RUNS": str(folder)}, "SLURM=main"):
        return ["sweeps: make sweep SLURM=main failed"]
    seconds = time.monotonic() - start
    if _sweep(os.environ):
        return ["sweeps: make sweep failed"]
    found = []
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
        f"sweeps: {len(wanted)} records of {len(papers)} systems compared, {len(found)} differ; "
        f"{seconds:.0f} s on Slurm",
        flush=True,
    )
    return found


def _bytes(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _sweep(environment: Mapping[str, str], *options: str) -> int:
    command = ["make", "--no-print-directory", "sweep", "PROFILE=quick", *options]
    variables = {**environment, "VIRTUAL_ENV": sys.prefix}
    return subprocess.run(command, cwd=paths.ROOT, env=variables, check=False).returncode
