"""Attacks on what clients send: reconstruction of their images.

`reconstruction` fits images to smashed data and gradients, given a `priors.Prior` of images and a
belief about the client's weights (`beliefs`).
"""

from repro.attacks.beliefs import Averaged, Inferred, InferredEach, Known
from repro.attacks.priors import Prior, public_prior, smooth_prior
from repro.attacks.reconstruction import Observation, Reconstruction, reconstruct

__all__ = [
    "Averaged",
    "Inferred",
    "InferredEach",
    "Known",
    "Observation",
    "Prior",
    "Reconstruction",
    "public_prior",
    "reconstruct",
    "smooth_prior",
]
