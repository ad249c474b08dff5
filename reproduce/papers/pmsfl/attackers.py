"""Attackers of split learning: what each has seen, and what it believes (pmsfl, section 6.4).

Every function returns reconstructions by name, shape (n, channels, h, w). All attackers have the
same public images and the same optimiser; they differ in knowledge. No attacker sees a truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from repro.attacks.beliefs import Averaged, Belief, Inferred, Known
from repro.attacks.priors import Prior, public_prior, smooth_prior
from repro.attacks.reconstruction import Observation, Reconstruction, reconstruct
from reproduce.papers.pmsfl.victims import Batch, Noise, Victim

COARSE, FINE = 1e-2, 1e-3
"""Share of the smashed data's power that a fit may miss where nothing else is in the way."""


class Attackers:
    """Attacks on one batch of one client.

    Args:
        victim: the federation.
        batch: the images and what is public.
        config: "public", how many images of other clients the attacker has, >= 2; "steps" of a fit
            and its "restarts", >= 1; "variation", weight of the total variation where no images are
            public, >= 0; "samples" and "averaged", masks averaged by an attacker who has seen the
            batch once and often, >= 1; "guesses", masks tried, >= 1.
        seed: >= 0.
    """

    def __init__(self, victim: Victim, batch: Batch, config: Mapping[str, Any], seed: int) -> None:
        self._victim, self._batch, self._config, self._seed = victim, batch, config, seed
        self._public = batch.public[: config["public"]]
        self._prior = public_prior(self._public, low=batch.low, high=batch.high)
        self._generator = torch.Generator(device=victim.device).manual_seed(seed)

    # Weights known: SplitFed and SplitFed-DP ------------------------------------------------------

    def on_weights(self, noises: Mapping[str, tuple[Noise, int]]) -> dict[str, Tensor]:
        """SplitFed, and SplitFed-DP by name: the noise, and how many copies have been seen."""
        victim = self._victim
        clean = self._clean()
        seen, variance = [clean], [self._slack(clean, COARSE)]
        bounds = [torch.inf, *(noise.bound for noise, _ in noises.values())]
        for noise, count in noises.values():
            seen.append(noise.smashed(clean, count, self._generator))
            variance.append(2 * noise.scale**2 / count + self._slack(clean, COARSE))
        restarts = self._config["restarts"]
        found = self._fit(
            torch.stack(seen),
            torch.stack(variance),
            Known(victim.weights.expand(len(seen) * restarts, -1)),
            restarts=restarts,
            bound=self._each(bounds),
        )
        fine = self._refined(clean, victim.weights, found.coordinates[:1], self._prior)
        names = ["splitfed", *noises]
        best = torch.cat([fine.coordinates, found.coordinates[1:]])
        self._first = dict(zip(names, zip(seen, best, strict=True), strict=True))
        return dict(zip(names, [fine.images[0], *found.images[1:]], strict=True))

    def without_public_images(self) -> dict[str, Tensor]:
        """SplitFed, by an attacker who knows of images only that they are smooth and in range."""
        batch, config = self._batch, self._config
        prior = smooth_prior(
            tuple(batch.images.shape[1:]),
            variation=config["variation"],
            low=batch.low,
            high=batch.high,
            device=self._victim.device,
        )
        clean, restarts = self._clean(), 2 * config["restarts"]
        weights = self._victim.weights
        found = self._fit(
            clean[None],
            self._slack(clean, COARSE)[None],
            Known(weights.expand(restarts, -1)),
            restarts=restarts,
            prior=prior,
        )
        fine = self._refined(clean, weights, found.coordinates, prior)
        return {"splitfed, no public images": fine.images[0]}

    def with_gradients(self, noises: Mapping[str, Noise]) -> dict[str, Tensor]:
        """SplitFed and SplitFed-DP, one copy, when the bottom's gradients are seen as well.

        The update is that of one step on this batch: the most that updates can reveal. Starts
        from what `on_weights` has found for the same names before, of the same noisy copies.
        """
        victim, clean = self._victim, self._clean()
        seen, start, answers, gradients, variance, error = [], [], [], [], [], []
        for name, noise in {"splitfed": None, **noises}.items():
            sent, found = self._first[name]
            answer = victim.answer(sent, self._batch.labels)
            gradient = victim.gradient(self._batch.images, victim.weights, answer)
            slack = self._slack(clean, FINE)
            power = _power(gradient, FINE)
            if noise is not None:
                gradient = noise.gradient(gradient, self._generator)
                slack, power = slack + 2 * noise.scale**2, power + noise.spread**2
            for values, value in (
                (seen, sent), (start, found), (answers, answer), (gradients, gradient),
                (variance, slack), (error, power),
            ):  # fmt: skip
                values.append(value)
        fitted = self._fit(
            torch.stack(seen),
            torch.stack(variance),
            Known(victim.weights.expand(len(seen), -1)),
            start=torch.stack(start),
            gradients=(torch.stack(answers), torch.stack(gradients), torch.stack(error)),
            bound=self._each([torch.inf, *(noise.bound for noise in noises.values())]),
            clip=self._each([torch.inf, *(noise.clip for noise in noises.values())]),
        )
        names = ["splitfed", *noises]
        return {f"{n}, gradients": i for n, i in zip(names, fitted.images, strict=True)}

    # Masks unknown: PM-SFL ------------------------------------------------------------------------

    def on_masks(self, theta: Tensor, often: int) -> dict[str, Tensor]:
        """PM-SFL where the server broadcasts probabilities `theta`: every attacker by name.

        The attacker of many rounds has seen the batch `often` times, with a fresh mask each time.
        """
        victim, config, batch = self._victim, self._config, self._batch
        mine = victim.masked(theta, 1, self._generator)
        seen = victim.smashed(batch.images, mine)
        mean, _ = victim.over_rounds(batch.images, theta, often, self._generator)
        slack = self._slack(seen[0], COARSE)
        # how far a mask moves smashed data, measured on public images
        _, spread = victim.over_rounds(
            self._public[: len(batch.images)], theta, 64, self._generator
        )
        spread = spread.mean(dim=0) + slack
        guesses = victim.masked(theta, config["guesses"], self._generator)
        fresh = victim.masked(theta, 1, self._generator)
        inferred = self._fit(
            seen, slack[None], Inferred(victim.weights, theta[None]), steps=2 * config["steps"]
        )
        few, many = config["samples"], config["averaged"]
        known = {
            "mean mask": self._fit(seen, slack[None], Known((victim.weights * theta)[None])),
            "masks averaged": self._fit(
                seen, ((1 + 1 / few) * spread)[None], self._averaging(theta, few)
            ),
            "likeliest of several masks": self._fit(
                seen, spread[None], Known(guesses), restarts=len(guesses)
            ),
            "mask inferred": inferred,
            "many rounds, masks averaged": self._fit(
                mean[None],
                ((1 / often + 1 / many) * spread)[None],
                self._averaging(theta, many),
            ),
            "mask uploaded, sampled anew": self._fit(seen, spread[None], Known(fresh)),
        }
        found = {name: one.images[0] for name, one in known.items()}
        found["score gradients"] = self._score_gradients(theta, mine, seen, inferred)
        exact = self._fit(seen, slack[None], Known(mine))
        found["mask uploaded, the one used"] = self._refined(
            seen[0], mine[0], exact.coordinates, self._prior
        ).images[0]
        return found

    def _averaging(self, theta: Tensor, samples: int) -> Averaged:
        return Averaged(self._victim.weights, theta[None], samples, self._generator)

    def _score_gradients(
        self, theta: Tensor, mine: Tensor, seen: Tensor, inferred: Reconstruction
    ) -> Tensor:
        """Probabilities are uploaded after one step, not bits: the scores' gradient is seen.

        Divided by w_b sigma'(s), which the server knows, it is that of the masked weights.
        """
        victim = self._victim
        answer = victim.answer(seen[0], self._batch.labels)
        gradient = victim.gradient(self._batch.images, mine[0], answer)
        return self._fit(
            seen,
            self._slack(seen[0], COARSE)[None],
            Inferred(victim.weights, theta[None], inferred.estimate),
            start=inferred.coordinates,
            gradients=(answer[None], gradient[None], _power(gradient, COARSE)[None]),
        ).images[0]

    # Shared parts ---------------------------------------------------------------------------------

    def _clean(self) -> Tensor:
        return self._victim.smashed(self._batch.images, self._victim.weights[None])[0]

    def _each(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, device=self._victim.device)

    @staticmethod
    def _slack(smashed: Tensor, share: float) -> Tensor:
        return _power(smashed, share).expand((1,) * smashed.ndim)

    def _refined(
        self, smashed: Tensor, weights: Tensor, start: Tensor, prior: Prior
    ) -> Reconstruction:
        """A second, finer fit of a single case, from where the first one ended."""
        variance = self._slack(smashed, FINE)[None]
        return self._fit(smashed[None], variance, Known(weights[None]), prior=prior, start=start)

    def _fit(
        self,
        seen: Tensor,
        variance: Tensor,
        belief: Belief,
        *,
        restarts: int = 1,
        steps: int | None = None,
        prior: Prior | None = None,
        start: Tensor | None = None,
        gradients: tuple[Tensor, Tensor, Tensor] | tuple[None, None, None] = (None, None, None),
        bound: Tensor | None = None,
        clip: Tensor | None = None,
    ) -> Reconstruction:
        return reconstruct(
            self._victim.blocks,
            self._victim.depth,
            Observation(seen, variance, *gradients, bound, clip),
            belief,
            prior or self._prior,
            steps=steps or self._config["steps"],
            restarts=restarts,
            seed=self._seed,
            start=start,
        )


def _power(values: Tensor, share: float) -> Tensor:
    """A share of the mean square; never zero, since nothing is fitted without an error."""
    return (share * values.square().mean()).clamp(min=1e-12)
