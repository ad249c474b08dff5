"""The certificates of refuted claims, and the checker that needs no trust in the workbook."""

import ast
import json
import random
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from flint import arb, fmpq

from repro.accounting import CentralizedShuffling, RandomParticipation
from repro.accounting.ddpsa import printed as ddpsa
from repro.accounting.mspafl import printed as mspafl
from repro.accounting.partitioning import printed as partitioning
from repro.accounting.pmsfl import printed as pmsfl
from repro.accounting.pmsfl import releases
from reproduce import certificates, certify, paths

FOLDER = paths.ROOT / "figures"
FILES = sorted(FOLDER.glob("*/certificates/*.json"))
NAMES = [f"{path.parts[-3]}/{path.stem}" for path in FILES]
SMALL = 500
"""Digits up to which every one of a certificate is changed; of larger ones a sample of 12, or of 1,000 if slow."""


def accepted(name, text):
    """Whether the checker accepts a certificate of this text."""
    try:
        file = json.loads(text)
        found = certify.numbers_of(name, file)
        printed = file["numbers"]
        return set(printed) == set(found) and all(
            certify.agrees(printed[key], value) for key, value in found.items()
        )
    except Exception:
        return False


# The certificates -------------------------------------------------------------------------------


def test_there_are_many():
    assert len(FILES) >= 60
    assert certify.main() == 0


def assert_refused(name, path, most):
    text = path.read_text(encoding="utf-8")
    assert accepted(name, text)
    places = [match.start() for match in re.finditer(r"\d", text)]
    draw = random.Random(name)
    if len(places) > SMALL:
        places = draw.sample(places, most)
    for place in places:
        other = draw.choice([digit for digit in "0123456789" if digit != text[place]])
        changed = text[:place] + other + text[place + 1 :]
        assert not accepted(name, changed), text[max(0, place - 60) : place + 20]


@pytest.mark.parametrize(("name", "path"), list(zip(NAMES, FILES, strict=True)), ids=NAMES)
def test_a_changed_digit_is_refused(name, path):
    assert_refused(name, path, 12)


@pytest.mark.slow
def test_a_changed_digit_of_a_large_certificate_is_refused():
    large = [one for one in zip(NAMES, FILES, strict=True) if one[1].stat().st_size > 2 * SMALL]
    for name, path in large:
        if len(re.findall(r"\d", path.read_text(encoding="utf-8"))) > SMALL:
            assert_refused(name, path, 1000)


@pytest.mark.parametrize("paper", certificates.PAPERS)
def test_the_files_are_what_the_points_give(paper):
    points = {point.name: point for point in certificates.points(paper)}
    files = {path.stem: path for path in FILES if path.parts[-3] == paper}
    assert set(points) == set(files)
    for name, path in files.items():
        assert certificates.document(paper, points[name]) == json.loads(path.read_text())


def test_every_refuted_claim_has_a_certificate_or_a_reason():
    rows = json.loads((FOLDER / "claims.json").read_text())["claims"]
    refuted = {row["id"] for row in rows if row["verdict"] == "false"}
    proved = {json.loads(path.read_text())["claim"] for path in FILES}
    reasons = {}
    for path in sorted(paths.PAPERS.glob("*/uncertified.toml")):
        for claim, reason in tomllib.loads(path.read_text()).items():
            reasons[f"{path.parent.name}/derivations/{claim}"] = reason
    assert not proved & set(reasons)
    assert proved | set(reasons) == refuted
    assert all(len(reason) > 40 for reason in reasons.values())


# What the checker refuses -----------------------------------------------------------------------


