"""Fixed-point encoding: exact bounds on its error, and nothing that wraps, up to the last unit."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repro.secagg import Z32, Z64, ZP61, FixedPoint, Ring, narrowest

RINGS = [Z32, Z64, ZP61, Ring(2**40), Ring(1_000_003)]
PLACES = [{"decimals": 10}, {"decimals": 0}, {"decimals": 3}, {"bits": 20}, {"bits": 0}]
encodings = st.builds(
    lambda places, ring: FixedPoint(**places, ring=ring),
    st.sampled_from(PLACES),
    st.sampled_from(RINGS),
)


def test_ten_decimals_modulo_2_64_are_the_default():
    assert FixedPoint() == FixedPoint(decimals=10, ring=Z64)
    assert FixedPoint().scale == 1e10 and FixedPoint(bits=5).scale == 32.0
    assert FixedPoint().encode([0.12345678904, -1.0], clients=1).tolist() == [
        1234567890,
        2**64 - 10**10,
    ]
    assert FixedPoint(ring=ZP61).encode([-1.0], clients=1).tolist() == [2**61 - 1 - 10**10]


def test_halves_are_rounded_to_even_at_every_size():
    """Both ways of rounding, below 2^51 units and above, agree with Python's."""
    values = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.0**50 + 0.5, 2.0**51 + 0.5, 2.0**51 + 1.5])
    both = FixedPoint(bits=0).encode(np.append(values, 2.0**60), clients=1)[:-1]
    small = FixedPoint(bits=0).encode(values[:6], clients=1)
    assert both.view(np.int64).tolist() == [round(v) for v in values]
    assert small.view(np.int64).tolist() == [round(v) for v in values[:6]]


@given(encodings, st.integers(1, 50), st.data())
def test_round_trip_stays_within_the_stated_error(encoding, clients, data):
    limit = encoding.limit(clients)
    values = data.draw(st.lists(st.floats(-limit, limit), min_size=1, max_size=20))
    encoded = encoding.encode(values, clients=clients)
    assert encoded.dtype == encoding.ring.dtype and int(encoded.max()) < encoding.ring.modulus
    scale = Fraction(int(encoding.scale))
    for value, whole in zip(values, encoding.ring.centre(encoded).tolist(), strict=True):
        error = abs(Fraction(whole) / scale - Fraction(value))
        assert error <= 1 / (2 * scale) + abs(Fraction(value)) / 2**53
        back = Fraction(
            float(
                encoding.decode(np.array([whole % encoding.ring.modulus], encoding.ring.dtype))[0]
            )
        )
        assert abs(back - Fraction(whole) / scale) <= abs(Fraction(whole) / scale) * 2 / 2**53


@given(encodings, st.integers(1, 8), st.data())
def test_sums_of_clients_decode_to_the_sum_of_the_rounded_values(encoding, clients, data):
    limit = encoding.limit(clients)
    rows = st.lists(st.floats(-limit, limit), min_size=3, max_size=3)
    matrix = np.array(data.draw(st.lists(rows, min_size=clients, max_size=clients)))
    encoded = encoding.encode(matrix, clients=clients)
    total = encoding.ring.centre(encoding.ring.sum(encoded)).tolist()
    exact = [sum(column) for column in zip(*encoding.ring.centre(encoded).tolist(), strict=True)]
    assert total == exact


@pytest.mark.parametrize("ring", RINGS, ids=str)
@pytest.mark.parametrize("clients", [1, 2, 7])
@pytest.mark.parametrize("places", PLACES, ids=str)
def test_the_limit_is_the_limit(ring, clients, places):
    """All clients at the largest value: the sum is right. One rounding step further: an error."""
    encoding = FixedPoint(**places, ring=ring)
    limit, units = encoding.limit(clients), encoding.units(clients)
    assert units * clients <= ring.half < (units + 1) * clients
    for sign in (1, -1):
        matrix = np.full((clients, 1), sign * limit)
        total = ring.sum(encoding.encode(matrix, clients=clients))
        whole = int(ring.centre(total)[0])
        assert whole == sign * clients * round(limit * encoding.scale)
        # the float below units / scale, times scale: three roundings, 2^-51 together
        assert abs(whole) >= clients * (units - 1 - units / 2**51)
        beyond = sign * max((units + 1) / encoding.scale, math.nextafter(limit, math.inf))
        if round(abs(beyond) * encoding.scale) > units:
            with pytest.raises(ValueError, match="values must be finite and in"):
                encoding.encode([beyond], clients=clients)


