"""An independent checker of the workbook's refutations: `python -m reproduce.certify` or `make certify`.

It imports nothing of the workbook. A file figures/<paper>/certificates/<claim>.json (or <claim>--<variant>.json) holds
rational parameters, for a privacy claim also two laws and an event, and the numbers that follow, with 20 digits. They
are computed again here, in exact fractions (`fmpq`) or ball arithmetic (`arb`: a number with a proven error), by
formulas transcribed a second time from the papers, whose lines are quoted. A file is refused unless every printed digit
is right and the contradiction is certain. The second half has one function a paper and in it one case a claim, for

* `Promise(epsilon, delta)`, of the laws P and Q of what is published for two neighbouring data sets. Checked:
  P(S) > exp(epsilon) Q(S) + delta for the file's event S. Laws that a mechanism makes from data are made here as well.
* `Claim(left, relation, right)`, what the paper says of two numbers. Checked: it is wrong.
"""

# fmt: off
import json
import re
import sys
from collections import namedtuple
from collections.abc import Iterable, Mapping
from itertools import product
from math import comb, factorial, prod
from pathlib import Path
from types import SimpleNamespace as Values

from flint import arb, ctx, fmpq

ctx.prec = 400  # bits
DIGITS, ZERO, ONE, SUM = 20, fmpq(0), fmpq(1), "exp(epsilon) Q(S) + delta"
FOLDER = Path(__file__).resolve().parents[1] / "figures"

def require(condition: object, reason: str) -> None:
    """Refuse unless the condition is certain; a comparison of balls is true only then."""
    if not condition:
        raise ValueError(reason)

def rational(text: object) -> object:
    """A rational number from "3", "-3/4" or "0.75", or a list from a list."""
    if isinstance(text, list):
        return [rational(each) for each in text]
    require(isinstance(text, str), f"{text!r} is not a number in quotes")
    if found := re.fullmatch(r"(-?)(\d+)\.(\d+)", text):
        return fmpq((-1) ** len(found[1]) * int(found[2] + found[3]), 10 ** len(found[3]))
    require(re.fullmatch(r"-?\d+(/\d+)?", text), f"{text!r} is not a rational number")
    above, _, below = text.partition("/")
    return fmpq(int(above), int(below or 1))

def whole(value: fmpq) -> int:
    """A whole number from 0 to 10000."""
    require(value.q == 1 and 0 <= value <= 10**4, f"{value} is not a whole number in range")
    return int(value.p)

exp, log, sqrt = (lambda x, f=f: f(arb(x)) for f in (arb.exp, arb.log, arb.sqrt))

def normal(z: object) -> arb:
    """Distribution function of the standard normal law."""
    return (-arb(z) / sqrt(2)).erfc() / 2

def gaussian(shift: object, epsilon: object) -> arb:
    """The largest N(shift, 1)(S) - exp(epsilon) N(0, 1)(S); S is a half-line."""
    edge = epsilon / arb(shift)
    return normal(shift / arb(2) - edge) - exp(epsilon) * normal(-shift / arb(2) - edge)

def agrees(text: str, value: object) -> bool:
    """Whether `text` is `value` rounded to at least 20 digits."""
    point = text.find(".")
    digits = text.lstrip("-").replace(".", "").lstrip("0") or text[point + 1 :]
    half = fmpq(1, 2 * 10 ** (len(text) - point - 1))
    return point > 0 and len(digits) >= DIGITS and bool(abs(arb(value) - rational(text)) <= half)

# A law is a finite mixture, a dictionary part -> probability. A part is an outcome that is seen for certain, and
# numbers beside it with these means and independent noise, normal ("variance") or Laplace ("scale") of this width.
Part = namedtuple("Part", "outcome mean noise width", defaults=("output", (), "", ZERO))
Law = dict[Part, fmpq]

def mixture(parts: Iterable[tuple[Part, fmpq]]) -> Law:
    """A law from parts with their weights; equal parts are joined."""
    law: Law = {}
    for part, weight in parts:
        if weight != 0:
            law[part] = law.get(part, ZERO) + weight
    require(sum(law.values()) == 1 and min(law.values()) > 0, "the weights are no law")
    return law

def noisy(kind: str, width: fmpq, sums: Iterable[tuple]) -> Law:
    """A number, given as (value, probability), with this noise; a list of values gets independent noise."""
    vectors = ((s if isinstance(s, list) else [s], weight) for s, weight in sums)
    return mixture((Part("output", tuple(s), kind, width), weight) for s, weight in vectors)

def written(parts: list[dict]) -> Law:
    """The law that a certificate writes."""
    result = []
    for part in parts:
        noise = next((name for name in ("variance", "scale") if name in part), "")
        width = rational(part[noise]) if noise else ZERO
        mean = tuple(rational(part.get("mean", [])))
        require(set(part) <= {"weight", "outcome", "mean", noise}, "a part has unknown entries")
        result.append((Part(part.get("outcome", "output"), mean, noise, width), rational(part["weight"])))
    return mixture(result)

def below(bound: str, mean: fmpq, part: Part) -> object:
    """Probability that a noisy number with this mean is below the bound."""
    if bound in ("-inf", "inf"):
        return fmpq(int(bound == "inf"))
    x = rational(bound) - mean
    if part.noise == "variance":
        return normal(x / sqrt(part.width))
    tail = exp(-abs(x) / part.width) / 2
    return 1 - tail if x > 0 else tail

