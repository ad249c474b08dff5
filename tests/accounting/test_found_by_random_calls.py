"""What `make faults` found in its random calls: overflows, warnings, memory without limit, errors that name nothing."""

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf

from repro.accounting import (
    BalancedIterationSubsampling,
    CentralizedShuffling,
    ModelSplitting,
    OnlyLocalSampling,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    compose,
)
from repro.accounting.__main__ import main
from repro.accounting._laplace_sums import loss_point
from repro.accounting._losses import profile
from repro.accounting._pld import losses, on_grid, one_sided
from repro.accounting.ddpsa import printed as ddpsa
from repro.accounting.laplace import SummedLaplace
from repro.accounting.mspafl import carried
from repro.accounting.mspafl import printed as mspafl
from repro.accounting.mspafl import round as uploads_module
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.mspafl.run import average_epsilon_lower, run_delta
from repro.accounting.partitioning import conditional
from repro.accounting.partitioning import printed as partitioning
from repro.accounting.partitioning.blocks import ratio_losses
from repro.accounting.partitioning.columns import log_outside
from repro.accounting.partitioning.conditional import _places, _strike
from repro.accounting.partitioning.laws import Law
from repro.accounting.partitioning.ratio import BalancedRatio
from repro.accounting.pmsfl import printed as pmsfl
from repro.accounting.pmsfl import releases
from repro.accounting.random_participation.comb import comb
from repro.accounting.random_participation.lower import pair_masses
from repro.accounting.random_participation.mechanisms import CountRevealed
from repro.attacks.one_run import guess_p_value
from repro.federated.ddpsa.algorithm import Variant
from repro.federated.mspafl.algorithm import LocalTraining
from repro.secagg import discrete_laplace

HUGE = 2**2000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: ddpsa.element_bytes(0.3, decimals=10**4), "decimals must be"),
        (lambda: ddpsa.element_bytes(0.3, decimals=HUGE), "decimals must be"),
        (lambda: ddpsa.representable(2**61 - 1, decimals=10**4), "decimals must be"),
        (lambda: ddpsa.representable(HUGE, decimals=3), "modulus must be"),
        (lambda: ddpsa.quantisation_error(HUGE), "decimals must be"),
        (lambda: mspafl.log_moment(2, 1.0, 0.1, q=0.1, clip=1e-300), "clip must be"),
        (lambda: mspafl.composed_log_moment(2, 1.0, 0.1, 9, p=0.1, q=0.0, clip=1e-300), "clip must"),
        (lambda: partitioning.reverse_bound(2, HUGE, 3, 0.1), "d must be"),
        (lambda: pmsfl.smashed_gain_log10(0.0, dimension=3, floor=0.1), "epsilon must be"),
        (lambda: guess_p_value(1, 2, 3, 1.0, {}), "delta must be"),
        (lambda: ddpsa.quantisation_error(100, clients=HUGE), "clients must be an integer in"),
        (lambda: ddpsa.reconstruction_probability(0.5, HUGE), "servers must be an integer in"),
        (lambda: ddpsa.per_round_epsilon(1e-300, clip=1e12), "scale must be"),
        (lambda: run_delta(8.0, HUGE, ratio=1.0, p=0.9, clients=10), "rounds must be an integer in"),
        (lambda: pmsfl.score_slope(HUGE), "scores must be"),
        (lambda: releases.adam_reach(HUGE), "steps must be"),
        (lambda: CentralizedShuffling(1e-300, p=0.1, q=0.1, clip=1e12), "sigma must be at least"),
        (lambda: OnlyLocalSampling(1e-300, q=0.1), "sigma must be at least"),
        (lambda: RandomParticipation(1e-300, p=0.1, q=0.1, samples_per_client=2), "sigma must be"),
        (lambda: discrete_laplace(1, HUGE), "size must be"),
        (lambda: WeakClientSampling(1e12, p=0.1, q=0.0, clip=1e-300), "sigma must be at most 1e.308 times clip"),
        (
            lambda: compose(SummedLaplace(1e-300, clients=3, sensitivity=50.0), 50).delta(1.0, method="lower"),
            "mechanism must have more noise",
        ),
        (
            lambda: WeakClientSampling(50, p=1e-6, q=1, clip=0.03).pld(method="lower", interval=1e-12),
            "interval must be at least",
        ),
        (lambda: discrete_laplace(1, (2**30, 2**30)), "size must be"),
    ],
)  # fmt: skip
def test_what_no_double_holds_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()


