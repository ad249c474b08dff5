"""Is the noise what was promised? Scale, shape, independence; seen where no record has anything.

And, for engines whose noise cannot be switched off, the mean of what records contribute under it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from scipy.stats import binom, chi2, gamma, kstest, laplace, norm

from repro.conformance.adapter import Array, Promise
from repro.conformance.findings import (
    Finding,
    distance,
    exact,
    skipped,
    smallest,
    two_sided,
    worst,
)
from repro.conformance.scenes import SPARE, Sight

_SHAPE = 20_000  # values that are sorted for a test of shape, at most
_DIFFERENT = 0.9  # share of them that differ, at least: in single precision hardly two are equal


def check(promise: Promise, quiet: Sight, loud: Sight) -> list[Finding]:
    """All checks of the noise.

    Args:
        promise: of the engine.
        quiet: what was seen of a data set in which nobody contributes.
        loud: the same, from another seed, with long contributions.
    """
    inputs = promise.units + 1 + SPARE
    spare = slice(inputs - SPARE, inputs)
    parts = {
        "nobody contributes": quiet.releases[..., :inputs] / promise.scale,
        "long contributions": loud.releases[..., spare] / promise.scale,
    }
    found = [_scale(promise, values, where) for where, values in parts.items()]
    found.append(_extra(promise, quiet.releases[..., inputs:] / promise.scale))
    found += [_shape(promise, values, where) for where, values in parts.items()]
    found += [
        _norms(promise, values, where) for where, values in parts.items() if promise.order == 2
    ]
    found += [_tails(promise, values, where) for where, values in parts.items()]
    found.append(_coordinates(quiet.releases, inputs))
    found.append(_participants(loud, promise.units, spare))
    first = parts["nobody contributes"]
    for name, pairs in (
        ("rounds", _rounds(first)),
        ("senders", _senders(first)),
    ):
        found.append(_together(name, pairs))
    found.append(_repetitions(first[..., spare], parts["long contributions"]))
    return found


def mean_contribution(promise: Promise, rate: float, loud: Sight) -> Finding:
    """Long contributions under noise: a unit's mean part is at most its rate times the clip.

    Args:
        promise: of the engine.
        rate: at which each unit takes part.
        loud: what was seen of long contributions.
    """
    parts = loud.total[..., : promise.units].mean(axis=1) / promise.step
    means, errors = parts.mean(axis=0), parts.std(axis=0) / np.sqrt(len(parts))
    return Finding(
        "mean contribution under noise",
        f"a unit contributes up to {means.max():.4f} clips on average, promised {rate:.4f} at most",
        worst(norm.sf((means - rate) / errors)),
        detects=smallest(errors.max() / rate, "a relative excess of"),
    )


def _squares(promise: Promise, values: Array) -> tuple[Array, Array]:
    """Statistics whose sum shows the scale, nan left out, and how many there are, by axes (1, 2, 3)."""
    sizes = values**2 if promise.order == 2 else np.abs(values)
    return np.nansum(sizes, axis=0), np.sum(np.isfinite(values), axis=0)


def _tail(promise: Promise, total: Array, count: Array) -> Array:
    """Chance of so small a sum at the promised scale."""
    return chi2.cdf(total, count) if promise.order == 2 else gamma.cdf(total, np.maximum(count, 1))


def _scale(promise: Promise, values: Array, where: str) -> Finding:
    """One-sided: more noise than promised protects better, and is only reported."""
    total, count = _squares(promise, values)
    tests = [_tail(promise, total.sum(), count.sum())]
    for axes in ((0, 1), (1, 2), (0, 2)):
        tests += list(np.ravel(_tail(promise, total.sum(axis=axes), count.sum(axis=axes))))
    power = 0.5 if promise.order == 2 else 1.0
    ratios = (total.sum(axis=(0, 1)) / count.sum(axis=(0, 1))) ** power
    return Finding(
        f"noise, scale, {where}",
        f"{(total.sum() / count.sum()) ** power:.4f} times the promised scale in all, {ratios.min():.4f} in the "
        "quietest coordinate",
        worst(tests),
        detects=smallest(power * np.sqrt(2 / promise.order / count.sum()), "a relative loss of"),
    )


def _extra(promise: Promise, values: Array) -> Finding:
    """Coordinates beside those of the records' vectors, such as biases: they may hold contributions too."""
    name = "noise, in all other coordinates that are published"
    if not values.shape[-1]:
        return skipped(name, "the release has no others")
    flat = values.reshape(-1, values.shape[-1])
    flat = flat[np.isfinite(flat[:, 0])]
    different = min(len(np.unique(np.round(column, 6))) for column in flat.T) / len(flat)
    if different < 0.5:
        return exact(name, True, f"only {different:.2%} of a coordinate's values differ", 1e-6)
    total, count = _squares(promise, flat)
    power = 0.5 if promise.order == 2 else 1.0
    return Finding(
        name,
        f"the quietest has {((total / count) ** power).min():.4f} times the promised scale, contributions included",
        worst(_tail(promise, total, count)),
        detects=smallest(power * np.sqrt(2 / promise.order / len(flat)), "a relative loss of"),
    )


