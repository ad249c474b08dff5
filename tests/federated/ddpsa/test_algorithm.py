"""Algorithm 2 of ddpsa against a plain loop, and what its variants have in common."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plane_data import DDPSA, LDP, START, data, gradients
from repro.accounting.ddpsa.printed import quantisation_error
from repro.datasets.plane import plane
from repro.federated.ddpsa.algorithm import (
    MECHANISMS,
    Training,
    Variant,
    mechanism,
    shared_sum,
    train,
)
from repro.federated.ddpsa.clients import Federation, clipped_sums
from repro.federated.ddpsa.noise import NoiseStreams
from repro.secagg import Cluster, RoundError
from reproduce.papers.ddpsa.compare import rounding_bound


def plain_loop(training, setting, rounds, seed, start, modulus=2**64, servers=3):
    """Algorithm 2 as printed, one run: loops over clients, samples and servers, whole numbers."""
    noise = NoiseStreams([seed], [setting.noise], setting.clients, 3)
    theta, first, second = start.copy(), np.zeros(3), np.zeros(3)
    held = np.split(np.arange(len(training.targets[0])), setting.clients)
    rng = np.random.default_rng(1)
    for t in range(1, rounds + 1):
        drawn = noise.draw()[0, 0]
        sums = [[0] * 3 for _ in range(servers)]
        plain = np.zeros(3)
        for i, records in enumerate(held):
            total = np.zeros(3)
            for j in records:
                x, y = training.inputs[0, j], training.targets[0, j]
                g = 2 * (theta @ x - y) * x
                total += g / max(1.0, np.abs(g).sum() / setting.clip)
            upload = (total + setting.scale * drawn[i]) / len(records)
            plain += upload
            for k, value in enumerate(upload):
                secret = round(value * 10**10)
                masks = [int(m) for m in rng.integers(0, 2**63, servers - 1)]
                masks.append((secret - sum(masks)) % modulus)
                for j, mask in enumerate(masks):
                    sums[j][k] = (sums[j][k] + mask) % modulus
        if setting.shared:
            whole = [sum(column) % modulus for column in zip(*sums, strict=True)]
            plain = np.array([(w - modulus if w > modulus // 2 else w) / 1e10 for w in whole])
        g = plain / setting.clients  # N_i / N of the sum
        if setting.adam:
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
            g = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        theta = theta - setting.learning_rate * g
    return theta


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("distributed", [False, True])
def test_the_box_line_by_line(name, clients, distributed):
    """The arrays give what loops over clients, samples and servers give, for every mechanism."""
    training = data(100)
    setting = mechanism(name, clients=clients, clip=0.7, epsilon=0.5, distributed=distributed)
    found = train(training, [LDP, setting], 4, [3, 4], START)
    for run, seed in enumerate((3, 4)):
        one = type(training)(training.inputs[run : run + 1], training.targets[run : run + 1])
        slow = plain_loop(one, setting, 4, seed, START[run])
        np.testing.assert_allclose(found[-1, run, 1], slow, rtol=1e-9, atol=2e-10)


def test_mpc_is_ddpsa_without_noise_and_clip():
    """Section VI-E1: at the limits of clip and epsilon, and with its optimiser, bit for bit."""
    limit = replace(DDPSA, clip=math.inf, epsilon=math.inf, adam=False, learning_rate=0.1)
    mpc = mechanism("MPC", clients=2, clip=1.0, epsilon=0.1)
    assert limit == mpc
    high = replace(limit, clip=1e6)  # above every norm
    path = train(data(), [mpc, high], 30, [3, 4], START)
    np.testing.assert_allclose(path[:, :, 0], path[:, :, 1], rtol=1e-9, atol=1e-9)


@given(st.integers(0, 2**32), st.floats(0.01, 10), st.floats(0.05, 5), st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_ldp_and_ddpsa_differ_by_rounding_only(seed, clip, epsilon, clients):
    """Same noise: one round's averages are within half a unit, and descent within the proved bound."""
    start = np.random.default_rng(seed).normal(size=(2, 3))
    sgd = {"adam": False, "learning_rate": 0.1}
    pair = [
        mechanism(name, clients=clients, clip=clip, epsilon=epsilon, **sgd)
        for name in ("LDP", "DDP-SA")
    ]
    path = train(plane([3, 4], 400)[0], pair, 40, [seed, seed + 1], start)
    apart = np.linalg.norm(path[:, :, 0] - path[:, :, 1], axis=-1)
    for t in range(1, 41):
        assert apart[t].max() <= rounding_bound(t, learning_rate=0.1, decimals=10) + 1e-13
    # in the first round, from one model, each coordinate moves by eta times at most half a unit
    half = 0.1 * quantisation_error(10, average=True) + 1e-14
    assert np.abs(path[1, :, 0] - path[1, :, 1]).max() <= half


@given(st.integers(0, 2**32), st.floats(0.001, 100), st.floats(0.01, 100))
@settings(max_examples=60, deadline=None)
def test_a_step_of_descent_does_not_drive_models_apart(seed, clip, reach):
    """What `rounding_bound` rests on: theta - eta g(theta) expands no distance, at any clip."""
    training = plane([3], 400)[0]
    curvature = 2 * np.linalg.eigvalsh(training.inputs[0].T @ training.inputs[0] / 240)[-1]
    assert 0.1 * curvature <= 2
    models = np.random.default_rng(seed).normal(0, reach, (1, 2, 3)) + 1
    federation = Federation.deal(training, [2])
    members = federation.membership(np.array([2, 2]))
    sums = clipped_sums(federation, models, [clip, clip], members)
    moved = models - 0.1 * sums.sum(axis=2) / 240
    before, after = (np.linalg.norm(m[0, 0] - m[0, 1]) for m in (models, moved))
    assert after <= before * (1 + 1e-12)


