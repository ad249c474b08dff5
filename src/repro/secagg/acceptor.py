"""Callers at the door: a bounded number of handshakes at a time, and an accept loop that lives on.

Anybody may open a TCP connection and say nothing. So the number of unfinished handshakes is
bounded: where one more caller comes, the handshake that has lasted longest is ended. An honest
handshake takes milliseconds; an idle caller only loses its place. The same makes room when the
system has no descriptor or no thread left.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from repro.secagg.channel import Channel, ChannelError

_WAIT = 0.5
"""Seconds to wait for room before the next attempt, if no handshake ends earlier."""


class Acceptor:
    """Accepts connections for as long as the process lives, each in a thread of its own.

    Args:
        listener: a listening socket.
        most: the largest number of unfinished handshakes, >= 1.
        admit: performs the handshake and returns the channel, None for a caller that was served and
            is gone, or raises `ChannelError` or
            `OSError` for a caller that is refused.
        serve: reads from the channel until its connection ends.
        log: takes one line of text.
    """

    def __init__(
        self,
        listener: socket.socket,
        most: int,
        *,
        admit: Callable[[socket.socket], Channel | None],
        serve: Callable[[Channel], None],
        log: Callable[[str], None],
    ) -> None:
        self._listener, self._most = listener, most
        self._admit, self._serve, self._log = admit, serve, log
        self._callers: dict[socket.socket, None] = {}  # in handshakes, the oldest first
        self._lock = threading.Lock()
        self._ended = threading.Event()  # a handshake has
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError as problem:  # no descriptor left, or a caller that has gone already
                self._log(f"cannot accept a connection: {problem}")
                self._make_room()
                continue
            with self._lock:
                self._callers[sock] = None
            try:
                threading.Thread(target=self._take, args=(sock,), daemon=True).start()
            except RuntimeError as problem:  # no thread left
                self._log(f"cannot serve a connection: {problem}")
                self._forget(sock)
                sock.close()
                self._make_room()
            while len(self._callers) > self._most:
                self._make_room()

    def _take(self, sock: socket.socket) -> None:
        """Serve one caller; a caller that is refused has given back its descriptor at the end."""
        try:
            channel = self._admit(sock)
        except (ChannelError, OSError) as problem:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
            self._log(f"refused a connection: {problem}")
            return
        finally:
            self._forget(sock)
        if channel is not None:
            self._serve(channel)

    def _forget(self, sock: socket.socket) -> None:
        with self._lock:
            self._callers.pop(sock, None)
        self._ended.set()

    def _make_room(self) -> None:
        """End the oldest handshake, and wait until one has ended or `_WAIT` has passed."""
        self._ended.clear()
        with self._lock:
            oldest = next(iter(self._callers), None)
        if oldest is not None:
            with suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its thread wakes up and closes it
        self._ended.wait(_WAIT)
