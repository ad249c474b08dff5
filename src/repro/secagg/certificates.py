"""Names of the parties: a temporary authority, one certificate per party, mutual TLS 1.3.

A certificate carries one DNS name (`client-3`, `clients-0-999` for a party that acts for all of
these clients, `server-1`, `parameters` or `operator`) and the side
of a connection for which it is valid: clients and the operator only open connections, the parameter
server only accepts them, and the servers do both. So no client can act as a server or as another
client. The authority's private key exists only while the certificates are made. Certificates cannot
be revoked; they expire (after 7 days if `issue` is not told otherwise).
"""

from __future__ import annotations

import datetime
import os
import ssl
import stat
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from repro._validate import integer, positive

AUTHORITY = "authority.pem"
"""Name of the file with the authority's certificate; every party needs it."""

PARAMETERS, OPERATOR = "parameters", "operator"

QUESTION = "repro-secagg-question"
"""What a caller names in the handshake (ALPN) that only asks a server about itself."""

_ACCEPTS, _OPENS = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


def client_name(number: int) -> str:
    """The name of client `number`, counted from 0."""
    return f"client-{number}"


def client_links(clients: int, links: int | None = None) -> dict[str, range]:
    """Name -> clients for whom the party acts: one party for each client, or `links` for all.

    With `links`, party k acts for the clients `clients * k // links` and on, such as
    `clients-0-49999` and `clients-50000-99999`; its certificate proves its own name, so the servers
    have to believe that it keeps its clients apart.

    Raises:
        ValueError: `clients` < 1, or `links` is not in [1, clients].
    """
    integer("clients", clients, 1)
    if links is None:
        return {client_name(i): range(i, i + 1) for i in range(clients)}
    integer("links", links, 1, clients)
    ends = [clients * k // links for k in range(links + 1)]
    return {
        f"clients-{begin}-{end - 1}": range(begin, end)
        for begin, end in zip(ends, ends[1:], strict=False)
    }


def carried(name: str) -> range:
    """The clients for whom party `name` acts: none for servers and the operator."""
    role, *numbers = name.split("-")
    if role not in ("client", "clients"):
        return range(0)
    return range(int(numbers[0]), int(numbers[-1]) + 1)


def server_name(number: int) -> str:
    """The name of intermediate server `number`, counted from 0."""
    return f"server-{number}"


def number_of(role: str, names: Iterable[str], nobody: int) -> int:
    """The number of the first of `names` that is a `role` with a number; `nobody` if none is."""
    begin = f"{role}-"
    found = (int(name.removeprefix(begin)) for name in names if name.startswith(begin))
    return next(found, nobody)


def server_names(servers: int) -> list[str]:
    """The names of m >= 2 intermediate servers, or of none: then nothing is shared.

    Raises:
        ValueError: `servers` is 1, negative or no integer.
    """
    if isinstance(servers, bool) or servers != 0:
        try:
            integer("servers", servers, 2)
        except ValueError:
            raise ValueError(
                f"servers must be an integer >= 2, or 0 for no sharing, got {servers!r}"
            ) from None
    return [server_name(number) for number in range(servers)]


def issue(
    folder: str | os.PathLike[str],
    *,
    servers: int,
    clients: int,
    links: int | None = None,
    days: float = 7.0,
) -> None:
    """Make an authority and a certificate for every party, and forget the authority's key.

    Writes `authority.pem` and, for each party, `<name>.pem` with its private key and certificate,
    readable by the owner only. A party needs its own file and `authority.pem`, nothing else.

    Args:
        folder: made if missing; must hold none of the files.
        servers: m >= 2 intermediate servers, `server-0`, …, or 0.
        clients: n >= 1 clients, `client-0`, …
        links: where given, so many parties act for all clients, see `client_links`.
        days: how long the certificates are good for, > 0.

    Raises:
        ValueError: an argument out of range.
        FileExistsError: `folder` holds such files; nothing is written.
        PermissionError: everybody may write to `folder`, and put files of their own in the place of these.
    """
    between = server_names(servers)
    callers = client_links(clients, links)
    place = Path(folder)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    begin = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)  # clocks differ
    try:
        end = begin + datetime.timedelta(minutes=5, days=float(positive("days", days)))
    except OverflowError:
        raise ValueError(f"days must be below a few thousand years, got {days!r}") from None
    names = {PARAMETERS: [_ACCEPTS], OPERATOR: [_OPENS]}
    names |= {name: [_ACCEPTS, _OPENS] for name in between}
    names |= {name: [_OPENS] for name in callers}

    mode = place.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise PermissionError(f"folder must not be writable by everybody, got {place}")
    files = [place / AUTHORITY, *(place / f"{name}.pem" for name in names)]
    if there := [path for path in files if path.exists()]:
        raise FileExistsError(f"folder must hold none of the files, got {there[0]}")

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "secure aggregation authority")])
    own = (
        _builder(subject, subject, key.public_key(), key.public_key(), begin, end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(place / AUTHORITY, own.public_bytes(serialization.Encoding.PEM))
    for name, sides in names.items():
        party = ec.generate_private_key(ec.SECP256R1())
        label = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(label, subject, party.public_key(), key.public_key(), begin, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(sides), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(key, hashes.SHA256())
        )
        secret = party.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = certificate.public_bytes(serialization.Encoding.PEM)
        _write(place / f"{name}.pem", secret + public)


def context(folder: str | os.PathLike[str], name: str, *, accepting: bool) -> ssl.SSLContext:
    """TLS 1.3 for party `name` with its files in `folder`; the other side must show a certificate.

    Args:
        folder: holds `<name>.pem` and `authority.pem`.
        name: whose certificate to show.
        accepting: for connections that the others open, or for those that this party opens (then
            the name of the other side is checked during the handshake).

    Raises:
        ValueError: a file is missing or holds no certificate.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if accepting else ssl.PROTOCOL_TLS_CLIENT)
    tls.minimum_version = ssl.TLSVersion.TLSv1_3
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.check_hostname = not accepting
    if accepting:
        tls.set_alpn_protocols([QUESTION])  # callers that want to take part name no protocol
        tls.num_tickets = 0  # connections stay open: nothing to resume
    file, root = Path(folder, f"{name}.pem"), Path(folder, AUTHORITY)
    for path in (file, root):
        if not path.is_file():
            raise ValueError(
                f"folder must hold {path.name}, written by `issue` or "
                f"`python -m repro.secagg authority`; {path} is missing"
            )
    try:
        tls.load_verify_locations(root)
        tls.load_cert_chain(file)
    except (ssl.SSLError, OSError) as problem:
        raise ValueError(f"{file} and {root} must hold certificates: {problem}") from problem
    return tls


def peer_name(tls: ssl.SSLObject) -> str:
    """The name in the other side's certificate, which the handshake has verified."""
    names = [value for _, value in (tls.getpeercert() or {}).get("subjectAltName", ())]
    return names[0] if len(names) == 1 else ""


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    signer: ec.EllipticCurvePublicKey,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _usage(**granted: bool) -> x509.KeyUsage:
    every = (
        "digital_signature content_commitment key_encipherment data_encipherment key_agreement "
        "key_cert_sign crl_sign encipher_only decipher_only"
    ).split()
    return x509.KeyUsage(**{name: granted.get(name, False) for name in every})


def _write(path: Path, content: bytes) -> None:
    """A new file that only its owner can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