def entry(**changes):
    path = FOLDER / "ddpsa/certificates/client-level.json"
    return json.dumps(json.loads(path.read_text()) | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"event": {"output": [["2", "1"]]}},
        {"event": {"output": [["inf", "-inf"]]}},
        {"event": {"nothing": []}},
        {"event": {"output": [["-inf", "inf"]]}},
        {"event": {"output": []}},
        {"says": "1 record"},
        {"claim": "ddpsa/derivations/averaging"},
        {"more": "of this"},
        {"P": [{"weight": "1", "mean": ["1"], "scale": "2"}]},
        {"P": [{"weight": "2", "mean": ["1"], "scale": "1"}]},
        {"P": [{"weight": "1", "mean": ["1"], "scale": "1", "note": "7"}]},
        {"parameters": {"data": ["1"], "other": ["-1"], "clip": "1", "e": "2"}},
        {"numbers": {}},
    ],
)
def test_other_content_is_refused(changes):
    assert accepted("ddpsa/client-level", entry())
    assert not accepted("ddpsa/client-level", entry(**changes))


def test_a_claim_that_holds_is_refused():
    file = {
        "claim": "ddpsa/derivations/averaging",
        "says": "",
        "parameters": {"few": "2", "many": "1", "N": "6", "clip": "1", "e": "1"},
        "numbers": {},
    }
    with pytest.raises(ValueError, match="no contradiction"):
        certify.numbers_of("ddpsa/averaging", file)


@pytest.mark.parametrize(
    ("text", "value", "right"),
    [
        ("0.33333333333333333333", fmpq(1, 3), True),
        ("0.33333333333333333334", fmpq(1, 3), False),
        ("0.333333333333", fmpq(1, 3), False),
        ("33333333333333333333", fmpq(1, 3), False),
        ("0.00000000000000000000", fmpq(0), True),
        ("-0.50000000000000000000", fmpq(-1, 2), True),
        ("3.1415926535897932385", arb.pi(), True),
        ("3.1415926535897932384", arb.pi(), False),
    ],
)
def test_printed_digits(text, value, right):
    assert certify.agrees(text, value) == right


def test_a_wide_ball_agrees_with_nothing():
    assert not certify.agrees("0.33333333333333333333", arb(1 / 3, 1e-10))


