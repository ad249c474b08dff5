"""How the two directions of one iteration of two-level sampling turn into weighted Gaussians.

With participation rate p and sampling rate q let N be the noise around "the client stays away",
M0 that around "it takes part, the differing record is not drawn", M1 that around "both". Then

    with the record:    P = (1 - p) N + p (1 - q) M0 + p q M1
    without the record: Q = (1 - p) N + p M0

and for alpha = exp(epsilon) >= 1 the integrands of the two hockey-stick divergences are

    remove:  P - alpha Q = p q     ( M1 - w1 M0 - w0 N )
    add:     Q - alpha P = p kappa ( M0 - w1 M1 - w0 N ),   kappa = 1 - alpha (1 - q),

with the weights returned here. (For `remove` they are the paper's alpha' c2bar and alpha' c1bar
of Theorem 4.1, simplified.) When kappa <= 0 the add direction leaks nothing beyond epsilon.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from repro.accounting._gaussian import log_expm1

__all__ = ["Weights", "weights"]


class Weights(NamedTuple):
    """Logarithms of the factor in front and of the two weights, all of the broadcast shape."""

    log_factor: np.ndarray
    log_w1: np.ndarray
    log_w0: np.ndarray


def weights(epsilon: np.ndarray, p: np.ndarray, q: np.ndarray, direction: str) -> Weights:
    """Factor and weights of the module docstring for epsilon >= 0 and p, q in (0, 1]."""
    epsilon, p, q = np.broadcast_arrays(epsilon, p, q)
    growth = log_expm1(epsilon)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_p, log_q, log_stay = np.log(p), np.log(q), np.log1p(-p)
        if direction == "remove":
            return Weights(
                log_p + log_q, np.logaddexp(0.0, growth - log_q), growth + log_stay - log_p - log_q
            )
        # kappa / q = 1 - (alpha - 1) (1 - q) / q
        share = growth + np.log1p(-q) - log_q
        log_kappa = np.where(share < 0, log_q + np.log(-np.expm1(np.minimum(share, 0.0))), -np.inf)
        return Weights(
            log_p + log_kappa, epsilon + log_q - log_kappa, growth + log_stay - log_p - log_kappa
        )
