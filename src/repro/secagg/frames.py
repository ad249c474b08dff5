"""Frames: what the parties write on a connection.

A frame is a header of 60 bytes and a payload. The header names the kind, the round, the client and
the server. It counts the frames of its connection, and holds the length and the SHA-256 digest (16
bytes of it) of the payload and a CRC-32 of itself. Numbers in headers are big-endian, numbers in
payloads little-endian. TLS keeps strangers out; the header guards against mistakes and attacks of
the parties themselves: a frame that is sent twice, late, cut short, too long or altered is refused
with an error that says so.

TLS 1.3 detects altered bytes already, so the CRC-32 and the digest of most frames are redundant.
They stay because ddpsa's Table III counts the bytes of the headers, and a shorter header would
change its numbers. (The digest of a START has a second use: it names the order, see `Operator`.)

What a party gives to a round (the operator's order, a client's share, a server's sum) counts only
with the DONE that the party sends after it. The frames of a connection are read in order, so a
second copy is read before the round can be complete.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from repro.secagg.ring import Elements, Ring

_HEADER = struct.Struct(">4sBBxxQIIQQ16s")
_CHECK = struct.Struct(">I")
_ORDER = struct.Struct("<QQ")
_MAGIC = b"rpSA"

VERSION = 4
"""Of this protocol; parties of different versions refuse each other's frames."""

NOBODY = 2**32 - 1
"""Stands for the number of a client or server where there is none."""

HEADER_BYTES = _HEADER.size + _CHECK.size
"""Length of a header: the bytes that a frame adds to its payload."""

ORDER_BYTES = _ORDER.size

NONCE_BYTES = DIGEST_BYTES = 16

SHORT = 1024
"""Payload bytes that any party may send: more than any message without numbers needs."""

MODEL_DIGEST_BYTES = 32

LARGEST = 2**27
"""The largest number of elements in a vector (1 GiB)."""

TOGETHER = 2**23
"""Bytes of payload up to which a party that acts for many clients puts their shares together."""

REAL = np.dtype("<f8")
"""How models are written; elements: see `Ring.written`."""


class FrameError(ValueError):
    """Bytes that are no frame, or a frame that was altered."""


class ChannelError(ConnectionError):
    """A connection or what came over it cannot be used; the message says why."""


class Ended(ChannelError):
    """The other side ended the connection between two frames."""


class Slow(ChannelError):
    """The other side did not send, or take, what was due in time."""


class Kind(enum.IntEnum):
    """What a frame says; its payload in brackets."""

    WELCOME = 1  # to the party that opened a connection: it is accepted
    START = 2  # operator to parameter server: begin a round, after the latest one that the operator
    # has seen (`Order`, a nonce, the model)
    OPEN = 3  # parameter server to servers: take shares (`Order`)
    OPENED = 4  # server to parameter server: ready
    MODEL = 5  # parameter server to clients: the round's model (float64 each)
    KEY = 6  # client to server: a share as its key (16 bytes), or those of several clients in turn
    VECTOR = 7  # client to server: a share in full (its elements), likewise
    PARTIAL = 8  # server to parameter server: sum of shares (elements, then a bit for each client)
    SUM = 9  # parameter server to operator: sum of all (digest of its START, elements)
    FAIL = 10  # anybody: the round is over, and why (text)
    TRAFFIC = 11  # operator and parameter server: question and answer about bytes sent (JSON)
    DONE = 12  # after a START, a share or a vector, a PARTIAL: nothing follows for this round; from
    # a client to a server: with the digest of the model that the client was sent
    PROBE = 13  # to a party that has been silent for long: are you there?
    ALIVE = 14  # the answer to a PROBE
    STATUS = 15  # the answer to a caller that only asks: version, settings, time (JSON)


NUMBERS = frozenset({Kind.MODEL, Kind.KEY, Kind.VECTOR, Kind.PARTIAL, Kind.SUM})
"""Kinds whose payload counts as payload in `Traffic`; all bytes count as bytes on the wire."""

EMPTY = frozenset({Kind.WELCOME, Kind.OPENED, Kind.PROBE, Kind.ALIVE})
"""Kinds without a payload."""


