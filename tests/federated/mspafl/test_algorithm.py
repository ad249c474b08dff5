"""Algorithm 1 of mspafl: a plain loop beside it, its sampling laws, its noise, what leaves a client."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, chisquare

from repro.accounting import GaussianMechanism, compose
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.round import AveragedUploads
from repro.federated.client_data import deal
from repro.federated.mspafl import algorithm
from repro.federated.mspafl.algorithm import LocalTraining, Variant, generators, train
from repro.federated.mspafl.client import RecordDraws, clip_rows
from repro.federated.saved_arrays import Checkpoint
from repro.models.logistic import gradient, signed

N, HELD, SIZE = 6, 9, 5
RNG = np.random.default_rng(7)
FEATURES = RNG.normal(size=(N * HELD, SIZE))
LABELS = (FEATURES[:, 0] + RNG.normal(size=N * HELD) > 0).astype(np.int64)
VECTORS = signed(FEATURES, LABELS)
HOLDINGS = RNG.permutation(N * HELD).reshape(1, N, HELD)

VARIANTS = [
    Variant(0.4, 2, 0.3, 0.2, 1.5),
    Variant(0.4, 2, 0.3, 0.2, 1.5, informative=False),
    Variant(0.9, 2, 0.1, 0.05),
    Variant(1.0, 0, 0.3),
    Variant(0.5, SIZE, 0.3, math.inf),
    Variant(0.7, SIZE, 0.3, 0.2, 0.7),
    Variant(0.0, 2, 0.3),
]


def run(variants=VARIANTS, local=None, rounds=4, seeds=(3,), holdings=HOLDINGS, every=1):
    seen = []
    local = local or LocalTraining(3, 2, regularisation=0.01)
    models = train(VECTORS, holdings, variants, local, rounds, list(seeds), seen.append, every)
    return models, seen


def draw_hand(uniforms, deck, replacement):
    """Draws of one client, written out: numbers on cards, or cards dealt from the top of a deck."""
    if replacement:
        return [int(u * HELD) for u in uniforms]
    hand = []
    for k, u in enumerate(uniforms):
        place = k + int(u * (HELD - k))
        deck[k], deck[place] = deck[place], deck[k]
        hand.append(deck[k])
    return hand


def loop(variant, local, rounds, seed):
    """Algorithm 1 line by line, one client and one record at a time: server and models at the end."""
    check_in, records, source = generators(seed)
    private = SIZE - variant.public
    models = [[0.0] * SIZE for _ in range(N)]
    server = [0.0] * variant.public
    decks = [list(range(HELD)) for _ in range(N)]
    for _ in range(rounds):
        coins = check_in.random(N)
        numbers = records.random((N, local.steps * local.batch))
        noises = source.standard_normal((N, 1, SIZE))[:, 0]
        sent = []
        for i in range(N):
            hand = draw_hand(numbers[i], decks[i], local.replacement)
            if not coins[i] < variant.p:
                continue
            w = models[i]
            for r in range(local.steps):
                slope = [2 * local.regularisation * value for value in w]
                for k in hand[r * local.batch : (r + 1) * local.batch]:
                    x, y = FEATURES[HOLDINGS[0, i, k]], 2 * LABELS[HOLDINGS[0, i, k]] - 1
                    margin = y * sum(a * b for a, b in zip(w, x, strict=True))
                    for c in range(SIZE):
                        slope[c] -= y * x[c] / (1 + math.exp(margin)) / local.batch
                w = [a - variant.learning_rate * g for a, g in zip(w, slope, strict=True)]
            models[i] = w
            public = w[private:]
            norm = math.sqrt(sum(value**2 for value in public))
            public = [value / max(1.0, norm / variant.clip) for value in public]
            if not variant.informative:
                public = [0.0] * variant.public
            noise = noises[i][private:] * variant.sigma
            sent.append([a + b for a, b in zip(public, noise, strict=True)])
        if sent:
            nu = 1 - (1 - variant.p) ** N
            server = [sum(column) / len(sent) / nu for column in zip(*sent, strict=True)]
        for i in range(N):
            models[i] = [*models[i][:private], *server]
    return np.array(models)


@pytest.mark.parametrize("replacement", [False, True])
def test_the_stack_agrees_with_a_loop_over_clients(replacement):
    local = LocalTraining(3, 2, replacement, regularisation=0.01)
    models, _ = run(local=local, rounds=5, seeds=(3, 8), holdings=np.repeat(HOLDINGS, 2, axis=0))
    for k, variant in enumerate(VARIANTS):
        for r, seed in enumerate((3, 8)):
            plain = loop(variant, local, 5, seed)
            np.testing.assert_allclose(models[r, :, k], plain, rtol=1e-10, atol=1e-12)
    assert np.abs(models[0] - models[1]).max() > 0.01


def test_same_seed_same_numbers_whatever_else_is_in_the_stack():
    first, _ = run()
    again, _ = run()
    assert np.array_equal(first, again)
    both, _ = run(seeds=(11, 3), holdings=np.repeat(HOLDINGS, 2, axis=0))
    np.testing.assert_allclose(both[1], first[0], rtol=1e-12, atol=1e-14)
    fewer, _ = run(variants=VARIANTS[2:4])
    np.testing.assert_allclose(fewer, first[:, :, 2:4], rtol=1e-12, atol=1e-14)


def test_the_global_generator_is_neither_used_nor_changed():
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    first, _ = run()
    assert np.array_equal(before, np.random.get_state()[1])
    np.random.seed(6)
    assert np.array_equal(first, run()[0])


def test_everyone_without_noise_on_all_records_is_gradient_descent():
    """p = 1, everything shared, one step on all records: the average of the clients' steps."""
    variant = Variant(1.0, SIZE, 0.5, math.inf)
    models, _ = run([variant], LocalTraining(1, HELD), rounds=20)
    w = np.zeros(SIZE)
    for _ in range(20):
        w -= 0.5 * gradient(w[None], VECTORS, 0.0)[0]  # equal shares: the mean over all records
    np.testing.assert_allclose(models[0, :, 0], np.tile(w, (N, 1)), rtol=1e-10)


