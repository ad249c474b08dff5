"""What SecAgg+ and DisAgg ask of a client for 100,000 clients of 100,000 coordinates, from their published rules.

    python bench/secure_sum_peers.py

The settings are those of DisAgg's published code for its largest experiment (`src/constants.py` of
SamsungLabs/mlsys26_disagg): a tenth of the clients corrupt, a fifth lost, security and correctness 2^-40, elements
of 128 bits, 500 coordinates packed into one share. Nothing is timed here. Committees and neighbours are drawn
without replacement, so that corrupt and remaining members follow hypergeometric laws. That code itself takes a
committee of 830: it keeps the threshold of the smallest committee, 31, for the larger one.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import hypergeom

CLIENTS = COORDINATES = 100_000
CORRUPT, LOST = 0.1, 0.2
FAILURE = 2.0**-40
PACKED, ELEMENT = 500, 16
"""Coordinates in one element of a share, and bytes of an element."""
UP, DOWN = 2_000 * 1024, 20_000 * 1024
"""Bytes a second of a client's link in that code ("5G")."""
CODED = 830


def thresholds(drawn: int, others: int, failure: float) -> tuple[int, int]:
    """Two counts of so many members drawn from `others`, each missed with a probability below `failure`.

    The first is the least that the corrupt ones do not reach; the second the most that remain.
    """
    count = np.arange(drawn + 2)  # one more than can be, of probability 0
    corrupt = hypergeom.pmf(count, others, int(CORRUPT * CLIENTS), drawn)
    remain = hypergeom.pmf(count, others, int((1 - LOST) * CLIENTS), drawn)
    so_many = corrupt[::-1].cumsum()[::-1]
    fewer = remain.cumsum() - remain
    return int(np.flatnonzero(so_many < failure)[0]), int(np.flatnonzero(fewer < failure)[-1])


def smallest(others: int, failure: float, apart: int) -> tuple[int, int]:
    """The fewest members drawn whose two thresholds are `apart` or more, and the first of these."""
    low, high = 1, CLIENTS // 10
    while low < high:
        middle = (low + high) // 2
        first, last = thresholds(middle, others, failure)
        low, high = (low, middle) if last - first >= apart else (middle + 1, high)
    return low, thresholds(low, others, failure)[0]


def main() -> None:
    """Print committee, bytes and times of the links for DisAgg, and the neighbours of SecAgg+."""
    elements = -(-COORDINATES // PACKED)
    received = CLIENTS * elements * ELEMENT
    print(f"each aggregator of DisAgg receives {received / 1e6:.0f} MB, in {received / DOWN:.0f} s")
    needed, kept = smallest(CLIENTS, FAILURE, PACKED)
    for members in (CODED, needed):
        share = members * elements * ELEMENT
        print(
            f"{members} aggregators, of which {CORRUPT * members:.0f} are expected to be corrupt: "
            f"{share / COORDINATES:.1f} bytes a client and coordinate, {share / UP:.1f} s to send"
        )
    least, first = smallest(CLIENTS, FAILURE, 0)
    print(
        f"threshold of corrupt ones: {kept} of {needed}, {first} of {least}, the smallest committee"
    )
    neighbours, _ = smallest(CLIENTS - 1, FAILURE / CLIENTS, 0)
    print(f"SecAgg+, {neighbours} neighbours: {neighbours + 1} masks for each client")


if __name__ == "__main__":
    main()
