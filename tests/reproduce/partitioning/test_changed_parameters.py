"""The claims of partitioning with parameters that a reader may set: no function raises."""

import warnings

import numpy as np
import pytest

from reproduce.papers.partitioning import claims, compare, conditions, stories, table_words
from reproduce.papers.partitioning.balanced_curves import (
    balanced_epsilon,
    renyi_curves,
    run_length_delta,
    whole_orders_to,
)
from reproduce.papers.partitioning.noise import balanced_sigma, poisson_sigma
from reproduce.papers.partitioning.pictures import (
    beside_truth,
    noise_saved,
    renyi_picture,
    run_lengths,
)
from reproduce.papers.partitioning.runs import table_curves
from reproduce.papers.partitioning.splitting_curves import (
    bracket_width,
    splitting_epsilon,
    splitting_noise,
)
from reproduce.papers.partitioning.tables import table_picture


def findings(*made):
    """Each is a verdict with a text, and with a reason where the statement does not hold."""
    for finding in made:
        assert isinstance(finding, claims.Finding)
        assert isinstance(finding.holds, bool)
        assert finding.ours and "nan" not in finding.ours and "inf" not in finding.ours
        assert finding.holds or finding.reason
    return made


def told(*made):
    """Each is a story of three sentences, with numbers."""
    for sentences in made:
        assert len(sentences) == 3 and all(sentence.endswith(".") for sentence in sentences)
        assert not any(word in " ".join(sentences) for word in ("nan", "inf "))


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize(
    "sigma, submodels, rate",
    [([1.0], [2, 3], 1.0), ([0.7, 300.0], [1], 0.2), ([2.0, 3.0], [], 0.1), ([3.0], [4, 2], 0.0)],
)
def test_figures_1_and_5(sigma, submodels, rate):
    curves = splitting_epsilon(np.array(sigma), submodels, 5, rate, 1e-5)
    (finding,) = findings(claims.less_epsilon(curves, 0.1))
    assert np.isfinite(list(bracket_width(curves).values())).all()
    assert isinstance(claims.ordered(curves), bool)
    if submodels in ([], [1]):
        assert not finding.holds and "at least 0.0 % as accounted" in finding.ours


def test_figure_6_with_other_rounds_and_one_submodel_number():
    rounds = [40, 10]
    curves = splitting_noise(rounds, [3], 2.0, 1e-4, 0.5)
    assert findings(claims.less_noise(rounds, curves, 0.1))[0].holds
    falling = {label: {m: v[::-1] for m, v in c.items()} for label, c in curves.items()}
    (finding,) = findings(claims.less_noise(rounds, falling, 0.1))
    assert not finding.holds and finding.reason == "more rounds do not always need more noise"
    (gain,) = claims.more_rounds(rounds, curves).values()
    assert 1 < float(gain.removeprefix("more than ")) <= 4


@pytest.mark.parametrize("alpha_max, sigma, k", [(2, 1.0, 2), (3, 0.5, 6), (9, 30.0, 1)])
def test_figures_2_3_and_7(alpha_max, sigma, k):
    alpha = whole_orders_to(alpha_max)
    curves = renyi_curves(alpha, 6, k, sigma)
    findings(
        claims.much_better(alpha, curves, 0.5),
        claims.always_below(alpha, curves),
        claims.poisson_spikes(curves),
        claims.bound_below(alpha, curves),
        claims.bound_above(alpha, curves),
        claims.truth_below(alpha, curves),
    )
    told(stories.much_better(alpha, curves), stories.two_settings({"(a)": (alpha, curves)}))
    told(stories.same_noise({"balanced": 1.0, "Poisson": 1.1}, alpha, curves))
    drawn = renyi_picture({"(a)": (alpha, curves), "(b)": (alpha, curves)})
    assert len(drawn.axes) == 4


@pytest.mark.parametrize("wrong", [1, 2.5, "8"])
def test_orders_must_be_whole_and_at_least_two(wrong):
    with pytest.raises(ValueError, match="alpha_max must be an integer >= 2"):
        whole_orders_to(wrong)


@pytest.mark.parametrize("iterations, k", [(3, 1), (400, 400), (2, 2)])
def test_noise_of_figure_2_is_found_for_rare_and_for_constant_participation(iterations, k):
    noise = {"balanced": balanced_sigma(iterations, k), "Poisson": poisson_sigma(iterations, 0.4)}
    findings(claims.same_noise(noise, 0.01))


@pytest.mark.parametrize(
    "sigma, delta, epoch", [(1.5, 1e-5, 10), (1.0, 1e-5, 5), (1.0, 1e-30, 5), (50.0, 0.5, 5)]
)
def test_figure_4_where_no_run_or_every_run_stays_within_delta(sigma, delta, epoch):
    for iterations in ([10, 20, 30], [10], [30, 10]):  # the law of an epoch is made once for all
        curves = run_length_delta(iterations, 0.2, 10.0, sigma, epoch)
        longest = claims.longest(iterations, curves, delta)
        assert longest[list(curves)[1]]["paper"] in (0, *iterations)
        for methods in claims.crossings(iterations, curves, delta).values():
            assert all(min(iterations) <= length <= max(iterations) for length in methods.values())
        findings(
            claims.longer_in_truth(iterations, curves, delta),
            claims.pld_longest(iterations, curves, delta),
            claims.epochs_cost_more(iterations, curves, epoch),
        )
        told(stories.run_lengths(iterations, curves, delta))
        assert len(run_lengths(iterations, curves, delta, [60.0, 70.0]).axes) == 2