# ---------------------------------------------------------------- what leaves a client


def test_the_private_half_never_leaves():
    """Neither the server nor other clients ever hold a private coordinate of a client."""
    _, seen = run(rounds=6)
    for happened in seen:
        for k, variant in enumerate(VARIANTS):
            half = SIZE - variant.public
            for sent in (happened.signal, happened.noise, happened.echo):
                assert not sent[0, k, :half].any()
            public = happened.models[0, :, k, half:]
            assert np.array_equal(public, np.tile(public[0], (N, 1)))
    private = seen[-1].models[0, :, 0, : SIZE - 2]
    assert len(np.unique(private.round(12), axis=0)) > 3


def test_a_client_s_records_reach_others_only_through_the_public_half():
    """Training alone, no client's model depends on another's records; sharing, all public halves do."""
    alone, shared = Variant(1.0, 0, 0.3), Variant(1.0, 2, 0.3, 1.0)
    changed = HOLDINGS.copy()
    changed[0, 0] = np.roll(HOLDINGS[0, 1], 1)  # client 0 holds other records now
    first, second = (run([alone, shared], holdings=h, rounds=1)[0] for h in (HOLDINGS, changed))
    assert np.array_equal(first[0, 1:, 0], second[0, 1:, 0])
    assert np.array_equal(first[0, 1:, 1, :3], second[0, 1:, 1, :3])
    assert (first[0, :, 1, 3:] != second[0, :, 1, 3:]).all()
    assert (first[0, 0] != second[0, 0]).any()


def test_a_client_that_stays_away_keeps_its_private_half():
    _, seen = run(rounds=8)
    stayed = 0
    for before, after in itertools.pairwise(seen):
        away = ~after.checked_in[0]
        for k, variant in enumerate(VARIANTS):
            half = SIZE - variant.public
            kept = after.models[0, away[:, k], k, :half] == before.models[0, away[:, k], k, :half]
            assert kept.all()
            stayed += kept.size
    assert stayed > 50


