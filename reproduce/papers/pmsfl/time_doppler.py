"""Generated time-Doppler maps of people moving: embedded stand-ins for wireless sensing data.

pmsfl's mmHAR (radar) and sonicHAR (ultrasound) were never published. What is generated here has
their structure only: ten subjects, a number of activities, twelve segments of three seconds of each
activity and subject, energy over Doppler bins and time. It says nothing about real recordings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice, integer
from repro.datasets.dataset import digest

SENSORS = {"radar": (0.35, 0.9), "ultrasound": (0.6, 1.3)}
"""Noise deviation and width of an echo in Doppler bins, by sensor."""

_SEED = 20_241


@dataclass(frozen=True, eq=False)
class Segments:
    """Generated recordings.

    Attributes:
        maps: float32, shape (n, frames, bins), energy >= 0 up to noise.
        labels: activity, int64, shape (n,).
        subject: int64, shape (n,).
        segment: 0 to 11, number within subject and activity, int64, shape (n,).
        sha256: of the arrays.
    """

    maps: NDArray[np.float32]
    labels: NDArray[np.int64]
    subject: NDArray[np.int64]
    segment: NDArray[np.int64]
    sha256: str


def generate_time_doppler(
    sensor: str,
    *,
    subjects: int = 10,
    activities: int = 17,
    segments: int = 12,
    frames: int = 12,
    bins: int = 16,
) -> Segments:
    """Maps of two echoes per activity, torso and limb, whose velocities swing around a drift.

    An activity fixes drift, rate and reach of both echoes. A subject fixes tempo, vigour, echo
    strengths and whether they move towards the sensor or away, which mirrors the Doppler axis. A
    segment has phases and noise of its own. The same arguments give the same bits.

    Raises:
        ValueError: an unknown sensor, or a count out of range.
    """
    noise, spread = SENSORS[choice("sensor", sensor, SENSORS)]
    subjects, activities = integer("subjects", subjects, 1), integer("activities", activities, 2)
    segments, frames = integer("segments", segments, 1), integer("frames", frames, 2)
    bins = integer("bins", bins, 4)
    rng = np.random.default_rng([_SEED, list(SENSORS).index(sensor)])
    drift = rng.uniform(-0.5, 0.5, activities)
    rate = rng.uniform(0.5, 3.0, (activities, 2))
    reach = rng.uniform(0.1, 0.5, (activities, 2))
    tempo = rng.uniform(0.75, 1.3, subjects)
    vigour = rng.uniform(0.7, 1.2, subjects)
    strength = rng.uniform(0.5, 1.5, (subjects, 2))
    facing = rng.choice([-1.0, 1.0], subjects)

    shape = (subjects, activities, segments)
    subject, label, segment = (index.ravel() for index in np.indices(shape))
    count = len(label)
    time = np.linspace(0, 1, frames)
    phase = rng.uniform(0, 2 * np.pi, (count, 2, 1))
    cycles = (rate[label] * tempo[subject, None])[..., None] * time
    swing = reach[label][..., None] * np.sin(2 * np.pi * cycles + phase)
    velocity = drift[label][:, None, None] + swing
    velocity *= (vigour * facing)[subject][:, None, None]
    centre = (velocity + 1) / 2 * (bins - 1)
    distance = (np.arange(bins) - centre[..., None]) / spread  # (count, 2, frames, bins)
    maps = (strength[subject][..., None, None] * np.exp(-0.5 * distance**2)).sum(axis=1)
    maps = (maps + noise * rng.standard_normal(maps.shape)).astype(np.float32)
    labels, subject = label.astype(np.int64), subject.astype(np.int64)
    return Segments(maps, labels, subject, segment.astype(np.int64), digest(maps, labels, subject))
