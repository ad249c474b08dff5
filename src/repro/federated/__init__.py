"""The papers' algorithms, each in a file that reads like its box, and the parts they share.

    from repro.federated import RandomParticipationSettings, squared_error, train_random_participation

What each trains: `train_random_participation` any PyTorch model whose layers `clipped_gradient_sum`
covers, on any records and loss; `train_partitioning` and `train_partitioning_clients` a
`repro.models.residual.ResidualNet`; `train_mspafl` a logistic regression per client; `train_ddpsa` a
linear regression; `train_pmsfl` with `PMSFL` a `repro.models.split.SplitNetwork`. Names are imported when
they are first asked for, so that importing this package loads no PyTorch.
"""

from importlib import import_module

_HOMES = {
    "BalancedIterations": "participation",
    "Checkpoint": "saved_arrays",
    "ClippedSum": "clipping",
    "DdpsaTraining": "ddpsa.algorithm:Training",
    "DdpsaVariant": "ddpsa.algorithm:Variant",
    "Evaluation": "evaluation",
    "Guarantee": "guarantee",
    "Local": "partitioning.local_training",
    "MspaflLocalTraining": "mspafl.algorithm:LocalTraining",
    "MspaflVariant": "mspafl.algorithm:Variant",
    "NoisyDescent": "partitioning.algorithms",
    "PMSFL": "pmsfl.algorithm",
    "PmsflPlan": "pmsfl.split_method:Plan",
    "PoissonIterations": "participation",
    "LostRankError": "ranks",
    "RandomParticipationSettings": "random_participation:Settings",
    "Ranks": "ranks",
    "Splitting": "partitioning.algorithms",
    "TwoLevelPoisson": "participation",
    "clipped_gradient_sum": "clipping",
    "cross_entropy": "clipping",
    "gradient_sum": "clipping",
    "launched": "ranks",
    "squared_error": "clipping",
    "train_ddpsa": "ddpsa.algorithm:train",
    "train_mspafl": "mspafl.algorithm:train",
    "train_partitioning": "partitioning.algorithms:train_on_submodels",
    "train_partitioning_clients": "partitioning.algorithms:train_federated",
    "train_pmsfl": "pmsfl.algorithm:train",
    "train_random_participation": "random_participation:train",
}
"""Each public name: the module below this package, and the name there where it is another."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, there = _HOMES[name].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), there or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