@pytest.mark.parametrize(
    "given",
    [
        {"smashed": 1e9, "releases": 2, "interval": 1e-3},
        {"smashed": 1000.0, "releases": 1, "interval": 1e-6},
        {"smashed": 1.0, "releases": 1, "interval": 1e-300},
        {"smashed": 100.0, "releases": 10**9, "interval": 5e-3},
    ],
)
def test_a_grid_that_takes_gigabytes_is_refused(given):
    with pytest.raises(ValueError, match="interval must be at least"):
        releases.run_epsilon(0.1, update=1.0, rounds=1, **given)


def test_bytes_of_the_largest_numbers():
    """A limit of 10^300 with 300 decimals: 10^600 and its negative, 1994 bits and one for the sign."""
    assert ddpsa.element_bytes(1e300, decimals=300) == -(-1995 // 8)
    assert ddpsa.element_bytes(1.0, decimals=10) == 5
    assert np.isclose(ddpsa.representable(2**64, decimals=10), 2**63 / 1e10)


@pytest.mark.parametrize(("clients", "scale"), [(10_000, 1e-3)])
def test_the_losses_of_many_clients_with_little_noise_are_a_distribution(clients, scale):
    """The loss at the middle was a trace above 0, so that its cell was looked for at the far end: masses of 2."""
    mechanism = SummedLaplace(scale, clients=clients)
    for side in one_sided(mechanism.pld(interval=mechanism.pure / 1000)):
        kept = losses(side)
        assert kept.mass.sum() + kept.infinite == pytest.approx(1.0, abs=1e-3)


def test_the_search_for_an_equal_scale_ends_where_its_steps_lead_to_and_fro():
    """At a large delta epsilon falls faster with the scale than a step assumes, and it swung between two scales."""
    total = ddpsa.aggregate_epsilon(8.0, clients=10, rounds=1, delta=0.5)
    scale = ddpsa.equal_scale(8.0, clients=10, rounds=1, delta=0.5)
    assert 0.99 * total <= SummedLaplace(scale).epsilon(0.5) <= total


@pytest.mark.parametrize("up", [True, False])
def test_places_beyond_the_whole_numbers_of_an_array(up):
    """A signal of 10^-300 beside noise: its losses on a grid of their own, moved to one of 10^-3."""
    fine = pld_pmf.DensePLDPmf(1e-300, -(10**20), np.array([0.25, 0.75]), 0.0, up)
    kept = losses(on_grid(fine, 1e-3))
    assert kept.mass.sum() == pytest.approx(1.0)
    assert (
        kept.interval * np.abs(kept.first + np.arange(kept.mass.size))[kept.mass > 0].max() <= 1e-3
    )


@pytest.mark.parametrize("together", [1, 7, 60])
def test_divergences_of_many_clients_are_added_up_in_pieces(monkeypatch, together):
    """With 10,000 clients the whole table took 1.6 GB; the pieces give the same sum."""
    uploads = AveragedUploads(1.0, p=0.3, q=0.5, clients=60)
    whole = uploads.rdp(2.5)
    monkeypatch.setattr("repro.accounting.mspafl.round._TOGETHER", together)
    assert uploads.rdp(2.5) == pytest.approx(whole, rel=1e-12)


def test_a_small_participation_makes_no_loss_small():
    """Delta was tiny at loss 0 already, so that the spacing of the losses was taken for their typical size: 42 GiB."""
    mechanism = WeakClientSampling(50, p=1e-6, q=1, clip=0.03)
    reached = mechanism.tpr_at_fpr(0.01, method="lower")
    assert 0.01 <= reached <= mechanism.tpr_at_fpr(0.01)
    assert mechanism.gdp_mu(method="lower") <= mechanism.gdp_mu()


def test_losses_too_small_for_a_grid_tell_nothing():
    run = compose(WeakClientSampling(1e300, p=0.05, q=1 - 0.8**100), 10)
    assert run.epsilon(1e-5, method="lower") == 0.0


def test_next_to_no_laplace_noise_hides_nothing_at_large_epsilons():
    """The search for the worst output ended at 10^6, however far the outputs are apart: delta came out as 0."""
    assert SummedLaplace(1e-7, clients=3).delta(4e6) == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore")
def test_a_shortcut_that_states_epsilon_0(capsys):
    """How many times 0 the true epsilon is ended in a division by zero."""
    given = "--adjacency client --observer participants --rounds 1 --noise 0.5 --delta 0.03"
    assert main(given.split()) == 0
    assert "DANGEROUS" in capsys.readouterr().out


def test_more_participations_of_many_iterations_cost_seconds():
    """One large likelihood ratio decides there: thousands of strikes had lattices of their own, for over 60 s."""
    mechanism = BalancedIterationSubsampling(0.03, iterations=10_000, participations=2, clip=0.03)
    assert np.unique(_places(np.linspace(0, 3000, 30_000))).size < 400
    assert 0.01 < mechanism.tpr_at_fpr(0.01, method="lower") < 0.0108
    # The upper bound rose with epsilon, from 0.0096 to 0.0100.
    delta = mechanism.delta(np.array([0.0, 0.0131, 0.0262, 0.0524, 0.131]))
    assert np.all(np.diff(delta) < 0) and delta[0] < 0.0105


@pytest.mark.parametrize("strike", [0.0, 3.4, -63.6, 65.0, -200.0, 1e4])
def test_a_strike_is_close_to_that_of_its_design(strike):
    design = _strike(float(_places(np.array([strike]))[0]))
    assert abs(design - strike) <= max(0.5, abs(strike) / 100)


def test_a_kind_of_columns_without_mass_at_the_end_bounds_what_is_outside():
    """The whole exponential was at places without mass, so that the bound was 0."""
    weight = np.append(np.full(10, 0.1), np.zeros(2000))
    assert log_outside(np.arange(2010), [(weight, 4)], -5.0, 30.0) > -20.0


def test_ratios_too_small_or_too_large_for_doubles():
    """Ratios too small for doubles ended in the log of 0, losses above 709 in an overflow."""
    mechanism = BalancedIterationSubsampling(0.001, iterations=10, participations=3, clip=0.03)
    run = compose(mechanism, 50)
    assert 0 < run.epsilon(1e-5, method="lower") <= run.epsilon(1e-5) < np.inf
    law = Law(np.array([1e-310, 1.0, 2.0]), np.array([0.25, 0.5, 0.25]))
    assert losses(one_sided(ratio_losses(law, 0.01, "lower"))[0]).mass.sum() <= 1.0


def test_a_minute_chance_of_an_immense_loss():
    """Losses of 10^12 on a grid of 10^-12 took petabytes."""
    mechanism = ModelSplitting(0.3, submodels=1, rate=1e-12, clip=1e6, unsplit_clip=3.0)
    assert mechanism.tpr_at_fpr(0.01, method="lower") <= mechanism.tpr_at_fpr(0.01)
    assert mechanism.gdp_mu(method="lower") <= mechanism.gdp_mu()


@pytest.mark.parametrize("up", [True, False])
def test_losses_that_are_too_far_apart_move_to_the_side_they_are_rounded_to(up):
    far = 10**14
    kept = losses(pld_pmf.SparsePLDPmf({-far: 0.1, 0: 0.6, far: 0.2}, 1e-12, 0.1, up))
    ends = (kept.mass[0], kept.mass[-1], kept.infinite)
    assert ends == pytest.approx((0.1, 0.6, 0.3) if up else (0.6, 0.2, 0.1))


def test_a_draw_so_rare_that_rounding_leaves_none_of_it():
    run = compose(CarriedRun(0.3, rounds=100, p=1e-12, q=1e-6, clients=10_000, clip=0.03), 50)
    assert run.delta(1.0, method="lower") <= run.delta(1.0) <= 1e-11


def test_next_to_no_noise_has_no_divergences():
    with pytest.raises(ValueError, match="sigma must be at least"):
        AveragedUploads(1e-300, p=0.999, q=1e-12, clients=10_000, clip=1e-6).rdp(2.5)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("replacement", lambda value: mspafl.sampling_ratio(10_000, 3, replacement=value)),
        ("average", lambda value: ddpsa.quantisation_error(10, clients=3, average=value)),
        (
            "participants_known",
            lambda value: AveragedUploads(1.0, p=0.1, clients=3, participants_known=value),
        ),
    ],
)
def test_a_truth_value_is_true_or_false(name, call):
    with pytest.raises(TypeError, match=f"{name} must be True or False"):
        call(np.zeros((2, 0)))


