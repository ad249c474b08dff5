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
norm; `FixedPoint.encode` checks the range in the client only. What can be checked of the sum alone: that it
lies within n times the range. A proof of range or norm that shows nothing else would have to come from the
client (zero knowledge), and is not part of this package; nor is the exclusion of a client, since who sent wrong
numbers cannot be told. A `Cluster` whose owner is killed by SIGKILL leaves its folder of keys (mode 0700) to the
system's cleaning of temporary files; its processes have ended then, and the keys open nothing.
"""

from repro.secagg.certificates import issue
from repro.secagg.client import Client, Operator, RoundError
from repro.secagg.cluster import Cluster
from repro.secagg.encoding import FixedPoint, narrowest
from repro.secagg.frames import Traffic
from repro.secagg.hosted import HostedClients
from repro.secagg.noise import discrete_laplace, noise_tail
from repro.secagg.ring import Z32, Z64, ZP61, Ring
from repro.secagg.session import Round, Session
from repro.secagg.shares import Shares, reconstruct, share

__all__ = [
    "Z32",
    "Z64",
    "ZP61",
    "Client",
    "Cluster",
    "FixedPoint",
    "HostedClients",
    "Operator",
    "Ring",
    "Round",
    "RoundError",
    "Session",
    "Shares",
    "Traffic",
    "discrete_laplace",
    "issue",
    "narrowest",
    "noise_tail",
    "reconstruct",
    "share",
]
