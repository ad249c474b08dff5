"""Stand-ins for the programs of Slurm, without `sacct`: jobs are process groups of this machine.

`jobs/<id>` holds the process group of every job in the queue; a file `down` makes the controller silent, and one
`ghosts` has it list jobs whose process has died.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

SBATCH = """
import os, re, subprocess, sys
script = sys.argv[-1]
array = re.search(r"--array=0-(\\d+)", open(script).read())
with open(HOME / "sent", "a") as stream:
    stream.write(" ".join(re.findall(r"#SBATCH (\\S+)", open(script).read())) + "\\n")
with open(HOME / "names", "a") as stream:
    stream.write(re.search(r"--job-name=(\\S+)", open(script).read())[1] + "\\n")
number = str(len((HOME / "sent").read_text().splitlines()))
for k in range(int(array[1]) + 1) if array else [None]:
    job = number if k is None else f"{number}_{k}"
    names = {"SLURM_JOB_ID": job, "SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1"}
    names |= {name: "0" for name in ("SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID")}
    if k is not None:
        names |= {"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": str(k)}
    (HOME / "jobs" / job).touch()  # in the queue before sbatch answers
    keeper = [sys.executable, HOME / "keeper", job, script]
    null = subprocess.DEVNULL
    subprocess.Popen(keeper, env=os.environ | names, start_new_session=True, stdin=null, stdout=null, stderr=null)
print("Submitted batch job", number)
"""

KEEPER = """
import subprocess, sys
job, script = sys.argv[1:]
entry = HOME / "jobs" / job
held = ["bash", "-c", 'read; exec bash "$0" </dev/null', script]
process = subprocess.Popen(held, start_new_session=True, stdin=subprocess.PIPE)
entry.with_suffix(".new").write_text(str(process.pid))
entry.with_suffix(".new").replace(entry)
process.communicate(b"go\\n")  # not before it can be killed by its number
if not (HOME / "ghosts").exists():
    entry.unlink()
"""

SRUN = """
import os, sys
words = sys.argv[1:]
while words[0].startswith("--"):
    words = words[1:] if "=" in words[0] or words[0] == "--unbuffered" else words[2:]
os.execvp(words[0], words)
"""

SQUEUE = """
import sys
if (HOME / "down").exists():
    sys.exit("slurm_load_jobs error: Unable to contact slurm controller")
for entry in sorted((HOME / "jobs").iterdir()):
    try:
        pid = entry.read_text()
    except FileNotFoundError:  # it ends at this moment
        continue
    if not entry.suffix:
        names = (HOME / "names").read_text().splitlines()
        name = names[int(entry.name.partition("_")[0]) - 1]
        print(f"{entry.name}|{'RUNNING' if pid else 'PENDING'}|None|{name}")
"""

SCONTROL = """
import sys
name = (HOME / "names").read_text().splitlines()[int(sys.argv[-1].partition("_")[0]) - 1]
print(f"JobId={sys.argv[-1]} JobName={name} JobState=FAILED Reason=NonZeroExitCode ExitCode=0:9")
"""

SCANCEL = """
import sys
name, *numbers = sys.argv[1:]
with open(HOME / "cancelled", "a") as stream:
    stream.writelines(f"{name} {number}\\n" for number in numbers)
for number in numbers:
    (HOME / "jobs" / number).unlink(missing_ok=True)
"""

SINFO = """
print("gpu:1" if (HOME / "gpus").exists() else "(null)")
"""


def install(home: Path) -> Path:
    """Write the programs below `home`; return the folder that belongs on PATH."""
    (home / "jobs").mkdir(parents=True)
    (home / "bin").mkdir()
    head = f"from pathlib import Path\nHOME = Path({str(home)!r})\n"
    programs = {
        "sinfo": SINFO,
        "scancel": SCANCEL,
        "sbatch": SBATCH,
        "srun": SRUN,
        "squeue": SQUEUE,
        "scontrol": SCONTROL,
    }
    for name, text in programs.items():
        code, program = home / f"{name}.py", home / "bin" / name
        code.write_text(head + text)
        # The path of this Python may have spaces, which a line with #! cannot hold.
        program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(code)])} "$@"\n')
        program.chmod(0o755)
    (home / "keeper").write_text(head + KEEPER)
    return home / "bin"


def kill(home: Path, job: str) -> None:
    """Kill a job as a signal from elsewhere would."""
    os.killpg(int((home / "jobs" / job).read_text()), signal.SIGKILL)
