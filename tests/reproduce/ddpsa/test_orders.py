"""What Figures 6 and 9 say of the paper's statements: on times and losses made up for the purpose."""

import numpy as np
import pytest

from repro.accounting.ddpsa.printed import MECHANISMS
from reproduce.papers.ddpsa import orders, stated


def test_the_papers_own_seconds_are_in_its_order_and_add_up():
    loops = {name: stated.SECONDS[name] for name in ("LDP", "DDP-SA")}
    found = orders.times(stated.SECONDS, loops)
    assert {claim: one.holds for claim, one in found.items()} == {
        "order": True,
        "slightly": True,
        "additive": True,
    }


@pytest.mark.parametrize(
    ("changed", "claim"),
    [({"MPC": 9.0}, "order"), ({"DDP-SA": 13.0}, "slightly"), ({"LDP": 12.0}, "additive")],
)
def test_each_statement_can_fail(changed, claim):
    arrays = {**stated.SECONDS, **changed}
    found = orders.times(arrays, {name: arrays[name] for name in ("LDP", "DDP-SA")})
    assert found[claim].holds is False
    assert found[claim].reason
    assert list(arrays) == list(MECHANISMS)


def losses(rng, ldp, ddp_sa, shares):
    """Losses of 20 runs for n = 2 and 6 that scatter by 1 % around these."""
    names = {"LDP": ldp, "DDP-SA": ddp_sa, "shares, equal round": shares}
    return {
        f"{name}, n = {n}": value * np.exp(0.01 * rng.normal(size=20))
        for name, values in names.items()
        for n, value in zip((2, 6), values, strict=True)
    }


def test_orders_of_losses():
    rng = np.random.default_rng(1)
    loss = {
        "all records": losses(rng, (1.0, 1.0), (1.0, 1.0), (1.0, 1.0)),
        "batches": losses(rng, (2.0, 1.0), (2.0, 1.0), (1.0, 1.0)),
        "descent": losses(rng, (1.0, 3.0), (1.0, 3.0), (0.5, 0.5)),
    }
    found = orders.against_clients(loss, [2, 6], [], 0.05)
    holds = {claim: answer.holds for claim, (answer, _) in found.items()}
    assert holds == {
        "better-than-ldp": False,
        "falls": False,
        "averaging": False,
        "shares-equal-round": True,
    }
    assert "0.50 with batches" in found["falls"][1]
