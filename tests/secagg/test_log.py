"""Logs: whatever happens to the standard error output, the server goes on; strangers fill no disk."""

import fcntl
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

from repro.secagg import Z64, Client, Operator, RoundError, issue
from repro.secagg.frames import NOBODY, Frame, Kind, printable
from repro.secagg.log import Log

LIMIT = 30.0
HOSTILE = "one\ntwo\r\x1b[31mred\x1b]0;title\x07\x00\u202eevil\x85"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "made"
    issue(folder, servers=0, clients=1)
    return folder


def full_pipe():
    """The write end of a pipe that takes no byte more; and its read end, to keep it open."""
    read, write = os.pipe()
    flags = fcntl.fcntl(write, fcntl.F_GETFL)
    fcntl.fcntl(write, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(write, bytes(4096))
    with suppress(BlockingIOError):
        while True:
            os.write(write, b"\0")
    fcntl.fcntl(write, fcntl.F_SETFL, flags)
    return read, write


def closed_pipe():
    """The write end of a pipe that nobody reads any more."""
    read, write = os.pipe()
    os.close(read)
    return os.open(os.devnull, os.O_RDONLY), write


@pytest.mark.parametrize("output", [full_pipe, closed_pipe, None], ids=["full", "ended", "closed"])
def test_a_server_outlives_its_standard_error_output(keys, output):
    """A failed order is logged; the next order works."""
    command = [sys.executable, "-m", "repro.secagg", "parameters", "--servers", "0"]
    command += ["--clients", "1", "--folder", str(keys), "--listen", "127.0.0.1:0"]
    command += ["--time-limit", str(LIMIT), "--until-stdin-ends"]
    read, write = output() if output else (None, None)
    if output is None:
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", *command]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=write, text=True
    ) as process:
        host, port = process.stdout.readline().split()[-1].rsplit(":", 1)
        places = {"parameters": (host, int(port)), "time_limit": LIMIT}
        try:
            with Client(0, keys, servers=[], **places) as client, Operator(keys, **places) as owner:
                for model in ([1.0], None, [2.0]):
                    for party in (client, owner):
                        party.connect()
                    if model is None:
                        owner.start(2**40, Z64, np.zeros(1))
                        with pytest.raises(RoundError, match="an order for 1099511627776 elements"):
                            owner.result()
                        client.close()
                        continue
                    owner.start(1, Z64, np.array(model))
                    number, got = client.model(LIMIT)
                    client.submit(number, [got.astype(np.uint64)])
                    assert owner.result()[1].tolist() == model
            assert process.poll() is None
        finally:
            process.kill()
            for end in filter(None, (read, write)):
                os.close(end)


class Held:
    """Writes that wait until the test lets them go."""

    def __init__(self, go=True):
        self.lines, self._go, self._came = [], threading.Event(), threading.Condition()
        if go:
            self._go.set()

    def __call__(self, line):
        self._go.wait(LIMIT)
        with self._came:
            self.lines.append(line)
            self._came.notify_all()

    def let_go(self):
        self._go.set()

    def until(self, text):
        """Wait for a line that holds `text`; all lines so far."""
        with self._came:
            assert self._came.wait_for(lambda: any(text in one for one in self.lines), LIMIT)
            return list(self.lines)


def test_a_line_is_one_line_whatever_a_stranger_wrote():
    written = Held()
    log = Log("server-0", written)
    log.line(HOSTILE)
    (line,) = written.until("evil")
    assert line.count("\n") == 1 and line.endswith("\n") and line[:-1].isprintable()
    assert r"one\ntwo\r\x1b[31mred\x1b]0;title\x07\x00\u202eevil\x85" in line
    log.line("x" * 10**6)
    assert len(written.until("xxx")[-1]) < 3000


def test_the_text_of_a_failure_is_printable():
    frame = Frame(Kind.FAIL, 1, bytearray(HOSTILE.encode() + b"\xff"), NOBODY, bytes(16))
    assert frame.text.isprintable() and r"one\ntwo" in frame.text
    assert printable("Größe … n") == "Größe … n"


def test_strangers_cause_a_bounded_number_of_lines():
    written, now = Held(), [0.0]
    log = Log("server-0", written, clock=lambda: now[0])
    for turn in range(1000):
        log.stranger(f"refused {turn}")
    log.line("round 1: no share came")
    lines = written.until("round 1")
    assert len(lines) == 11
    assert "990 lines before this one were left out" in lines[-1]
    now[0] = 61.0
    log.stranger("refused again")
    assert "left out" not in written.until("refused again")[-1]


def test_a_blocked_output_holds_up_nobody_and_memory_is_bounded():
    written = Held(go=False)
    log = Log("server-0", written)
    for turn in range(5000):
        log.line(f"line {turn}")
    written.let_go()
    written.until("line 999")
    log.line("the last")
    lines = written.until("the last")
    assert 1000 <= len(lines) <= 1002
    lost = sum(int(count) for count in re.findall(r"\((\d+) lines before", "".join(lines)))
    assert lost + len(lines) - 1 == 5000


def test_an_output_that_fails_loses_lines_only():
    lines, failures = Held(), [BrokenPipeError(), OSError(28, "no space")]

    def write(line):
        if failures:
            raise failures.pop()
        lines(line)

    log = Log("server-0", write)
    for text in ("first", "second", "third"):
        log.line(text)
    assert lines.until("third") == ["server-0: third\n"]
