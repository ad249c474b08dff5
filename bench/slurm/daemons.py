"""A small Slurm in a folder of its own: munged, slurmctld and one slurmd per node, as plain child processes.

No system service is touched, nothing outside the folder is written, and nothing is left when it ends. It runs in a
container without control groups and without accounting, so `sacct` has nothing to say, as on many clusters.
"""

from __future__ import annotations

import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
"""What has to be installed."""

_LIBC = ctypes.CDLL(None)  # loaded here, not after a fork, where a lock of the loader may be held

NODES = ("n1", "n2")
CORES, MEMORY = 3, 6000
"""Cores and MiB that each node says it has; both nodes are this machine."""

CONF = """\
ClusterName=trial
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={home}/munge.socket
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool-%n
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=1,sched_min_interval=100000
SlurmdParameters=config_overrides
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
KillWait=2
MinJobAge=20
MaxJobCount={limit}
SlurmctldTimeout=30
SlurmdTimeout=30
MessageTimeout=20
OverTimeLimit=0
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def lacking() -> str:
    """What to install, in one line; "" where every program is there."""
    found = {name: shutil.which(name, path=_search()) for name in PROGRAMS}
    names = [name for name, path in found.items() if path is None]
    return f"no {', '.join(names)}: apt-get install slurm-wlm munge" if names else ""


def _search() -> str:
    """PATH with the folders of system programs, where Debian puts the daemons."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


class SlurmError(RuntimeError):
    """Slurm itself does not do its part here, which says nothing of the workbook; one line that says how."""


class Slurm:
    """The running daemons.

    Args:
        home: an empty folder.
        limit: how many jobs the controller accepts, finished ones that it remembers included.

    Raises:
        SlurmError: a daemon cannot start, ended, or did not answer in time.
    """

    def __init__(self, home: Path, limit: int = 150) -> None:
        self.home, self._limit = home, limit
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = os.environ | {
            "SLURM_CONF": str(home / "slurm.conf"),
            "PATH": _search(),
        }
        # The kernel ends the daemons with the thread that started them: it has to live as long as they.
        self._starter = ThreadPoolExecutor(1)
        self._ports = _free_ports(1 + len(NODES))

    def __enter__(self) -> Slurm:
        try:
            self._begin()
        except (OSError, subprocess.SubprocessError) as why:
            self.__exit__()
            raise SlurmError(f"Slurm cannot start: {why}") from why
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, subprocess.SubprocessError):
            self.ask("scancel", f"--user={getpass.getuser()}", "--signal=KILL", "--full")
        for name in reversed(list(self._running)):
            self.stop(name)
        self._starter.shutdown()
        for process in _descendants_in(self.home):
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)

    def _begin(self) -> None:
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (self.home / name).mkdir()
        self.home.chmod(0o755)  # munge refuses a folder that others may write to
        key = self.home / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.configure(self._limit)
        self.start("munged")
        self._await(lambda: (self.home / "munge.socket").exists(), "munged")
        self.start("slurmctld")
        for node in NODES:
            self.start(node)
        self.wait_idle()

    def configure(self, limit: int) -> None:
        """Write slurm.conf; the controller reads it when it starts."""
        nodes = [
            f"NodeName={node} NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={port} CPUs={CORES} "
            f"RealMemory={MEMORY} State=UNKNOWN"
            for node, port in zip(NODES, self._ports[1:], strict=True)
        ]
        (self.home / "slurm.conf").write_text(
            CONF.format(
                host=socket.gethostname(),
                controller=self._ports[0],
                user=getpass.getuser(),
                home=self.home,
                limit=limit,
                nodes="\n".join(nodes),
            )
        )

    def start(self, name: str) -> None:
        """Start munged, slurmctld, or the slurmd of a node."""
        home = self.home
        commands = {
            "munged": ["munged", "--foreground", "--force", f"--socket={home}/munge.socket"]
            + [f"--key-file={home}/munge.key", f"--pid-file={home}/munged.pid"]
            + [f"--seed-file={home}/munged.seed", f"--log-file={home}/munged.log"],
            "slurmctld": ["slurmctld", "-D", "-i"],
        }
        command = commands.get(name, ["slurmd", "-D", "-N", name])
        path = shutil.which(command[0], path=_search())
        with open(home / f"{name}.out", "ab") as log:
            self._running[name] = self._starter.submit(
                subprocess.Popen,
                [str(path), *command[1:]],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            ).result()

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End a daemon and wait for its end."""
        process = self._running.pop(name)
        process.send_signal(how)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ask(self, *command: str) -> str:
        """What a program of Slurm prints.

        Raises:
            subprocess.SubprocessError: it fails or hangs.
        """
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    def wait_idle(self) -> None:
        """Wait until every node can take jobs.

        A controller that was killed forgets its last jobs and gives their ids again; the nodes then drain
        themselves ("Duplicate jobid") until an administrator takes them back, which is done here.
        """
        self._await(self._idle, "slurmctld")

    def wait_answer(self) -> None:
        """Wait until the controller answers."""
        self._await(self._answers, "slurmctld")

    def _answers(self) -> bool:
        try:
            return bool(self.ask("sinfo", "--noheader"))
        except subprocess.SubprocessError:
            return False

    def _idle(self) -> bool:
        try:
            told = self.ask("sinfo", "--noheader", "--Node", "--format=%T")
        except subprocess.SubprocessError:
            return False
        states = told.split()
        if any(state.startswith(("drain", "down")) for state in states):
            with suppress(subprocess.SubprocessError):  # a node may be back already
                self.ask("scontrol", "update", f"nodename={','.join(NODES)}", "state=resume")
        return len(states) == len(NODES) and all(
            s in ("idle", "mixed", "allocated") for s in states
        )

    def _await(self, condition: object, name: str, seconds: float = 120.0) -> None:
        until = time.monotonic() + seconds
        while not condition():  # type: ignore[operator]
            ended = [one for one, process in self._running.items() if process.poll() is not None]
            if ended or time.monotonic() > until:
                one = (ended or [name])[0]
                said = (self.home / f"{one}.out").read_text(errors="replace").splitlines()[-3:]
                with suppress(OSError, subprocess.SubprocessError):
                    said += self.ask("sinfo", "--noheader", "--Node", "--format=%N %T %E").split(
                        "\n"
                    )
                lines = "; ".join(line.strip() for line in said if line.strip())
                raise SlurmError(f"{one} does not work: {lines or 'it says nothing'}")
            time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    sockets: Sequence[socket.socket] = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _die_with_parent() -> None:
    """Have the kernel end this process with the thread that started it, also when that is killed."""
    _LIBC.prctl(1, signal.SIGKILL)


def _descendants_in(home: Path) -> list[int]:
    """Job steps that a killed slurmd has left: processes whose environment names this folder's slurm.conf."""
    needle = f"SLURM_CONF={home}/slurm.conf".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if needle in entry.read_bytes().split(b"\0") and int(entry.parent.name) != os.getpid():
                found.append(int(entry.parent.name))
    return found
