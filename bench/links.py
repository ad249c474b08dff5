"""One connection with TLS: `repro.secagg.channel` beside asyncio streams, the same frames.

    python bench/links.py [--repeats 5]

Two processes, one that sends and one that receives, checks every frame's checksum and answers at the
end. Both ways write the same headers, have the same certificates and cipher, and take turns in one
run, so that load on the machine affects both equally; the best repetition counts. Processor seconds
are of both processes together: they, and not the wall clock, say what a busy machine can carry.

asyncio's limits are raised to what helps it most here: a read buffer of 4 MiB, and a `drain` after
every frame only.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import platform
import socket
import ssl
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from repro.secagg import issue
from repro.secagg.certificates import context
from repro.secagg.channel import Channel, connect
from repro.secagg.frames import HEADER_BYTES, Header, Kind, checksum

LIMIT, BUFFER = 120.0, 2**22
SIZES = {
    "keys, 16 bytes": (16, 20_000),
    "vectors, 400 kB": (400_000, 1500),
    "8 MB": (8 * 10**6, 75),
}
"""What travels: bytes of payload, and how many frames."""

Way = tuple[Callable[..., None], Callable[..., None]]
"""What receives `count` frames on a listener, and what sends them."""


def channel_receives(folder: str, listener: socket.socket, size: int, count: int) -> None:
    """Ours."""
    sock, _ = listener.accept()
    tls = context(folder, "server-0", accepting=True)
    channel = Channel(sock, tls, "server-0", None, LIMIT, lambda: size)
    channel.handshake()
    channel.send(Kind.WELCOME)
    for _ in range(count):
        channel.receive()
    channel.send(Kind.OPENED)


def channel_sends(folder: str, place: tuple[str, int], payload: bytes, count: int) -> None:
    """Ours."""
    tls = context(folder, "client-0", accepting=False)
    channel = connect(place, tls, "client-0", "server-0", LIMIT)
    for _ in range(count):
        channel.send(Kind.VECTOR, 1, payload)
    channel.receive()
    channel.close()


def streams_receive(folder: str, listener: socket.socket, size: int, count: int) -> None:
    """asyncio's."""

    async def serve() -> None:
        ended = asyncio.Event()

        async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for _ in range(count):
                header = Header.unpack(await reader.readexactly(HEADER_BYTES))
                payload = await reader.readexactly(header.length)
                if checksum(payload) != header.digest:
                    raise SystemExit("a frame was altered")
            writer.write(b"!")
            await writer.drain()
            ended.set()

        tls = context(folder, "server-0", accepting=True)
        async with await asyncio.start_server(one, sock=listener, ssl=tls, limit=BUFFER):
            await ended.wait()

    asyncio.run(serve())


def streams_send(folder: str, place: tuple[str, int], payload: bytes, count: int) -> None:
    """asyncio's."""

    async def call() -> None:
        tls: ssl.SSLContext = context(folder, "client-0", accepting=False)
        reader, writer = await asyncio.open_connection(
            *place, ssl=tls, server_hostname="server-0", limit=BUFFER
        )
        for number in range(count):
            header = Header.of(Kind.VECTOR, 1, (0, 0), number, memoryview(payload))
            writer.write(header.pack())
            writer.write(payload)
            await writer.drain()
        await reader.readexactly(1)
        writer.transport.abort()

    asyncio.run(call())


WAYS: dict[str, Way] = {
    "channel (MemoryBIO, threads)": (channel_receives, channel_sends),
    "asyncio streams": (streams_receive, streams_send),
}


def _child(receive: Callable[..., None], tell: Connection, *given: object) -> None:
    begin = time.process_time()
    receive(*given)
    tell.send(time.process_time() - begin)


def measure(way: Way, folder: str, size: int, count: int) -> tuple[float, float]:
    """Seconds of the wall clock and of processors for one series of frames."""
    receive, send = way
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(
            target=_child, args=(receive, theirs, folder, listener, size, count)
        )
        child.start()
        begin, busy = time.perf_counter(), time.process_time()
        send(folder, listener.getsockname(), bytes(size), count)
        wall, busy = time.perf_counter() - begin, time.process_time() - busy
        busy += ours.recv()
        child.join()
    return wall, busy


def main() -> None:
    """A table for each size of frame."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    repeats = options.parse_args().repeats
    print(f"Python {platform.python_version()}, {ssl.OPENSSL_VERSION}")
    with tempfile.TemporaryDirectory(prefix="links-") as folder:
        issue(f"{folder}/keys", servers=2, clients=1)
        for name, (size, count) in SIZES.items():
            best = dict.fromkeys(WAYS, (float("inf"), float("inf")))
            for _ in range(repeats):
                for label, way in WAYS.items():
                    found = measure(way, f"{folder}/keys", size, count)
                    best[label] = tuple(map(min, best[label], found))
            print(f"\n{name}, {count:,} frames")
            for label, (wall, busy) in best.items():
                print(
                    f"  {label:32}{1e6 * wall / count:10.1f} µs a frame{1e6 * busy / count:10.1f} µs of "
                    f"processors{size * count / busy / 1e9:8.2f} GB for a processor's second"
                )


if __name__ == "__main__":
    main()
