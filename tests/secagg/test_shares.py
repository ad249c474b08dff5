"""Additive sharing: Lemma 1 by enumeration, sums, key streams, uniformity."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from repro.secagg import Z32, Z64, ZP61, FixedPoint, Ring, Shares, reconstruct, share
from repro.secagg import shares as shares_module
from repro.secagg import stream as stream_module
from repro.secagg.shares import add_expanded
from repro.secagg.stream import CHUNK, KeyStream, new_keys

KEYS = np.arange(16 * 64, dtype=np.uint8).reshape(-1, 16)


def fixed(clients, servers):
    """Keys that are the same in every run, all different."""
    words = np.arange(clients * (servers - 1) * 16) % 251 + np.arange(clients)[0]
    keys = np.array(words, np.uint8).reshape(clients, servers - 1, 16)
    keys[..., 0] = np.arange(clients)[:, None]
    keys[..., 1] = np.arange(servers - 1)
    return keys


# Lemma 1 ------------------------------------------------------------------------------------------


def enumerate_shares(monkeypatch, modulus, servers):
    """All shares of all secrets under all random choices: (secrets, choices, servers)."""
    choices = list(itertools.product(range(modulus), repeat=servers - 1))
    masks = np.array(choices * modulus, np.uint64).T

    class Enumerated:
        def __init__(self, key, ring):
            self.server = int(key[0])

        def fill(self, out):
            out[:] = masks[self.server]

    monkeypatch.setattr(shares_module, "KeyStream", Enumerated)
    keys = np.zeros((1, servers - 1, 16), np.uint8)
    keys[0, :, 0] = range(servers - 1)
    secrets = np.repeat(np.arange(modulus, dtype=np.uint64), len(choices))
    made = share(secrets[None], servers=servers, ring=Ring(modulus), keys=keys)
    full = made.expanded()[:, 0]
    assert (reconstruct(full, Ring(modulus)) == secrets).all()
    return full.T.reshape(modulus, len(choices), servers)


@pytest.mark.parametrize(("modulus", "servers"), [(2, 2), (2, 4), (4, 3), (5, 3), (7, 2), (3, 4)])
def test_any_m_minus_1_shares_are_uniform_and_independent_of_the_secret(
    monkeypatch, modulus, servers
):
    """Lemma 1: for every secret, each combination of m - 1 share values comes exactly once."""
    every = enumerate_shares(monkeypatch, modulus, servers)
    for seen in itertools.combinations(range(servers), servers - 1):
        for of_one_secret in every:
            assert len({tuple(row) for row in of_one_secret[:, seen]}) == modulus ** (servers - 1)
    for of_one_secret, of_another in itertools.combinations(every, 2):
        rows = [{tuple(row) for row in one} for one in (of_one_secret, of_another)]
        assert rows[0].isdisjoint(rows[1])  # all m shares together determine the secret


# Sums and round trips -----------------------------------------------------------------------------


@given(st.sampled_from([Z32, Z64, ZP61, Ring(5), Ring(2**20)]), st.integers(2, 5), st.data())
def test_shares_add_up_to_the_secrets(ring, servers, data):
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(0, 6)))
    size = shape[0] * shape[1]
    numbers = data.draw(st.lists(st.integers(0, ring.modulus - 1), min_size=size, max_size=size))
    secrets = np.array(numbers, ring.dtype).reshape(shape)
    made = share(secrets, servers=servers, ring=ring)
    assert made.servers == servers and made.keys.shape == (shape[0], servers - 1, 16)
    assert (reconstruct(made.expanded(), ring) == secrets).all()


@given(st.sampled_from([Z32, Z64, ZP61]), st.integers(2, 4), st.integers(1, 6), st.data())
def test_the_servers_sums_add_up_to_the_sum_of_the_clients(ring, servers, clients, data):
    """What the protocol computes: each server adds over clients, then the sums are added."""
    encoding = FixedPoint(3, ring=ring)
    limit = encoding.limit(clients)
    rows = st.lists(st.floats(-limit, limit), min_size=3, max_size=3)
    values = np.array(data.draw(st.lists(rows, min_size=clients, max_size=clients)))
    encoded = encoding.encode(values, clients=clients)
    made = share(encoded, servers=servers, ring=ring)
    sums = np.zeros((servers, 3), ring.dtype)
    for keys, last in zip(made.keys, made.last, strict=True):
        for total, key in zip(sums, keys, strict=False):
            add_expanded(total, key, ring)
        ring.add(sums[-1], last, out=sums[-1])
    exact = [sum(c) for c in zip(*ring.centre(encoded).tolist(), strict=True)]
    assert ring.centre(reconstruct(sums, ring)).tolist() == exact


@pytest.mark.parametrize("ring", [Z32, Z64, ZP61, Ring(1_000_003)], ids=str)
def test_long_vectors_across_pieces(ring):
    """Lengths around the size of the pieces that are worked on; overwriting gives the same."""
    for size in (CHUNK - 1, CHUNK, 2 * CHUNK + 3):
        secrets = KeyStream(bytes(15) + b"s", ring).take(2 * size).reshape(2, size)
        kept = secrets.copy()
        made = share(secrets, servers=3, ring=ring, keys=fixed(2, 3))
        assert (secrets == kept).all()
        full = made.expanded()
        assert (reconstruct(full, ring) == secrets).all()
        total = np.zeros(size, ring.dtype)
        add_expanded(total, fixed(2, 3)[1, 1], ring)
        assert (total == full[1, 1]).all()
        again = share(kept, servers=3, ring=ring, keys=fixed(2, 3), overwrite=True)
        assert again.last is kept and (kept == made.last).all()


def test_a_client_sends_a_third_of_the_bytes_with_keys():
    made = share(np.zeros((2, 10_000), np.uint64), servers=3)
    for sent in made.each():
        assert [part.nbytes for part in sent] == [16, 16, 80_000]
    assert made.expanded().nbytes == 3 * 2 * 80_000
    narrow = share(np.zeros((2, 10_000), np.uint32), servers=3, ring=Z32)
    assert [part.nbytes for part in narrow.each()[1]] == [16, 16, 40_000]


# Keys and streams ---------------------------------------------------------------------------------


def test_keys_are_fresh_and_expand_to_the_same_everywhere():
    """Two sharings of the same matrix have nothing in common; AES-128 as published by NIST."""
    secrets = np.zeros((3, 50), np.uint64)
    a, b = (share(secrets, servers=3) for _ in range(2))
    assert len({key.tobytes() for made in (a, b) for row in made.keys for key in row}) == 12
    assert not (a.last == b.last).any()
    # FIPS 197, appendix C.1, is the block 00112233…; counter mode begins with the block 0
    blocks = KeyStream(bytes(16), Z64).take(4).astype("<u8").tobytes().hex()
    assert blocks == "66e94bd4ef8a2c3b884cfa59ca342b2e58e2fccefa7e3061367f1d57a4e7455a"


@given(
    st.sampled_from([Z32, Z64, ZP61, Ring(5), Ring(6), Ring(2**63)]),
    st.lists(st.integers(0, 400), min_size=1, max_size=6),
)
def test_a_stream_is_the_same_however_it_is_asked_for(ring, sizes):
    whole = KeyStream(KEYS[7], ring).take(sum(sizes))
    stream = KeyStream(KEYS[7], ring)
    assert np.concatenate([stream.take(size) for size in sizes]).tolist() == whole.tolist()
    assert not whole.size or int(whole.max()) < ring.modulus


def test_a_stream_is_the_same_across_pieces_when_numbers_are_skipped(monkeypatch):
    whole = KeyStream(KEYS[3], Ring(5)).take(1000)
    monkeypatch.setattr(stream_module, "CHUNK", 7)
    assert KeyStream(KEYS[3], Ring(5)).take(1000).tolist() == whole.tolist()


def test_words_that_are_too_large_are_skipped_not_reduced():
    """Modulo 2^61 - 1 a word is skipped once in 2^61; here the words are made so that it happens.

    61 bits all set is the one number that is no element.
    """
    stream = KeyStream(KEYS[0], ZP61)
    words = iter([2**61 - 1, 5, 2**64 - 1, 2**61 - 1, 2**61 - 2, 2**63 + 7, 9])

    def fake(out):
        out[:] = [next(words) for _ in range(out.size)]

    stream._words = fake
    assert stream.take(3).tolist() == [5, 2**61 - 2, 7]
    assert next(words) == 9


@pytest.mark.parametrize("modulus", [3, 5, 6, 7, 11])
def test_small_moduli_are_unbiased(modulus):
    """Chi-square over the residues with a fixed key; remainders of as many bits are far off."""
    drawn = KeyStream(KEYS[9], Ring(modulus)).take(70_000)
    counts = np.bincount(drawn.astype(int), minlength=modulus)
    assert counts.size == modulus and stats.chisquare(counts).pvalue > 1e-3
    wide = KeyStream(KEYS[9], Ring(2 ** (modulus - 1).bit_length())).take(70_000)
    biased = np.bincount(wide.astype(int) % modulus)
    assert stats.chisquare(biased).pvalue < 1e-9


@pytest.mark.parametrize("ring", [Z32, Z64, ZP61], ids=str)
def test_each_share_looks_uniform_whatever_the_secret(ring):
    """Chi-square of high and low bits of every share of a constant vector, with fixed keys."""
    bits = (ring.modulus - 1).bit_length()
    for secret in (0, 1, ring.modulus - 1):
        made = share(
            np.full((1, 64_000), secret, ring.dtype), servers=3, ring=ring, keys=fixed(1, 3)
        )
        for one in made.expanded()[:, 0]:
            for part in (one >> ring.dtype.type(bits - 8), one & ring.dtype.type(255)):
                counts = np.bincount(part.astype(int), minlength=256)
                assert counts.size == 256 and stats.chisquare(counts).pvalue > 1e-3


def test_pairs_of_shares_are_independent_and_all_three_are_not():
    """Contingency of the top bits of two shares, and of two shares' sum with the third."""
    made = share(np.zeros((1, 64_000), np.uint64), servers=3, keys=fixed(1, 3)).expanded()[:, 0]
    top = (made >> np.uint64(60)).astype(int)
    for i, j in itertools.combinations(range(3), 2):
        table = np.bincount(16 * top[i] + top[j], minlength=256).reshape(16, 16)
        assert stats.chi2_contingency(table).pvalue > 1e-3
    two = ((made[0] + made[1]) >> np.uint64(60)).astype(int)
    table = np.bincount(16 * two + top[2], minlength=256).reshape(16, 16)
    assert stats.chi2_contingency(table + 1).pvalue < 1e-9


