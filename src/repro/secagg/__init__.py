"""Secure aggregation: fixed-point encoding, additive secret sharing, and servers that add up.

    encoding = FixedPoint(decimals=10)                        # modulo 2^64
    encoded = encoding.encode(gradients, clients=6)           # (6, d) float64 -> uint64
    shares = share(encoded, servers=3)                        # 2 keys and a vector per client
    total = encoding.decode(reconstruct(shares.expanded().sum(axis=1)))     # without servers
    with Cluster(clients=6, servers=3) as cluster:            # with servers
        total = cluster.round(gradients).total

What it protects against: whoever sees fewer than all m servers (or their connections) learns
nothing of a client's vector but what the sum over all clients tells. What it does not: clients that
send wrong numbers, and servers that leave out or add something, make the sum wrong; a party that
fails makes the round fail.
"""

from repro.secagg.certificates import issue
from repro.secagg.client import Client, Operator, RoundError
from repro.secagg.cluster import Cluster
from repro.secagg.encoding import FixedPoint
from repro.secagg.frames import Traffic
from repro.secagg.noise import discrete_laplace
from repro.secagg.ring import Z64, ZP61, Ring
from repro.secagg.session import Round, Session
from repro.secagg.shares import Shares, reconstruct, share

__all__ = [
    "Z64",
    "ZP61",
    "Client",
    "Cluster",
    "FixedPoint",
    "Operator",
    "Ring",
    "Round",
    "RoundError",
    "Session",
    "Shares",
    "Traffic",
    "discrete_laplace",
    "issue",
    "reconstruct",
    "share",
]
