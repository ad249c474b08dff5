"""Additive secret sharing: m shares that add up to the secret, of which m - 1 tell nothing.

    choose a large modulus                            the paper's box, and where it is done
    for i = 1 to m-1: s_i uniform                         } `KeyStream`: s_i follows from a key
    s_m = S - (s_1 + … + s_{m-1})                         } `share`
    send s_i to party i                                   } a key for i < m, s_m itself for i = m
    S = s_1 + … + s_m                                     } `reconstruct`

Sending keys in place of m - 1 of the vectors makes a client's upload that of one vector, a third of
the bytes for m = 3. The secrecy of a client's vector is information-theoretic given uniform s_i;
with s_i from keys it rests on AES as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer
from repro.secagg.ring import Z64, Elements, Ring
from repro.secagg.stream import CHUNK, KEY_BYTES, KeyStream, new_keys


@dataclass(frozen=True)
class Shares:
    """What the clients send; server j < m - 1 gets `keys[:, j]`, server m - 1 gets `last`.

    Attributes:
        keys: uint8, shape (clients, m - 1, 16); key (i, j) expands to client i's share for
            server j.
        last: elements, shape (clients, parameters): the shares of the last server.
        ring: where they add up.
    """

    keys: NDArray[np.uint8]
    last: Elements
    ring: Ring = Z64

    @property
    def servers(self) -> int:
        """m, the number of shares of each client."""
        return self.keys.shape[1] + 1

    def each(self) -> list[list[NDArray]]:
        """For each client what it sends to each server: m - 1 keys, then the last share."""
        return [[*keys, last] for keys, last in zip(self.keys, self.last, strict=True)]

    def expanded(self) -> Elements:
        """All shares in full, shape (m, clients, parameters), as in the paper's Algorithm 1."""
        full = np.empty((self.servers, *self.last.shape), self.ring.dtype)
        for client, keys in enumerate(self.keys):  # every key has a stream of its own
            for server, key in enumerate(keys):
                KeyStream(key, self.ring).fill(full[server, client])
        full[-1] = self.last
        return full


def share(
    encoded: Elements,
    *,
    servers: int,
    ring: Ring = Z64,
    keys: NDArray[np.uint8] | None = None,
    overwrite: bool = False,
) -> Shares:
    """Split the whole matrix of encoded vectors, each element into `servers` shares.

    Formal guarantee: any m - 1 of the m shares of an element are independent and uniform on the
    ring (AES-128 as a random function), whatever the element.

    Args:
        encoded: elements of `ring`, shape (clients, parameters), such as `FixedPoint.encode` gives.
        servers: m, at least 2.
        ring: the ring of `encoded`.
        keys: uint8, shape (clients, m - 1, 16); drawn from the operating system's randomness when
            left out. Giving them is for tests: keys that are known or used twice protect nobody.
        overwrite: let the last shares take the place of `encoded`, which saves an array.

    Raises:
        ValueError: shapes or types that do not fit, or a number outside the ring.

    Source: ddpsa, Algorithm 1.
    """
    integer("servers", servers, 2)
    if np.ndim(encoded) != 2:
        raise ValueError(f"encoded must have shape (clients, parameters), got {np.shape(encoded)}")
    ring.elements("encoded", encoded)
    wanted = (len(encoded), servers - 1, KEY_BYTES)
    if keys is None:
        keys = new_keys(*wanted[:2])
    elif np.shape(keys) != wanted or np.asarray(keys).dtype != np.uint8:
        raise ValueError(f"keys must be uint8 of shape {wanted}, got shape {np.shape(keys)}")
    last = encoded if overwrite else np.empty(encoded.shape, ring.dtype)
    buffer = np.empty(min(CHUNK, max(1, encoded.shape[1])), ring.dtype)
    for row, result, own in zip(encoded, last, keys, strict=True):  # every client has its own keys
        streams = [KeyStream(key, ring) for key in own]
        for start in range(0, row.size, CHUNK):
            rest, out = row[start : start + CHUNK], result[start : start + CHUNK]
            mask = buffer[: rest.size]
            for stream in streams:
                stream.fill(mask)
                rest = ring.subtract(rest, mask, out=out)
    return Shares(keys, last, ring)


def add_expanded(total: Elements, key: bytes | memoryview | NDArray[np.uint8], ring: Ring) -> None:
    """Add the share that follows from `key` to the vector `total`, in place."""
    stream, buffer = KeyStream(key, ring), np.empty(min(CHUNK, max(1, total.size)), ring.dtype)
    for start in range(0, total.size, CHUNK):
        out = total[start : start + CHUNK]
        mask = buffer[: out.size]
        stream.fill(mask)
        ring.add(out, mask, out=out)


def reconstruct(shares: Elements, ring: Ring = Z64) -> Elements:
    """The secrets from all their shares, or the sum of secrets from the servers' sums of shares.

    Args:
        shares: elements of `ring`, shape (m, …): the servers' shares, or sums of shares.

    Returns:
        Elements of shape (…).

    Raises:
        ValueError: no array of elements, or a number outside the ring.

    Source: ddpsa, Algorithm 1 (reconstruction) and equation (10).
    """
    return ring.sum(shares)