def test_the_narrow_ring_has_the_same_key_stream_read_in_words_of_four_bytes():
    """One AES stream; what servers and clients expand does not depend on where it is cut."""
    wide = KeyStream(KEYS[5], Z64).take(CHUNK + 5).astype("<u8").view("<u4")
    narrow = KeyStream(KEYS[5], Z32).take(2 * CHUNK + 10)
    assert narrow.dtype == np.uint32 and (narrow == wide).all()


@pytest.mark.parametrize("ring", [Z32, Z64, ZP61], ids=str)
@pytest.mark.parametrize("unseen", [0, 1, 2])
def test_the_view_of_all_but_one_server_fits_every_input_alike(ring, unseen):
    """For the view of two of three servers and any other input there is exactly one unseen share.

    So all inputs are equally likely given the view, if the unseen share is uniform: what is seen of
    one input is seen of the other, with the unseen share moved by their difference.
    """
    one, other = (KeyStream(KEYS[k], ring).take(500)[None] for k in (1, 2))
    seen = share(one, servers=3, ring=ring, keys=fixed(1, 3)).expanded()
    moved = seen.copy()
    moved[unseen] = ring.add(seen[unseen], ring.subtract(other, one))
    assert (reconstruct(seen, ring) == one).all() and (reconstruct(moved, ring) == other).all()
    assert all((seen[j] == moved[j]).all() for j in range(3) if j != unseen)
    assert not (seen[unseen] == moved[unseen]).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: share(np.zeros(3, "u8"), servers=3), "encoded must have shape"),
        (lambda: share(np.zeros((1, 3)), servers=3), "encoded must be a uint64 array"),
        (lambda: share(np.zeros((1, 3), "u8"), servers=3, ring=Z32), "must be a uint32 array"),
        (lambda: share(np.zeros((1, 3), "u8"), servers=1), "servers must be an integer >= 2"),
        (lambda: share(np.full((1, 3), 5, "u8"), servers=2, ring=Ring(5)), r"in \[0, 5\)"),
        (lambda: share(np.zeros((1, 3), "u8"), servers=3, keys=fixed(2, 3)), "keys must be uint8"),
        (lambda: share(np.zeros((1, 3), "u8"), servers=3, keys=np.zeros((1, 2, 16))), "keys must"),
        (lambda: KeyStream(bytes(15), Z64), "key must be 16 bytes long, got 15"),
        (lambda: reconstruct(np.zeros((2, 2))), "rows must be a uint64 array"),
    ],
)
def test_bad_input_is_one_error_that_names_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_new_keys_have_the_shape_asked_for():
    assert new_keys(2, 3).shape == (2, 3, 16) and new_keys(2, 3).dtype == np.uint8
    assert isinstance(share(np.zeros((1, 1), "u8"), servers=2), Shares)
