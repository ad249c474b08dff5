"""From the description of a federation to its mechanism: which one, what is refused, and the table."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from repro import paths
from repro.accounting import (
    Federation,
    GaussianMechanism,
    ModelSplitting,
    OnlyLocalSampling,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    compose,
)
from repro.accounting.__main__ import RenyiAccount, main, shortcuts

BASE = {
    "clients": 500,
    "records_per_client": 100,
    "participation": 0.05,
    "local_rate": 0.2,
    "rounds": 10,
}
HIT = 1 - 0.8**100  # a participant draws at least one of 100 records


def federation(**changed):
    return Federation(**(BASE | changed))


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        ({}, RandomParticipation(2.0, p=0.05, q=0.2, samples_per_client=99)),
        ({"clip": 3.0}, RandomParticipation(2.0, p=0.05, q=0.2, samples_per_client=99, clip=3.0)),
        (
            {"clients": 3, "records_per_client": [4, 9, 0]},
            RandomParticipation(2.0, p=0.05, q=0.2, samples_per_client=8),
        ),
        ({"local_rate": 1.0}, RandomParticipation(2.0, p=0.05, q=1.0, samples_per_client=99)),
        ({"participation": 1.0}, OnlyLocalSampling(2.0, q=0.2)),
        ({"records_per_client": 1}, PoissonGaussian(2.0, rate=0.05 * 0.2)),
        ({"observer": "participants"}, WeakClientSampling(2.0, p=0.05, q=0.2)),
        ({"observer": "uploads"}, WeakClientSampling(2.0, p=0.05, q=0.2)),
        (
            {"records_per_client": 1, "submodels": 4},
            ModelSplitting(2.0, submodels=4, rate=0.05 * 0.2),
        ),
    ],
)
def test_the_mechanism_of_a_federation(changed, want):
    own = federation(**changed)
    assert own.mechanism(2.0) == want
    assert own.run(2.0) == compose(want, 10)


@pytest.mark.parametrize(
    ("changed", "kind", "rates"),
    [
        ({}, PoissonGaussian, {"rate": 0.05 * HIT}),
        ({"local_rate": 1.0}, PoissonGaussian, {"rate": 0.05}),
        ({"records_per_client": 2}, PoissonGaussian, {"rate": 0.05 * 0.36}),
        ({"submodels": 5}, ModelSplitting, {"rate": 0.05 * HIT, "submodels": 5}),
        ({"observer": "uploads"}, WeakClientSampling, {"p": 0.05, "q": HIT}),
    ],
)
def test_a_client_contributes_whenever_it_draws_a_record(changed, kind, rates):
    mechanism = federation(adjacency="client", **changed).mechanism(2.0)
    assert isinstance(mechanism, kind)
    for name, value in rates.items():
        assert getattr(mechanism, name) == pytest.approx(value, rel=1e-12)


@settings(derandomize=True, deadline=None, max_examples=15)
@given(st.lists(st.floats(-1, 1), min_size=7, max_size=7), st.floats(0.1, 1), st.floats(0.1, 0.9))
def test_no_client_leaks_more_than_its_mechanism(updates, p, q):
    """A client of 3 records sends any clipped number that depends on what it drew: by quadrature."""
    own = Federation(
        clients=1, records_per_client=3, participation=p, local_rate=q, adjacency="client"
    )
    subsets = [s for s in itertools.product((0, 1), repeat=3) if any(s)]
    chance = [p * q ** sum(s) * (1 - q) ** (3 - sum(s)) for s in subsets]
    x = np.linspace(-9, 10, 4001)
    without = norm.pdf(x)

    def gap(sent, epsilon):
        law = (1 - sum(chance)) * without
        law = law + sum(c * norm.pdf(x - u) for c, u in zip(chance, sent, strict=True))
        for one, other in ((law, without), (without, law)):
            yield np.maximum(one - np.exp(epsilon) * other, 0).sum() * (x[1] - x[0])

    for epsilon in (0.0, 0.1, 0.5):
        for direction, found, most in zip(
            ("remove", "add"), gap(updates, epsilon), gap([1.0] * 7, epsilon), strict=True
        ):
            bound = own.mechanism(1.0).delta(epsilon, direction=direction)
            assert found <= bound + 1e-6
            assert most == pytest.approx(bound, abs=1e-5)


@settings(derandomize=True, deadline=None, max_examples=20)
@given(st.integers(2, 30), st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(0.5, 5.0))
def test_who_sees_more_learns_more(records, p, q, sigma):
    """One record alone <= its client's others hidden <= participants known <= the whole client."""
    at = {"clients": 10, "participation": p, "local_rate": q}
    epsilon = np.array([0.05, 0.3])
    chain = [
        Federation(records_per_client=1, **at),
        Federation(records_per_client=records, **at),
        Federation(records_per_client=records, observer="participants", **at),
        Federation(records_per_client=records, observer="participants", adjacency="client", **at),
    ]
    deltas = [each.mechanism(sigma).delta(epsilon) for each in chain]
    for less, more in itertools.pairwise(deltas):
        assert np.all(less <= more * (1 + 1e-9) + 1e-15)
    assert np.all(deltas[-1] <= GaussianMechanism(sigma).delta(epsilon) + 1e-15)


