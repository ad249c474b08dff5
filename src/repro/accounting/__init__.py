"""Privacy accounting: one frozen dataclass per mechanism, composition and calibration."""

from repro.accounting.calibration import calibrate_sigma
from repro.accounting.composition import compose
from repro.accounting.gaussian import GaussianMechanism, PoissonGaussian
from repro.accounting.mechanism import InvalidBoundWarning, Mechanism
from repro.accounting.partitioning.balanced import BalancedIterationSubsampling
from repro.accounting.partitioning.model_splitting import ModelSplitting
from repro.accounting.random_participation.mechanisms import (
    CentralizedShuffling,
    OnlyLocalSampling,
    RandomParticipation,
    WeakClientSampling,
)

__all__ = [
    "BalancedIterationSubsampling",
    "CentralizedShuffling",
    "GaussianMechanism",
    "InvalidBoundWarning",
    "Mechanism",
    "ModelSplitting",
    "OnlyLocalSampling",
    "PoissonGaussian",
    "RandomParticipation",
    "WeakClientSampling",
    "calibrate_sigma",
    "compose",
]