def test_an_unknown_claim_is_refused(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "ddpsa/certificates"
    folder.mkdir(parents=True)
    (folder / "lemma-9.json").write_text(entry(claim="ddpsa/derivations/lemma-9"))
    monkeypatch.setattr(certify, "FOLDER", tmp_path)
    assert certify.main() == 1
    assert "ddpsa/lemma-9: REFUSED" in capsys.readouterr().out


def test_no_certificates_at_all_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(certify, "FOLDER", tmp_path)
    assert certify.main() == 1


def test_the_checker_stands_alone():
    text = Path(certify.__file__).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 500
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names.add(node.module.split(".")[0])
    assert names - {"flint"} <= sys.stdlib_module_names
    assert not {"importlib", "subprocess", "runpy"} & names


# The formulas, transcribed twice ----------------------------------------------------------------


def said(name, **parameters):
    """What a case of the checker says at these parameters."""
    paper, claim = name.split("/")
    values = {key: certify.rational(value) for key, value in parameters.items()}
    return certify.PAPERS[paper](claim, certify.Values(**values))


def local(draw):
    return {"C": "1", "e": draw("0.1", "1"), "d": draw("0.00001", "0.01")}


def one_round(draw):
    sizes = {"N": str(draw.choice((20, 100))), "beta": draw("0.3", "0.6")}
    return {"p": draw("0.05", "0.9"), "q": draw("0.05", "0.9")} | sizes


def round_of(v):
    return {"p": v["p"], "q": v["q"], "clients": v["N"], "beta": v["beta"]}


def theorem_4_1(draw):
    v = {"p": draw("0.1", "0.9"), "q": draw("0.1", "0.9"), "noise": draw("0.2", "2")}
    v |= {"alpha": draw("1.5", "20"), "others": ["0"] * draw.choice((1, 2, 4))}
    ours = said("random_participation/thm-4.1", **v)
    rates = {"p": float(v["p"]), "q": float(v["q"])}
    sigma = np.sqrt(float(v["noise"]))
    scheme = RandomParticipation(sigma, **rates, samples_per_client=len(v["others"]))
    shuffled = CentralizedShuffling(sigma, **rates)
    epsilon = float(ours.epsilon)
    yield ours.delta, scheme.delta(epsilon, method="paper")
    yield said("random_participation/cs-independence", **v).delta, shuffled.delta(epsilon)


def model_splitting_round(draw):
    v = local(draw) | one_round(draw)
    x = {key: float(value) for key, value in v.items()}
    ours = said("mspafl/thm-2", **v | {"noise": "10000000000", "N": "3", "beta": "1.2"})
    again = round_of(x) | {"clients": 3, "beta": 1.2}
    yield ours.epsilon, mspafl.per_round_epsilon(x["e"], **again)
    yield ours.delta, mspafl.per_round_delta(x["d"], **again)
    yield ours.ties["(6)"], mspafl.local_sigma(x["e"], x["d"]) ** 2
    yield said("mspafl/eq-21", **v).right, mspafl.first_order_epsilon(x["e"], **round_of(x))


def model_splitting_run(draw):
    v = local(draw) | one_round(draw) | {"noise": "10000000000", "slack": "0.001", "T": "9"}
    x = {key: float(value) for key, value in v.items()} | {"p": 1.0}
    ours = said("mspafl/thm-4-applied", **v | {"p": "1"})
    e = mspafl.per_round_epsilon(x["e"], **round_of(x))
    d = mspafl.per_round_delta(x["d"], **round_of(x))
    yield ours.epsilon, mspafl.total_epsilon(e, 9, slack=0.001)
    yield ours.delta, mspafl.total_delta(d, 9, slack=0.001)
    ours = said("mspafl/thm-3", **v | {"c0": "2"})
    rates = {"p": 1.0, "q": x["q"]}
    yield ours.epsilon, mspafl.total_local_epsilon(x["e"], 9, **rates, constant=2.0)
    yield ours.ties["(C.8)"], mspafl.local_constant(x["d"])
    share = mspafl.sampling_ratio(3, 4, replacement=True)
    ours = said("mspafl/thm-1-wr", **v | {"records": "3", "draws": "4"})
    stated = mspafl.subsampled(x["e"], x["d"], q=share)
    yield ours.epsilon, stated[0]
    yield ours.delta, stated[1]
    yield (
        said("mspafl/eq-c1-c2", **v).right,
        mspafl.log_moment(1.0, x["e"], x["d"], q=x["q"]),
    )


def blocks(draw):
    d, square = draw.choice((2, 3, 8)), draw("0.01", "0.4")
    sigma = 1 / np.sqrt(float(square))
    v = {"d": str(d), "square": square, "degree": "5"}
    yield said("partitioning/cor-3.19", **v).right, partitioning.reverse_spread_term(2, d, 1, sigma)
    yield said("partitioning/lem-3.18", **v).right, partitioning.reverse_spread_term(2, d, 1, sigma)
    yield said("partitioning/thm-3.1-second", **v).right, partitioning.reverse_bound(2, d, 1, sigma)
    bound = partitioning.theorem_3_1(2, 2, 1, sigma)
    yield said("partitioning/cor-3.7", square=square).right, bound
    rate = draw("0.05", "0.9")
    ours = said("partitioning/sec-3.2.2", d=str(d), square=square, split="0.3", rate=rate)
    whole = partitioning.poisson_rdp(2, sigma, float(rate))
    forward = partitioning.forward_bound(np.array([2]), d, 1, 1 / np.sqrt(0.3))
    split = partitioning.poisson_amplified(2, forward, float(rate))
    yield ours.right, whole + split


def masks(draw):
    e, keep = draw("0.1", "2"), draw("0.5", "0.95")
    w = {"e": e, "x": ["1", "1", "1"], "w": [["1", "2", "3"]], "keep": [keep] * 3}
    floor = 1 - float(keep)
    stated = pmsfl.smashed_epsilon(float(e), dimension=3, floor=max(floor, 1e-9))
    yield said("pmsfl/thm-2", **w).epsilon, stated
    yield (
        said("pmsfl/masked-shared", **w).epsilon,
        releases.masked_laplace_bound(float(e), keep=float(keep)),
    )
    c, delta = draw("0.05", "0.45"), draw("0.00001", "0.01")
    yield (
        arb(said("pmsfl/eq-54", c=c, d="3", e=e).right).log(),
        pmsfl.smashed_epsilon(float(e), dimension=3, floor=float(c)),
    )
    v = {"e": e, "d": delta, "R": "7", "Gamma": "2", "Q": "32", "other": "0", "noise": "100000"}
    sigma = pmsfl.step_sigma(float(e), float(delta), steps=7, clip=2.0, batch=32)
    yield said("pmsfl/eq-63", **v).ties["(63)"], sigma**2
    term = pmsfl.sampling_term(3.0, dimension=1, floor=float(c), form="meant")
    yield said("pmsfl/amp-renyi", alpha="3", c=c, d="0.1").epsilon, term
    ours = said("pmsfl/eq-70", c=c, d=delta, e=e, n="1", ones="1")
    noise = float(pmsfl.mask_sigma(float(e), float(delta), floor=float(c)))
    yield ours.left, releases.noised_probability(1 - float(c), noise, floor=float(c))


def guesses(draw):
    w = [draw("1", "9"), "0.5", "-2", draw("1", "9")]
    v = {"w": w, "mask": ["0", "1", "1", "0"], "keep": ["1/2", "1", "1", "1/2"], "x": ["3", "4"]}
    square = np.array([float(x) for x in w]).reshape(2, 2)
    mask = np.array([[0.0, 1.0], [1.0, 0.0]])
    tried = np.array([[[a, 1.0], [1.0, b]] for a in (0.0, 1.0) for b in (0.0, 1.0)])
    terms = pmsfl.reconstruction_bound(square, mask, tried)
    yield said("pmsfl/thm-1", **v).left, 5 * terms[1:].mean() * 3 / 4


def averaged_noise(draw):
    v = {"few": "2", "many": "6", "N": "600", "clip": "1", "e": draw("0.1", "2")}
    scale = 1 / float(v["e"])
    ours = said("ddpsa/averaging", **v)
    yield ours.left, ddpsa.noise_deviation(scale, clients=6, records=600) ** 2
    yield ours.right, ddpsa.noise_deviation(scale, clients=2, records=600) ** 2
    rounding = said("ddpsa/quantisation-sum--rounding", SF="1000", numbers=["0.1", "0.2"])
    yield rounding.right, ddpsa.quantisation_error(3)
    q = draw("0.01", "0.9")
    paths = said("ddpsa/lemma-1-link", q=q, m="3")
    yield paths.right, ddpsa.reconstruction_probability(float(q), 3)
    ours = said("ddpsa/advanced-better", e=v["e"], T="1000", slack="0.001")
    yield ours.left, ddpsa.advanced_epsilon(float(v["e"]), 1000, slack=0.001)
    yield ours.right, ddpsa.total_epsilon(float(v["e"]), 1000, method="basic")


class Draw(random.Random):
    """A seeded number between two, as text with five places."""

    def __call__(self, low, high):
        return f"{self.uniform(float(low), float(high)):.5f}"


@pytest.mark.filterwarnings("ignore::repro.accounting.InvalidBoundWarning")
@pytest.mark.parametrize("point", range(20))
@pytest.mark.parametrize(
    "pairs",
    [
        theorem_4_1,
        model_splitting_round,
        model_splitting_run,
        blocks,
        masks,
        guesses,
        averaged_noise,
    ],
)
def test_both_transcriptions_agree(pairs, point):
    for ours, printed in pairs(Draw(point)):
        assert float(arb(ours)) == pytest.approx(np.asarray(printed).item(), rel=1e-7)