@pytest.mark.filterwarnings("error")
def test_next_to_no_room_below_the_largest_loss_of_summed_noise():
    """The last of 50,000 cells starts a rounding below the largest loss, where a bracket overflowed."""
    assert compose(SummedLaplace(0.03, clients=3), 50).epsilon(0.1) > 500


def test_many_clients_with_next_to_no_noise_have_fewer_cells(monkeypatch):
    """A lower bound searched 200,000 edges with sums of 100 terms, for over 20 s."""
    monkeypatch.setattr("repro.accounting.laplace._MOST_TERMS", 10**5)
    monkeypatch.setattr("repro.accounting.laplace._LEAST_CELLS", 10)
    cells = []

    def counted(epsilon, *others):
        cells.append(epsilon.size)
        return loss_point(epsilon, *others)

    monkeypatch.setattr("repro.accounting.laplace.loss_point", counted)
    mechanism = SummedLaplace(1.0, clients=100, sensitivity=2000.0)
    kept = losses(one_sided(mechanism.pld(method="lower", interval=0.01))[0])
    assert 0.99 < kept.mass.sum() <= 1.0
    place = kept.first + np.flatnonzero(kept.mass)
    assert set(cells) == {1000}
    assert 49 < kept.interval * place.max() <= 2000


@pytest.mark.parametrize("count", [3, 150])
def test_both_searches_for_an_output_end_at_the_same(monkeypatch, count):
    shift = np.full(30, 4.0)
    epsilon = np.linspace(0.0, 3.9, 30)
    slow = loss_point(epsilon, shift, count)
    monkeypatch.setattr("repro.accounting._laplace_sums._DEAR", 1)
    assert loss_point(epsilon, shift, count) == pytest.approx(slow, rel=1e-10)


