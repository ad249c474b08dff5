"""The process that has imported what notebooks need, and the workers that it forks."""

import os
import signal
import socket
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

import workbooks
from reproduce import forked, waiting, workers
from reproduce.machine import python_path

pytestmark = pytest.mark.skipif(not forked.available(), reason="workers are forked on Linux only")

ENDS = "import os; open('kernel', 'w').write(str(os.getpid())); os.kill(os.getppid(), 9)"
DRAWS = "import matplotlib.pyplot as plt; plt.plot([1, 2]); print(plt.get_backend())"
TABLE = "import pandas; print(pandas.DataFrame([range(10**9, 10**9 + 12)]))"
READ = "import os, sys; print(len(os.listdir('/proc/self/task')), *sorted(sys.modules))"


@pytest.fixture
def made(tmp_path):
    """Two notebooks, the workers, and what a worker is called with."""
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    for name, cell in (("good", TABLE), ("ends", ENDS), ("draws", DRAWS)):
        rows = [("c1", "params", 'profile = "quick"'), ("c2", "code", cell)]
        workbooks.write_notebook(tmp_path / f"{name}.ipynb", rows)
    group = workers.Workers(lock)

    def work(name):
        order = {
            "notebook": str(tmp_path / f"{name}.ipynb"),
            "output": str(tmp_path / f"{name}.out.ipynb"),
            "parameters": {"profile": "quick"},
        }
        return group.work(order, tmp_path / "log", dict(os.environ, PYTHONPATH=python_path()))

    yield group, work
    group.close()
    os.close(lock)


def test_what_is_imported_before_a_fork_leaves_one_thread_and_nothing_of_the_project():
    imports = "; ".join(f"import {name}" for name in forked.PRELOADED)
    variables = dict(
        os.environ, MPLBACKEND=waiting.INLINE, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"
    )
    call = [sys.executable, "-c", f"{imports}; {READ}"]
    done = subprocess.run(call, env=variables, capture_output=True, text=True, check=True)
    threads, *names = done.stdout.split()
    assert threads == "1"
    assert not {name for name in names if name.partition(".")[0] in ("repro", "reproduce", "torch")}


def test_the_process_that_forks_ends_with_its_runner_and_says_nothing():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        stem = subprocess.Popen(
            [sys.executable, "-m", "reproduce.forked", str(theirs.fileno())],
            env=dict(os.environ, PYTHONPATH=python_path(), PYTHONWARNINGS="default"),
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
        )
    ours.close()
    assert stem.communicate(timeout=300)[1] == b"" and stem.returncode == 0


def test_a_picture_that_a_cell_leaves_open_is_an_output(made, tmp_path):
    _, work = made
    assert work("draws")["error"] == ""
    (cell,) = nbformat.read(tmp_path / "draws.out.ipynb", as_version=4).cells[-1:]
    printed, shown = cell.outputs
    assert printed.text in (f"{waiting.INLINE}\n", "inline\n")
    assert set(shown.data) == {"image/png", "text/plain"} and "Figure" in shown.data["text/plain"]


def test_a_wide_table_is_printed_as_in_any_kernel(made, tmp_path):
    _, work = made
    assert work("good")["error"] == ""
    (forked_cell,) = nbformat.read(tmp_path / "good.out.ipynb", as_version=4).cells[-1:]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(TABLE)])
    (plain_cell,) = NotebookClient(book, kernel_name="python3").execute().cells
    assert forked_cell.outputs[0].text == plain_cell.outputs[0].text


def test_workers_after_a_worker_and_the_process_that_forks_were_killed(made, tmp_path):
    group, work = made
    assert work("good")["error"] == ""
    first = group._stem
    answer = work("ends")  # the kernel kills its worker
    assert answer["error"] == "the worker ended with signal 9"
    kernel = int((tmp_path / "kernel").read_text())
    until = time.monotonic() + 60
    while psutil.pid_exists(kernel):  # it looks for its worker once a second
        assert time.monotonic() < until
        time.sleep(0.05)
    assert work("good")["error"] == "" and group._stem is first
    os.kill(first._process.pid, signal.SIGKILL)
    first._process.wait()
    assert work("good")["error"] == "" and group._stem is not first
    with pytest.raises(OSError, match="descriptor"):
        first.fork(0, 1, 2, group.lock)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_kernel_of_another_python_is_a_process_of_its_own():
    kernel = waiting.WaitingKernel()
    other = kernel.launch([sys.executable, "-c", "pass"])
    assert other.pid != kernel.pid and other.wait() == 0
    assert kernel.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        kernel.wait(0.05)
    kernel.kill()
    assert kernel.wait() == -signal.SIGKILL
    kernel.terminate()  # nobody is left, and nothing happens
    assert kernel.returncode == -signal.SIGKILL
