"""How much computing and memory a run takes, as a function of its configuration alone.

A paper names such a function for a kind of run in its catalogue, `[work]`. From it and from smaller runs that were
measured, `reproduce.needs` estimates what nobody has measured.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reproduce import catalogue


@dataclass(frozen=True)
class Work:
    """What a run takes.

    Attributes:
        least, most: operations, in any unit that runs of the same kind share; between the two it depends on what
            the configuration does not say, such as the epochs until an accuracy is reached. 0 < least <= most.
        mib: tensors that it holds at a time, in MiB; without what every run of its kind holds.
        gpu: whether it uses a GPU where there is one, if its configuration has no "device".
    """

    least: float
    most: float
    mib: float
    gpu: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.most or self.mib < 0:
            raise ValueError(f"work must have 0 < least <= most and mib >= 0, got {self}")


def of(name: str, config: Mapping[str, Any]) -> Work | None:
    """What a run of the task `<paper>/<name>` takes; None where the paper names no function for it."""
    function = catalogue.work_functions().get(name)
    if function is None:
        return None
    module, _, attribute = function.partition(":")
    return getattr(importlib.import_module(module), attribute)(config)