def probability(law: Law, event: Mapping[str, list]) -> object:
    """P(S), where S allows some outcomes, each with an interval for every number beside it."""
    total: object = ZERO
    for part, chance in law.items():
        if part.outcome in event:
            for (low, high), mean in zip(event[part.outcome], part.mean, strict=True):
                inside = below(high, mean, part) - below(low, mean, part)
                require(inside > 0, "an empty interval")
                chance = chance * inside
            total = total + chance
    return total

# `epsilon` None: at every epsilon; `laws`: made from data; `ties`: further numbers that the file must print.
Promise = namedtuple("Promise", "epsilon delta laws ties", defaults=((), {}))
Claim = namedtuple("Claim", "left relation right ties", defaults=({},))

def numbers_of(name: str, file: dict) -> dict[str, object]:
    """The numbers that follow from the certificate `name` ("<paper>/<stem>"), if its contradiction is certain."""
    paper, _, stem = name.partition("/")
    v = Values(**{key: rational(value) for key, value in file["parameters"].items()})
    said = PAPERS[paper](stem, v)
    require(said is not None, "there is no formula for this claim")
    keys = {"claim", "says", "parameters", "numbers", *(["P", "Q", "event"] if isinstance(said, Promise) else [])}
    require(set(file) == keys, f"the entries must be {sorted(keys)}")
    if isinstance(said, Claim):
        left, relation, right = said[:3]
        require({"<=": left > right, "<": left >= right, "=": left != right}[relation], "no contradiction")
        result = {"left": left, "right": right}
    else:
        P, Q = written(file["P"]), written(file["Q"])
        require(said.laws in ((), (P, Q)), "the mechanism has other laws")
        require(set(file["event"]) <= {part.outcome for part in [*P, *Q]}, "an unknown outcome")
        first, second = probability(P, file["event"]), probability(Q, file["event"])
        require(said.epsilon is not None or second == 0, "Q(S) is not 0")
        result = {"P(S)": first, "Q(S)": second, "delta": said.delta, "epsilon": said.epsilon}
        result = {name: value for name, value in result.items() if value is not None}
        result[SUM] = right = said.delta + (ZERO if said.epsilon is None else exp(said.epsilon) * second)
        require(said.delta >= 0 and first > right, "the event does not break the promise")
    require(file["claim"] == f"{paper}/derivations/{stem.split('--')[0]}", "another claim's name")
    require(not re.search(r"\d", file["says"]), "a digit in the text cannot be checked")
    return result | dict(said.ties)

def check(path: Path) -> None:
    """Verify one certificate; ValueError with the reason if it proves nothing."""
    file = json.loads(path.read_text(encoding="utf-8"))
    found = numbers_of(f"{path.parts[-3]}/{path.stem}", file)
    require(set(file["numbers"]) == set(found), f"the numbers must be {list(found)}")
    for name, value in found.items():
        require(agrees(file["numbers"][name], value), f"{name} is {value}")

def main() -> int:
    """Check every certificate, one line each; 1 if any is refused."""
    paths, refused = sorted(FOLDER.glob("*/certificates/*.json")), 0
    for path in paths:
        try:
            verdict = check(path) or "proved"
        except Exception as fault:  # whatever goes wrong, the certificate proves nothing
            verdict, refused = f"REFUSED: {type(fault).__name__}: {fault}", refused + 1
        print(f"{path.parts[-3]}/{path.stem}: {verdict}")
    print(f"{len(paths) - refused} of {len(paths)} certificates proved, {refused} refused")
    return int(refused > 0 or not paths)

# The papers -------------------------------------------------------------------------------------

def draws(chances: list) -> list[tuple]:
    """(0-1 vector, probability) for independent events with these probabilities."""
    vectors = product((0, 1), repeat=len(chances))
    weighed = ((b, prod((p if bit else 1 - p for bit, p in zip(b, chances, strict=True)), start=ONE)) for b in vectors)
    return [(b, w) for b, w in weighed if w != 0]

def dot(*factors: Iterable) -> object:
    """The sum of the products of what is at the same place."""
    return sum((prod(f) for f in zip(*factors, strict=True)), ZERO)

def theorem_4_1(p: fmpq, q: fmpq, d: int, noise: fmpq, alpha: fmpq) -> tuple:
    """Epsilon (5), delta (6) and the weights c1, c2, where exp(epsilon') = alpha' = alpha and C = 1."""
    growth = 1 + p * q * (alpha - 1)  # (5): "epsilon = log(1 + p q (e^epsilon' - 1))"
    c1 = (1 - p) / (1 - p * q) * (1 - growth / alpha)  # "c1 = (1-p)/(1-pq) (1 - e^(epsilon-epsilon'))"
    c2 = p * (1 - q) / (1 - p * q) * (1 - growth / alpha) + growth / alpha  # "c2 = p(1-q)/(1-pq) (1 - e^..) + e^.."
    bins = [comb(d, i) * q**i * (1 - q) ** (d - i) for i in range(d + 1)]
    def balance(z: arb) -> arb:  # (7), divided by N(z, 0, sigma^2)
        n = [exp((i * z - fmpq(i * i, 2)) / noise) for i in range(d + 2)]
        return sum(b * (n[i + 1] - alpha * c2 * n[i]) for i, b in enumerate(bins)) - alpha * c1
    low, high = arb(-64), arb(64)
    for _ in range(120):  # "z* is the solution"; the sum changes its sign once
        middle = (low + high) / 2
        require((sign := balance(middle)) != 0, "the sign is not certain")
        low, high = (low, middle) if sign > 0 else (middle, high)
    phi = [normal((low.union(high) - i) / sqrt(noise)) for i in range(d + 2)]
    rest = sum(b * (alpha * c2 * phi[i] - phi[i + 1]) for i, b in enumerate(bins))
    # (6): "delta = p q (1 - a' c2 + a' c1 (Phi_0(z*) - 1) + sum_i ... (a' c2 Phi_iC(z*) - Phi_(i+1)C(z*)))"
    return log(growth), p * q * (1 - alpha * c2 + alpha * c1 * (phi[0] - 1) + rest), c1, c2

