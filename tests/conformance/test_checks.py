"""The parts of an examination: levels, laws of sampling, promises, what is refused, the command."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, kstest

from correct_engines import LocalNoise, PoissonSums, TwoLevel
from linear_engine import BALANCED, CLIENTS, FIXED, FULL, LAPLACE, POISSON, TWO_LEVEL, Linear
from planted import ClippedAfterSumming, WeightedAfterClipping
from planted_noise import UniformNoise
from repro import paths
from repro.accounting import GaussianMechanism
from repro.conformance import Finding, Promise, examine, scenes
from repro.conformance.__main__ import load, main
from repro.conformance.checks_epsilon import account, bracket, check_attack, scores
from repro.conformance.checks_sampling import scheme
from repro.conformance.findings import alarms, binomial, goodness


def finding(p_value=None, broken=None):
    return Finding("check", "", p_value, broken)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], []),
        ([0.004, 0.5], [True, False]),
        ([0.006, 0.5], [False, False]),
        ([0.004, 0.009], [True, True]),
        ([0.009, 0.004], [True, True]),
        ([None, 0.009], [False, True]),
    ],
)
def test_holm_at_one_percent(values, expected):
    assert alarms([finding(v) for v in values]) == expected


def test_an_exact_failure_is_always_an_alarm():
    assert alarms([finding(broken=True), finding(broken=False), finding(0.5)]) == [
        True,
        False,
        False,
    ]


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(1, 40), st.floats(0.05, 0.95), st.data())
def test_binomial_p_values_double_the_smaller_tail(trials, rate, data):
    count = data.draw(st.integers(0, trials))
    tails = [binomtest(count, trials, rate, alternative=a).pvalue for a in ("less", "greater")]
    assert binomial(count, trials, rate) == pytest.approx(min(1, 2 * min(tails)))


def test_goodness_is_level_for_the_law_and_small_for_another():
    rng = np.random.default_rng(0)
    law = np.array([0.1, 0.2, 0.3, 0.4])
    values = [goodness(rng.choice(4, 500, p=law), law) for _ in range(400)]
    assert kstest(values, "uniform").pvalue > 1e-3
    assert goodness(rng.choice(4, 500), law) < 1e-6
    assert goodness(np.array([0, 1]), np.array([1.0, 0.0])) == 0


@pytest.mark.parametrize(
    "promise", [POISSON, TWO_LEVEL, CLIENTS, FIXED, BALANCED, replace(TWO_LEVEL, records=1)]
)
def test_the_law_of_sampling_is_what_enumeration_gives(promise):
    """Second route: every outcome of every coin, with its probability."""
    law = scheme(promise)
    chances = _outcomes(promise)
    units = np.array(list(chances))
    weight = np.array(list(chances.values()))
    assert weight.sum() == pytest.approx(1)
    assert weight @ units == pytest.approx(np.full(promise.units, law.rate))
    sizes = np.bincount(units.sum(axis=1), weight, promise.units + 1)
    assert sizes == pytest.approx(law.sizes)
    one = units[:, : promise.per_client].sum(axis=1)
    assert np.bincount(one, weight, promise.per_client + 1) == pytest.approx(law.of_client)
    for a, b in itertools.combinations(range(promise.units), 2):
        same = a // promise.per_client == b // promise.per_client
        assert weight @ (units[:, a] & units[:, b]) == pytest.approx(
            law.same if same else law.apart
        )


def _outcomes(promise):
    """Chance of each set of units in one round."""
    found = {}
    if promise.sampling == "fixed":
        drawn = round(promise.local_rate * promise.records)
        sets = list(itertools.combinations(range(promise.units), drawn))
        for chosen in sets:
            found[tuple(int(k in chosen) for k in range(promise.units))] = 1 / len(sets)
        return found
    p, q = promise.participation, promise.local_rate
    if promise.sampling == "balanced":
        q = promise.participations / promise.rounds
    for clients in itertools.product((0, 1), repeat=promise.clients):
        for records in itertools.product((0, 1), repeat=promise.units):
            chance = np.prod([p if c else 1 - p for c in clients])
            if promise.unit == "record":
                chance *= np.prod([q if r else 1 - q for r in records])
                taken = tuple(
                    c * r for c, r in zip(np.repeat(clients, promise.records), records, strict=True)
                )
            else:
                chance, taken = chance / 2**promise.units, clients
            found[taken] = found.get(taken, 0) + chance
    return found


def test_balanced_participation_in_two_rounds_is_what_enumeration_gives():
    promise = replace(BALANCED, rounds=5, participations=3, epsilon=None)
    sets = list(itertools.combinations(range(5), 3))
    assert scheme(promise).again == pytest.approx(np.mean([{0, 1} <= set(s) for s in sets]))


def test_the_account_of_full_participation_is_one_gaussian():
    longer = np.sqrt(FULL.rounds) * FULL.clip
    exact = GaussianMechanism(FULL.noise_multiplier * FULL.clip, sensitivity=longer).epsilon(1e-5)
    assert bracket(FULL) == pytest.approx((exact, exact), rel=1e-3)
    replaced = bracket(replace(FULL, adjacency="replace"))
    exact = GaussianMechanism(FULL.noise_multiplier * FULL.clip, sensitivity=2 * longer).epsilon(
        1e-5
    )
    assert replaced == pytest.approx((exact, exact), rel=1e-3)
    assert account(FIXED) is None


def test_a_replaced_client_that_is_seen_to_take_part_leaks_in_proportion():
    promise = Promise(
        clients=3, records=1, rounds=1, clip=1.5, noise_multiplier=2.0, divisor=1, participation=0.3,
        unit="client", adjacency="replace", uploads=True,
    )  # fmt: skip
    single = GaussianMechanism(3.0, sensitivity=3.0)
    for epsilon in (0.2, 1.0):
        assert account(promise).delta(epsilon) == pytest.approx(
            0.3 * single.delta(epsilon), rel=1e-3
        )


@pytest.mark.parametrize("promise", [FULL, POISSON, LAPLACE])
def test_the_attack_finds_an_epsilon_far_above_the_printed_one_and_never_refutes_the_true_one(
    promise,
):
    little = replace(
        promise, noise_multiplier=0.35
    )  # the engine's noise; the printed epsilon is for more
    engine = Linear(little)
    common = dict(repetitions=3000, noise=True, seed=3)
    rate = scheme(little).rate
    one, two = (
        scores(
            little, scenes.look(engine, data(little), little.owner, **common | {"seed": k}), rate
        )
        for k, data in enumerate((scenes.single, scenes.silent))
    )
    wrong = check_attack(replace(little, epsilon=0.5), one, two)
    assert wrong.p_value < 1e-6
    right = check_attack(replace(little, epsilon=bracket(little)[1]), one, two)
    assert right.p_value == 1


def test_the_examination_of_a_round_is_repeatable_and_depends_on_the_seed():
    one, two, three = (examine(TwoLevel(), seed=s, repetitions=300).text() for s in (4, 4, 5))
    assert one == two != three


def test_an_engine_that_cannot_switch_its_noise_off_is_checked_for_its_noise():
    class Loud(UniformNoise):
        can_silence = False

    class Heavy(WeightedAfterClipping):
        can_silence = False

    report = examine(Loud(), repetitions=1000)
    assert any(alarm.startswith("noise, shape") for alarm in report.alarms)
    assert "cannot switch its noise off" in report.text()
    assert examine(Heavy(), repetitions=3000).alarms == ("mean contribution under noise",)


def test_uploads_of_silent_clients_do_not_count_as_noise():
    report = examine(LocalNoise(), repetitions=400, seed=2)
    assert report.alarms == ()
    assert "independence of senders | as promised" in report.text()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"clip": 0}, "clip must be positive"),
        ({"rounds": 0}, "rounds must be an integer >= 1"),
        ({"participation": 1.2}, r"participation must be in \[0, 1\]"),
        ({"law": "cauchy"}, "law must be one of 'gaussian', 'laplace'"),
        ({"records": 13}, "clients and records must make 2 to 12 units, got 13"),
        ({"sampling": "fixed", "local_rate": 0.3}, "local_rate must be a whole number of 6"),
        ({"sampling": "balanced"}, "participations must be an integer"),
        ({"epsilon": -1.0}, "epsilon must be positive"),
        ({"delta": 0.0}, "delta must be in"),
    ],
)
def test_a_promise_that_makes_no_sense_is_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        replace(POISSON, **changed)


def test_a_release_of_the_wrong_shape_is_refused():
    class Flat(Linear):
        def run(self, *args, **kwargs):
            return super().run(*args, **kwargs)[:, :, 0]

    with pytest.raises(ValueError, match="run must return shape"):
        examine(Flat(), repetitions=200)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            lambda seen: seen * np.nan,
            "finite numbers, got nan or inf; nan may stand only where uploads",
        ),
        (lambda seen: seen + np.inf, "finite numbers"),
        (lambda seen: [seen[0], seen[0, 0]], "an array of numbers, got a list that is none"),
        (lambda seen: None, "shape .* got"),
        (lambda seen: seen + 2.0, "no noise where noise is False.* can_silence = False"),
    ],
)
def test_a_release_that_cannot_be_judged_is_refused(returned, message):
    class Odd(Linear):
        def run(self, *args, **kwargs):
            return returned(super().run(*args, **kwargs))

    with pytest.raises(ValueError, match=message):
        examine(Odd(), repetitions=200)


def test_only_whole_uploads_may_be_missing():
    class Torn(LocalNoise):
        def run(self, *args, **kwargs):
            seen = super().run(*args, **kwargs)
            seen[0, 0, 0, 0] = np.nan
            seen[0, 0, 0, 1] = 0.0
            return seen

    with pytest.raises(ValueError, match="only in all coordinates of a client that sends nothing"):
        examine(Torn(), repetitions=200)


def test_an_engine_may_change_the_arrays_that_it_is_given():
    class Careless(Linear):
        def run(self, vectors, owner, **kwargs):
            seen = super().run(vectors, owner, **kwargs)
            vectors[:], owner[:] = 7.0, 0
            return seen

    one, two = (examine(kind(), repetitions=200).findings for kind in (Careless, Linear))
    assert [f.evidence for f in one] == [f.evidence for f in two]


class Failing(Linear):
    def run(self, *args, **kwargs):
        raise KeyError("client 3")


def test_an_adapter_that_fails_is_no_verdict(capsys):
    """Status 1 is an alarm, and what Python returns after an error."""
    assert main([f"{__name__}:Failing"]) == 2
    assert "the adapter failed: KeyError('client 3')" in capsys.readouterr().err
    assert main([f"{__name__}:Undescribed"]) == 2
    assert "promise must be a repro.conformance.Promise" in capsys.readouterr().err


class Undescribed(Linear):
    def __init__(self):
        self.promise = {"clients": 4}


def test_the_command_prints_a_report_and_says_by_its_status_what_it_found(capsys):
    assert main(["correct_engines:PoissonSums", "--repetitions", "400"]) == 0
    assert capsys.readouterr().out.startswith("# PoissonSums")
    assert main(["planted:ClippedAfterSumming", "--repetitions", "400"]) == 1
    assert "**alarm**" in capsys.readouterr().out
    assert main(["planted:Nothing"]) == 2
    assert "adapter must name an engine" in capsys.readouterr().err


def test_an_adapter_may_be_an_engine_or_make_one():
    assert isinstance(load("correct_engines:PoissonSums"), PoissonSums)
    with pytest.raises(ValueError, match="module:name"):
        load("correct_engines")
    with pytest.raises(ValueError, match="attribute"):
        load("linear_engine:Promised")


def test_clipping_the_sum_shows_its_sensitivity():
    report = examine(ClippedAfterSumming(), repetitions=400)
    (found,) = (f for f in report.findings if f.check == "sensitivity, a unit more or less")
    assert float(found.evidence.split(" up to ")[1].split()[0]) == pytest.approx(2, rel=0.02)


def test_promises_of_no_amplification_have_no_coins():
    whole = Promise(clients=2, records=1, rounds=1, clip=1, noise_multiplier=1, divisor=1)
    assert scheme(whole).rate == 1
    assert examine(Linear(whole), repetitions=300).alarms == ()


def test_the_adapters_in_the_documentation_pass_and_fail_with_faults():
    text = (paths.ROOT / "docs/conformance.md").read_text(encoding="utf-8")
    record, client = (part.split("```")[0] for part in text.split("```python\n")[1:])
    weighted = "total += self.update(x, y)", "total += len(y) / 2 * self.update(x, y)"
    found = [
        _alarms(record, "MyEngine"),
        _alarms(record.replace("norms)", "norms / 1.2)"), "MyEngine"),
        _alarms(client, "MyFederation"),
        _alarms(client.replace("norm(step)", "norm(step[:-1])"), "MyFederation"),
        _alarms(client.replace(*weighted), "MyFederation"),
    ]
    longer = ("sensitivity, a unit more or less",)
    heavier = ("sensitivity, a client with more records",)
    assert found == [(), longer, (), longer, heavier]


def _alarms(code, name):
    names = {}
    exec(code, names)
    return examine(names[name](), repetitions=300).alarms
