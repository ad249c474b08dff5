"""What the training runs of several papers check and load in the same way."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from repro.datasets import Dataset


def check_keys(config: Mapping[str, Any], keys: Set[str]) -> None:
    """Raise unless a run's configuration has exactly these keys.

    Args:
        config: the configuration of a run.
        keys: the keys that the run reads.

    Raises:
        ValueError: a key is missing or unknown; the message names it and lists all keys.
    """
    for problem, names in (("misses", keys - set(config)), ("has the unknown", set(config) - keys)):
        if names:
            raise ValueError(
                f"config {problem} {', '.join(map(repr, sorted(names)))}; it has {sorted(keys)}"
            )


def tensors(
    data: Dataset, chosen: NDArray[np.int64], device: torch.device
) -> tuple[Tensor, Tensor]:
    """The chosen records of a data set, on a device.

    Args:
        data: labelled images, grey or in colour.
        chosen: places in `data`, shape (n,).
        device: where the tensors go.

    Returns:
        Images as bytes, shape (n, colours, height, width), and labels, int64, shape (n,).
    """
    images = torch.from_numpy(data.images[chosen])
    images = images.permute(0, 3, 1, 2).contiguous() if images.ndim == 4 else images[:, None]
    return images.to(device), torch.from_numpy(data.labels[chosen]).to(device)
