"""Encryption of a secret share to one server's key: hybrid public key encryption (RFC 9180).

The servers' public keys reach the clients beside Flower, as files, never through the SuperLink: a
SuperLink that could choose the keys could read every share.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def make_keys(private: Path, public: Path) -> None:
    """Write a new private key (readable by its owner only) and its public key to two files."""
    key = X25519PrivateKey.generate()
    descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes_raw())
    public.write_bytes(key.public_key().public_bytes_raw())


def seal(share: bytes, public: Path, purpose: str) -> bytes:
    """Encrypt a share for the server whose public key is in a file, for one purpose only."""
    key = X25519PublicKey.from_public_bytes(public.read_bytes())
    return _SUITE.encrypt(share, key, info=purpose.encode())


def unseal(sealed: bytes, private: Path, purpose: str) -> bytes:
    """Decrypt what `seal` made.

    Raises:
        ValueError: it was made for another key or purpose, or was changed on its way.
    """
    key = X25519PrivateKey.from_private_bytes(private.read_bytes())
    try:
        return _SUITE.decrypt(sealed, key, info=purpose.encode())
    except InvalidTag:
        raise ValueError(f"sealed share is not of this key and purpose: {purpose}") from None
