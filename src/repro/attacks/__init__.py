"""Attacks on what clients send: reconstruction of their images, and how good it is.

`reconstruction` fits images to smashed data and gradients, given a `priors.Prior` of images and a
belief about the client's weights (`beliefs`); `attackers` and `persistent` are those of
pmsfl, sections 3 and 6.4.
"""

from repro.attacks.beliefs import Averaged, Inferred, InferredEach, Known
from repro.attacks.image_quality import linked, margin, psnr, relative_distance, ssim
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
    "linked",
    "margin",
    "psnr",
    "public_prior",
    "reconstruct",
    "relative_distance",
    "smooth_prior",
    "ssim",
]
