"""What DDP-SA sends: the formulas of ddpsa's Table III and Figure 4, per round."""

from __future__ import annotations

from repro._validate import choice, integer, positive

__all__ = ["MECHANISMS", "element_bytes", "parameter_server_shares", "link_bytes", "uploaded"]

MECHANISMS = ("No-Private", "LDP", "MPC", "DDP-SA")
_SHARED = ("MPC", "DDP-SA")


def uploaded(mechanism: str, *, dimension: int, servers: int) -> int:
    """Numbers that a client uploads each round: d, or one share of each for every server (Figure 4)."""
    choice("mechanism", mechanism, MECHANISMS)
    dimension, servers = integer("dimension", dimension, 1), integer("servers", servers, 2)
    return dimension * (servers if mechanism in _SHARED else 1)


def link_bytes(
    mechanism: str, *, dimension: int, servers: int, clients: int = 1, width: int = 4
) -> dict[str, int]:
    """Bytes over each kind of link in one round, without headers (Table III).

    Args:
      mechanism: one of `MECHANISMS`.
      dimension: d >= 1.
      servers: m >= 2 intermediate servers.
      clients: n >= 1. The table says "per client" and counts the servers' traffic in full, which is
        right for n = 1 only: the servers send m d numbers whatever n.
      width: bytes per number; the table has 4.

    Returns:
      link -> bytes, summed over all clients and servers.
    """
    shared = choice("mechanism", mechanism, MECHANISMS) in _SHARED
    numbers = integer("dimension", dimension, 1) * integer("width", width, 1)
    clients, servers = integer("clients", clients, 1), integer("servers", servers, 2)
    result = {"PS to clients": numbers * clients}
    if not shared:
        return result | {"clients to PS": numbers * clients}
    return result | {
        "clients to servers": numbers * servers * clients,
        "servers to PS": numbers * servers,
    }


def parameter_server_shares(sent: dict[str, int]) -> dict[str, float]:
    """Share of each link in what passes the parameter server, in percent (as Table III counts)."""
    seen = {link: count for link, count in sent.items() if "PS" in link}
    total = sum(seen.values())
    return {link: 100 * count / total for link, count in seen.items()}


def element_bytes(limit: float, *, decimals: int, clients: int = 1) -> int:
    """Whole bytes that a share needs so that n encoded numbers in [-limit, limit] add up unwrapped.

    Args:
      limit: largest |x| of any client, > 0.
      decimals: decimal places kept, >= 0.
      clients: n >= 1.
    """
    scale = 10 ** integer("decimals", decimals, 0)
    largest = integer("clients", clients, 1) * round(float(positive("limit", limit)) * scale)
    return -(-(2 * largest + 1).bit_length() // 8)