def test_a_curve_crosses_delta_between_two_lengths():
    curves = {
        "balanced": {"paper": np.array([1e-6, 1e-4])},
        "low": {"paper": np.array([0.0, 1e-9])},
    }
    found = claims.crossings([10, 20], curves, 1e-5)
    assert found["balanced"]["paper"] == pytest.approx(15) and found["low"]["paper"] == 20


@pytest.mark.parametrize(
    "iterations, k, sigma", [(4, 4, [1.0]), (5, 1, [1.0, 300.0]), (3, 2, [8.0])]
)
def test_figure_8(iterations, k, sigma):
    curves = balanced_epsilon(np.array(sigma), iterations, k, 1e-3)
    findings(
        claims.less_epsilon_balanced(curves),
        claims.nearly_identical(curves, 0.05, 10.0),
        claims.nearly_identical(curves, 0.05, 1e-9),
    )
    told(stories.two_lengths({"(a)": curves}))
    settings = {"(a)": (np.array(sigma), curves)}
    assert len(noise_saved(settings, {"(a)": claims.saved(curves)}).axes) == 2
    assert np.isfinite(list(bracket_width(curves).values())).all()


@pytest.mark.parametrize("count", [1, 3, 5])
def test_any_number_of_panels_is_drawn(count):
    curves = splitting_epsilon(np.array([1.0, 2.0]), [2], 3, 0.5, 1e-3)
    settings = {f"panel {k}": (np.array([1.0, 2.0]), curves) for k in range(count)}
    figure = beside_truth(settings, xlabel="sigma", ylabel="epsilon")
    assert len(figure.axes) == 2 * count
    told(stories.less_epsilon([curves] * count))


def finals(submodels, seeds):
    rng = np.random.default_rng(0)
    names = compare.table_rows(submodels)
    return {name: 0.5 + 0.1 * rng.random(seeds) for name in names}


@pytest.mark.parametrize("submodels", [[3, 8], [4], [], [2, 3, 5]])
def test_tables_with_other_submodels(submodels):
    made = compare.table_answers(finals(submodels, 5), submodels, 0.01)
    assert {f"amplified-{d}" for d in submodels} <= set(made)
    assert ("fewer-better" in made) == (len(submodels) > 1)


@pytest.mark.parametrize("submodels, seeds", [([3], 5), ([4], 1), ([2, 3, 5], 2), ([], 2)])
def test_tables_are_drawn_and_told_with_other_submodels_and_seeds(submodels, seeds):
    rng = np.random.default_rng(1)
    names = table_words.row_names(submodels)
    accuracy = {name: 0.5 + 0.3 * rng.random((seeds, 5)) for name in names}
    last = {name: runs[:, -1] for name, runs in accuracy.items()}
    printed = {row: 80.0 for row in compare.table_rows([d for d in submodels if d == 3])}
    bound = {f"d = {d}": (f"clipped_{d}", f"baseline_{d}") for d in submodels}
    result = {"parameters": 5, "majority": 0.1, "data": {"source": "some images"}}
    met = conditions.look({"data": "letters"}, [result], accuracy, last, bound, printed)
    assert not met["setting"].holds and not met["images"].holds
    rows = table_words.accuracy_rows(
        names, last, printed, dict.fromkeys(printed, "differs"), met["setting"]
    )
    assert {row.verdict for row in rows} <= {"not tested", ""}
    noise = table_words.noise_rows(
        {"n": "without splitting"},
        {"n": "1.0"},
        {"n": "1.1"},
        {"n": "differs"},
        {"n": {"lower": 6.0, "upper": 6.2}},
    )
    assert len(table_picture(rows, noise, {"start": 0.6}).axes[1].get_yticks()) == len(names)
    sigma = {name: 0.5 for name in names}
    told(table_words.table_story(last, submodels, printed, sigma, met, noise))


def test_a_single_seed_decides_no_order():
    assert compare.table_answers(finals([3, 8], 1), [3, 8], 0.01) == {}
    kinds = ("clipped", "poisson", "balanced")
    one = {f"{start}_{kind}": np.array([0.5]) for start in ("scratch", "tuned") for kind in kinds}
    assert compare.sampling_answers(one, 0.01) == {}
    assert compare.accuracies(np.array([0.5]))["accuracy in %"] == "50.0"
    assert "deviation" not in compare.summary(np.array([0.5]))


def test_one_noise_level_for_each_number_of_submodels():
    parameters = {"clip": 1, "unsplit_clip": 1, "sigma_baseline": 2.0, "learning_rate_unclipped": 1}
    with pytest.raises(ValueError, match=r"one noise level for each of submodels, got \[1.0\] for"):
        table_curves({**parameters, "submodels": [3, 8], "sigma_amplified": [1.0]})