def test_independent_noise_is_another_run():
    other = replace(DDPSA, stream=1)
    path = train(data(), [LDP, DDPSA, other], 20, [3, 4], START)
    assert np.abs(path[-1, :, 0] - path[-1, :, 1]).max() < 1e-8
    assert np.abs(path[-1, :, 0] - path[-1, :, 2]).min() > 1e-6


def test_a_run_depends_on_its_seed_and_setting_only():
    """Bit for bit the same again; and the same without the other runs and settings in the stack."""
    chosen = [mechanism(name, clients=2, clip=1.0, epsilon=0.1) for name in MECHANISMS]
    path = train(data(), chosen, 25, [3, 4], START)
    np.testing.assert_array_equal(path, train(data(), chosen, 25, [3, 4], START))
    alone = train(plane([4], 200)[0], chosen[1:2], 25, [4], START[1:])
    np.testing.assert_allclose(alone[:, 0, 0], path[:, 1, 1], rtol=1e-12, atol=1e-12)


def test_noise_on_the_average_is_that_of_the_sum_times_the_records():
    """Undivided noise at epsilon equals divided noise at epsilon / N_i (its first round)."""
    held = 60  # of 120 training records
    average = replace(LDP, divided=False, adam=False, learning_rate=0.1)
    total = replace(average, divided=True, epsilon=LDP.epsilon / held)
    path = train(data(), [average, total], 1, [3, 4], START)
    np.testing.assert_allclose(path[1, :, 0], path[1, :, 1], rtol=1e-12)


def test_batches_are_used_in_turn():
    """With batches the first round sees the first part of each client's records, and so on."""
    training = data(100)
    one = mechanism("No-Private", clients=3, clip=1.0, epsilon=0.1)
    path = train(training, [one], 2, [3, 4], START, batches=2)
    for t in (0, 1):
        used = gradients(training, path[t, :, 0]).reshape(2, 3, 2, 10, 3)[:, :, t]
        step = START * 0 + 0.1 * used.mean(axis=(1, 2))
        np.testing.assert_allclose(path[t + 1, :, 0], path[t, :, 0] - step, rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("clients", 0),
        ("clients", 2.0),
        ("clip", 0.0),
        ("clip", -1.0),
        ("clip", math.nan),
        ("epsilon", 0.0),
        ("epsilon", math.nan),
        ("learning_rate", 0.0),
        ("learning_rate", math.inf),
        ("stream", -1),
    ],
)
def test_settings_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=name):
        replace(LDP, **{name: value})


def test_noise_without_a_clip_is_refused():
    with pytest.raises(ValueError, match="epsilon must be inf where clip is inf"):
        Variant(2, math.inf, 0.1, False, False, 0.1)


def test_runs_that_do_not_fit_are_refused():
    for seeds, start in (([3], START), ([3, 4], START[:1]), ([3, -4], START)):
        with pytest.raises(ValueError, match="seed"):
            train(data(), [LDP], 1, seeds, start)
    with pytest.raises(ValueError, match="variants"):
        train(data(), [], 1, [3, 4], START)
    with pytest.raises(ValueError, match="rounds"):
        train(data(), [LDP], 0, [3, 4], START)
    with pytest.raises(ValueError, match="name"):
        mechanism("FedAvg", clients=2, clip=1.0, epsilon=0.1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e9])
def test_a_value_that_cannot_be_encoded_leaves_everything_as_it_was(bad):
    """The encoding's error names the value; models and memory are those before the round."""
    training = data()
    going = Training(training, [LDP, DDPSA], [3, 4], START)
    going.round()
    before, memory = going.models.copy(), going._memory
    going.federation.directions[...] = bad  # every gradient a client computes
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="values must be finite"):
        going.round()
    np.testing.assert_array_equal(going.models, before)
    assert going._memory is memory


def test_a_failed_secure_sum_leaves_everything_as_it_was():
    def fails(values):
        raise RoundError("the round failed")

    going = Training(data(), [DDPSA, LDP], [3, 4], START, secure_sum=fails)
    with pytest.raises(RoundError):
        going.round()
    np.testing.assert_array_equal(going.models, np.repeat(START[:, None], 2, axis=1))


def test_real_servers_give_the_same_bits():
    """The same code path over processes: totals, and so models, are equal bit for bit."""
    training = data()
    three = mechanism("DDP-SA", clients=4, clip=2.0, epsilon=0.1)
    chosen = [LDP, DDPSA, mechanism("MPC", clients=2, clip=1.0, epsilon=0.1), three]
    seen = []

    def over_servers(values):
        with_servers = cluster.round(values).total
        seen.append((with_servers, shared_sum(values)))
        return with_servers

    with Cluster(clients=4, servers=3) as cluster:
        real = train(training, chosen, 3, [3, 4], START, secure_sum=over_servers)
    np.testing.assert_array_equal(real, train(training, chosen, 3, [3, 4], START))
    assert len(seen) == 3
    for one, other in seen:
        assert one.tobytes() == other.tobytes()
