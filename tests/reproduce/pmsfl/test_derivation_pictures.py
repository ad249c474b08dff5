"""The explaining pictures: seven inches wide, and no text below seven points."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.text import Text

from reproduce.papers.pmsfl import derivation_pictures as pictures

X = np.linspace(-2, 2, 9)
DRAWN = {
    "mask_training": lambda: pictures.mask_training(X, {"a": X, "b": X**2}, np.linspace(0, 1, 51)),
    "guesses": lambda: pictures.guesses(["a", "mean"], [0.1, 0.2], [0.3, 0.1], total=1),
    "broken_cancellation": lambda: pictures.broken_cancellation(
        {"a": (0.0, 0.1), "b": (0.0, 1.0)}, 0.1
    ),
    "shared_mask": lambda: pictures.shared_mask(
        np.array([1, 2, 4]), {0.3: (np.array([0.8, 0.9, 1.0]), 0.8)}, 1.0
    ),
    "gaussian_steps": lambda: pictures.gaussian_steps(X + 3, np.exp(X), np.exp(X), np.exp(X), 0.5),
    "averaged_views": lambda: pictures.averaged_views([1, 2, 5], [0.5, 0.2, 0.1], (1.0, 0.2)),
    "amplified": lambda: pictures.amplified(X, {0.1: X}, {0.1: (0.5, 0.6)}),
    "uploads_and_runs": lambda: pictures.uploads_and_runs(
        (np.exp(X), {1.0: np.exp(X)}), (np.exp(X), {"exact": np.exp(X)}), resnet=3, budget=1.0
    ),
    "sampled_bit": lambda: pictures.sampled_bit(X, {1.0: X**2}, np.stack([X, X], axis=1)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_fit_the_page_and_can_be_read(name):
    fig = DRAWN[name]()
    fig.canvas.draw()
    assert fig.get_figwidth() == 7.0 and fig.get_figheight() <= 3.0
    sizes = [t.get_fontsize() for t in fig.findobj(Text) if t.get_text().strip()]
    assert sizes and min(sizes) >= 7
    plt.close(fig)
