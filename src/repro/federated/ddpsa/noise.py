"""The Laplace noise of Algorithm 2 of ddpsa (line 10), for all runs, variants and clients at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer
from repro.accounting.ddpsa.shares import share_noise

_GRAIN = 2**30  # units of the noise's scale in which shares of it are drawn
_AHEAD = 128  # rounds drawn together, to save calls
_MOST = 1024 * _AHEAD  # clients times rounds drawn together, to save memory


class NoiseStreams:
    """Noise of scale 1 for every run, variant and client, round after round.

    Variants of the same kind see the same numbers. What a client sees depends on the seed of its
    run, on the kind and on its own number only, not on who else is there.

    Privacy: the noise comes from a seeded generator so that experiments can be repeated; a
    deployment needs a secret, cryptographically secure source and a sampler that is safe in
    floating point (`repro.secagg.discrete_laplace`).

    Args:
        seeds: of the R runs, >= 0.
        kinds: of each variant, (stream, planned), or None for no noise. With planned = 1 a client
            draws Laplace noise; with more, its share of it: the sum over `planned` clients is one
            Laplace variable of scale 1 (on a grid of 2^-30). Streams are independent.
        clients: C, the most that a variant has, >= 1.
        size: coordinates of a vector, >= 1.
    """

    def __init__(
        self,
        seeds: Sequence[int],
        kinds: Sequence[tuple[int, int] | None],
        clients: int,
        size: int,
    ) -> None:
        self._seeds = [integer("seed", seed, 0) for seed in seeds]
        self._clients, self._size = integer("clients", clients, 1), integer("size", size, 1)
        self._kinds = sorted({kind for kind in kinds if kind})
        self._use = [self._kinds.index(kind) if kind else len(self._kinds) for kind in kinds]
        self._generators = {
            kind: [
                [
                    np.random.default_rng(
                        np.random.SeedSequence(seed, spawn_key=(2, *kind, client))
                    )
                    for client in range(self._clients)
                ]
                for seed in self._seeds
            ]
            for kind in self._kinds
        }
        self._ahead = max(1, min(_AHEAD, _MOST // self._clients))
        self._next = self._ahead

    def draw(self) -> NDArray[np.float64]:
        """The noise of the next round, shape (R, variants, C, size); zero where there is none."""
        if self._next == self._ahead:
            size = (self._ahead, self._size)
            drawn = [
                [[_noise(generator, planned, size) for generator in run] for run in runs]
                for (_, planned), runs in self._generators.items()
            ]
            drawn.append(np.zeros((len(self._seeds), self._clients, *size)))
            self._drawn, self._next = np.stack(drawn), 0
        self._next += 1
        return self._drawn[self._use, ..., self._next - 1, :].swapaxes(0, 1)


def _noise(
    generator: np.random.Generator, planned: int, size: tuple[int, ...]
) -> NDArray[np.float64]:
    if planned == 1:
        return generator.laplace(size=size)
    return share_noise(_GRAIN, size, planned=planned, generator=generator) / _GRAIN
