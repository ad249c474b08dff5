"""Is this machine ready for a party of a secure sum? Certificates, clock, port, versions, servers.

Every finding is one line. A server that is asked takes the question for no part of a round: the
caller names `certificates.QUESTION` in the handshake and is answered with the server's settings and
time (see `Node`), so that examining never disturbs a round that is under way.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
import ssl
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from repro.secagg.certificates import AUTHORITY, PARAMETERS, QUESTION, context, server_names
from repro.secagg.channel import Channel, ChannelError
from repro.secagg.client import Address
from repro.secagg.frames import VERSION, Kind

_SKEW = 30.0
"""Seconds by which two clocks may differ. Certificates begin five minutes before they are made."""

_PYTHON, _NEEDED = (3, 11), {"cryptography": 44, "numpy": 2}
"""The least versions."""


@dataclass(frozen=True)
class Finding:
    """One thing that was examined.

    Attributes:
        good: whether it is as it must be.
        text: what was found, one line.
    """

    good: bool
    text: str

    def __str__(self) -> str:
        return f"{'ok' if self.good else 'FAILED'}: {self.text}"


def examine(
    name: str,
    folder: str | os.PathLike[str],
    *,
    settings: Mapping[str, object],
    listen: Address | None = None,
    parameters: Address | None = None,
    servers: Sequence[Address] = (),
    time_limit: float = 5.0,
) -> Iterator[Finding]:
    """Everything about party `name` that can be known before a round.

    Args:
        name: such as `server-0`.
        folder: with its certificate and `authority.pem`.
        settings: `clients`, `links`, `modulus` and `time_limit`, which all parties must share.
        listen: where it will accept connections; None for a party that accepts none, or that is
            running already.
        parameters: the parameter server, if it is to be asked.
        servers: the intermediate servers in order, if they are to be asked.
        time_limit: seconds for each question, > 0.
    """
    yield from _versions()
    certificate = list(_certificate(name, Path(folder)))
    yield from certificate
    if listen is not None:
        yield _port(listen)
    peers = dict(zip(server_names(len(servers)), servers, strict=True)) if servers else {}
    if parameters is not None:
        peers[PARAMETERS] = parameters
    if all(finding.good for finding in certificate):
        for peer, address in peers.items():
            yield from _peer(name, folder, peer, address, settings, time_limit)
    elif peers:
        yield Finding(False, f"{', '.join(peers)} not asked: that needs a certificate that is good")


def _versions() -> Iterator[Finding]:
    own = sys.version_info[:2]
    yield Finding(
        own >= _PYTHON, f"Python {own[0]}.{own[1]}, at least {_PYTHON[0]}.{_PYTHON[1]} is needed"
    )
    yield Finding(ssl.HAS_TLSv1_3, f"{ssl.OPENSSL_VERSION}, TLS 1.3 is needed")
    for package, least in _NEEDED.items():
        version = metadata.version(package)
        good = int(version.partition(".")[0]) >= least
        yield Finding(good, f"{package} {version}, at least {least} is needed")


def _certificate(name: str, folder: Path) -> Iterator[Finding]:
    """The files of the party itself."""
    try:
        mine, theirs = ((folder / file).read_bytes() for file in (f"{name}.pem", AUTHORITY))
        own, root = (x509.load_pem_x509_certificate(one) for one in (mine, theirs))
        key = serialization.load_pem_private_key(mine, None)
    except (OSError, ValueError, TypeError) as problem:
        reason = " ".join(str(problem).split())
        yield Finding(False, f"no certificate of {name} and its authority in {folder}: {reason}")
        return
    mode = (folder / f"{name}.pem").stat().st_mode & 0o077
    others = "can be read by others: " if mode else "can be read by its owner only: "
    yield Finding(not mode, f"the private key {others}{folder / name}.pem")
    pair = own.public_key() == key.public_key()
    belong = "belong" if pair else "do not belong"
    yield Finding(pair, f"certificate and private key of {name} {belong} together")
    try:
        own.verify_directly_issued_by(root)
        yield Finding(True, f"the certificate of {name} is signed by the authority in {folder}")
    except (ValueError, TypeError, InvalidSignature):
        yield Finding(False, f"the certificate of {name} is not signed by {folder / AUTHORITY}")
    try:
        names = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        written = names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        written = []
    said = ", ".join(written) or "nobody"
    yield Finding(written == [name], f"the certificate in {name}.pem names {said}")
    for whose, one in ((name, own), ("the authority", root)):
        yield _valid(whose, one)


def _valid(whose: str, certificate: x509.Certificate) -> Finding:
    """Whether a certificate is valid now, by this machine's clock."""
    now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    text = f"the certificate of {whose} "
    if now > end:
        return Finding(False, f"{text}has expired on {end:%Y-%m-%d %H:%M} UTC")
    if now < begin:
        return Finding(
            False,
            f"{text}begins on {begin:%Y-%m-%d %H:%M} UTC, and it is {now:%Y-%m-%d %H:%M} here",
        )
    return Finding(True, f"{text}is valid for {(end - now).total_seconds() / 3600:.0f} hours more")


def _port(listen: Address) -> Finding:
    """Whether this machine can listen there."""
    place = f"{listen[0]}:{listen[1]}"
    family = socket.AF_INET6 if ":" in listen[0] else socket.AF_INET
    try:
        socket.create_server(listen, family=family).close()
    except OSError as problem:
        reason = str(problem.strerror or problem).partition(" (while")[0]
        return Finding(False, f"cannot listen on {place}: {reason}")
    return Finding(True, f"can listen on {place}")


def _peer(
    name: str,
    folder: str | os.PathLike[str],
    peer: str,
    address: Address,
    settings: Mapping[str, object],
    time_limit: float,
) -> Iterator[Finding]:
    """What a server answers."""
    place, begin = f"{peer} at {address[0]}:{address[1]}", time.time()
    try:
        answer = ask(name, folder, peer, address, time_limit)
    except ChannelError as problem:
        yield Finding(False, f"{place}: {problem}")
        return
    end, there = time.time(), float(answer["time"])
    skew = there - min(max(there, begin), end)
    yield Finding(True, f"{place} proves its name and speaks version {VERSION} of the protocol")
    yield Finding(
        abs(skew) <= _SKEW,
        f"the clock of {peer} differs from this one by {skew:.0f} s, at most {_SKEW:.0f} s allowed",
    )
    for key, own in settings.items():
        theirs = answer.get(key)
        yield Finding(theirs == own, f"{key} of {peer} is {theirs}, here {own}")


def ask(
    name: str, folder: str | os.PathLike[str], peer: str, address: Address, time_limit: float
) -> dict[str, object]:
    """A server's settings and its time.

    Raises:
        ValueError: no certificate of `name` in `folder`.
        ChannelError: nobody answers there, somebody else does, or in another version.
    """
    tls = context(folder, name, accepting=False)
    tls.set_alpn_protocols([QUESTION])
    try:
        sock = socket.create_connection(address, timeout=time_limit)
    except OSError as problem:
        raise ChannelError(f"does not answer: {problem.strerror or problem}") from problem
    channel = Channel(sock, tls, name, peer, time_limit)
    try:
        channel.handshake()
        frame = channel.receive(time.monotonic() + time_limit)
    finally:
        channel.close()
    if frame.kind != Kind.STATUS:
        raise ChannelError(frame.text if frame.kind == Kind.FAIL else f"sent {frame.kind.name}")
    return json.loads(frame.payload)
