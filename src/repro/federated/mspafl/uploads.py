"""What happens to a vector before it leaves a client, for whole stacks of vectors at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


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
