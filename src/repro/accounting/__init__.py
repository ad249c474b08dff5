"""Privacy accounting: one frozen dataclass per mechanism, composition and calibration."""

from repro.accounting.calibration import calibrate_sigma
from repro.accounting.composition import compose, with_interval
from repro.accounting.exchange import OpacusAccountant, from_dp_event
from repro.accounting.federation import Federation
from repro.accounting.gaussian import GaussianMechanism, PoissonGaussian
from repro.accounting.mechanism import InvalidBoundWarning, Mechanism
from repro.accounting.partitioning.balanced import BalancedIterationSubsampling
from repro.accounting.partitioning.model_splitting import ModelSplitting
from repro.accounting.random_participation.baselines import (
    CentralizedShuffling,
    OnlyLocalSampling,
    WeakClientSampling,
)
from repro.accounting.random_participation.mechanisms import RandomParticipation

__all__ = [
    "BalancedIterationSubsampling",
    "CentralizedShuffling",
    "Federation",
    "GaussianMechanism",
    "InvalidBoundWarning",
    "Mechanism",
    "ModelSplitting",
    "OpacusAccountant",
    "OnlyLocalSampling",
    "PoissonGaussian",
    "RandomParticipation",
    "WeakClientSampling",
    "calibrate_sigma",
    "compose",
    "from_dp_event",
    "with_interval",
]