def _shape(promise: Promise, values: Array, where: str) -> Finding:
    """The law's shape, at the scale that was found; so estimated, the test errs towards no alarm."""
    name = f"noise, shape, {where}"
    flat = values[np.isfinite(values)]
    flat = flat[:: max(1, len(flat) // _SHAPE)]
    # On a grid that coarse, contributions move the release off it, and its last digits give them away.
    different = len(np.unique(flat)) / max(len(flat), 1)
    if len(flat) and different < _DIFFERENT:
        return exact(name, True, f"only {different:.2%} of the values differ", 1e-6)
    law = norm if promise.order == 2 else laplace
    scale = np.sqrt(np.mean(flat**2)) if promise.order == 2 else np.mean(np.abs(flat))
    result = kstest(flat / max(scale, 1e-300), law.cdf, method="asymp")
    return Finding(
        name,
        f"largest distance to a {promise.law} law {result.statistic:.4f}",
        float(result.pvalue),
        detects=distance(len(flat)),
    )


def _tails(promise: Promise, values: Array, where: str) -> Finding:
    """Values beyond 3 and beyond 4 times the promised scale: too few mean that the noise is cut off."""
    flat = np.abs(values[np.isfinite(values)])
    law = norm if promise.order == 2 else laplace
    cuts = np.array([3.0, 4.0])
    rates = 2 * law.sf(cuts)
    counts = (flat[:, None] > cuts).sum(axis=0)
    error = np.sqrt(1 / rates[0] / len(flat))
    return Finding(
        f"noise, tails, {where}",
        ", ".join(
            f"{c} values beyond {cut:g} scales, expected {rate * len(flat):.1f}"
            for c, cut, rate in zip(counts, cuts, rates, strict=True)
        ),
        worst(binom.cdf(counts, len(flat), rates)),
        detects=smallest(error, "a relative loss of values beyond 3 scales of"),
    )


def _norms(promise: Promise, values: Array, where: str) -> Finding:
    """Squared norms of whole releases: a scale that varies, or noise in fewer directions."""
    size = values.shape[-1]
    squares = (values**2).sum(axis=-1).ravel()
    squares = squares[np.isfinite(squares)][:_SHAPE]
    result = kstest(squares * size / max(squares.mean(), 1e-300), chi2(size).cdf, method="asymp")
    return Finding(
        f"noise, norm of a release, {where}",
        f"largest distance to the law of {size} independent coordinates {result.statistic:.4f}",
        float(result.pvalue),
        detects=distance(len(squares)),
    )


def _coordinates(releases: Array, inputs: int) -> Finding:
    """Correlations between coordinates; not among the others than those of the vectors, which share records."""
    flat = releases.reshape(-1, releases.shape[-1])
    flat = flat[np.isfinite(flat).all(axis=1)]
    centred = flat - flat.mean(axis=0)
    spread = np.sqrt((centred**2).mean(axis=0))
    table = (centred.T @ centred) / len(flat) / np.maximum(np.outer(spread, spread), 1e-300)
    first, second = np.triu_indices(len(table), 1)
    some = first < inputs
    values = table[first[some], second[some]]
    return _correlated("noise, independence of coordinates", values, len(flat))


def _participants(loud: Sight, units: int, spare: slice) -> Finding:
    """Noise, and its size, where no record has anything, against what shows who took part."""
    title = "noise, independence of participants"
    flat = np.concatenate([loud.releases[..., :units], loud.releases[..., spare]], axis=-1)
    flat = flat.reshape(-1, flat.shape[-1])
    flat = flat[np.isfinite(flat).all(axis=1)]
    seen, noise = flat[:, :units], flat[:, units:]
    seen = np.hstack([seen, seen.sum(axis=1, keepdims=True)])
    noise = np.hstack([noise, (noise**2).sum(axis=1, keepdims=True)])
    seen, noise = (x - x.mean(axis=0) for x in (seen, noise))
    spread = np.outer(np.sqrt((seen**2).mean(axis=0)), np.sqrt((noise**2).mean(axis=0)))
    values = seen.T @ noise / len(flat) / np.maximum(spread, 1e-300)
    return _correlated(title, values.ravel(), len(flat))


def _together(name: str, pairs: Iterator[tuple[Array, Array]]) -> Finding:
    title = f"noise, independence of {name}"
    values, count = [], 1
    for one, two in pairs:
        product = one * two
        good = np.isfinite(product)
        scale = np.sqrt(np.mean(one[good] ** 2) * np.mean(two[good] ** 2)) if good.any() else 0.0
        count = int(good.sum())
        values.append(product[good].mean() / max(scale, 1e-300) if count else 0.0)
    if not values:
        return skipped(title, f"there are no two {name}")
    return _correlated(title, np.array(values), count)


def _correlated(title: str, values: Array, count: int) -> Finding:
    largest = values[np.argmax(np.abs(values))]
    return Finding(
        title,
        f"the largest correlation is {largest:+.4f}",
        worst(two_sided(values * np.sqrt(count))),
        detects=smallest(1 / np.sqrt(count), "a correlation of"),
    )


def _rounds(values: Array) -> Iterator[tuple[Array, Array]]:
    """Every two rounds; the same coordinate, sender and repetition."""
    for a, b in combinations(range(values.shape[1]), 2):
        yield values[:, a], values[:, b]


def _senders(values: Array) -> Iterator[tuple[Array, Array]]:
    for a, b in combinations(range(values.shape[2]), 2):
        yield values[:, :, a], values[:, :, b]


def _repetitions(first: Array, other: Array) -> Finding:
    """Every two repetitions of one call by their distance, and the same ones of two calls with different seeds."""
    lags, counts = _lagged(first.reshape(len(first), -1))
    lags, counts = lags[1 : len(first) // 2], counts[1 : len(first) // 2]
    scale = np.nanmean(first**2)
    good = np.isfinite(first * other)
    between = (first * other)[good].sum()
    values = np.append(lags, between) / max(scale, 1e-300)
    counts = np.append(counts, good.sum())
    far = int(np.argmax(np.abs(values) / np.sqrt(np.maximum(counts, 1))))
    return Finding(
        "noise, independence of repetitions",
        f"the largest correlation is {values[far] / max(counts[far], 1):+.4f}",
        worst(two_sided(values / np.sqrt(np.maximum(counts, 1)))),
        detects=smallest(1 / np.sqrt(max(int(counts[-1]), 1)), "a correlation of"),
    )


def _lagged(values: Array) -> tuple[Array, Array]:
    """Sums of products of values that are 0, 1, ... rows apart, over all columns, and how many products."""
    size = 2 * len(values)
    sums = [
        np.fft.irfft((np.abs(np.fft.rfft(x, size, axis=0)) ** 2).sum(axis=1), size)[: len(values)]
        for x in (np.nan_to_num(values, nan=0.0), np.isfinite(values).astype(float))
    ]
    return sums[0], np.rint(sums[1])