def test_check_ins_are_nested_and_follow_their_probability():
    p = [0.0, 0.1, 0.3, 0.7, 1.0]
    _, seen = run([Variant(one, 0, 0.1) for one in p], LocalTraining(1, 1), rounds=3000)
    checked = np.array([happened.checked_in[0] for happened in seen])  # rounds, N, variants
    assert (np.diff(checked.astype(int), axis=2) >= 0).all()
    assert not checked[..., 0].any() and checked[..., 4].all()
    count = checked.sum(axis=(0, 1))
    for k in (1, 2, 3):
        low, high = binom.interval(1 - 1e-6, 3000 * N, p[k])
        assert low <= count[k] <= high
    sizes = np.bincount(checked[..., 2].sum(axis=1), minlength=N + 1)  # clients are independent
    law = 3000 * binom.pmf(np.arange(N + 1), N, 0.3)
    assert chisquare([*sizes[:4], sizes[4:].sum()], [*law[:4], law[4:].sum()]).pvalue > 1e-4


def test_an_empty_round_changes_nothing():
    variant = Variant(0.12, 2, 0.3, 1.0, 1.0)
    _, seen = run([variant], rounds=40)
    empty = [k for k, one in enumerate(seen) if not one.checked_in.any()]
    assert len(empty) > 5
    for k in empty:
        before = seen[k - 1].models if k else np.zeros_like(seen[0].models)
        assert np.array_equal(seen[k].models, before)
        for part in (seen[k].signal, seen[k].echo, seen[k].noise):
            assert not part.any()
    nobody, _ = run([Variant(0.0, 2, 0.3, 1.0, 1.0)])
    assert not nobody.any()


def test_the_average_is_divided_by_nu_as_printed():
    """(17): one participant of six, p = 0.2: its upload over 1 - 0.8^6."""
    variant = Variant(0.2, SIZE, 0.3, math.inf)
    _, seen = run([variant], rounds=60)
    single = [one for one in seen if one.checked_in.sum() == 1]
    assert len(single) > 5
    for one in single:
        server = one.models[0, 0, 0]
        np.testing.assert_allclose(server, one.signal[0, 0] / (1 - 0.8**6), rtol=1e-12)


# ---------------------------------------------------------------- clipping and noise


def test_the_sensitivity_of_an_upload_is_twice_the_clip_and_no_less():
    """Replacing a client's data moves its clipped public half by at most 2 C, and nearly 2 C occurs."""
    clip, largest = 0.05, 0.0
    for direction in np.eye(SIZE)[3:]:
        sent = []
        for sign in (-1, 1):
            vectors = np.tile(sign * direction, (HELD, 1))
            seen = []
            holdings = np.arange(HELD).reshape(1, 1, HELD)
            variant = Variant(1.0, 2, 10.0, clip)
            train(vectors, holdings, [variant], LocalTraining(1, 1), 1, [0], seen.append)
            sent.append(seen[0].signal[0, 0])
        moved = np.linalg.norm(sent[1] - sent[0])
        assert moved <= 2 * clip * (1 + 1e-12)
        largest = max(largest, moved)
    assert largest == pytest.approx(2 * clip, rel=1e-9)


def test_noise_has_its_variance_in_public_coordinates_only_and_is_independent():
    sigma = 2.0
    variant = Variant(1.0, 3, 0.1, 1.0, sigma, informative=False)
    _, seen = run([variant], LocalTraining(1, 1), rounds=4000)
    noise = np.array([one.noise[0, 0] for one in seen])
    assert not noise[:, :2].any()
    public = (
        noise[:, 2:] * math.sqrt(N) / sigma
    )  # the average of N: standard deviation sigma/sqrt(N)
    spread = 5 * math.sqrt(2 / len(public))
    covariance = public.T @ public / len(public)
    np.testing.assert_allclose(covariance, np.eye(3), atol=spread)
    assert np.abs(public.mean(axis=0)).max() < 5 / math.sqrt(len(public))
    lagged = (public[1:] * public[:-1]).mean(axis=0)
    assert np.abs(lagged).max() < 5 / math.sqrt(len(public))
    server = np.array([one.models[0, 0, 0, 2:] for one in seen])
    np.testing.assert_array_equal(server, noise[:, 2:])  # an uninformative upload is noise alone


def test_the_echo_is_what_a_round_without_data_would_send():
    _, seen = run(rounds=5)
    for before, after in itertools.pairwise(seen):
        for k in (0, 2, 5):
            half = SIZE - VARIANTS[k].public
            server = before.models[0, 0, k, half:]
            if not after.checked_in[0, :, k].any():
                continue
            expected = clip_rows(server[None], VARIANTS[k].clip)[0]
            np.testing.assert_allclose(after.echo[0, k, half:], expected, rtol=1e-12)
        assert not after.echo[0, 1].any()


