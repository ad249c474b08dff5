"""Networks of the experiments, each built from a name and a seed."""

from repro.models.networks import (
    DigitsCNN,
    DigitsMLP,
    EmnistCNN,
    Pixels,
    build,
    count_parameters,
    evaluate,
)

__all__ = ["DigitsCNN", "DigitsMLP", "EmnistCNN", "Pixels", "build", "count_parameters", "evaluate"]
