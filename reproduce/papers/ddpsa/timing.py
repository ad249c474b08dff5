"""A client's work in a round of ddpsa, operation by operation, to be timed: Table II.

There are two ways to do it, and they differ by orders of magnitude: all records as one array
(`clipped_sums`), and one record after the other, as the box of Algorithm 2 is written (`OneByOne`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from repro._validate import integer
from repro.datasets.plane import plane
from repro.federated.ddpsa.clients import Array, Federation, clipped_sums
from repro.secagg import Cluster, FixedPoint, Round, discrete_laplace, share
from reproduce.papers.clock import Step

_SHARED = 1000  # numbers in the vector that is shared over few and many servers


class OneByOne:
    """A client that computes and clips the gradient of one record after the other, in PyTorch.

    This is the inner loop of Algorithm 2 as it is printed: a forward and a backward pass through a
    linear layer, the l1 norm, the clip and the addition, for every record.

    Args:
        inputs: shape (records, d), the last column the constant 1 of the bias; d >= 2.
        targets: shape (records,).
    """

    def __init__(self, inputs: ArrayLike, targets: ArrayLike) -> None:
        rows = torch.tensor(np.asarray(inputs)[:, :-1], dtype=torch.float64)
        self._records = list(zip(rows, torch.tensor(np.asarray(targets)), strict=True))
        self._layer = nn.Linear(rows.shape[1], 1, dtype=torch.float64)

    def __call__(self, model: Array, clip: float) -> Array:
        """The sum of the clipped gradients of (theta x - y)^2 at `model`, shape (d,)."""
        with torch.no_grad():
            self._layer.weight.copy_(torch.from_numpy(model[None, :-1]))
            self._layer.bias.copy_(torch.from_numpy(model[-1:]))
        weights = list(self._layer.parameters())
        total = torch.zeros(len(model), dtype=torch.float64)
        for x, y in self._records:
            loss = (self._layer(x)[0] - y) ** 2
            parts = torch.autograd.grad(loss, weights)
            gradient = torch.cat([part.reshape(-1) for part in parts])
            total += gradient / max(1.0, float(gradient.abs().sum()) / clip)
        return total.numpy()


def client_steps(
    records: int, *, clients: int, servers: int, clip: float, epsilon: float, seed: int
) -> dict[str, Step]:
    """One client's local work of a round on the plane task (d = 3), operation by operation.

    Returns:
        The rows of Table II but the transmission, "clipping, one by one" and "exact noise", the
        discrete Laplace draw that floating-point attacks cannot touch.
    """
    training = plane([seed], records * 5 // 3)[0]
    federation = Federation.deal(training, [1])
    members = federation.membership(np.array([1]))
    loop = OneByOne(training.inputs[0], training.targets[0])
    model = np.zeros((1, 1, 3))
    sums = clipped_sums(federation, model, [clip], members)[0, 0]
    steps = {
        "clipping": lambda: clipped_sums(federation, model, [clip], members),
        "clipping, one by one": lambda: loop(model[0, 0], clip),
    }
    return steps | vector_steps(
        sums / records,
        clients=clients,
        servers=servers,
        scale=clip / epsilon / records,
        seed=seed,
    )


def vector_steps(
    vector: Array, *, clients: int, servers: int, scale: float, seed: int
) -> dict[str, Step]:
    """What a client does with one vector, shape (1, d): noise, addition, encoding, sharing.

    Args:
        vector: the client's average gradient.
        clients: n, for the range that the encoding allows.
        servers: m; all m shares are made in full, as in Algorithm 1.
        scale: of the noise, in the vector's unit.
        seed: of the noise.
    """
    generator = np.random.default_rng(seed)
    encoding = FixedPoint()
    noise = generator.laplace(scale=scale, size=vector.shape)
    noisy = vector + noise
    encoded = encoding.encode(noisy, clients=clients)
    units = round(scale * encoding.scale)
    into = np.empty_like(vector)  # or the addition would be a fight for fresh memory
    return {
        "noise": lambda: generator.laplace(scale=scale, size=vector.shape),
        "exact noise": lambda: discrete_laplace(units, vector.shape),
        "addition": lambda: np.add(vector, noise, out=into),
        "encoding": lambda: encoding.encode(noisy, clients=clients),
        "sharing": lambda: share(encoded, servers=servers).expanded(),
    }


def clip_step(dimension: int, clip: float, seed: int) -> Step:
    """Clipping one record's gradient of any length and adding it to the sum."""
    gradient = np.random.default_rng(seed).normal(size=integer("dimension", dimension, 1))
    total = np.zeros(dimension)

    def clipping() -> None:
        np.add(total, gradient / max(1.0, float(np.abs(gradient).sum()) / clip), out=total)

    return clipping


def growing_steps(
    generator: np.random.Generator,
    sizes: Sequence[int],
    many_servers: int,
    *,
    records: int,
    clip: float,
    epsilon: float,
    clients: int,
    servers: int,
    seed: int,
) -> dict[tuple[str, int], Step]:
    """A client's operations on vectors of many lengths, and sharing over few and many servers.

    Args:
        generator: draws the vectors.
        sizes: d, the lengths of the vectors.
        many_servers: m of the second "sharing, by m"; the first has `servers`.
        records: N_i, for the scale of the noise.
        clip: Delta > 0.
        epsilon: of a client and round, > 0.
        clients: n, for the range that the encoding allows.
        servers: m.
        seed: of the noise and of the gradient that is clipped.

    Returns:
        (operation, d) or ("sharing, by m", m) -> what to time; clipping is that of one gradient.
    """
    common = {"clients": clients, "seed": seed}
    scale = clip / epsilon / records
    steps: dict[tuple[str, int], Step] = {}
    for d in sizes:
        vector = generator.normal(size=(1, d))
        steps["clipping", d] = clip_step(d, clip, seed)
        operations = vector_steps(vector, servers=servers, scale=scale, **common)
        steps |= {(name, d): step for name, step in operations.items()}
    for m in (servers, many_servers):
        vector = generator.normal(size=(1, _SHARED))
        steps["sharing, by m", m] = vector_steps(vector, servers=m, scale=1.0, **common)["sharing"]
    return steps


def transmissions(
    cluster: Cluster, values: Array, repeats: int, *, in_full: bool = True
) -> tuple[dict[str, NDArray[np.float64]], Round]:
    """Seconds per client of handing the shares to the network, and until the sum is back.

    Args:
        cluster: running servers.
        values: shape (clients, parameters).
        repeats: rounds, after one that is not counted.

    Returns:
        `transmission` (a client's sends) and `sum` (from when the last client has sent all until
        the operator has the sum: the servers' part), shape (repeats,) each; and the last round.
    """
    rounds = [
        cluster.round(values, model=values[0], in_full=in_full)
        for _ in range(integer("repeats", repeats, 1) + 1)
    ]
    sent = np.array([done.seconds["transmission"] for done in rounds[1:]]) / len(values)
    back = np.array([done.seconds["aggregation"] for done in rounds[1:]])
    return {"transmission": sent, "sum": back}, rounds[-1]
