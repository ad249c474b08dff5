"""The runs that the faults hit: they wait and swallow memory as files in their folder tell them to."""

import os
import time
from pathlib import Path


def wanted(_):
    """The runs of one sweep, as rows (name, configuration, seed); the environment tells how many."""
    folder, runs = os.environ["TINY_FOLDER"], int(os.environ["TINY_RUNS"])
    config = {"folder": folder, "seconds": 1.5, "device": "cpu"}
    return [("toy/tiny", config, seed) for seed in range(runs)]


def tiny(config, seed):
    """Write the process id to `started-<seed>`; end when `hold-<seed>` is gone and the seconds are over.

    A file `hog-<seed>` makes it take 1.5 GiB of memory, once.
    """
    folder = Path(config["folder"])
    scratch = folder / f".started-{seed}-{os.getpid()}"
    scratch.write_text(str(os.getpid()))
    with open(folder / f"log-{seed}", "a") as stream:
        stream.write(f"{os.getpid()}\n")
    scratch.replace(folder / f"started-{seed}")
    try:
        (folder / f"hog-{seed}").unlink()
    except FileNotFoundError:
        time.sleep(config["seconds"])
    else:
        swallowed = bytearray(os.urandom(2**20)) * 1500
        time.sleep(60 + len(swallowed) * 0)
    while (folder / f"hold-{seed}").exists():
        time.sleep(0.1)
    return {"value": [seed + k / 7 for k in range(100_000)]}
