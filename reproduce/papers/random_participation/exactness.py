"""Where the bounds of Theorem 4.1, printed and repaired, are exact; norms in units of the clip.

The proofs stand in the derivations notebook, in the sections that these functions are linked from.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp

from repro.accounting import GaussianMechanism
from reproduce.papers.random_participation.quadrature import weights

__all__ = ["one_other", "right_up_to", "wrong_from"]


def one_other(
    epsilon: float, direction: str, *, p: float, q: float, sigma: float
) -> tuple[float, float]:
    """The exact divergence of a client with one other record, where the worst angle is not 0 or 180.

    With w2 = w1 + w0 / (1 - q) the worst pair ("remove") has the cosine sigma^2 log(w2 / w1), and leaks
    p q [(1 - q) g(log w2) + q g(log w1)], with g the profile of the Gaussian mechanism. In "add" the
    factor 1 - w0 / (1 - q) on silence takes the place of the share.

    Args:
        epsilon: >= 0. direction: "remove" or "add".
        p, q: participation and sampling rate, in (0, 1). sigma: noise on the sum, > 0.

    Returns:
        the divergence and the cosine; nan for the divergence where the formula asks for a cosine
        beyond 1 or -1 (then collinear gradients are the worst).
    """
    factor, w1, w0 = weights(epsilon, p, q, direction)
    if factor == 0:
        return 0.0, 0.0
    share = w0 / (1 - q)
    if direction == "remove":
        cosine = sigma**2 * np.log1p(share / w1)
        alone, scale = w1 + share, 1.0
    else:
        cosine = sigma**2 * np.log1p(-share) if share < 1 else -np.inf
        scale = 1 - share
        alone = w1 / scale if share < 1 else np.inf
    if abs(cosine) > 1:
        return np.nan, float(cosine)
    gaussian = GaussianMechanism(sigma)

    def profile(order: float) -> float:
        """Int [N(z; 1) - order N(z; 0)]_+; below order 1 through the other direction."""
        if order >= 1:
            return float(gaussian.delta(np.log(order)))
        return float(1 - order + order * gaussian.delta(-np.log(order)))

    return float(factor * ((1 - q) * scale * profile(alone) + q * profile(w1))), float(cosine)


def _log_chances(d: int, q: float) -> np.ndarray:
    i = np.arange(d + 1)
    return (
        gammaln(d + 1)
        - gammaln(i + 1)
        - gammaln(d - i + 1)
        + i * np.log(q)
        + (d - i) * np.log1p(-q)
    )


def _largest_rate(log_left: float, epsilon: float, q: float) -> float:
    """The p at which w0 = (alpha - 1)(1 - p) / (p q) equals exp(log_left)."""
    return float(np.exp(-np.logaddexp(0.0, np.log(q) + log_left - np.log(np.expm1(epsilon)))))


def right_up_to(epsilon: float, *, d: int, q: float, sigma: float) -> float:
    """The participation rate up to which condition (R) makes the printed Theorem 4.1 exact ("remove").

    (R): sum over i < d of b_i w1^(i+1) exp(i (2d + 1 - i) / (2 sigma^2)) (exp((d - i) / sigma^2) - 1) <= w0.

    Args:
        epsilon: > 0. d: number of other records, >= 1. q: sampling rate, in (0, 1). sigma: > 0.

    Returns:
        a rate in (0, 1).
    """
    i = np.arange(d)
    log_w1 = np.log1p(np.expm1(epsilon) / q)
    x = (d - i) / sigma**2
    terms = _log_chances(d, q)[:-1] + (i + 1) * log_w1 + i * (2 * d + 1 - i) / (2 * sigma**2)
    return _largest_rate(logsumexp(terms + x + np.log(-np.expm1(-x))), epsilon, q)


def wrong_from(epsilon: float, *, d: int, q: float, sigma: float) -> float:
    """The participation rate from which on turning the record's gradient beats the printed Theorem 4.1.

    Let z be the zero of sum_i i b_i [N(z; i + 1) - w1 N(z; i)]. Collinear gradients are a local maximum
    only if the printed zero crossing is not below z, that is, if sum_i b_i [N(z; i + 1) - w1 N(z; i)] <= w0 N(z; 0).

    Args:
        epsilon: > 0. d: number of other records, >= 1. q: sampling rate, in (0, 1). sigma: > 0.

    Returns:
        a rate in (0, 1], not below `right_up_to`; 1 where no rate is too large.
    """
    i = np.arange(d + 1)
    log_b, log_w1 = _log_chances(d, q), np.log1p(np.expm1(epsilon) / q)

    def difference(z: float, powers: np.ndarray) -> tuple[float, float]:
        """log |.| and sign of sum_i powers_i b_i [N(z; i + 1) - w1 N(z; i)] / N(z; 0)."""
        with np.errstate(divide="ignore"):
            base = np.log(powers) + log_b
        ahead = base + ((i + 1) * z - (i + 1) ** 2 / 2) / sigma**2
        behind = base + log_w1 + (i * z - i**2 / 2) / sigma**2
        parts = np.concatenate([ahead, behind])
        signs = np.concatenate([np.ones(d + 1), -np.ones(d + 1)])
        log, sign = logsumexp(parts, b=signs, return_sign=True)
        return float(log), float(sign)

    first, last = (k + 0.5 + sigma**2 * log_w1 for k in (1, d))
    # At the middle of pair 1 no bracket of a larger count is positive yet, at that of pair d all are.
    turn = first if d == 1 else brentq(lambda z: difference(z, i.astype(float))[1], first, last)
    log_left, sign = difference(turn, np.ones(d + 1))
    return _largest_rate(log_left, epsilon, q) if sign > 0 else 1.0
