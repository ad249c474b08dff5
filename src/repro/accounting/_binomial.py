"""The number of sampled records of one client: binomial weights on a window that moves with q."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

__all__ = ["window"]

_DEVIATIONS = 14.0
_MARGIN = 40.0


def window(d: int, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Binomial(d, q) weights where they are not negligible.

    The window reaches 14 standard deviations and 40 counts to both sides of the mean, so that by
    Bernstein's inequality less than 1e-25 lies outside for every d and q.

    Args:
        d: number of records, >= 0.
        q: sampling rates, shape (n,).

    Returns:
        counts, shape (n, width), consecutive integers in each row, as floats;
        log_weights, same shape, -inf where a count exceeds d;
        tail, shape (n,): the probability outside the window (an upper bound on it).
    """
    q = np.asarray(q, dtype=float)
    reach = _DEVIATIONS * np.sqrt(d * q * (1 - q)) + _MARGIN
    low = np.clip(np.floor(d * q - reach), 0, d)
    high = np.clip(np.ceil(d * q + reach), 0, d)
    width = int(np.max(high - low)) + 1
    low = np.minimum(low, max(d - width + 1, 0))
    counts = low[:, None] + np.arange(width)
    with np.errstate(divide="ignore"):
        log_weights = np.log(binom.pmf(counts, d, q[:, None]))
    tail = binom.cdf(counts[:, 0] - 1, d, q) + binom.sf(counts[:, -1], d, q)
    return counts, log_weights, tail