@settings(derandomize=True, deadline=None, max_examples=12)
@given(
    st.sampled_from([("record", "participants"), ("client", "sums"), ("client", "uploads")]),
    st.integers(1, 50),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 50),
    st.floats(0.5, 20.0),
)
def test_every_answer_is_a_number_in_its_range(seen, records, p, q, rounds, sigma):
    adjacency, observer = seen
    run = Federation(
        clients=3,
        records_per_client=records,
        participation=p,
        local_rate=q,
        rounds=rounds,
        adjacency=adjacency,
        observer=observer,
    ).run(sigma)
    ends = []
    for method in ("lower", "upper"):
        deltas = run.delta([0.0, 0.5, 2.0], method=method)
        powers = run.tpr_at_fpr([0.0, 0.1, 1.0], method=method)
        # An upper delta holds rounding charges of about 1e-15 that need not fall with epsilon.
        assert np.all(np.diff(deltas) <= 1e-15) and np.all(np.diff(powers) >= -1e-15)
        ends.append(np.concatenate([deltas, powers, [run.epsilon(1e-6, method=method)]]))
    lower, upper = ends
    assert np.all((0 <= lower) & (lower <= upper)) and np.all(np.isfinite(upper))
    assert np.all(upper[:6] <= 1)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        (
            {"adjacency": "replace"},
            "adjacency must be 'record' or 'client', got 'replace': .*twice",
        ),
        ({"adjacency": "user"}, "adjacency must be 'record' or 'client', got 'user'$"),
        ({"observer": "draws"}, "observer must be .*got 'draws': .*WeakClientSampling"),
        ({"observer": "state"}, "observer must be .*got 'state': .*remembers"),
        ({"observer": ["sums"]}, r"observer must be .*got \['sums'\]$"),
        ({"sampling": "fixed"}, "sampling must be 'poisson', got 'fixed': no theorem"),
        ({"sampling": "shuffled"}, "sampling must be .*got 'shuffled': .*BalancedIteration"),
        ({"submodels": 4}, "submodels must be 1 for adjacency 'record'.*share its submodel"),
        ({"submodels": 4, "observer": "uploads"}, "submodels must be 1 for observer 'uploads'"),
        ({"submodels": 0}, "submodels must be an integer >= 1, got 0"),
        ({"participation": 25}, r"participation must be in \[0, 1\], got 25"),
        ({"local_rate": [0.1, 0.2]}, "local_rate must be one number"),
        ({"local_rate": float("nan")}, r"local_rate must be in \[0, 1\], got nan"),
        ({"clip": 0.0}, "clip must be positive and finite, got 0.0"),
        ({"clients": 0}, "clients must be an integer >= 1, got 0"),
        ({"rounds": 1.5}, "rounds must be an integer >= 1, got 1.5"),
        ({"records_per_client": 0}, "records_per_client must be an integer >= 1, got 0"),
        ({"records_per_client": 2.5}, "records_per_client must be an integer >= 1, got 2.5"),
        ({"records_per_client": [1, 2]}, "one for each of 500 clients, got 2"),
        ({"clients": 2, "records_per_client": [0, 0]}, "largest of records_per_client must be"),
        ({"clients": 2, "records_per_client": [-1, 2]}, "records_per_client must be .*>= 0, got"),
    ],
)
def test_what_is_not_covered_is_refused_with_the_reason(changed, match):
    with pytest.raises(ValueError, match=match):
        federation(**changed)