def test_averages_with_next_to_no_noise_take_no_gigabytes():
    """Losses of 0 and of 5 10^11 on one grid: 995 million places after 10,000 rounds."""
    given = {"p": 0.999, "q": 1.0, "clients": 1}
    (most,) = average_epsilon_lower(0.999, 10_000, ratio=1e6, **given)
    (less,) = average_epsilon_lower(0.999, 10_000, ratio=20.0, **given)
    assert 1e6 < less < most < 1e7


def test_rates_next_to_1_leave_a_trace_of_silence():
    """p (1 - q) came out as 0 in some cells: a lower epsilon of 99.5, where no loss exceeds 2 x 36.74."""
    almost = 1 - 2.0**-53
    run = compose(CountRevealed(0.1, p=almost, q=almost, samples_per_client=3), 2)
    low, high = (run.epsilon(0.1, method=m, direction="add") for m in ("lower", "upper"))
    assert 73 < low <= high < -2 * np.log(2.0**-53)


def test_rows_of_cells_that_are_next_to_empty_are_left_out():
    """With a noise multiplier of 0.001 there were 86 million cells, most of them between any two sums."""
    masses = pair_masses(1e-3, 0.5, 0.5, 3, 0.6)
    assert masses[0].size < 3e6
    assert [side.sum() for side in masses] == pytest.approx([1.0, 1.0], abs=1e-12)


