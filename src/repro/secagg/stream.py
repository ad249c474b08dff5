"""Key streams: from 16 secret bytes to as many uniformly distributed numbers as are needed.

AES-128 in counter mode (NIST SP 800-38A, section 6.5) with the counter starting at 0, which is safe
because a key is used for one stream only. Its output cannot be told from uniform bits by anybody
who lacks the key: after b blocks of 16 bytes the advantage beyond attacking AES is below
b^2 / 2^129, 2^-83 for a vector of 10^7 elements.
"""

from __future__ import annotations

import secrets

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from repro.secagg.ring import Elements, Ring

KEY_BYTES = 16
"""Length of a key, which is what is sent in place of a share."""

CHUNK = 32768
"""Numbers worked on at a time: few calls, and the arrays in work stay in the processor's cache."""

_ZEROS = memoryview(bytes(8 * CHUNK))


def new_keys(*shape: int) -> NDArray[np.uint8]:
    """Independent keys from the operating system's randomness, shape (*shape, 16)."""
    keys = secrets.token_bytes(int(np.prod(shape)) * KEY_BYTES)
    return np.frombuffer(keys, np.uint8).reshape(*shape, KEY_BYTES)


class KeyStream:
    """The numbers that follow from one key, handed out in order.

    Asking for a and then b numbers gives the same as asking for a + b at once, on every machine.

    Args:
        key: 16 bytes.
        ring: numbers are uniform on [0, ring.modulus). Where the modulus is no power of two, words
            are cut to its bit length and those that are too large are skipped: no element is more
            likely than another (a remainder would be biased).

    Raises:
        ValueError: the key has another length.
    """

    def __init__(self, key: bytes | memoryview | NDArray[np.uint8], ring: Ring) -> None:
        secret = bytes(key)
        if len(secret) != KEY_BYTES:
            raise ValueError(f"key must be {KEY_BYTES} bytes long, got {len(secret)}")
        self._cipher = Cipher(algorithms.AES(secret), modes.CTR(bytes(16))).encryptor()
        self._ring = ring
        bits = (ring.modulus - 1).bit_length()
        self._mask = np.uint64(2**bits - 1)
        self._skips = ring.modulus != 2**bits

    def fill(self, out: Elements) -> None:
        """Write the next numbers into `out`, a contiguous vector."""
        for start in range(0, out.size, CHUNK):
            self._fill(out[start : start + CHUNK])

    def take(self, size: int) -> Elements:
        """The next `size` numbers."""
        out = np.empty(size, self._ring.dtype)
        self.fill(out)
        return out

    def _fill(self, out: Elements) -> None:
        """At most CHUNK numbers; those skipped are replaced from the words that follow."""
        self._words(out)
        if self._ring.wraps:
            return
        np.bitwise_and(out, self._mask, out=out)
        if not self._skips or out.max() < self._ring.modulus:
            return
        kept = out[out < self._ring.modulus]
        out[: kept.size] = kept
        self._fill(out[kept.size :])

    def _words(self, out: Elements) -> None:
        """The next words of the key stream, as wide as an element, little-endian."""
        self._cipher.update_into(_ZEROS[: out.nbytes], out.view(np.uint8).data)
        if not np.little_endian:
            out.byteswap(inplace=True)