@dataclass(frozen=True)
class Frame:
    """A frame that was received whole and unaltered, from the party it names.

    Attributes:
        kind: see `Kind`.
        round: the round that it belongs to, 0 for none.
        payload: what it carries.
        client: the number of the client that it is about, or of the first of several; `NOBODY` for
            none.
        digest: `checksum` of the payload; that of a START names the order.
    """

    kind: Kind
    round: int
    payload: bytearray
    client: int
    digest: bytes

    @property
    def text(self) -> str:
        """The payload of a FAIL; what could act on a terminal or begin a line is escaped."""
        return printable(self.payload.decode("utf-8", "replace"))


@dataclass
class Traffic:
    """Bytes over one connection, or several.

    Attributes:
        payload: numbers (shares, sums, models) without headers.
        wire: everything handed to TCP: frames and TLS records, without TCP's and IP's headers.
    """

    payload: int = 0
    wire: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.payload + other.payload, self.wire + other.wire)

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(self.payload - other.payload, self.wire - other.wire)


class Header(NamedTuple):
    """The header of a frame.

    Attributes:
        kind: see `Kind`.
        round: the round that the frame belongs to, 0 for none.
        client, server: the numbers of the client and the server at the two ends, `NOBODY` for none.
        place: how many frames were sent over the connection, in this direction, before it.
        length: bytes of payload.
        digest: checksum of the payload.
    """

    kind: int
    round: int
    client: int
    server: int
    place: int
    length: int
    digest: bytes

    @classmethod
    def of(
        cls, kind: Kind, number: int, ends: tuple[int, int], place: int, payload: memoryview
    ) -> Self:
        """The header for `payload`."""
        return cls(kind, number, *ends, place, payload.nbytes, checksum(payload))

    def pack(self) -> bytes:
        """As bytes, with their checksum."""
        start = _HEADER.pack(_MAGIC, VERSION, *self)
        return start + _CHECK.pack(zlib.crc32(start))

    @classmethod
    def unpack(cls, written: bytes | bytearray) -> Self:
        """From bytes.

        Raises:
            FrameError: they are no header, an altered one, or one of another version.
        """
        start, (check,) = written[: _HEADER.size], _CHECK.unpack(written[_HEADER.size :])
        magic, version, *rest = _HEADER.unpack(start)
        if magic != _MAGIC:
            raise FrameError("something that is no frame of this protocol")
        if zlib.crc32(start) != check:
            raise FrameError("an altered frame: the header's checksum differs")
        if version != VERSION:
            raise FrameError(
                f"a frame of version {version} of the protocol, where {VERSION} is spoken"
            )
        return cls(*rest)


class Order(NamedTuple):
    """The task of a round: the first part of a START, and all of an OPEN.

    Attributes:
        size: elements of a vector, in [1, `LARGEST`].
        modulus: of the ring; the same for all parties.
    """

    size: int
    modulus: int

    def pack(self) -> bytes:
        """As ORDER_BYTES bytes."""
        return _ORDER.pack(self.size, self.modulus - 1)

    @classmethod
    def unpack(cls, payload: bytes | bytearray, modulus: int) -> Self:
        """From the first bytes of a payload.

        Args:
            payload: at least ORDER_BYTES bytes.
            modulus: of this party's ring.

        Raises:
            FrameError: the payload is too short, or asks for another modulus or an impossible size.
        """
        if len(payload) < ORDER_BYTES:
            raise FrameError(f"an order of {len(payload)} bytes")
        size, largest = _ORDER.unpack_from(payload)
        if not 1 <= size <= LARGEST:
            raise FrameError(f"an order for {size} elements, where 1 to {LARGEST} are possible")
        if largest + 1 != modulus:
            raise FrameError(f"an order modulo {largest + 1}, where {modulus} is the modulus")
        return cls(size, modulus)


def words(payload: bytes | bytearray | memoryview, ring: Ring) -> Elements:
    """The numbers in a payload, whose length is a multiple of an element's."""
    return np.frombuffer(payload, ring.written).astype(ring.dtype, copy=False)


def printable(text: str) -> str:
    r"""`text` with every character that is not printable written as its escape, such as `\n`."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def model_digest(number: int, model: bytes | bytearray | memoryview) -> bytes:
    """SHA-256 of the model of round `number`, as MODEL_DIGEST_BYTES bytes.

    Whole, since a parameter server could look for two models with the same half of a digest.
    """
    begin = hashlib.sha256(b"repro.secagg model" + number.to_bytes(8, "big"))
    begin.update(model)
    return begin.digest()


def checksum(payload: bytes | bytearray | memoryview) -> bytes:
    """The first DIGEST_BYTES bytes of SHA-256."""
    return hashlib.sha256(payload).digest()[:DIGEST_BYTES]
