"""Frames that are not what the client meant to send, for the tests of `repro.secagg`."""

import time

from repro.secagg.frames import HEADER_BYTES, Header


def tamper(link, change, kind=None):
    """Let `change` decide what the next frame (of `kind`) looks like on the wire."""
    write, changes = link.write, [change]

    def altered(header, body):
        if not changes or kind not in (None, Header.unpack(header[:HEADER_BYTES]).kind):
            write(header, body)
        elif sent := changes.pop()(bytes(header) + bytes(body)):
            write(sent, memoryview(b""))

    link.write = altered
    return link


def hush(link):
    """Nothing more is sent over the connection, which stays open."""
    link.write = lambda header, body: None


def relabelled(frame, payload=None, **changes):
    """The same frame with other header fields, and its checksums made good."""
    header = Header.unpack(frame[:HEADER_BYTES])
    payload = frame[HEADER_BYTES:] if payload is None else payload
    good = Header.of(header.kind, header.round, header[2:4], header.place, memoryview(payload))
    return good._replace(**changes).pack() + payload


def again(link, frame):
    """The same frame as the next one of its connection; the later ones are numbered on."""
    second = relabelled(frame, place=link.place)
    link.place += 1
    return second


def until_refused(link):
    """Wait until the server has acted on what it got, which is to end the connection."""
    end = time.monotonic() + 120
    while link.quiet():
        assert time.monotonic() < end, "the server did not refuse it"
        time.sleep(0.005)
