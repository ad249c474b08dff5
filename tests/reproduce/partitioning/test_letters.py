"""Letters that look like digits, and digits: the public and the private data of the quick tables."""

import numpy as np

from repro.datasets import load_emnist_byclass
from reproduce.papers.partitioning.letters import LOOK_ALIKES, MOST, as_private, as_public, halved


def test_public_images_are_letters_and_private_ones_digits():
    characters = load_emnist_byclass("train", "embedded")
    public, private = as_public(characters), as_private(characters)
    assert public.classes == private.classes == tuple(LOOK_ALIKES)
    assert public.images.shape[1:] == private.images.shape[1:] == (14, 14)
    counts = np.bincount(public.labels, minlength=10)
    assert 0 < counts[:8].min() and counts.max() <= MOST and not counts[8:].any()
    digits = np.bincount(characters.labels[characters.labels < 10])
    by_class = dict(zip(private.classes, np.bincount(private.labels), strict=True))
    assert by_class == {str(digit): count for digit, count in enumerate(digits)}


def test_no_letter_stands_for_two_digits():
    letters = "".join(LOOK_ALIKES.values())
    assert len(set(letters)) == len(letters) and letters.isalpha()


def test_halving_takes_means():
    image = np.array([[0, 4, 10, 10], [4, 8, 10, 10], [1, 1, 0, 0], [1, 2, 0, 255]], dtype=np.uint8)
    assert halved(image[None])[0].tolist() == [[4, 10], [1, 64]]
