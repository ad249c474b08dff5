"""MS-PAFL: Algorithm 1 of mspafl, for all clients, runs and variants at once.

    for t = 0, ..., T - 1:                            the paper's box, and where it is done below
        for i = 1, ..., N:                            (no loop: one axis of every array)
            check in with probability p               lines 6-7   `checked_in`
            Q SGD steps on batches of b records       lines 8-11  `RecordDraws`, `local_steps`
            split w_i = (private, public)             line 12     `shared`
            clip the public half to C                 line 13     `clip_rows`
            add N(0, sigma^2) to it, send it          lines 14-15 `uploads`
        average what came, broadcast                  lines 19-20 `aggregate`, `np.where(shared, …)`

A variant (`Variant`) is a setting of that box, and the controls are settings too: nothing shared is
training alone, everything shared is FedAvg, with or without noise. All variants of a run see the
same batches, the same noise up to its scale, and nested check-ins (who checks in at p also does at
any larger p), so that differences between them are not due to chance draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro._validate import flag, in_unit, integer, nonnegative, one, positive
from repro.accounting import compose
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.round import AveragedUploads
from repro.federated.guarantee import Guarantee, bracket, needs_noise
from repro.federated.mspafl.client import RecordDraws, clip_rows
from repro.federated.saved_arrays import (
    Checkpoint,
    SavedArrays,
    generator_states,
    set_generators,
)
from repro.models.logistic import gradient

Array = NDArray[np.float64]

_AT_ONCE = 2**24
"""Numbers in the batches of clients that are trained together (128 MiB); more clients take turns."""


@dataclass(frozen=True)
class Variant:
    """One way to run the box, in the field's words and (in brackets) the paper's letters.

    Attributes:
        p: check-in probability, in [0, 1].
        public: coordinates shared with the server, the last ones [d_p]; the others stay private. 0
            is training alone, all of them FedAvg.
        learning_rate: [eta] constant, > 0.
        clip: [C] largest norm of the public half, > 0; `math.inf` leaves it as it is.
        sigma: standard deviation of the noise on an upload in every public coordinate, >= 0.
        informative: False replaces the clipped public half of every upload by zero, so that the
            server receives pure noise: the control that shows what the uploads are good for.

    Raises:
        ValueError: a value out of range, or noise without clipping (it would guarantee nothing).
    """

    p: float
    public: int
    learning_rate: float
    clip: float = 1.0
    sigma: float = 0.0
    informative: bool = True

    def __post_init__(self) -> None:
        one(in_unit, "p", self.p)
        integer("public", self.public, 0)
        one(positive, "learning_rate", self.learning_rate)
        one(nonnegative, "sigma", self.sigma)
        flag("informative", self.informative)
        if self.clip != math.inf:
            one(positive, "clip", self.clip)
        elif self.sigma:
            raise ValueError("sigma must be 0 when clip is inf: noise hides only clipped models")

    def guarantee(
        self,
        delta: float,
        rounds: int,
        local: LocalTraining,
        *,
        held: int,
        size: int,
        clients: int = 1,
    ) -> Guarantee:
        """What `train` with this variant guarantees every record against being replaced.

        Clients keep a private half from round to round that remembers every record ever drawn: from the first
        draw of a record on, data sampling hides nothing. Where all coordinates are shared nothing is kept, and
        every round draws anew.

        Args:
            delta: in (0, 1).
            rounds: [T] at least 1.
            local: how a client trains; its draws are what samples records.
            held: [|D_i|] records of the client, at least 1.
            size: [m] coordinates of the model, at least `public`.
            clients: [N] for one who sees the averaged models only; 1 for a server that sees every upload.

        Raises:
            ValueError: an argument out of range, or a variant without noise, without shared coordinates, or whose
                uploads are noise alone.

        Source: mspafl, Algorithm 1, with the accountants of `repro.accounting.mspafl`.
        """
        needs_noise(self.sigma)
        if not self.informative:
            raise ValueError(
                "informative must be True for a guarantee, got False: uploads hold no data"
            )
        integer("public", self.public, 1, integer("size", size, 1))
        q = local.rate(held)
        seen = {"p": self.p, "q": q, "clients": clients, "clip": self.clip}
        if self.public == size:
            run = compose(AveragedUploads(self.sigma, **seen), rounds)
        else:
            run = CarriedRun(self.sigma, rounds=rounds, **seen)
        return bracket("replaced record", delta, run)


@dataclass(frozen=True)
class LocalTraining:
    """What a client that checked in does with its records.

    Attributes:
        steps: [Q] SGD steps per round, at least 1.
        batch: [b] records per step, at least 1.
        replacement: draw records with replacement (WR), or without within a round (WOR).
        regularisation: [gamma] >= 0.
    """

    steps: int
    batch: int
    replacement: bool = False
    regularisation: float = 0.0

    def __post_init__(self) -> None:
        integer("steps", self.steps, 1)
        integer("batch", self.batch, 1)
        nonnegative("regularisation", self.regularisation)
        flag("replacement", self.replacement)

    def rate(self, held: int) -> float:
        """[q] Probability that a client which holds so many records uses a given one in a round.

        Raises:
            ValueError: fewer than one record, or without replacement fewer than are drawn.

        Source: mspafl, Theorem 1.
        """
        drawn = self.steps * self.batch
        if self.replacement:
            return (
                -math.expm1(drawn * math.log1p(-1 / held)) if integer("held", held, 1) > 1 else 1.0
            )
        return drawn / integer("held", held, drawn)


@dataclass(frozen=True)
class Round:
    """What happened in round t, for R runs, S variants, N clients and m coordinates.

    Attributes:
        number: t, from 1.
        models: the recombined models (18) after the round, shape (R, N, S, m).
        checked_in: who took part, bool, shape (R, N, S).
        signal: average clipped public half of those who took part, shape (R, S, m); zero in an
            empty round, as are the two that follow.
        echo: what `signal` would have been without any local step: the server's model, clipped,
            shape (R, S, m). `signal - echo` is what the clients' data put into the round.
        noise: average of the noise they added, shape (R, S, m).
        uploads: what each client sends, or would have sent had it checked in, shape (R, N, S, m).
    """

    number: int
    models: Array
    checked_in: NDArray[np.bool_]
    signal: Array
    echo: Array
    noise: Array
    uploads: Array


def train(
    vectors: Array,
    holdings: NDArray[np.int64],
    variants: Sequence[Variant],
    local: LocalTraining,
    rounds: int,
    seeds: Sequence[int],
    watch: Callable[[Round], None],
    watch_every: int = 1,
    *,
    checkpoint: Checkpoint | None = None,
) -> Array:
    """Run Algorithm 1 from W = 0, one run per seed, every variant in each.

    A round in which nobody checks in changes nothing: the server keeps its model. (With 1 / nu
    in (17) the average is unbiased over the draw of participants only if such a round resets the
    model to zero; at N = 100 and p = 0.1 it happens once in 38,000 rounds.) A client that holds
    records of one label only trains on those; nothing else is special about it.

    Privacy: the noise comes from a seeded generator so that experiments can be repeated; a
    deployment needs a secret, cryptographically secure source.

    Args:
        vectors: v = y x of every record (`repro.models.logistic.signed`), shape (n, m).
        holdings: places in `vectors` of each client's records, shape (R, N, |D_i|): run after run.
        variants: S >= 1 of them.
        local: see `LocalTraining`; Q b must not exceed |D_i| without replacement.
        rounds: [T] at least 1.
        seeds: R seeds >= 0. A run depends on its own seed and holdings only, not on which others
            are in the stack.
        watch: called after every `watch_every`-th round, and after the last.
        checkpoint: where all runs are saved together, and resumed from if they are found there: the models then
            become what they would have been without the interruption, bit for bit.

    Returns:
        The models after the last round, shape (R, N, S, m).

    Raises:
        ValueError: an argument out of range, shapes that do not fit, or a checkpoint of other runs.

    Source: mspafl, Algorithm 1.
    """
    draws = _check(vectors, holdings, variants, local, rounds, seeds, watch_every)
    runs, clients, held = holdings.shape
    size = vectors.shape[1]
    p = np.array([v.p for v in variants])
    rate = np.array([v.learning_rate for v in variants])[:, None]
    clip = np.array([v.clip for v in variants], dtype=float)
    sigma = np.array([v.sigma for v in variants])[:, None]
    informative = np.array([v.informative for v in variants], dtype=float)[:, None]
    public = np.array([v.public for v in variants])[:, None]
    shared = np.arange(size) >= size - public  # (S, m)
    streams = [generators(seed) for seed in seeds]
    cards = holdings.reshape(-1)
    first = np.arange(runs * clients)[:, None] * held  # where a client's records begin in `cards`

    models = np.zeros((runs, clients, len(variants), size))  # w_i
    server = np.zeros((runs, len(variants), size))  # bar w_p
    every = [source for run in streams for source in run]
    parts = (vectors, holdings, list(variants), local, rounds, list(seeds))
    saved = SavedArrays(checkpoint, parts, rounds)
    finished = 0
    if (state := saved.begin()) is not None:
        finished, models, server = int(state["finished"]), state["models"], state["server"]
        draws.restore(state["decks"])
        set_generators(every, state["streams"])

    def now() -> dict[str, NDArray]:
        decks, kept = draws.state(), generator_states(every)
        return {"models": models, "server": server, "decks": decks, "streams": kept}

    for t in range(finished + 1, rounds + 1):
        coins = np.stack([check_in.random(clients) for check_in, _, _ in streams])
        checked_in = coins[..., None] < p  # (14), (R, N, S)

        numbers = [records.random((clients, draws.draws)) for _, records, _ in streams]
        drawn = cards[first + draws.draw(np.concatenate(numbers))]
        trained = _trained(models, vectors, drawn, rate, local)
        models = np.where(checked_in[..., None], trained, models)

        clipped = clip_rows(models * shared, clip) * informative  # (15)
        noise = np.stack([source.standard_normal((clients, 1, size)) for _, _, source in streams])
        noise = noise * (sigma * shared)
        uploads = clipped + noise  # (16), (R, N, S, m): zero in every private coordinate

        before, server = server, aggregate(uploads, checked_in, p, server)
        models = np.where(shared, server[:, None], models)  # (18), with the average just made

        saved.end(t, now)
        if t % watch_every == 0 or t == rounds:
            watch(
                Round(
                    number=t,
                    models=models,
                    checked_in=checked_in,
                    signal=_average(clipped, checked_in),
                    echo=clip_rows(before, clip) * informative * checked_in.any(axis=1)[..., None],
                    noise=_average(noise, checked_in),
                    uploads=uploads,
                )
            )
    return models


def _trained(
    models: Array, vectors: Array, drawn: NDArray[np.int64], rate: Array, local: LocalTraining
) -> Array:
    """Models after the local steps of all clients, as many at a time as fit; `drawn`: (R N, Q b)."""
    flat = models.reshape(len(drawn), *models.shape[2:])
    result, together = np.empty_like(flat), max(1, _AT_ONCE // (drawn.shape[1] * vectors.shape[1]))
    for begin in range(0, len(flat), together):
        some = slice(begin, begin + together)
        batches = vectors.take(drawn[some], axis=0)
        result[some] = local_steps(flat[some], batches, rate, local)
    return result.reshape(models.shape)


def local_steps(models: Array, batches: Array, rate: Array, local: LocalTraining) -> Array:
    """Q steps of SGD (2b) of every client, (k, S, m), on its Q batches of b, (k, Q b, m)."""
    for r in range(local.steps):
        batch = batches[:, r * local.batch : (r + 1) * local.batch]
        models = models - rate * gradient(models, batch, local.regularisation)
    return models


def aggregate(uploads: Array, checked_in: NDArray[np.bool_], p: Array, server: Array) -> Array:
    """(17): the participants' average over nu = 1 - (1 - p)^N; an empty round keeps `server`."""
    nu = 1.0 - (1.0 - p) ** checked_in.shape[1]
    someone = checked_in.any(axis=1)[..., None]
    average = _average(uploads, checked_in) / np.where(nu > 0, nu, 1.0)[:, None]
    return np.where(someone, average, server)


