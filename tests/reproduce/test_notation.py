"""Readers see Greek letters and powers of ten; words and code that only look alike stay."""

from __future__ import annotations

import pytest

from reproduce import notation


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("epsilon at least 3.23 at delta = 1e-05", "ε at least 3.23 at δ = 10⁻⁵"),
        ("2epsilon, epsilon-DP, (epsilon_c, delta')", "2ε, ε-DP, (ε_c, δ')"),
        ("sigma^-1(theta), D_alpha, Delta f", "σ^-1(θ), D_α, Δ f"),
        ("p = 2.7e-74.", "p = 2.7·10⁻⁷⁴."),
        ("1.0e-5 and 8e+28", "10⁻⁵ and 8·10²⁸"),
        ("p &lt; 1e-6", "p &lt; 10⁻⁶"),
        ("31.0 (delta = 0.0001), 0.00001", "31.0 (δ = 10⁻⁴), 10⁻⁵"),
    ],
)
def test_letters_and_powers_are_those_of_the_pictures(written, seen):
    assert notation.symbols(written) == seen


@pytest.mark.parametrize(
    "text",
    [
        "three epsilons",
        "deltas",
        "lambdas",
        "fe-5",
        "3e-5x",
        "1.2.3e-4.5",
        "0.001, 0.00012, 0.0001x",
    ],
)
def test_longer_words_and_other_numbers_stay(text):
    assert notation.symbols(text) == text


def test_writing_it_twice_changes_nothing():
    once = notation.symbols("epsilon 0.1, 3e-7, beta^2")
    assert notation.symbols(once) == once