def test_bad_noise_and_targets_are_named():
    with pytest.raises(ValueError, match="sigma must be positive"):
        federation().mechanism(0.0)
    for bad, match in (({"epsilon": -1.0}, "epsilon must be"), ({"delta": 0.0}, "delta must be")):
        with pytest.raises(ValueError, match=match):
            federation().noise(**({"epsilon": 1.0, "delta": 1e-5} | bad))


@pytest.mark.parametrize("clip", [1.0, 40.0])
def test_noise_meets_the_target_and_is_the_smallest(clip):
    own = federation(adjacency="client", clip=clip)
    sigma = own.noise(epsilon=0.5, delta=1e-5)
    assert own.run(sigma).delta(0.5) <= 1e-5
    assert own.run(sigma * (1 - 2e-3)).delta(0.5) > 1e-5


@pytest.mark.parametrize("clip", [1e-6, 1e6])
def test_the_noise_grows_with_the_clip(clip, capsys):
    target = {"epsilon": 0.5, "delta": 1e-5}
    plain = federation(adjacency="client").noise(**target)
    assert federation(adjacency="client", clip=clip).noise(**target) == pytest.approx(plain * clip)
    assert main([*SMALL, "--clip", str(clip), "--epsilon", "0.5"]) == 0
    assert "one rate p q, RDP" in capsys.readouterr().out


def test_where_no_noise_meets_the_target_the_error_says_which_way():
    with pytest.raises(ValueError, match=r"meets epsilon=1, delta=1e-05 already.*next to no noise"):
        federation(participation=0.0).noise(epsilon=1, delta=1e-5)
    with pytest.raises(ValueError, match=r"sigma=10000 is too small for epsilon=0, delta=1e-05"):
        federation(adjacency="client").noise(epsilon=0, delta=1e-5)


def test_extreme_rates():
    assert federation(participation=0.0).run(1.0).epsilon(1e-5) == 0
    assert federation(adjacency="client", local_rate=0.0).run(1.0).epsilon(1e-5) == 0
    everything = federation(participation=1.0, local_rate=1.0, records_per_client=7)
    assert everything.mechanism(2.0).delta(0.3) == pytest.approx(GaussianMechanism(2.0).delta(0.3))


# ---- the table ---------------------------------------------------------------------------------

SMALL = "--clients 50 --records 100 --rounds 10 --adjacency client".split()


def table(text):
    """Name of each account -> its cells."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: dict(zip(cells[0][1:], rest, strict=True)) for name, *rest in cells[1:]}


def test_the_table_of_a_target(capsys):
    """Client level: the local rate does not amplify, so that one rate p q promises too much."""
    assert main([*SMALL, "--epsilon", "1"]) == 0
    said = capsys.readouterr()
    assert "Neighbours differ in one client" in said.out and not said.err
    found = table(said.out)
    ours, wrong = found["this package"], found["one rate p q"]
    run = Federation(
        clients=50, records_per_client=100, participation=0.05, local_rate=0.2, rounds=10,
        adjacency="client",
    )  # fmt: skip
    sigma = float(ours["noise"])
    assert run.run(sigma).epsilon(1e-5) <= 1 < run.run(0.99 * sigma).epsilon(1e-5)
    least = float(wrong["true epsilon"].removeprefix("at least "))
    truth = run.run(float(wrong["noise"])).epsilon(1e-5, method="lower")
    assert 1 < least <= truth * 1.005 and least == pytest.approx(truth, rel=0.02)
    assert wrong["verdict"].startswith("DANGEROUS: epsilon is at least")
    assert "DANGEROUS" in found["one rate p q, RDP"]["verdict"]
    assert found["participation ignored"]["verdict"].startswith("safe: ")
    assert found["right mechanism, RDP"]["verdict"].startswith("safe: ")
    low, high = map(float, ours["TPR at FPR 0.1"].split(" to "))
    assert 0.1 < low <= high < 0.1 + float(ours["advantage"].split(" to ")[1])


def test_the_table_of_a_noise(capsys):
    """Every shortcut's epsilon is that of its own account, and is judged by ours."""
    assert main([*SMALL, "--noise", "1.5", "--submodels", "3"]) == 0
    found = table(capsys.readouterr().out)
    own = Federation(
        clients=50, records_per_client=100, participation=0.05, local_rate=0.2, rounds=10,
        adjacency="client", submodels=3,
    )  # fmt: skip
    upper = own.run(1.5).epsilon(1e-5)
    assert float(found["this package"]["epsilon stated"]) == pytest.approx(upper, rel=0.01)
    for name, account in shortcuts(own).items():
        claim = account(1.5).epsilon(1e-5)
        assert float(found[name]["epsilon stated"]) == pytest.approx(claim, rel=0.01)
        lower = own.run(1.5).epsilon(1e-5, method="lower")
        dangerous = found[name]["verdict"].startswith("DANGEROUS")
        assert dangerous == (claim < lower)
        assert dangerous or found[name]["verdict"] == ("safe" if claim >= upper else "not proven")
    assert found["no splitting"]["verdict"] == "safe"


