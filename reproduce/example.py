"""The worked example that a new figure begins with: texts in which `skeleton` puts the names.

It is a true, small figure: the classical bound of the Gaussian mechanism, and the tight value in the same picture.
"""

TITLE = '''title = "TODO: the title of <PAPER>"'''

ENTRY = """
# TODO: quote the paper, put its numbers, and write each tolerance before the first run.
[figures.<FIGURE>]
title = "epsilon against sigma, one release"
notebook = "notebooks/<PAPER>/<FIGURE>.ipynb"
rtol = 1e-6
free = ["points"] # parameters that a reader may change without touching a claim

[[figures.<FIGURE>.claims]]
id = "above-truth"
kind = "order"
where = "TODO: section and figure"
statement = "the printed epsilon is at least the true one wherever it is at most 1"
own = true # TODO: a claim of the paper has `quote = "its own words"` in place of this line

[[figures.<FIGURE>.claims]]
id = "epsilon-10"
kind = "number"
where = "TODO: section and figure"
statement = "epsilon at sigma = 10"
paper = 0.484
rtol = 0.01
own = true # TODO: as above
""".lstrip()

BOUND = '''
"""The bounds of the paper `<PAPER>` as printed.

Source: TODO, title and version of the paper. The example is the classical bound of the Gaussian mechanism
(Dwork and Roth, "The Algorithmic Foundations of Differential Privacy", 2014, Theorem A.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from repro._validate import positive, probability_open

__all__ = ["printed_epsilon"]


def printed_epsilon(sigma: ArrayLike, delta: float, clip: float = 1.0) -> np.ndarray:
    """Epsilon of one release with Gaussian noise: (clip / sigma) sqrt(2 log(1.25 / delta)).

    Args:
        sigma: standard deviation of the noise, positive and finite, any shape.
        delta: in (0, 1).
        clip: largest norm of what is released, positive and finite.

    Returns:
        Epsilon, of the shape of sigma. The theorem states it for values below 1 only.

    Raises:
        ValueError: an argument is out of its range.
    """
    ratio = positive("clip", clip) / positive("sigma", sigma)
    return ratio * np.sqrt(2 * np.log(1.25 / probability_open("delta", delta)))
'''.lstrip()

TEST = '''
"""The printed bound of `<PAPER>`: against the tight value, limits, ranges."""

import numpy as np
import pytest

from repro.accounting import GaussianMechanism
from repro.accounting.<PAPER>.<MODULE> import printed_epsilon


def test_the_bound_is_above_the_tight_value_where_it_is_stated():
    sigma = np.geomspace(5, 500, 20)
    printed = printed_epsilon(sigma, 1e-5)
    assert printed.max() < 1
    assert np.all(printed >= GaussianMechanism(sigma).epsilon(1e-5))


def test_the_printed_number():
    assert printed_epsilon(10.0, 1e-5) == pytest.approx(0.4845, rel=1e-4)


def test_limits():
    assert printed_epsilon(1e12, 1e-5) == pytest.approx(0, abs=1e-11)
    assert printed_epsilon(8.0, 1e-5, clip=2.0) == printed_epsilon(4.0, 1e-5)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sigma", {"sigma": 0.0, "delta": 1e-5}),
        ("delta", {"sigma": 1.0, "delta": 1.0}),
        ("clip", {"sigma": 1.0, "delta": 1e-5, "clip": -1.0}),
    ],
)
def test_an_error_names_the_argument(name, values):
    with pytest.raises(ValueError, match=f"^{name} must be "):
        printed_epsilon(**values)
'''.lstrip()

FINDINGS = """
+++
picture = "<FIGURE>"
central = ["<FIGURE>/above-truth"]
authors = ["TODO"]
year = 2014
reference = "https://doi.org/10.1561/0400000042"
+++

## In short

TODO: three sentences. The printed bound
{claim:<PAPER>/<FIGURE>/above-truth:verdict}: {claim:<PAPER>/<FIGURE>/above-truth:short}.

## What the paper claims

TODO

## What stands

TODO

## What falls

TODO

## What an attacker can do

TODO

## What is repaired

TODO

## What could not be tested

{list:<PAPER>:undecided,not tested,not attainable,not yet}

## What was easy

TODO

## What was hard

TODO
""".lstrip()

CELLS = (
    (
        "text",
        r"""
# <FIGURE>: ε against σ, one release

TODO: what the figure shows and the claim it carries, in your words, with its place in the paper; at least 200
characters. The example shows the ε that the classical bound of the Gaussian mechanism states,
$\varepsilon = (C / \sigma) \sqrt{2 \log(1.25 / \delta)}$, and in the same picture the tight value. Claims: the bound is
never below the tight value where it is stated (ε at most 1), and its value at σ = 10.
""",
    ),
    (
        "parameters",
        """
profile = "quick"
clip = 1.0
delta = 1e-5
sigma_min = 5.0  # units of the clip
sigma_max = 50.0
points = 25
""",
    ),
    (
        "code",
        """
import matplotlib.pyplot as plt
import numpy as np

from repro.accounting import GaussianMechanism
from repro.accounting.<PAPER>.<MODULE> import printed_epsilon
from repro.report import style
from reproduce.notebook import Workbook

book = Workbook("<PAPER>/<FIGURE>", globals())
book.headline()
""",
    ),
    (
        "code",
        """
sigma = np.geomspace(sigma_min, sigma_max, points)
printed = printed_epsilon(sigma, delta, clip)
tight = GaussianMechanism(sigma, sensitivity=clip).epsilon(delta)
""",
    ),
    (
        "code",
        """
fig, ax = plt.subplots()
ax.loglog(sigma, printed, **style.line(0), label="as printed")
ax.loglog(sigma, tight, **style.line(1), label="tight")
ax.set(xlabel="σ (units of the clip)", ylabel="ε of one release")
ax.legend()
book.save(
    fig,
    data={"sigma": sigma, "epsilon": {"printed": printed, "tight": tight}},
    caption=f"ε of one release at δ = {delta:g}, as the printed bound states it, and its tight value.",
)
ratio = printed / tight
book.story(
    claimed="The bound states the ε of one release.",
    found=f"It is {ratio.min():.2f} to {ratio.max():.2f} times the tight value.",
    why="It bounds a Gaussian tail; the tight value evaluates the tails.",
)
""",
    ),
    ("text", "**The claims.** TODO: the argument, before the cell that decides it."),
    (
        "code",
        """
stated = printed <= 1
margin = np.min(ratio[stated], initial=np.inf)
book.statement(
    "above-truth",
    margin >= 1,
    f"at least {margin:.3g} times the tight value",
    "the tight value is above the printed one",
)
at_10 = float(printed_epsilon(10 * clip, delta, clip))
book.number("epsilon-10", at_10, "the bound gives another number than is printed")
""",
    ),
    ("text", "**Verdicts.** The paper's statement beside ours."),
    ("code", "book.table()"),
)
"""The cells of the notebook: what each is, and its source."""