def test_what_cannot_be_represented_is_named_with_its_place_and_range():
    encoding = FixedPoint()
    with pytest.raises(ValueError) as caught:
        encoding.encode([[0.0, 1.0], [2.0, -1e9]], clients=2)
    assert str(caught.value) == (
        "values must be finite and in [-461168601.84273875, 461168601.84273875] (10 decimals in "
        "Z_(2^64), so that 2 of them can be added up), got -1000000000.0 at (1, 1)"
    )
    encoding.encode([461168601.8], clients=2)
    with pytest.raises(ValueError, match=r"got 461168601\.8 at 0"):
        encoding.encode([461168601.8], clients=3)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e308, -1e300, 1e19])
@pytest.mark.parametrize("ring", [Z32, Z64, ZP61, Ring(101)], ids=str)
@pytest.mark.parametrize("place", [0, 70_000])
def test_nan_infinity_and_overflow_are_refused_wherever_they_are(bad, ring, place):
    values = np.zeros(70_001)
    values[place] = bad
    with pytest.raises(ValueError, match=f"at {place}$"), np.errstate(all="raise"):
        FixedPoint(decimals=1, ring=ring).encode(values, clients=1)


@given(
    st.sampled_from([FixedPoint(), FixedPoint(bits=0, ring=Ring(101)), FixedPoint(3, ring=Z32)]),
    st.integers(1, 3),
    st.data(),
)
def test_noise_is_added_in_whole_units_and_checked_together(encoding, clients, data):
    units, scale = encoding.units(clients), encoding.scale
    whole = data.draw(st.integers(-min(units, 2**50), min(units, 2**50)))
    noise = data.draw(st.integers(-(2**63), 2**63 - 1) | st.integers(-units, units))
    value = whole / scale
    given_noise = np.array([noise])
    start = round(value * scale)
    if abs(start + noise) <= units:
        encoded = encoding.encode([value], clients=clients, noise=given_noise)
        assert int(encoding.ring.centre(encoded)[0]) == start + noise
    else:
        with pytest.raises(ValueError, match="values must be finite and in .* got .* at 0"):
            encoding.encode([value], clients=clients, noise=given_noise)


def test_sensitivity_in_units_is_never_exceeded_and_sometimes_met():
    """All pairs on a fine grid: rounding can add a unit a coordinate."""
    encoding = FixedPoint(decimals=1)
    grid = np.linspace(-0.3, 0.3, 601)
    whole = encoding.ring.centre(encoding.encode(grid, clients=1))
    largest = 0.0
    for l1 in (0.0, 0.01, 0.05, 0.1, 0.25):
        near = np.abs(grid[:, None] - grid) <= l1 + 1e-12
        moved = np.abs(whole[:, None] - whole)[near].max()
        assert moved <= encoding.sensitivity(l1, 1)
        largest = max(largest, moved - l1 * 10)
    assert largest > 0.89
    assert encoding.sensitivity(1.0, 3) == 16 and FixedPoint().sensitivity(0.1, 2) == 10**9 + 5


@given(st.sampled_from([0, 3, 10]), st.data())
def test_sensitivity_covers_the_floating_point_product_as_well(decimals, data):
    """Neighbours a few units apart, as large as the statement allows, in every coordinate."""
    encoding = FixedPoint(decimals=decimals)
    largest = 2.0**52 / encoding.scale
    a = np.array(data.draw(st.lists(st.floats(-largest, largest), min_size=1, max_size=6)))
    steps = data.draw(st.lists(st.floats(-4, 4), min_size=len(a), max_size=len(a)))
    b = np.clip(a + np.array(steps) / encoding.scale, -largest, largest)
    exact = sum(abs(Fraction(x) - Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True))
    l1 = float(exact)
    l1 = l1 if Fraction(l1) >= exact else math.nextafter(l1, math.inf)
    whole = [encoding.ring.centre(encoding.encode(one, clients=1)) for one in (a, b)]
    assert int(np.abs(whole[0] - whole[1]).sum()) <= encoding.sensitivity(l1, len(a))


