"""What the intermediate servers and the parameter server have in common.

Every connection has a thread that reads frames from it. All of these threads put frames into one
inbox, and one thread takes them out, so no state is shared between threads. After a failed round
every connection is opened anew, by the side that opened it before. Frames that were still under way
are lost with the old connection, so no late frame can reach the next round.

Threads and not asyncio: a server adds up long vectors, and in an event loop that work would delay
every connection. A thread of its own reads on and answers a PROBE meanwhile.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import threading
import time
from collections.abc import Collection, Mapping

from repro._validate import positive
from repro.secagg.acceptor import Acceptor
from repro.secagg.certificates import PARAMETERS, context
from repro.secagg.channel import Channel, ChannelError, Ended, connect, remaining
from repro.secagg.frames import SHORT, Frame, Kind
from repro.secagg.log import Log

_RETRY = 0.25
"""Least seconds between attempts to reach the parameter server."""

_HANDSHAKES = 64
"""Unfinished handshakes with strangers, besides one with every party that is expected."""

_AHEAD = 2
"""Frames of a party that wait to be acted on: a share and its DONE, or shares of many clients."""


class Fault(Exception):
    """A party broke the protocol or has left; `name` is that party."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class Gone(Fault):
    """A party's connection ended between two frames, or the party opened another connection."""


class Replaced(Gone):
    """A party opened another connection while the first one was open."""


class Node:
    """A server process: it accepts connections and reads frames from all of them.

    Args:
        name: this party.
        folder: with its certificate, see `certificates.issue`.
        listener: a listening socket.
        expected: names of the parties that may connect.
        time_limit: seconds allowed for each step of a round, > 0.
        settings: what else to answer to a caller that only asks; all parties must agree on them.

    Raises:
        ValueError: `time_limit` out of range, or no certificate in `folder`.
    """

    def __init__(
        self,
        name: str,
        folder: str | os.PathLike[str],
        listener: socket.socket,
        expected: Collection[str],
        time_limit: float,
        settings: Mapping[str, object],
    ) -> None:
        self.name, self.folder, self.expected = name, folder, frozenset(expected)
        self.time_limit = float(positive("time_limit", time_limit))
        self.peers: dict[str, Channel] = {}
        self._settings = {**settings, "name": name, "time_limit": self.time_limit}
        self._inbox: queue.SimpleQueue[
            tuple[Channel, Frame | ChannelError | None, threading.Semaphore]
        ] = queue.SimpleQueue()
        self._context = context(folder, name, accepting=True)
        self._log = Log(name)
        Acceptor(
            listener,
            _HANDSHAKES + len(self.expected),
            admit=self._admit,
            serve=self._serve,
            log=self._log.stranger,
        )

    def allowance(self, name: str) -> int:
        """The largest payload that `name` may send at the moment."""
        return SHORT

    def keep_connected(self, address: tuple[str, int]) -> None:
        """Open a connection to the parameter server, and again whenever it ends or is dead."""
        tls = context(self.folder, self.name, accepting=False)

        def go_on() -> None:
            told = ""
            while True:
                again = time.monotonic() + _RETRY  # another process may have the same name
                try:
                    channel = connect(address, tls, self.name, PARAMETERS, self.time_limit)
                except ChannelError as problem:
                    if str(problem) != told:
                        told = str(problem)
                        self.log(f"{told}; trying again until it does")
                else:
                    if told:
                        self.log(f"connected with {PARAMETERS}")
                    told = ""
                    channel.probe_after = self.time_limit
                    self._serve(channel)
                time.sleep(remaining(again))

        threading.Thread(target=go_on, daemon=True).start()

    def next(self, deadline: float | None = None) -> tuple[str, Frame | None]:
        """The next frame and its sender; None in place of a frame if the sender has just connected.

        Raises:
            TimeoutError: `deadline` has passed.
            Fault: a party's connection ended or was replaced, or the party sent no proper frame.
        """
        while True:
            try:
                channel, item, waiting = self._inbox.get(timeout=remaining(deadline))
            except queue.Empty:
                raise TimeoutError from None
            waiting.release()
            name = channel.peer
            if item is None:
                self._join(channel)
                return name, None
            elif self.peers.get(name) is not channel:
                continue  # from a connection that was dropped
            elif isinstance(item, ChannelError):
                self.drop(name)
                raise (Gone if isinstance(item, Ended) else Fault)(str(item), name)
            else:
                return name, item

    def send(self, name: str, kind: Kind, number: int, payload: bytes | memoryview = b"") -> None:
        """Send a frame to a party.

        Raises:
            Fault: the party is not connected, or does not take the frame in time.
        """
        if name not in self.peers:
            raise Fault(f"{name} is not connected", name)
        try:
            self.peers[name].send(kind, number, payload)
        except ChannelError as problem:
            self.drop(name)
            raise Fault(str(problem), name) from problem

    def drop(self, name: str) -> None:
        """End the connection with a party, if there is one."""
        if channel := self.peers.pop(name, None):
            channel.close()

    def log(self, text: str) -> None:
        """One line on the standard error output."""
        self._log.line(text)

    def _join(self, channel: Channel) -> None:
        name = channel.peer
        replaced = name in self.peers
        self.drop(name)
        self.peers[name] = channel
        if name in self.expected:  # otherwise this side called and was welcomed
            self.send(name, Kind.WELCOME, 0)
        if replaced:
            raise Replaced(f"{name} opened another connection", name)

    def _admit(self, sock: socket.socket) -> Channel | None:
        """The channel of a caller that proves a name that is expected here.

        None for a caller that only asks about this server, and has been answered (see `doctor`).

        Raises:
            ChannelError: it does not.
            OSError: the connection has ended already.
        """
        channel = Channel(sock, self._context, self.name, None, self.time_limit)
        channel.allowance = lambda: self.allowance(channel.peer)
        channel.handshake()
        if channel.peer not in self.expected:
            reason = f"{self.name} does not expect {channel.peer!r}"
            channel.send(Kind.FAIL, 0, reason.encode())
            raise ChannelError(reason)
        if channel.asks:  # takes no part in anything, and replaces no connection of this name
            answer = json.dumps({**self._settings, "time": time.time()})
            channel.send(Kind.STATUS, 0, answer.encode())
            channel.close()
            return None
        return channel

    def _serve(self, channel: Channel) -> None:
        """Hand on what comes over a connection, until it ends; `next` takes it out."""
        waiting = threading.Semaphore(_AHEAD)
        item: Frame | ChannelError | None = None
        while not isinstance(item, ChannelError):
            waiting.acquire()
            self._inbox.put((channel, item, waiting))
            try:
                item = channel.receive()
            except ChannelError as problem:
                item = problem
        self._inbox.put((channel, item, waiting))
