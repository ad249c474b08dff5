"""Argument checks shared by the whole package: one clear error, naming argument, value and range.

Every checker takes the name under which the caller knows the argument, so that the message reads
`sigma must be positive and finite, got -1.0`. Arrays are allowed wherever a number is and are
checked element by element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from numbers import Real

import numpy as np

__all__ = [
    "below_one",
    "broadcastable",
    "choice",
    "flag",
    "in_unit",
    "integer",
    "integers",
    "least_error_rate",
    "nonnegative",
    "one",
    "positive",
    "probability_open",
    "representable",
]

#: The largest whole number that an array holds.
_LARGEST = 2**63 - 1

#: Least noise relative to a norm: with less, doubles cannot tell the mean of a loss from its spread.
_LEAST_NOISE = 1e-10

#: Most noise relative to a norm: a little more and their ratio is no double.
_MOST_NOISE = 1e308


def _numeric(name: str, value: object, allowed: str) -> np.ndarray:
    """A float array of real numbers; booleans, texts, complex numbers, dates and empty lists are none."""
    try:
        given = np.asarray(value)
        real = given.dtype.kind in "iuf" or (
            given.dtype.kind == "O" and all(_real(one) for one in given.flat)
        )
        array = given.astype(float) if real else given
    except (TypeError, ValueError, OverflowError):
        real = False
    if not real or not array.size:
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    return array


def _real(value: object) -> bool:
    """Whether an object is a real number, such as an int beyond 64 bits or a Fraction."""
    return isinstance(value, (Real, Decimal)) and not isinstance(value, bool)


def _checked(name: str, value: object, allowed: str, test) -> np.ndarray:
    array = _numeric(name, value, allowed)
    good = test(array)
    if not np.all(good):
        shown = value if array.ndim == 0 else float(array[~good].flat[0])
        raise ValueError(f"{name} must be {allowed}, got {shown!r}")
    return array


def in_unit(name: str, value: object) -> np.ndarray:
    """Probabilities in the closed interval [0, 1], as a float array."""
    return _checked(name, value, "in [0, 1]", lambda a: (a >= 0) & (a <= 1))


def below_one(name: str, value: object) -> np.ndarray:
    """Numbers in the half-open interval [0, 1), as a float array."""
    return _checked(name, value, "in [0, 1)", lambda a: (a >= 0) & (a < 1))


def probability_open(name: str, value: object) -> np.ndarray:
    """Probabilities in the open interval (0, 1), as a float array."""
    return _checked(name, value, "in (0, 1)", lambda a: (a > 0) & (a < 1))


def least_error_rate(name: str, value: object) -> float:
    """One error rate in [1e-12, 1/2): the least of those of which something is claimed."""
    return one(
        lambda *given: _checked(*given, "in [1e-12, 1/2)", lambda a: (a >= 1e-12) & (a < 0.5)),
        name,
        value,
    )


def positive(name: str, value: object) -> np.ndarray:
    """Positive finite numbers, as a float array."""
    return _checked(name, value, "positive and finite", lambda a: (a > 0) & np.isfinite(a))


def nonnegative(name: str, value: object) -> np.ndarray:
    """Non-negative finite numbers, as a float array."""
    return _checked(name, value, "non-negative and finite", lambda a: (a >= 0) & np.isfinite(a))


def representable(sigma: object, name: str, norm: object) -> None:
    """Refuse noise so small beside a norm that losses lose their digits, or so large that no double holds the ratio.

    Both are checked numbers.
    """
    scale, size = np.broadcast_arrays(sigma, norm)
    small = scale < _LEAST_NOISE * size
    if np.any(small):
        raise ValueError(
            f"sigma must be at least {_LEAST_NOISE:g} times {name}, got "
            f"{float(scale[small][0])!r} with {name} {float(size[small][0])!r}"
        )
    large = scale / _MOST_NOISE > size
    if np.any(large):
        raise ValueError(
            f"sigma must be at most {_MOST_NOISE:g} times {name}, got "
            f"{float(scale[large][0])!r} with {name} {float(size[large][0])!r}"
        )


def _whole(value: object) -> bool:
    """Whether an object is a whole number by its type."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """One whole number in [low, high] (up to 2^63 - 1 when `high` is None), as an int."""
    allowed = f"an integer >= {low}" if high is None else f"an integer in [{low}, {high}]"
    if not _whole(value) or value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    if high is None and value > _LARGEST:
        raise ValueError(f"{name} must be an integer in [{low}, 2^63), got {value!r:.40}")
    return int(value)


def integers(name: str, value: object, low: int, high: int) -> np.ndarray:
    """Whole numbers in [low, high], one or an array of any shape, as an int64 array."""
    try:
        given = np.asarray(value)
    except ValueError:  # rows of different lengths
        given = np.empty(0)
    whole = given.dtype.kind in "iu" or all(_whole(one) for one in given.flat)
    if not given.size or not whole or given.min() < low:
        allowed = f"an integer >= {low}" + " or an array of such" * bool(given.ndim)
        raise ValueError(f"{name} must be {allowed}, got {value!r}")
    if given.max() > high:
        raise ValueError(f"{name} must be at most {high:.0e}, got {given.max()!r}")
    return given.astype(np.int64)


def one(check: Callable[[str, object], np.ndarray], name: str, value: object) -> float:
    """One number, no array, of which `check` approves, such as `positive`."""
    array = check(name, value)
    if array.ndim:
        raise ValueError(f"{name} must be one number, got {value!r}")
    return float(array)


def choice(name: str, value: object, allowed: Iterable[str]) -> str:
    """One of the words in `allowed`."""
    words = tuple(allowed)
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}")
    return value


def flag(name: str, value: object) -> bool:
    """A truth value; other objects raise TypeError, because some of them have none."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def broadcastable(**arrays: object) -> tuple[int, ...]:
    """The common shape of several arguments; an error names all of them with their shapes."""
    shapes = {name: np.shape(value) for name, value in arrays.items()}
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items() if shape)
        raise ValueError(f"{listed} must broadcast against each other") from None