def random_participation(claim: str, v: Values) -> Promise | Claim:
    """A client's noisy sum of the drawn among collinear gradients, at most C = 1 long; a gradient 1 is added."""
    if claim == "eq-4":  # 4.1: "scales the noisy sum by 1/(p N_t q d) to have an unbiased estimate of the gradient"
        return Claim(sum(max(-ONE, min(ONE, g)) for g in v.others), "=", sum(v.others))  # each drawn at rate p q
    require(all(-1 <= g <= 1 for g in v.others), "a gradient longer than C")
    p, q, (epsilon, delta, c1, c2) = v.p, v.q, theorem_4_1(v.p, v.q, len(v.others), v.noise, v.alpha)
    more, less = ([(dot(g, b), w) for b, w in draws([q] * len(g))] for g in ([*v.others, ONE], v.others))
    laws = [[(ZERO, 1 - p), *((s, p * w) for s, w in law)] for law in (more, less)]
    if claim == "eq-27":  # "D_a'(sum N(mu_2) || c1 N(0) + c2 sum N(mu_1)) <= D_a'(.. N((i+1)C) || .. N(iC))"
        laws, epsilon = ([(s + 1, w) for s, w in less], [(ZERO, c1), *((s, c2 * w) for s, w in less)]), log(v.alpha)
        delta = delta / (p * q)
    if claim in ("cs-independence", "sec-5-unneeded"):  # 5.1.3: "which is pq in CS"; 5: d is "not needed", so d = 0
        delta = p * q * gaussian(1 / sqrt(v.noise), log(v.alpha))
    return Promise(epsilon, delta, tuple(noisy("variance", v.noise, law) for law in laws))

