"""Secure aggregation: fixed-point encoding, additive secret sharing, and servers that add up.

    encoding = FixedPoint(decimals=10)                        # modulo 2^64
    encoded = encoding.encode(gradients, clients=6)           # (6, d) float64 -> uint64
    shares = share(encoded, servers=3)                        # 2 keys and a vector per client
    total = encoding.decode(reconstruct(shares.expanded().sum(axis=1)))     # without servers
    with Cluster(clients=6, servers=3) as cluster:            # with servers
        total = cluster.round(gradients).total

Protection: an adversary who sees fewer than all m servers (or their connections) learns nothing
about a client's vector except what the sum over all clients tells. Not protected: a client that
sends wrong numbers, or a server that leaves out or adds something, makes the sum wrong, and any
party can make rounds fail. No server sees a client's vector, so no server can check its range or
norm; `FixedPoint.encode` checks the range in the client only.
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
