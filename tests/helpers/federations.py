"""Tiny federations for the tests of split learning: data, a plan, every method, a configuration."""

import numpy as np
import torch

from repro.federated.client_data import ClientData
from repro.federated.pmsfl.split_method import Plan
from repro.models.split import resnet18
from reproduce.papers.pmsfl.runs import METHODS, depths, keys_of

CPU = torch.device("cpu")
OWN = {
    "splitfed_dp": {
        "smashed_epsilon": 5.0, "bound": 1.0, "update_epsilon": 5.0, "update_delta": 1e-5, "clip": 1.0,
    },
    "lg_fedavg": {"local_blocks": 1},
    "pmsfl": {"agreement": 1, "ratio": 0.5},
}  # fmt: skip


def data(clients=6, records=8, classes=3, seed=0, shape=(1, 8, 8)):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, clients * records)
    patterns = rng.standard_normal((classes, *shape))
    inputs = patterns[labels] + 0.3 * rng.standard_normal((len(labels), *shape))
    parts = np.arange(len(labels)).reshape(clients, records)
    return ClientData(
        inputs.astype(np.float32), labels, classes, tuple(parts[:, 2:]), tuple(parts[:, :2]),
        "made up", "generated", "0",
    )  # fmt: skip


def plan(**changes):
    standard = dict(
        rounds=4, participation=0.5, iterations=2, batch=4, rate=0.01, mask_rate=0.3, floor=0.05,
        gradient="straight_through",
    )  # fmt: skip
    return Plan(**{**standard, **changes})


def make(name="splitfed", federation=None, mixed=False, own=None, **changes):
    federation = data() if federation is None else federation
    network = resnet18(classes=federation.classes, channels=1, width=2, layers=1)
    own = OWN.get(name, {}) if own is None else own
    held = depths(federation.clients, mixed)
    return METHODS[name](federation, network, held, plan(**changes), 3, CPU, **own)


def config(method, **changes):
    full = dict(
        data="digits_dirichlet", clients=6, heterogeneous=False, width=2, layers=1, heads=2,
        rounds=3, participation=0.5, iterations=2, batch=4, rate=0.01, mask_rate=0.3, floor=0.05,
        gradient="paper", evaluate_every=2, reference=4, chunk=4, checkpoint=0, device="cpu",
        **OWN["splitfed_dp"], **OWN["lg_fedavg"], **OWN["pmsfl"],
    )  # fmt: skip
    full |= {"method": method, **changes}
    return {key: full[key] for key in keys_of(method)}


def tensors(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
