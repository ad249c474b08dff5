"""One file alone reads dp-accounting's private fields, and what it reads is what dp-accounting answers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf

import repro.accounting
from repro.accounting import PoissonGaussian
from repro.accounting._losses import profile, threshold
from repro.accounting._pld import losses, mixed, one_sided, self_compositions
from repro.accounting.mspafl.round import AveragedUploads

PRIVATE = re.compile(
    r"\._(pmf_remove|pmf_add|probs|loss_probs|lower_loss|infinity_mass|discretization|symmetric)\b"
    r"|[\"']_(pmf_remove|pmf_add)[\"']"
)


def test_no_other_module_reads_private_fields():
    folder = Path(repro.accounting.__file__).parent
    readers = {path.name for path in folder.rglob("*.py") if PRIVATE.search(path.read_text())}
    assert readers == {"_pld.py"}


def test_masses_are_those_of_dp_accounting():
    distribution = PoissonGaussian(1.0, rate=0.2).pld(interval=1e-3)
    remove, add = one_sided(distribution)
    assert one_sided(distribution, "remove") == [remove]
    assert one_sided(distribution, "add") == [add]
    epsilon = np.array([0.0, 0.1, 0.5, 2.0])
    got = np.maximum(profile(remove, epsilon), profile(add, epsilon))
    want = [distribution.get_delta_for_epsilon(e) for e in epsilon]
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-15)
    for side in (remove, add):
        interval, first, mass, infinite = losses(side)
        assert interval == 1e-3 and first < 0 < first + mass.size
        assert mass.sum() + infinite == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("largest", [5.0, 650.0, 900.0, 5000.0])
def test_epsilon_of_losses_beyond_the_range_of_doubles(largest):
    """Two losses, -largest and largest: epsilon was 0 or too small where exp(loss) has no double."""
    weight = 0.25
    pmf = pld_pmf.create_pmf({-int(largest): 1 - weight, int(largest): weight}, 1.0, 0.0, True)
    delta = np.array([1e-3, 0.1, 0.2])
    found = threshold(pmf, delta)
    np.testing.assert_allclose(found, largest + np.log1p(-delta / weight), rtol=1e-12)
    np.testing.assert_allclose(profile(pmf, found), delta, rtol=1e-9)
    assert threshold(pmf, np.array([0.3]))[0] == 0


@pytest.mark.parametrize("method", ["upper", "lower"])
def test_many_compositions_are_those_of_the_library(method):
    mechanism = AveragedUploads(8.7, p=0.5, q=0.2, clients=20)
    single = mechanism.losses(method, 20 * mechanism.loss_step(method))
    counts, target = [1, 2, 30, 400], np.array([1e-6, 1e-4, 1e-2])
    for side in one_sided(single):
        for count, composed in zip(counts, self_compositions(side, counts), strict=True):
            wanted = side.self_compose(count)
            np.testing.assert_allclose(
                threshold(composed, target), threshold(wanted, target), atol=1e-9
            )
            ours, theirs = losses(composed), losses(wanted)
            assert ours.interval == theirs.interval
            assert ours.infinite == pytest.approx(theirs.infinite, abs=2e-15)
            # The same tails are cut off, mostly nearer to the sum: both choose among a few orders.
            assert ours.mass.size <= 1.02 * theirs.mass.size + 2
            assert ours.mass.sum() == pytest.approx(theirs.mass.sum(), abs=1e-13)
    with pytest.raises(ValueError, match="count"):
        next(self_compositions(side, [0]))


@pytest.mark.parametrize("up", [True, False])
def test_a_mixture_with_losses_too_far_away_for_memory(up):
    near = pld_pmf.DensePLDPmf(0.5, 2, np.array([0.3, 0.6]), 0.1, up)
    kept = losses(mixed(near, 0.25))
    assert kept.first == 0 and kept.infinite == 0.025
    assert kept.mass == pytest.approx([0.75, 0, 0.075, 0.15])
    for place in (-(10**12), 10**12):
        far = pld_pmf.DensePLDPmf(1e-12, place, np.array([0.3, 0.6]), 0.1, up)
        kept = losses(mixed(far, 0.25))
        assert kept.mass.size < 10**7
        # Upwards nothing is lost; downwards what lies far below is given away.
        lost = 0.225 if place < 0 and not up else 0.0
        assert kept.mass.sum() + kept.infinite == pytest.approx(1 - lost)
        assert kept.mass[-kept.first] == pytest.approx(0.75)