def test_renyi_account_converts_the_sum():
    account = RenyiAccount(GaussianMechanism(5.0), 10)
    assert account.epsilon(1e-5) >= compose(GaussianMechanism(5.0), 10).epsilon(1e-5)
    assert account.delta(account.epsilon(1e-5)) == pytest.approx(1e-5, rel=1e-9)


@pytest.mark.parametrize(
    ("given_arguments", "match"),
    [
        (["--sampling", "fixed"], "sampling must be 'poisson', got 'fixed': no theorem"),
        (["--participation", "2"], r"participation must be in \[0, 1\], got 2.0"),
        (["--delta", "0"], r"delta must be in \(0, 1\), got 0.0"),
        (["--epsilon", "-1"], "epsilon must be non-negative"),
        (["--noise", "0"], "noise must be positive"),
        (["--noise", "nan"], "noise must be positive"),
    ],
)
def test_bad_arguments_end_in_one_line(given_arguments, match, capsys):
    """And before a table begins."""
    assert main(given_arguments) == 2
    out, err = capsys.readouterr()
    assert re.match(rf"repro\.accounting: .*{match}.*\n$", err) and not out


def test_one_client_with_one_record_is_told_in_the_singular(capsys):
    alone = "--clients 1 --records 1 --rounds 1 --noise 2".split()
    assert main(alone) == 0
    assert capsys.readouterr().out.startswith("1 client with 1 record each, participation 0.05, ")
    assert main([*SMALL, "--noise", "2"]) == 0
    assert " rounds, clip 1." in capsys.readouterr().out


@pytest.mark.slow
def test_the_readme_shows_what_the_command_prints():
    """The product of the rates asks for noise 0.96, at which epsilon is at least 11.2; the truth is 3.14."""
    command = [sys.executable, "-W", "error", "-m", "repro.accounting"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=paths.ROOT / "src"
    )
    assert not done.stderr
    found = table(done.stdout)
    readme = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    section = readme[readme.index("## Your own problem") :]
    shown = table(section[: section.index("\n## ")])
    number = re.compile(r"\d+\.?\d*")
    assert found.keys() == shown.keys()
    for name, cells in found.items():
        for column, cell in cells.items():
            assert number.sub("#", cell) == number.sub("#", shown[name][column])
            pair = (number.findall(text) for text in (cell, shown[name][column]))
            for value, kept in zip(*pair, strict=True):
                assert float(value) == pytest.approx(float(kept), rel=0.02)
    assert float(found["this package"]["noise"]) == pytest.approx(3.145, abs=0.005)
    assert float(found["one rate p q"]["noise"]) == pytest.approx(0.959, abs=0.002)
    least = float(found["one rate p q"]["true epsilon"].removeprefix("at least "))
    assert least == pytest.approx(11.2, abs=0.1)
