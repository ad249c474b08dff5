"""Programs of lesson 5, right and wrong, that a learner's tests tell apart."""

from __future__ import annotations

import numpy as np


def _fresh(theta: np.ndarray, views: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((views, len(theta))) < theta


def _fresh_by_rows(theta: np.ndarray, views: int, rng: np.random.Generator) -> np.ndarray:
    return np.array([rng.random(len(theta)) > 1 - theta for _ in range(views)])


def _one_for_all(theta: np.ndarray, views: int, rng: np.random.Generator) -> np.ndarray:
    """One mask for all views."""
    return np.repeat(rng.random((1, len(theta))) < theta, views, axis=0)


def _one_number(theta: np.ndarray, views: int, rng: np.random.Generator) -> np.ndarray:
    """One random number for all weights of a view."""
    return rng.random((views, 1)) < theta


def _inverted(theta: np.ndarray, views: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random((views, len(theta))) >= theta


def _rounded(theta: np.ndarray, views: int, rng: np.random.Generator) -> np.ndarray:
    """Chances of a half for everything between the ends."""
    return rng.random((views, len(theta))) < np.round(2 * theta) / 2


def _pairs(theta: np.ndarray, views: int, rng: np.random.Generator) -> np.ndarray:
    """Every second view uses the opposite random numbers."""
    numbers = rng.random(((views + 1) // 2, len(theta)))
    return np.stack([numbers, 1 - numbers], axis=1).reshape(-1, len(theta))[:views] < theta


MASKERS = {
    "right": (_fresh, _fresh_by_rows),
    "wrong": (_one_for_all, _one_number, _inverted, _rounded, _pairs),
}
"""Programs that say they draw a fresh mask for every view."""


def _noise_alone(epsilon: float, keep: float, batch: int) -> float:
    return epsilon


def _whole_batch(epsilon: float, keep: float, batch: int) -> float:
    return batch * epsilon


def _known_mask(epsilon: float, keep: float, batch: int) -> float:
    """What the image leaks if the others all but reveal the mask; the two masks in one formula."""
    return float(
        np.log1p(keep * np.expm1(batch * epsilon))
        - np.log1p(keep * np.expm1((batch - 1) * epsilon))
    )


def _as_if_alone(epsilon: float, keep: float, batch: int) -> float:
    return float(np.log1p(keep * np.expm1(epsilon)))


def _amplified(epsilon: float, keep: float, batch: int) -> float:
    return keep * epsilon


def _shared_out(epsilon: float, keep: float, batch: int) -> float:
    return epsilon / batch


def _two_images(epsilon: float, keep: float, batch: int) -> float:
    """One other image only, however many there are."""
    return _known_mask(epsilon, keep, min(batch, 2))


def _counts_down(epsilon: float, keep: float, batch: int) -> float:
    """More images, better hidden."""
    return float(np.log1p(keep**batch * np.expm1(epsilon)))


BATCH_ACCOUNTANTS = {
    "right": (_noise_alone, _whole_batch, _known_mask),
    "wrong": (_as_if_alone, _amplified, _shared_out, _two_images, _counts_down),
}
"""Programs that state an epsilon for one image of a batch behind one mask."""