def test_a_client_with_one_label_only_still_trains():
    labels = np.repeat([0, 1], [30, 24])
    order = np.argsort(LABELS, kind="stable")[: N * HELD]
    holdings = order[deal(labels, 6, 8, "one_label", np.random.default_rng(0))][None]
    models, _ = run([Variant(1.0, 0, 0.3)], holdings=holdings)
    assert np.isfinite(models).all() and (np.abs(models[0, :, 0]).sum(axis=1) > 0).all()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": -0.1}, "p must be in"),
        ({"p": 1.2}, "p must be in"),
        ({"p": math.nan}, "p must be in"),
        ({"public": -1}, "public must be an integer >= 0"),
        ({"public": 2.0}, "public must"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"clip": math.nan}, "clip must be positive"),
        ({"sigma": -1.0}, "sigma must be non-negative"),
        ({"sigma": 1.0, "clip": math.inf}, "sigma must be 0 when clip is inf"),
    ],
)
def test_variants_out_of_range(change, message):
    with pytest.raises(ValueError, match=message):
        Variant(**{"p": 0.5, "public": 2, "learning_rate": 0.1, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variants": []}, "variants must hold at least one"),
        ({"variants": [Variant(0.5, SIZE + 1, 0.1)]}, r"public must be an integer in \[0, 5\]"),
        ({"local": LocalTraining(5, 2)}, r"draws \(Q b\) must be at most the 9 records"),
        ({"rounds": 0}, "rounds must"),
        ({"every": 0}, "watch_every must"),
        ({"seeds": (-1,)}, "seed must"),
        ({"seeds": (1, 2)}, "seeds must be as many as the runs"),
        ({"holdings": HOLDINGS[0]}, "holdings shape"),
        ({"holdings": HOLDINGS[:, :, :0]}, "at least one of each"),
        ({"holdings": HOLDINGS[:, :0]}, "at least one of each"),
        ({"holdings": HOLDINGS + 1}, r"holdings must be places in \[0, 54\)"),
        ({"holdings": HOLDINGS - 1}, "holdings must be places"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        run(**change)


def test_more_draws_than_records_are_fine_with_replacement_only():
    models, _ = run(local=LocalTraining(5, 2, replacement=True))
    assert np.isfinite(models).all()
    for arguments in ((0, 5, 2), (3, 0, 2), (3, 5, 0), (3, 5, 2.5)):
        with pytest.raises(ValueError, match="must be an integer"):
            RecordDraws(*arguments, replacement=True)
    for change in ({"steps": 0}, {"batch": 1.5}, {"regularisation": -1.0}):
        with pytest.raises(ValueError, match=f"{next(iter(change))} must"):
            LocalTraining(**{"steps": 2, "batch": 2, **change})


@pytest.mark.parametrize("at_once", [1, 95, 10**9])
def test_clients_that_take_turns_give_the_same_models(monkeypatch, at_once):
    """However many clients are trained together, bit for bit, also across the runs of a stack."""
    holdings, seeds = np.concatenate([HOLDINGS, HOLDINGS[:, ::-1]]), (3, 4)
    together, _ = run(seeds=seeds, holdings=holdings)
    monkeypatch.setattr(algorithm, "_AT_ONCE", at_once)
    in_turns, _ = run(seeds=seeds, holdings=holdings)
    np.testing.assert_array_equal(in_turns, together)


# Guarantees and checkpoints -----------------------------------------------------------------------


def test_the_guarantee_is_the_carried_run_s_where_a_half_is_kept():
    variant, local = Variant(0.3, 2, 0.1, 0.5, 4.0), LocalTraining(3, 2)
    for clients in (1, 5):
        run = CarriedRun(4.0, rounds=50, p=0.3, q=6 / HELD, clients=clients, clip=0.5)
        found = variant.guarantee(1e-4, 50, local, held=HELD, size=SIZE, clients=clients)
        assert (found.upper, found.neighbours) == (run.epsilon(1e-4), "replaced record")
        assert 0 < found.lower <= found.upper
        assert found.lower <= run.epsilon(1e-4, method="lower")
    with_replacement = LocalTraining(3, 2, replacement=True)
    assert with_replacement.rate(HELD) == pytest.approx(1 - (1 - 1 / HELD) ** 6, rel=1e-12)
    assert with_replacement.rate(1) == 1.0


def test_the_rate_is_the_share_of_rounds_that_use_a_record():
    """Counted over draws; four standard deviations of a share of 20,000 rounds."""
    for replacement in (False, True):
        local = LocalTraining(2, 2, replacement=replacement)
        draws = RecordDraws(1, HELD, 4, replacement=replacement)
        rng = np.random.default_rng(5)
        used = np.mean([0 in draws.draw(rng.random((1, 4))) for _ in range(20_000)])
        q = local.rate(HELD)
        assert abs(used - q) < 4 * math.sqrt(q * (1 - q) / 20_000)


def test_what_is_shared_as_a_whole_remembers_nothing_and_is_cheaper():
    local = LocalTraining(1, 1)
    shared, kept = (Variant(0.5, public, 0.1, 1.0, 6.0) for public in (SIZE, SIZE - 1))
    one, other = (v.guarantee(1e-4, 30, local, held=HELD, size=SIZE) for v in (shared, kept))
    run = compose(AveragedUploads(6.0, p=0.5, q=1 / HELD), 30)
    assert one.upper == run.epsilon(1e-4) and one.upper < other.lower
    # Everybody, every record, once: one Gaussian mechanism, since uploads differ by at most 2 C.
    once = Variant(1.0, SIZE, 0.1, 1.0, 6.0).guarantee(1e-4, 1, local, held=1, size=SIZE)
    exact = GaussianMechanism(6.0, sensitivity=2.0).epsilon(1e-4)
    assert once.lower <= exact * (1 + 1e-9) and exact <= once.upper * (1 + 1e-9)
    assert once.upper == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ({"sigma": 0.0}, {}, "the noise must be positive for a guarantee"),
        ({"informative": False}, {}, "informative must be True"),
        ({"public": 0}, {}, "public must be an integer in"),
        ({}, {"size": 1}, "public must be an integer in"),
        ({}, {"held": 5}, "held must be an integer >= 6"),
        ({}, {"delta": 0.0}, "delta must be in"),
        ({}, {"rounds": 0}, "rounds must be"),
    ],
)
def test_variants_that_guarantee_nothing_are_refused(change, given, message):
    variant = replace(Variant(0.4, 2, 0.3, 0.2, 1.5), **change)
    asked = {"delta": 1e-4, "rounds": 3, "held": HELD, "size": SIZE, **given}
    with pytest.raises(ValueError, match=message):
        variant.guarantee(asked.pop("delta"), asked.pop("rounds"), LocalTraining(3, 2), **asked)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(("every", "number"), [(1, 1), (1, 5), (3, 5), (3, 7)])
def test_runs_killed_in_any_round_end_with_the_same_models(tmp_path, every, number, replacement):
    local = LocalTraining(3, 2, replacement=replacement)
    checkpoint = Checkpoint(tmp_path / "run.npz", every)
    holdings = np.concatenate([HOLDINGS, HOLDINGS[:, ::-1]])

    def whole(watch, saved=None, seeds=(3, 4)):
        return train(VECTORS, holdings, VARIANTS, local, 7, list(seeds), watch, checkpoint=saved)

    def kill(now):
        if now.number == number:
            raise KilledError

    with pytest.raises(KilledError):
        whole(kill, checkpoint)
    seen = []
    resumed = whole(lambda now: seen.append(now.number), checkpoint)
    assert np.array_equal(resumed, whole(lambda now: None))
    last = 7 if number == 7 else number - number % every
    assert seen == list(range(last + 1, 8))
    assert np.array_equal(whole(kill, checkpoint), resumed)  # finished: nothing is run again
    with pytest.raises(ValueError, match="checkpoint must be of the same settings"):
        whole(kill, checkpoint, seeds=(3, 5))


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"PK\x03\x04 cut off"])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    (tmp_path / "run.npz").write_bytes(content)
    with pytest.raises(ValueError, match="checkpoint must be a file of `Checkpoint`"):
        train(VECTORS, HOLDINGS, VARIANTS, LocalTraining(1, 1), 2, [3], lambda now: None,
              checkpoint=Checkpoint(tmp_path / "run.npz"))  # fmt: skip