def test_sums_of_little_noise_are_the_same_in_blocks(monkeypatch):
    """With 1,600 points a clip nearly all terms of the sum over counts are 0; a bound took more than 20 s."""
    s = np.array([0.03, 0.05])
    grid = comb(60, np.array([0.5, 0.2]), s, step=1 / 48, reach=9, lightest=-80.0)
    monkeypatch.setattr("repro.accounting.random_participation.comb._MANY", np.inf)
    values = []
    for least in (1, 10**9):
        monkeypatch.setattr("repro.accounting.random_participation.comb._BLOCKED", least)
        bell = lambda x: np.exp(-((x / s[:, None]) ** 2) / 2)  # noqa: E731
        values.append(grid.mixture(bell, 0.3, slice(37, grid.y.shape[1] - 61)))
    assert values[0] == pytest.approx(values[1], rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("given", [(0.3, 1e-12, 1.0), (1.0, 0.1, 0.1), (0.05, 0.9, 0.9)])
def test_numbers_of_participants_that_hardly_occur_are_left_out(monkeypatch, given):
    """With 10,000 clients each of 20,001 steps looked at all of them, for over 20 s; the sum is the same."""
    sigma, p, q = given
    uploads = AveragedUploads(sigma, p=p, q=q, clients=60)
    few = uploads.rdp([1.5, 2.0, 64.0])
    monkeypatch.setattr("repro.accounting.mspafl.round._FAINT", np.inf)
    assert few == pytest.approx(uploads.rdp([1.5, 2.0, 64.0]), rel=1e-12)
    assert AveragedUploads(sigma, p=p, q=0.0, clients=10**4).rdp(2.0) == 0.0


def test_most_of_many_numbers_of_participants_hardly_occur(monkeypatch):
    seen = []
    terms = uploads_module._log_terms

    def counted(x, ratio, q, k, *others):
        seen.append((x.size, k.size))
        return terms(x, ratio, q, k, *others)

    monkeypatch.setattr(uploads_module, "_log_terms", counted)
    AveragedUploads(1.0, p=0.01, q=0.1, clients=3000).rdp(2.5)
    assert 20 < sum(size for steps, size in seen if steps == 20_001) < 200


@pytest.mark.parametrize("clip", [1e-300, 1e-320])
def test_losses_of_waits_lie_on_no_finer_grid_than_those_of_compositions(clip):
    """A chance of 1/2 was 10^300 places of the typical loss; of a step that is no double there was no grid."""
    run = CarriedRun(0.03, rounds=3, p=0.999, q=0.5, clients=100, clip=clip)
    assert 0 <= run.delta(1e-12, method="lower") <= run.delta(1e-12) < 1e-12
    place = 10**30
    far = pld_pmf.DensePLDPmf(1e-30, place, np.array([0.5, 0.5]), 0.0, False)
    assert profile(far, np.array([0.0])) == pytest.approx(-np.expm1(-1.0))


def test_a_participation_that_never_happens_tells_nothing():
    """Losses of 10^15 on a grid of 10^-12 were asked for, though none of them ever occurs."""
    never = WeakClientSampling(1e-6, p=0.0, q=1.0, clip=50.0)
    assert never.tpr_at_fpr(0.01, method="lower") == pytest.approx(0.01)
    assert compose(never, 2).delta(1.0) <= 1e-13
    with pytest.raises(ValueError, match="interval must be at least"):
        PoissonGaussian(1e-6, rate=1.0, sensitivity=50.0).pld(method="lower", interval=1e-12)


@pytest.mark.parametrize(
    "mechanism",
    [
        CarriedRun(0.03, rounds=10, p=1e-12, q=0.1, clients=1, clip=1e-3),
        AveragedUploads(1.0, p=1e-12, q=1.0, clients=1),
    ],
)
def test_losses_that_hardly_ever_occur_are_not_small(mechanism):
    """Their spacing was a share of the deviation, a millionth of a loss: gigabytes, or a refusal."""
    run = compose(mechanism, 50)
    assert 0 < run.delta(1e-3, method="lower") <= run.delta(1e-3) < 1e-8


def test_a_lower_bound_next_to_1_is_not_above_the_upper_one():
    mechanism = ModelSplitting(3.0, submodels=2, clip=50.0)
    for way in ("remove", "add"):
        low, high = (
            mechanism.delta([0.0, 1e-12, 8.0], method=m, direction=way) for m in ("lower", "upper")
        )
        assert np.all((low > 0.999) & (low <= high))


def test_choices_of_training_are_true_or_false():
    given = {"clients": 1, "clip": 0.1, "epsilon": 1.0, "adam": True, "learning_rate": 0.1}
    with pytest.raises(TypeError, match="shared must be True or False"):
        Variant(**given, shared=-1.0)
    with pytest.raises(TypeError, match="replacement must be True or False"):
        LocalTraining(steps=1, batch=1, replacement=None)


def test_cells_of_very_many_records_are_wider(monkeypatch):
    """With 10 million records of which 600 counted there were 186 million cells of 1.4 GiB."""
    fine = [side.size for side in pair_masses(0.3, 0.5, 0.5, 30, 0.6)]
    monkeypatch.setattr("repro.accounting.random_participation.lower._MOST_CELLS", 40_000)
    masses = pair_masses(0.3, 0.5, 0.5, 30, 0.6)
    assert masses[0].size < 60_000 < fine[0]
    assert [side.sum() for side in masses] == pytest.approx([1.0, 1.0], abs=1e-12)


def test_a_run_with_a_grid_of_gigabytes_is_refused():
    with pytest.raises(ValueError, match="interval must be at least 1.9e-06"):
        releases.run_epsilon(0.1, smashed=8.0, releases=3, update=0.01, rounds=1, interval=1e-6)


@pytest.mark.filterwarnings("error")
def test_curves_end_where_delta_is_0_as_a_double(monkeypatch):
    """Chords between points of exp(-26000) were halved down to millions of points, each a sum over 500 terms."""
    seen, plain = [], CarriedRun._log_mean
    monkeypatch.setattr(
        CarriedRun, "_log_mean", lambda self, e: seen.append(e.size) or plain(self, e)
    )
    run = compose(CarriedRun(1e6, rounds=10**4, p=0.999, q=1.0, clients=10**4, clip=1e-3), 2)
    low, high = (run.delta([0.0, 1e-9, 1.0], method=m) for m in ("lower", "upper"))
    assert np.all(low <= high) and 8e-10 < high[0] < 2e-9
    assert sum(seen) < 10_000


@pytest.mark.filterwarnings("error")
def test_a_distance_of_uploads_beyond_all_doubles():
    """2 C / sigma was infinite, and times 0 no number."""
    run = CarriedRun(1e-300, rounds=100, p=0.999, q=0.5, clients=100, clip=1e12)
    low, high = (run.delta([0.0, 1.0, 1e9], method=m) for m in ("lower", "upper"))
    assert np.all(low <= high) and low[1] > 0.9 and np.all(high <= 1)
    assert run.epsilon(1e-2, method="lower") > 1


def test_losses_of_thousands_lie_on_coarse_grids():
    """Noise of a thousandth of the clip: seconds for each pair, for an epsilon of ten million."""
    run = compose(RandomParticipation(1e-3, p=0.05, q=0.2, samples_per_client=99), 1000)
    low, high = (run.epsilon(1e-5, method=m) for m in ("lower", "upper"))
    assert 1e7 < low <= high < 1.03 * low
    sizes = [losses(side).mass.size for pairs in run._composed.values() for side in pairs]
    assert max(sizes) < 1_500_000


def test_both_directions_share_the_bound_on_one_of_them(monkeypatch):
    """The curve of the best test asked for each of 4,000 epsilons twice, more than 20 s on a loaded machine."""
    asked, plain = [], conditional.ConditionalRatio._by_design
    monkeypatch.setattr(
        conditional.ConditionalRatio,
        "_by_design",
        lambda self, strike, laws: asked.append(strike.size) or plain(self, strike, laws),
    )
    mechanism = BalancedIterationSubsampling(0.31, iterations=10, participations=2)
    epsilon = np.linspace(0.1, 3.0, 20)
    remove, add = (mechanism.delta(epsilon, direction=way) for way in ("remove", "add"))
    assert np.all(add <= remove * (1 + 1e-12)) and asked.count(20) == 1


@pytest.mark.filterwarnings("error")
def test_a_ratio_of_sensitivity_and_scale_beyond_all_doubles():
    mechanism = SummedLaplace(1e-300, clients=100, sensitivity=1e12)
    assert mechanism.delta(1.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="mechanism must have more noise"):
        compose(mechanism, 2).delta(1.0)


def test_blocks_are_not_made_where_the_shift_is_too_small_for_them(monkeypatch):
    """They took 1.8 GiB for nothing."""
    monkeypatch.setattr(BalancedRatio, "blocks", property(lambda _: pytest.fail("blocks are made")))
    mechanism = BalancedIterationSubsampling(1e12, iterations=101, participations=10, clip=3.0)
    assert mechanism.tpr_at_fpr(0.01) == pytest.approx(0.01, abs=1e-11)


def test_attackers_who_cannot_tell_more_are_not_asked(monkeypatch):
    """With 100 clients and hardly any noise the search for epsilon took minutes."""
    mechanism = CarriedRun(0.5, rounds=400, p=0.02, q=0.9, clients=50, clip=3.0)
    asked = []
    plain = carried.profile
    monkeypatch.setattr(carried, "profile", lambda *at: (asked.append(1), plain(*at))[1])
    every = np.array([0.0, 0.5, 20.0])
    together = mechanism.delta(every, method="lower")
    all_of_them = len(asked)
    singly = [mechanism.delta(e, method="lower") for e in every]
    assert singly == pytest.approx(together, abs=1e-14)
    asked.clear()
    mechanism.delta(60.0, method="lower")
    assert len(asked) < all_of_them / 2
