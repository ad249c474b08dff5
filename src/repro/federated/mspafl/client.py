"""A client of MS-PAFL: which of its records it uses in a round, and how its upload is clipped.

mspafl draws Q mini-batches of b records; what its Theorem 1 counts is the set of Q b draws. Without
replacement these are Q b different records (q = Q b / |D_i|); with replacement each draw is
independent of the others (a record is used with probability q = 1 - (1 - 1/|D_i|)^(Q b)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro._validate import integer


class RecordDraws:
    """Draws of `clients` clients that hold `held` records each, from uniform numbers.

    Formal guarantee: for independent uniform numbers in [0, 1), `draw` returns for every client,
    independently of the others and of earlier rounds, a uniformly random sequence of `draws` places
    in [0, held): all held^draws sequences are equally likely with replacement, all
    held! / (held - draws)! sequences of different places without; up to the 53 bits of the numbers.

    Args:
        clients: number of clients (of all runs together), at least 1.
        held: records of each, at least 1.
        draws: draws per client and round (Q b), at least 1; without replacement at most `held`.
        replacement: whether a record may be drawn again within a round.

    Raises:
        ValueError: a count out of range.
    """

    def __init__(self, clients: int, held: int, draws: int, *, replacement: bool) -> None:
        integer("clients", clients, 1)
        self.held, self.replacement = integer("held", held, 1), bool(replacement)
        self.draws = integer("draws", draws, 1)
        if not replacement and draws > held:
            raise ValueError(
                f"draws (Q b) must be at most the {held} records of a client when sampling without "
                f"replacement, got {draws}"
            )
        # Without replacement, one deck of cards per client: column i of `_decks`. A partial shuffle of
        # any deck gives a uniformly random hand, so the decks are not put in order between rounds.
        self._decks = np.tile(np.arange(held)[:, None], (1, clients))
        self._columns = np.arange(clients)
        self._left = held - np.arange(self.draws)

    def draw(self, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Places of the drawn records, shape (clients, draws), from as many numbers in [0, 1)."""
        if self.replacement:
            return (uniforms * self.held).astype(np.int64)
        cards = self._decks.reshape(-1)
        places = (uniforms * self._left).astype(np.int64) + (self.held - self._left)
        swaps = places.T * len(self._columns) + self._columns
        for k, there in enumerate(swaps):  # Fisher and Yates: card k and a later card swap places
            drawn = cards[there]
            cards[there] = self._decks[k]
            self._decks[k] = drawn
        return self._decks[: self.draws].T.copy()

    def state(self) -> NDArray[np.int64]:
        """What the next draw depends on, besides the numbers that it is given."""
        return self._decks

    def restore(self, state: NDArray[np.int64]) -> None:
        """Go back to what `state` gave."""
        self._decks[...] = state


def clip_rows(vectors: NDArray[np.float64], clip: ArrayLike) -> NDArray[np.float64]:
    """Scale each vector to Euclidean norm at most `clip`: v / max(1, |v| / C).

    Formal guarantee: every returned vector has norm at most C (up to rounding), so that replacing
    whatever it was computed from changes it by at most 2 C.

    Args:
        vectors: shape (..., m).
        clip: C > 0, or infinity for no clipping; broadcasts against the shape without its last
            axis.

    Source: mspafl, (15).
    """
    norms = np.sqrt(np.einsum("...m,...m->...", vectors, vectors))
    return vectors / np.maximum(1.0, norms / clip)[..., None]
