"""Numbers that ddpsa prints (arXiv 2604.07125v1), as the figures of this paper quote them.

Where a number belongs to one of the four mechanisms, the order is that of `MECHANISMS`.
"""

from __future__ import annotations

from repro.accounting.ddpsa.printed import MECHANISMS

__all__ = [
    "LEVELS",
    "LOSS",
    "MARKS",
    "MESSAGES",
    "MINUTES",
    "OPERATIONS",
    "R2",
    "REACHED",
    "REACHED_BY_PAIR",
    "ROUNDS",
    "ROUNDS_OF_FIGURE_3",
    "SECONDS",
]

ROUNDS = dict(zip(MECHANISMS, (1041, 1222, 1035, 1218), strict=True))
"""Rounds until convergence, section VI-F3 and Figure 10."""

ROUNDS_OF_FIGURE_3 = dict(zip(MECHANISMS, (2082, 2444, 2070, 2436), strict=True))
"""Communication rounds until convergence, section VI-B and Figure 3."""

LOSS = dict(zip(MECHANISMS, (1e-12, 0.0106, 1e-12, 0.0055), strict=True))
"""Test loss, Figure 7(a)."""

R2 = dict(zip(MECHANISMS, (0.9999, 0.9357, 0.9999, 0.9666), strict=True))
"""Test R2, Figure 7(b)."""

REACHED = {name: f"loss {loss:g}" for name, loss in LOSS.items()}
"""The criterion of convergence of `reproduce.papers.ddpsa.runs` that says the same as `LOSS`."""

REACHED_BY_PAIR = {
    name: tuple(dict.fromkeys([own, *(REACHED[other] for other in pair)]))
    for pair in (("No-Private", "MPC"), ("LDP", "DDP-SA"))
    for name, own in ((name, REACHED[name]) for name in pair)
}
"""The criteria that may be meant where none is stated: the mechanism's own loss of Figure 7, then
that of the mechanism which trains alike (section VI-B: the same optimiser, noise and clip)."""

LEVELS = ("loss 0.0106", "loss 0.0055", "loss 1e-6", "loss 1e-12")
"""Criteria in which the mechanisms are compared, from the easiest to the hardest."""

MARKS = (1041, 1222, 2082, 2444)
"""Rounds at which the losses are read: those of No-Private and LDP in Figures 10 and 3."""

MINUTES = dict(zip(MECHANISMS, (112, 172, 138, 203), strict=True))
"""Minutes until convergence, Figure 5."""

SECONDS = dict(zip(MECHANISMS, (6.4553, 8.4452, 8.0, 10.0), strict=True))
"""Seconds of a round, Figure 6."""

OPERATIONS = {
    "clipping": 547.95,
    "noise": 0.24,
    "addition": 0.05,
    "encoding": 0.22,
    "sharing": 0.53,
    "transmission": 46.13,
}
"""Milliseconds of each operation per client and round, Table II."""

MESSAGES = 2
"""Rounds of Figure 3 for one of section VI-F3: exactly twice as many, for all four mechanisms."""
