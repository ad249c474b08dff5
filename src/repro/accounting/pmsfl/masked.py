"""PM-SFL: Laplace noise on what a randomly masked layer sends, the setting of Theorem 2.

**Theorem 2 repaired.** Let every mask keep |f_M(x) - f_M(x')|_1 <= D, let the noise have scale
D / epsilon, let one input (x = 0) be mapped to the same output by all masks and let the zero mask,
of probability q, map all inputs there. Then the printed formula holds. Proof. With h the density of an
output under the zero mask, and h r_M, h r'_M those under M for x and x', the distance to the zero input
gives r_M <= e^epsilon and the distance to x' gives r_M <= e^epsilon r'_M. With m the mean of min(1, r')
over the other masks the ratio is at most (q + e^epsilon m) / (q + m), which grows with m <= 1 - q.

**What a mask takes off, whatever the dimension.** Let the output be one number, every weight under a
bit of its own, kept with a probability of at most p >= 1/2, and let D bound |f_M(x)|, |f_M(x')| and
|f_M(x) - f_M(x')| under all masks M. Then epsilon is at most `masked_laplace_bound`. Proof. In units of
D let y be the difference of the outputs; the positive parts of its terms sum to at most 1, so do the
negative ones. |y| is convex in the terms, so its mean is largest at one positive and one negative
term: p_i (1 - p_j) + p_j (1 - p_i) <= p, or at a single one. So E|y| <= p. Let r, r' be the densities
over that of the zero mask: both lie in [e^-epsilon, e^epsilon], and r <= e^(epsilon |y|) r'. For R > 1
and c <= epsilon R the largest r - R r' - c |y| under these limits is at |y| = 0, r' = e^-epsilon, or at
|y| = 1, r' = 1 (convex in |y| as far as e^(epsilon |y|) < R, increasing from there on). Choose R and c
so that both are -c p: then E r <= R E r', and R is the bound. Layers of many outputs, each weight still
under a bit of its own: outputs are independent, their largest differences sum to at most D, and with
e^epsilon = x the bound F(epsilon) satisfies sum F(epsilon_k) <= F(sum epsilon_k), as epsilon - F is
concave up to its one inflection and decreases beyond. A bit that several outputs share, as in a
convolution, makes this false.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from repro._validate import broadcastable, in_unit, nonnegative

__all__ = ["masked_laplace_bound", "masked_laplace_epsilon"]


def masked_laplace_epsilon(epsilon: ArrayLike, *, keep: ArrayLike) -> np.ndarray:
    """ln(1 - p + p e^epsilon): what the worst pair found leaks through a random mask, Theorem 2.

    One weight carries the whole difference and is kept with probability p; the output is far out. This
    is a lower bound on the supremum, whatever the dimension, and exact for one weight.

    Args:
        epsilon: of the Laplace noise alone, >= 0. keep: p in [0, 1], the largest keep probability.

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(epsilon=epsilon, keep=keep)
    epsilon, keep = nonnegative("epsilon", epsilon), in_unit("keep", keep)
    grown = np.expm1(np.minimum(epsilon, 700.0))
    with np.errstate(divide="ignore"):
        far = np.logaddexp(np.log1p(-keep), np.log(keep) + epsilon)
    return np.where(epsilon <= 700, np.log1p(keep * grown), far)


def masked_laplace_bound(epsilon: ArrayLike, *, keep: ArrayLike) -> np.ndarray:
    """ln[(p e^(2 epsilon) + 1 - p) / (p e^epsilon + 1 - p)]: an upper bound whatever the dimension.

    The module's theorem of a mask with a bit of its own for every weight; below epsilon for p < 1, and
    above `masked_laplace_epsilon` by at most a factor e^epsilon in what is taken off e^epsilon.

    Args:
        epsilon: of the Laplace noise alone, >= 0.
        keep: p in [1/2, 1], the largest keep probability; for a smaller one take 1/2.

    Raises:
        ValueError: an argument out of range.
    """
    broadcastable(epsilon=epsilon, keep=keep)
    epsilon, keep = nonnegative("epsilon", epsilon), in_unit("keep", keep)
    if np.any(keep < 0.5):
        raise ValueError(f"keep must be in [0.5, 1], got {keep!r}")
    rest = (1 - keep) / keep
    return epsilon + np.log1p(rest * np.exp(-2 * epsilon)) - np.log1p(rest * np.exp(-epsilon))