def test_out_takes_the_result_and_float32_is_taken_exactly():
    values, out = np.linspace(-1, 1, 50_000, dtype=np.float32).reshape(2, -1), None
    out = np.empty(values.shape, np.uint64)
    encoded = FixedPoint().encode(values, clients=2, out=out)
    assert encoded is out
    assert (out == FixedPoint().encode(values.astype(float), clients=2)).all()
    assert FixedPoint().encode(3, clients=1).shape == ()
    assert FixedPoint().encode(np.empty((2, 0)), clients=2).shape == (2, 0)
    assert (FixedPoint().encode(values.T, clients=2) == out.T).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedPoint(decimals=19), "decimals must be an integer in"),
        (lambda: FixedPoint(decimals=-1), "decimals must be an integer in"),
        (lambda: FixedPoint(bits=63), "bits must be an integer in"),
        (lambda: FixedPoint(decimals=2, bits=2), "not both"),
        (lambda: Ring(1), "modulus must be an integer in"),
        (lambda: Ring(2**63 + 1), "modulus must be an integer in"),
        (lambda: FixedPoint().encode([1.0], clients=0), "clients must be an integer in"),
        (lambda: FixedPoint(ring=Ring(7)).encode([0.0], clients=4), r"clients .* in \[1, 3\]"),
        (lambda: FixedPoint().encode(["1"], clients=1), "values must be real numbers"),
        (lambda: FixedPoint().encode([1j], clients=1), "values must be real numbers"),
        (lambda: FixedPoint().encode([1.0], clients=1, noise=np.ones(1)), "noise must be an int64"),
        (
            lambda: FixedPoint().encode([1.0], clients=1, noise=np.ones(2, int)),
            r"noise must be .* shape \(1,\)",
        ),
        (lambda: FixedPoint().encode([1.0], clients=1, out=np.empty(1)), "out must be"),
        (lambda: FixedPoint().decode(np.array([1])), "elements must be a uint64 array"),
        (
            lambda: FixedPoint(ring=ZP61).decode(np.array([2**61 - 1], "u8")),
            r"elements must be in \[0, 2305843009213693951\)",
        ),
        (lambda: FixedPoint(ring=Z32).decode(np.zeros(1, "u8")), "elements must be a uint32 array"),
        (lambda: narrowest(0, 1), "units must be an integer >= 1"),
        (
            lambda: narrowest(2**40, 2**23),
            r"units times clients must be at most 9223372036854775807",
        ),
        (lambda: FixedPoint().sensitivity(-1.0, 1), "l1 must be"),
        (lambda: FixedPoint().sensitivity(1.0, 0), "dimension must be"),
    ],
)
def test_bad_input_is_one_error_that_names_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@given(st.sampled_from([Z32, Z64, ZP61, Ring(2), Ring(5), Ring(8), Ring(2**63)]), st.data())
def test_ring_arithmetic_is_arithmetic_modulo(ring, data):
    pairs = st.integers(0, ring.modulus - 1)
    rows = [data.draw(st.lists(pairs, min_size=4, max_size=4)) for _ in range(2)]
    a, b = np.array(rows, ring.dtype)
    exact = zip(a.tolist(), b.tolist(), strict=True)
    added, taken = zip(
        *[((x + y) % ring.modulus, (x - y) % ring.modulus) for x, y in exact], strict=True
    )
    assert ring.add(a, b).tolist() == list(added)
    assert ring.subtract(a, b).tolist() == list(taken)
    assert ring.sum(np.stack([a, b, a])).tolist() == ring.add(ring.add(a, b), a).tolist()
    signed = ring.centre(a)
    assert all(
        (s - x) % ring.modulus == 0 for s, x in zip(signed.tolist(), a.tolist(), strict=True)
    )
    assert all(-ring.half - 1 <= s <= ring.half for s in signed.tolist())
    assert ring.embed(signed).tolist() == a.tolist()


def test_the_narrowest_ring_holds_every_sum():
    """At the edge: one unit more, or one client more, needs the larger ring."""
    assert narrowest(2**14, 100_000) == Z32 and narrowest(21_474, 100_000) == Z32
    assert narrowest(21_475, 100_000) == Z64 and narrowest(2**31 - 1, 1) == Z32
    assert narrowest(2**31, 1) == Z64 and narrowest(2**63 - 1, 1) == Z64
    encoding = FixedPoint(bits=14, ring=Z32)
    assert encoding.units(100_000) == 21_474 and encoding.limit(100_000) > 1.0
    encoded = encoding.encode([[1.0, -1.0]], clients=100_000)
    total = Z32.sum(np.repeat(encoded, 100_000, axis=0))
    assert encoding.decode(total).tolist() == [1e5, -1e5]
    with pytest.raises(ValueError, match="100001 of them|values must be finite"):
        encoding.encode([1.3108], clients=100_001)