def _average(values: Array, checked_in: NDArray[np.bool_]) -> Array:
    """Mean over the clients that checked in, (R, N, S, m) -> (R, S, m); zero where nobody did."""
    total = np.einsum("rnsm,rns->rsm", values, checked_in.astype(float))
    return total / np.maximum(1, checked_in.sum(axis=1))[..., None]


def generators(seed: int) -> list[np.random.Generator]:
    """Three independent streams from one seed: check-ins, records, noise."""
    children = np.random.SeedSequence(integer("seed", seed, 0)).spawn(3)
    return [np.random.default_rng(child) for child in children]


def _check(
    vectors: Array,
    holdings: NDArray[np.int64],
    variants: Sequence[Variant],
    local: LocalTraining,
    rounds: int,
    seeds: Sequence[int],
    watch_every: int,
) -> RecordDraws:
    """Refuse what does not fit; the draws of the records, which refuse too many of them."""
    integer("rounds", rounds, 1)
    integer("watch_every", watch_every, 1)
    if not variants:
        raise ValueError("variants must hold at least one variant, got none")
    if np.ndim(vectors) != 2 or np.ndim(holdings) != 3 or not np.size(holdings):
        raise ValueError(
            "vectors must have shape (n, m) and holdings shape (runs, clients, records) with at "
            f"least one of each, got {np.shape(vectors)} and {np.shape(holdings)}"
        )
    if len(seeds) != len(holdings):
        raise ValueError(
            f"seeds must be as many as the runs of holdings, got {len(seeds)} and {len(holdings)}"
        )
    if holdings.min() < 0 or holdings.max() >= len(vectors):
        raise ValueError(
            f"holdings must be places in [0, {len(vectors)}), got {holdings.min()} to "
            f"{holdings.max()}"
        )
    widest = max(v.public for v in variants)
    integer("public", widest, 0, vectors.shape[1])
    runs, clients, held = holdings.shape
    draws = local.steps * local.batch
    return RecordDraws(runs * clients, held, draws, replacement=local.replacement)