def ddpsa(claim: str, v: Values) -> Promise | Claim:
    """Sums of gradients (numbers) clipped to `clip`, with Laplace noise, added up by secret sharing."""
    laws = []
    for data in (v.data, v.other) if "data" in vars(v) else ():  # two neighbouring data sets
        norms, last = sorted(map(abs, data)), len(data) - 1
        median = (norms[len(data) // 2] + norms[last // 2]) / 2
        c = median if claim == "median-clip" else v.clip  # VI-A: "median of the l1 norms of the unclipped gradients"
        n = len(data) if claim == "alg-2-average" else 1  # Algorithm 2: "(1/N_i) (sum + Lap(0, Delta/epsilon))"
        rounds = whole(v.rounds) if claim == "budget" else 1  # VI-A: "The privacy budget e was set to 0.1", of a run
        laws.append(noisy("scale", c / v.e / n, [([sum(max(-c, min(c, g)) for g in data) / n] * rounds, ONE)]))
    match claim if claim == "quantisation-sum--rounding" else claim.split("--")[0]:
        case "alg-2-average" | "median-clip" | "client-level" | "budget":  # "(e, d)-DP at the distributed client level"
            return Promise(v.e, ZERO, tuple(laws), {"sum P": sum(v.data), "sum Q": sum(v.other)})
        case "eq-2-5":  # III-A: "This gradient-based formulation is equivalent to the original FedAvg algorithm"
            apart, joint, losses = [v.start for _ in v.slopes], v.start, list(zip(v.slopes, v.centres, strict=True))
            for _ in range(whole(v.epochs)):  # losses slope (x - centre)^2 / 2
                apart = [x - v.rate * s * (x - c) for x, (s, c) in zip(apart, losses, strict=True)]
                joint = joint - v.rate * sum(s * (joint - c) for s, c in losses) / len(losses)
            return Claim(sum(apart) / len(apart), "=", joint)
        case "quantisation-sum":  # III-C: "If p is chosen larger than the maximum possible aggregated magnitude,"
            require(v.p > sum(map(abs, v.numbers)), "p is too small")
            return Claim(fmpq(int(sum(v.numbers).p) % whole(v.p)), "=", sum(v.numbers), {"p": v.p})
        case "quantisation-sum--rounding":  # "and the decoding error remains bounded by 1/(2 SF)"
            decoded = sum(fmpq((x * v.SF + fmpq(1, 2)).floor()) for x in v.numbers) / v.SF
            return Claim(abs(decoded - sum(v.numbers)), "<=", 1 / (2 * v.SF), {"sum": sum(v.numbers)})
        case "curious-clients":  # IV-B: seeing the aggregate "prevents isolating the contribution of any other client"
            return Claim(1 - exp(-v.e / 2), "<=", 1 - exp(-v.e / 2) * (1 + v.e / 4))  # leak at 0: one noise, sum of two
        case "less-budget":  # VI-E1: "DDP-SA can operate with a smaller privacy budget than LDP": it errs less
            opened = [fmpq(int(sum(shares).p) % whole(v.p)) for shares in v.shares]
            decoded = sum(s - v.p if 2 * s > v.p else s for s in opened) / v.SF / len(opened)
            return Claim(abs(decoded - v.truth), "<", abs(sum(v.uploads) / len(opened) - v.truth), {"p": v.p})
        case "averaging":  # VI-F2: "As the number of clients increases, the average of the added noise tends to zero"
            return Claim(2 * v.many * (v.clip / v.e / v.N) ** 2, "<", 2 * v.few * (v.clip / v.e / v.N) ** 2)
        case "mixed-adversary":  # IV-B: "fails only if an adversary controls all .. or .. observes all .. links"; m = 2
            require([*v.controlled, *v.observed] in ([1, 2], [2, 1]) and len(v.observed) == 1, "named, or harmless")
            p, secrets = whole(v.p), (whole(v.secret), whole(v.other))  # a random share and the rest
            laws = (mixture((Part(f"{r} {(s - r) % p}"), 1 / v.p) for r in range(p)) for s in secrets)
            return Promise(None, ZERO, tuple(laws), {"secret": v.secret, "other": v.other})
        case "lemma-1-link":  # VI-E2: "each intermediate server (or link) .. with probability q, then .. is q^m"
            return Claim((1 - (1 - v.q) ** 2) ** whole(v.m), "=", v.q ** whole(v.m))
        case "advanced-better":  # V-B: "a significantly tighter bound for e_total when T is large": (11) against T e
            return Claim(v.e * sqrt(2 * v.T * log(1 / v.slack)) + v.e * v.T * (exp(v.e) - 1), "<", v.T * v.e)
        case "membership":  # VI-E3: "prevent adversaries from reliably determining whether a specific sample was used"
            p, T = 1 - exp(-v.e / 2) / 2, whole(v.T)  # a round's output is on the record's side; T is odd
            right = sum(comb(T, k) * p**k * (1 - p) ** (T - k) for k in range(T // 2 + 1, T + 1))
            return Claim(right, "<=", v.reliable)

def averaged(chances: list, uploads: Mapping, noise: fmpq) -> Law:
    """(17): "1/(nu |X|)" times the sum of the uploads of those who check in; all but the first upload 0."""
    parts, nobody = [], prod(1 - p for p in chances)
    for bits, weight in draws(chances):
        width = noise / (max(1, sum(bits)) * (1 - nobody) ** 2)  # "nu = 1 - prod (1 - p_i)"
        for x, chance in (uploads if bits[0] else {ZERO: ONE}).items():
            mean = x / (max(1, sum(bits)) * (1 - nobody))
            part = Part("average", (mean,), "variance", width) if any(bits) else Part("nobody")
            parts.append((part, weight * chance))
    return mixture(parts)

def kept(T: int, q: fmpq, shift: fmpq, noise: fmpq) -> tuple[Law, Law]:
    """The sum of T uploads, each moved by `shift` from the round on in which a record is first drawn; or never."""
    sums = [((T - t) * shift, q * (1 - q) ** t) for t in range(T)] + [(ZERO, (1 - q) ** T)]
    return noisy("variance", T * noise, sums), noisy("variance", T * noise, [(ZERO, ONE)])

def mspafl(claim: str, v: Values) -> Promise | Claim:
    """Models clipped to norm C, with normal noise; a record that is drawn moves its client's model from -C to C."""
    ties, zero, quarter = {}, {ZERO: ONE}, fmpq(5, 4)
    if "noise" in vars(v):  # (6): "sigma^2 = 2 s^2 ln(1.25/delta) / epsilon^2", s = 2 C
        ties["(6)"], pair = 2 * (2 * v.C) ** 2 * log(quarter / v.d) / v.e**2, kept(1, ONE, 2 * v.C, v.noise)
        uploads = {v.C: getattr(v, "q", ONE), -v.C: 1 - getattr(v, "q", ONE)}, {-v.C: ONE}
        require(v.noise < ties["(6)"] if claim == "lemma-1-minimal" else v.noise >= ties["(6)"], "not the noise of (6)")
    if "beta" in vars(v):  # (19a), (19b): "ln[1 + p/(1-d') (exp(2 q e) - 1)]", "d' + p q d/(1-d')"
        slip = 2 * exp(-2 * v.beta**2 * v.N)  # "d' = 2 exp(-2 beta^2 N) and any beta > 0"
        joint = log(1 + v.p / (1 - slip) * (exp(2 * v.q * v.e) - 1))
        pays = slip + v.p * v.q * v.d / (1 - slip)
    match claim if claim == "lemma-1-minimal--wide" else claim.split("--")[0]:
        case "lemma-1-minimal":  # "the minimal sigma^2 required .. is given by" (6): with less, delta is exceeded
            return Claim(v.d, "<", gaussian(2 * v.C / sqrt(v.noise), v.e), ties)
        case "lemma-1-minimal--wide":  # the same: (6) suffices
            return Promise(v.e, v.d, pair, ties)
        case "thm-1-wr":  # "(2 q e, q d)-LDP", "q = 1 - (1 - 1/|D|)^(Qb), WR"; sum of the drawn records, 2 C each
            n, q = whole(v.draws), 1 - (1 - 1 / v.records) ** whole(v.draws)
            copies = noisy("variance", v.noise, [(sum(b) * 2 * v.C, w) for b, w in draws([1 / v.records] * n)])
            return Promise(2 * q * v.e, q * v.d, (copies, pair[1]), ties)
        case "sec-3a":  # III-A: "its realization remains unknown to the PS"; what the server receives
            sent = [[(Part("upload", (x,), "variance", v.noise), v.p * w) for x, w in law.items()] for law in uploads]
            return Promise(joint, pays, tuple(mixture([*law, (Part("away"), 1 - v.p)]) for law in sent), ties)
        case "thm-2" | "cor-1":  # "in round t satisfies (e_c, d_c)-CDP"
            laws = (averaged([v.p] * whole(v.N), law, v.noise) for law in uploads)
            return Promise(joint, pays, tuple(laws), ties)
        case "eq-17":  # "to obtain unbiased model estimate": the mean weight of a client is 1/N
            law, n = averaged(v.chances, {ONE: ONE}, ONE), len(v.chances)
            return Claim(sum(w * part.mean[0] for part, w in law.items() if part.mean), "=", fmpq(1, n))
        case "thm-2-joint":  # "provably tighter than that achievable by either sampling scheme alone"
            clients = log(1 + v.p / (1 - slip) * (exp(v.e) - 1))
            return Claim(joint, "<", clients.min(arb(2 * v.q * v.e)), {"clients alone": clients, "delta": pays})
        case "eq-21":  # "e_c <= p/(1-d') (exp(2 q e) - 1) <=(a) 2 q e p/(1-d')"
            return Claim(joint, "<=", 2 * v.q * v.e * v.p / (1 - slip), {"delta": pays})
        case "thm-3":  # (22): "c0 q e sqrt(p T/(1-q)) .. c0 > 0 is a constant"; p = 1, private submodel kept
            ties["(C.8)"] = sqrt(log(1 / v.d) / log(quarter / v.d)) / (2 * v.C)
            require(v.c0 >= ties["(C.8)"], "a smaller c0 than (C.8) has")
            total, laws = v.c0 * v.q * v.e * sqrt(v.T / (1 - v.q)), kept(whole(v.T), v.q, 2 * v.C, v.noise)
            return Promise(total, v.d, laws, ties)
        case "thm-3-p":  # "frequent participation (large p) does not directly lead to higher privacy disclosure"
            return Promise(v.at, v.p * gaussian(2 * v.C / sqrt(v.noise), v.at), pair, ties)  # true for p, not for 1
        case "thm-4-sublinear":  # (23a) "grows sublinearly with T": a round's share falls below any number
            linear = v.e * (exp(v.e) - 1)
            return Claim(sqrt(2 * log(1 / v.slack) / v.T) * v.e + linear, "<", linear)
        case "thm-4-applied":  # (23a): "sqrt(2 T ln(1/d~)) e_c + T e_c (exp(e_c) - 1)", "T d_c + d~"; p = 1
            require(v.p == 1, "somebody may stay away")
            total = sqrt(2 * v.T * log(1 / v.slack)) * joint + v.T * joint * (exp(joint) - 1)
            return Promise(total, v.T * pays + v.slack, kept(whole(v.T), v.q, 2 * v.C / v.N, v.noise / v.N), ties)
        case "remark-3" | "private-half":  # "By structurally splitting models .. reduces this worst-case leakage"
            g = 1 - (1 - v.q) ** whole(v.t)  # split: drawn up to now; unsplit: drawn now, leak at epsilon 0
            laws = noisy("variance", v.noise, [(2 * v.C, g), (ZERO, 1 - g)]), pair[1]
            return Promise(ZERO, v.q * gaussian(2 * v.C / sqrt(v.noise), 0), laws, ties)
        case "eq-a1":  # "P(w in O) <= exp(e_c) P(w_-i in O) + d_c", w_-i "generated without i"; uploads of 0
            laws = (averaged([v.p] * n, zero, v.noise) for n in (whole(v.N), whole(v.N - 1)))
            return Promise(joint, pays, tuple(laws), ties)
        case "lemma-3":  # (A.6): "(p^ (exp(2 q e) - 1) + 1) P(w_-i in O | near) + p^ q d"; all is near for large beta
            laws = averaged([v.p, ONE, ONE], zero, v.noise), averaged([ONE, ONE], zero, v.noise)
            return Promise(log(v.p * (exp(2 * v.q * v.e) - 1) + 1), v.p * v.q * v.d, laws, ties)
        case "eq-b4":  # "exp(2 q e) P(w in O | E_i^c, X = A_-i) + q d": two clients and one; all upload 0
            laws = averaged([ONE, ONE], zero, v.noise), averaged([ONE], zero, v.noise)
            return Promise(2 * v.q * v.e, v.q * v.d, laws, ties)
        case "eq-b1-b2" | "eq-b5":  # "P(X = A_-i | near, E_i^c) = P(X = A_-i | near)", (B.5b) with E_i; all others
            near = [(b, w) for b, w in draws(v.chances) if abs(sum(b) - sum(v.chances)) < v.reach]
            given = [(b, w) for b, w in near if b[0] == int(claim == "eq-b5")]
            left, right = (sum(w for b, w in law if all(b[1:])) / sum(w for _, w in law) for law in (given, near))
            return Claim(left, "=", right, {"beta N": v.reach} | {f"p {i}": p for i, p in enumerate(v.chances)})
        case "eq-c1-c2":  # (C.2): "q^2/(1-q) lambda (lambda+1) e^2 / (4 s^2 ln(1.25/d))", s = 2 C, lambda = 1
            square = v.e**2 / (2 * log(quarter / v.d))  # (s/sigma)^2 by (6)
            return Claim(log(1 + v.q**2 * (exp(square) - 1)), "<=", v.q**2 / (1 - v.q) * square / (2 * v.C) ** 2)
        case "eq-c4":  # "sum over t of P(i in X_t) L_t"; exact for one who sees who takes part
            return Claim(v.T * log(1 - v.p + v.p * exp(v.L)), "<=", v.T * v.p * v.L)
        case "eq-c9":  # "c0 q sqrt(p)/sqrt(1-q) sqrt(T) e", from (C.5): four times the rounds, twice the loss
            rate = v.p * v.q**2 * v.e**2 / (16 * v.C**2 * (1 - v.q) * log(quarter / v.d))
            least = [min(T * rate * (n + 1) + log(1 / v.d) / n for n in range(1, 100)) for T in (v.T, 4 * v.T)]
            return Claim(least[1], "=", 2 * least[0])

def reverse_floor(square: fmpq, d: int, degree: int) -> arb:
    """At most D_2(Q''||P'') = log E 1/L of Lemma 3.18, k = 1, c^2/sigma^2 = square, from moments of L = P''/Q''."""
    # 1/x >= sum of (1 - x)^j over j <= degree, if that is odd. L: a mean of d lognormals over their common part.
    require(degree % 2 == 1, "an even degree")
    single = [exp(square * n * (n - 1) / 2) / factorial(n) for n in range(degree + 1)]
    series = [arb(n == 0) for n in range(degree + 1)]
    for _ in range(d):
        series = [sum(series[i] * single[n - i] for i in range(n + 1)) for n in range(degree + 1)]
    common = [exp(-square * n * (n - 1) / (2 * d)) * factorial(n) / arb(d) ** n for n in range(degree + 1)]
    return log(sum(comb(degree + 1, n + 1) * (-1) ** n * series[n] * common[n] for n in range(degree + 1)))

def partitioning(claim: str, v: Values) -> Promise | Claim:
    """Order alpha = 2, one block of d (k = 1), square = c^2/sigma^2."""
    if "degree" in vars(v):  # Corollary 3.19: "1/(2(a-1)) log(exp(a c^2 k(d-k)/(sigma^2 d)) / (a exp(..) + (1-a))^d)"
        d, square, floor = whole(v.d), v.square, reverse_floor(v.square, whole(v.d), whole(v.degree))
        spread = exp(square * (d - 1) / d**2)  # "exp(c^2 k(d-k)/(sigma^2 d^2))"
        bound = log(exp(2 * square * (d - 1) / d) / (2 * spread - 1) ** d) / 2
    match claim.split("--")[0]:
        case "lem-3.18":  # "D(Q''||P'') <= D(Q''||N(0, sigma^2 exp(c^2 k(d-k)/(sigma^2 d^2)) I_d))"
            return Claim(floor, "<=", d * log(spread / sqrt(2 * spread - 1)), {"d": v.d})
        case "a.7-all-blocks":  # "P'''(0) = P''(0)" in d - 1 dimensions; "The same argument holds true for arbitrary d"
            return Claim(floor, "<=", (d - 1) * (square / d - log(2 * exp(square / d) - 1) / 2))
        case "cor-3.19" | "thm-3.1-second" | "rem-3.2-likewise" as name:  # (3): "a c^2 k^2/(2 sigma^2 d) + .."; exact
            mean = ZERO if name == "cor-3.19" else square / d
            return Claim(mean + floor, "<=", mean + bound)
        case "sec-3.2.2":  # "The RDP costs of the two parts can be directly added"; one coin decides on both
            one, two = exp(v.square), (v.d - 1 + exp(v.split)) / v.d  # exp(D_2) for a record that takes part
            cost, first, second = (log(1 + v.rate**2 * (x - 1)) for x in (one * two, one, two))
            return Claim(cost, "<=", first + second)
        case "cor-3.7":  # "given by Theorem 3.1, where d = 2 and k = 1"; a gradient that no dropout reaches
            return Claim(v.square, "<=", log((1 + exp(v.square)) / 2).max(v.square - log(2 * exp(v.square / 4) - 1)))
        case "bis-delta":  # "better privacy guarantees" than Poisson, which leaves a record out with chance (1 - k/T)^T
            laws = tuple(noisy("variance", v.T, [(mean, ONE)]) for mean in (v.k * v.shift, ZERO))  # sum of all outputs
            return Promise(v.e, 1 - (1 - v.k / v.T) ** whole(v.T), laws)
        case "limit-poisson":  # "If gamma = k/T, as T -> inf, these two subsampling schemes become equivalent"
            pair = zip(map(whole, v.T), v.rates, strict=True)  # of the total variation:
            short, long = (1 - comb(T, whole(T * g)) * g ** whole(T * g) * (1 - g) ** whole(T - T * g) for T, g in pair)
            return Claim(long, "<=", short, {"rate": v.rates[0], "later": v.rates[1]})

def masked(w: list, keep: list, x: list, scale: fmpq) -> Law:
    """(31): "(w o M) . x + z", Laplace noise z; a row of w for each output, a bit of the mask for each input."""
    return noisy("scale", scale, [([dot(row, bits, x) for row in w], weight) for bits, weight in draws(keep)])

def sizes(a: fmpq, b: fmpq, c: fmpq, d: fmpq) -> tuple[arb, arb]:
    """The least and the largest absolute eigenvalue of [[a, b], [c, d]], a matrix other than 0."""
    square = (a - d) ** 2 + 4 * b * c
    largest = (abs(a + d) + sqrt(square)) / 2 if square >= 0 else sqrt(a * d - b * c)
    return abs(a * d - b * c) / largest, largest

def pmsfl(claim: str, v: Values) -> Promise | Claim:
    """Random masks on split models."""
    match claim.split("--")[0]:
        case "step-2-init":  # "it initializes the score mask to .. sigma^-1(theta)", which needs 0 < theta < 1
            return Claim(1 - v.theta ** whole(v.K) - (1 - v.theta) ** whole(v.K), "=", ONE)  # all masks agree
        case "eq-4":  # "w o sigma(s) o sigma'(s)", by "the straight-through estimator" w o sigma'(s); loss: slope w M
            straight = v.slope * v.w * v.theta * (1 - v.theta)
            return Claim(straight * v.theta, "=", straight)
        case "eq-7-indicator":  # 4.2: "they send the updated mask and the personalization indicator": the largest
            sums = [list(map(sum, zip(*updates, strict=True))) for updates in (v.updates, v.replaced)]
            tops = [["first", "second", "third"][max(range(len(s)), key=lambda i, s=s: abs(s[i]))] for s in sums]
            laws = tuple(mixture([(Part(top), ONE)]) for top in tops)
            ties = {f"{name} {i}": x for name, s in zip("PQ", sums, strict=True) for i, x in enumerate(s)}
            return Promise(None, v.d, laws, ties)
        case "thm-1":  # (9): "sum over |M^ - M| != 0 of P(M^) l_min(w o (M^ - M)) / l_max(w o M^) |x| <= E|x - x^|"
            own, bound, error = [a * m for a, m in zip(v.w, v.mask, strict=True)], arb(0), arb(0)
            seen = dot(own[:2], v.x), dot(own[2:], v.x)
            for guess, chance in draws(v.keep):  # the attacker inverts his guess
                a, b, c, d = (s * g for s, g in zip(v.w, guess, strict=True))
                back = dot((d, -b), seen) / (a * d - b * c), dot((-c, a), seen) / (a * d - b * c)
                error += chance * sqrt((v.x[0] - back[0]) ** 2 + (v.x[1] - back[1]) ** 2)
                apart = [p - s for p, s in zip((a, b, c, d), own, strict=True)]
                if any(apart):
                    bound += chance * sizes(*apart)[0] / sizes(a, b, c, d)[1] * sqrt(dot(v.x, v.x))
            return Claim(bound, "<=", error)
        case "thm-1-nonzero":  # "leads w o (M^ - M) to a singular matrix, making the minimum eigenvalue nonzero"
            guess, own = ([a * b for a, b in zip(v.w, bits, strict=True)] for bits in (v.guess, v.mask))
            least, largest = sizes(*(a - b for a, b in zip(guess, own, strict=True)))
            return Claim(0, "<", least, {"largest": largest} | {f"entry {i}": x for i, x in enumerate([*guess, *own])})
        case "eq-26":  # "s_min(A^-1 B) >= s_min(A^-1) s_min(B)" for A, B in R^(n x m), here columns
            return Claim(sqrt(dot(v.B, v.B) / dot(v.A, v.A)), "<=", abs(dot(v.A, v.B)) / dot(v.A, v.A))
        case "def-3":  # (11): "Pr[M(x) = r] <= exp(e) Pr[M(x') = r] + d" holds with e = 0 for many results r
            require(1 / v.labels <= v.d, "(11) does not hold")
            names = "abcdefghijklmnopqrstuvwxyz"[: whole(v.labels)]
            laws = (mixture((Part(f"{x} {name}"), 1 / v.labels) for name in names) for x in ("own", "other"))
            return Promise(ZERO, v.d, tuple(laws), {"labels": v.labels})
        case "lemma-2" | "thm-2" | "thm-2-batch" | "masked-shared":  # (32): "Lap(Df/e)", Df = "max |w(x - x')|"; x' = 0
            moved = 1 if claim == "thm-2-batch" else len(v.w)  # 2.1: one mask for a batch, a row of w for each image
            scale, e, p, d = sum(abs(dot(row, v.x)) for row in v.w[:moved]) / v.e, v.e, v.keep[0], len(v.x)
            laws = tuple(masked(w, v.keep, v.x, scale) for w in (v.w, [[ZERO] * d] * moved + v.w[moved:]))
            if claim in ("thm-2", "thm-2-batch"):  # "e_amp = ln((1 - c^d) exp(e) + c^d)", probabilities in [c, 1 - c]
                e = log((1 - (1 - p) ** d) * exp(e) + (1 - p) ** d)
            if claim == "masked-shared":  # the workbook's bound for bits that are not shared
                e, laws = log((p * exp(2 * e) + 1 - p) / (p * exp(e) + 1 - p)), laws[::-1]
            return Promise(e, ZERO, laws)  # Lemma 2: "For any fixed mask .. satisfies (e, 0)-DP"
        case "lemma-3":  # (35): "P(f_0(x) = u) >= exp(-e) P(f_M(x) = u)": densities at u = (w o M) . x
            scale, u = abs(dot(v.w, v.x)) / v.e, dot(v.w, v.mask, v.x)
            return Claim(exp(-v.e) / (2 * scale), "<=", exp(-abs(u) / scale) / (2 * scale))
        case "eq-54":  # "1 + (exp(e) - 1)/(1 + a/b) <= (1 - c^d) exp(e) + c^d"
            power = v.c ** whole(v.d)  # (53): "a/b >= c^d/(exp(e) (1 - c^d))"
            left = 1 + (exp(v.e) - 1) / (1 + power / (exp(v.e) * (1 - power)))
            return Claim(left, "<=", (1 - power) * exp(v.e) + power)
        case "eq-59":  # "D <= Gamma/|Q|": means of two batches of clipped gradients, |Q| the smaller of their sizes
            require(max(map(abs, v.batch + v.other)) <= v.Gamma, "a gradient longer than Gamma")
            means = [sum(g) / len(g) for g in (v.batch, v.other)]
            return Claim(abs(means[0] - means[1]), "<=", v.Gamma / min(len(v.batch), len(v.other)))
        case "eq-60" | "eq-63" | "run-total":  # "sigma^2 >= 2 R Gamma^2 ln(1/d) / (e^2 |Q|^2)"; R noisy steps, T rounds
            n, log_term = getattr(v, "T", ONE) * v.R, log(fmpq(5, 4) / v.d) if claim == "eq-60" else v.R * log(1 / v.d)
            least = 2 * v.Gamma**2 * log_term / (v.e**2 * v.Q**2)  # (60): "sigma >= (Gamma/|Q|) sqrt(2 ln(1.25/d)) / e"
            require(v.noise >= least and abs(v.other) <= v.Gamma, "not the noise of (63)")
            return Promise(v.e, v.d, kept(1, ONE, n * (v.Gamma - v.other) / v.Q, n * v.noise), {"(63)": least})
        case "eq-61":  # "e ~ sqrt(2R ln(1/d)) e_0"; R answers, 1 with chance `keep` or 1 - `keep`; S: at least `ones`
            e, n = sqrt(2 * v.R * log(1 / v.d)) * log(v.keep / (1 - v.keep)), whole(v.R)
            odds = [(p, 1 - p, range(whole(v.ones), n + 1)) for p in (v.keep, 1 - v.keep)]
            tails = [sum(comb(n, k) * p**k * q ** (n - k) for k in counts) for p, q, counts in odds]
            return Claim(tails[0], "<=", exp(e) * tails[1] + v.d, {"Q(S)": tails[1], "epsilon": e})
        case "eq-68":  # "D <= 1 - 2c"; d coordinates go from c to 1 - c
            return Claim(sqrt(v.d) * (1 - 2 * v.c), "<=", 1 - 2 * v.c)
        case "eq-70":  # "sigma^2 >= 2 (1-2c)^2 ln(1.25/d) / e^2"; S: at least `ones` of n sampled bits are 1
            sigma, sides = (1 - 2 * v.c) * sqrt(2 * log(fmpq(5, 4) / v.d)) / v.e, []
            for theta in (1 - v.c, v.c):  # P(bit = 1) = 1 - c - sigma [h(1 - c) - h(c)], where h' = Phi
                ends = [(x - theta) / sigma for x in (1 - v.c, v.c)]
                up, down = (z * normal(z) + exp(-(z**2) / 2) / sqrt(2 * arb.pi()) for z in ends)
                p, n = 1 - v.c - sigma * (up - down), whole(v.n)
                sides.append(sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(whole(v.ones), n + 1)))
            return Claim(sides[0], "<=", exp(v.e) * sides[1] + v.d, {"Q(S)": sides[1]})
        case "amp-renyi":  # "e_amp <= d/(a-1) log((1-c)^a c^(1-a) + ..)", with c^a (1-c)^(1-a) as second term; d = 1
            a, c = whole(v.alpha), v.c
            laws = (mixture([(Part("one"), p), (Part("zero"), 1 - p)]) for p in (1 - c, c))
            return Promise(log((1 - c) ** a / c ** (a - 1) + c**a / (1 - c) ** (a - 1)) / (a - 1), v.d, tuple(laws))
        case "batch-norm":  # Definition 1: "differ in at most one data sample"; the last sample's normalised number
            require(v.batch[1:] == v.replaced[1:], "more than one sample is replaced")
            means = [(batch, sum(batch) / len(batch)) for batch in (v.batch, v.replaced)]
            left, right = ((b[-1] - m) / sqrt(sum((x - m) ** 2 for x in b) / len(b)) for b, m in means)
            return Claim(left, "=", right)
        case "labels" | "run-pmsfl":  # Step 2.1: "smashed data {(f(x), y)}"; and smashed data without noise
            return Promise(None, v.d)
        case "run-smashed" | "run-adjacency" | "run-own":  # "a privacy budget of" e for one of several numbers released
            laws = (noisy("scale", 1 / v.e, [([x] * whole(v.releases), ONE)]) for x in (ONE, ZERO))
            return Promise(v.e, ZERO, tuple(laws))

PAPERS = {f.__name__: f for f in (random_participation, ddpsa, mspafl, partitioning, pmsfl)}

if __name__ == "__main__":
    sys.exit(main())
