"""Attackers who have seen a batch several times and make the most of it.

Those of `attackers` average what they have seen. Averaging is simple, and it wastes information: of
Laplace noise the median of many copies tells twice as much as the mean, and of several masks each
can be inferred by itself, since all copies show the same images.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from repro.attacks.beliefs import InferredEach, Known
from repro.attacks.reconstruction import Reconstruction
from reproduce.papers.pmsfl.attackers import COARSE, FINE, Attackers
from reproduce.papers.pmsfl.victims import Noise


class PersistentAttackers(Attackers):
    """Attacks on one batch of one client, from several copies of its smashed data.

    Args:
        victim, batch, seed: as for `Attackers`.
        config: "public", "steps", "restarts" as for `Attackers`; "copies", of which each mask is
            inferred, >= 1; "versions", masks averaged to fit the mean of many copies, >= 1.
    """

    def on_noise(self, noises: Mapping[str, Noise], count: int) -> dict[str, Tensor]:
        """SplitFed-DP by name, from the medians of `count` copies.

        How closely the fit should follow them beyond the noise, the attacker finds out beforehand:
        it adds noise to the smashed data of as many public images and keeps, for each noise, the
        share of `COARSE` and `FINE` that reconstructs those better.
        """
        victim, images = self._victim, self._batch.images
        known = self._public[torch.arange(len(images), device=victim.device) % len(self._public)]
        trial = victim.smashed(known, victim.weights[None])[0]
        clean = torch.stack([self._clean(), trial])
        seen = torch.stack(
            [one.median(kind, count, self._generator) for one in noises.values() for kind in clean]
        )
        scales = self._each([one.scale for one in noises.values() for _ in clean])
        error = (scales.square() / count).reshape(-1, *(1,) * (seen.ndim - 1))
        bound = self._each([one.bound for one in noises.values() for _ in clean])

        def fit(share: float, restarts: int, start: Tensor | None) -> Reconstruction:
            return self._fit(
                seen,
                error + self._slack(trial, share),
                Known(victim.weights.expand(len(seen) * restarts, -1)),
                restarts=restarts,
                start=start,
                bound=bound,
            )

        coarse = fit(COARSE, self._config["restarts"], None)
        fine = fit(FINE, 1, coarse.coordinates)
        found = torch.stack([coarse.images, fine.images]).unflatten(1, (-1, len(clean)))
        missed = (found[:, :, 1] - known).square().flatten(2).mean(dim=2)
        best = missed.argmin(dim=0)
        return {name: found[best[k], k, 0] for k, name in enumerate(noises)}

    def on_copies(self, theta: Tensor, often: int) -> dict[str, Tensor]:
        """PM-SFL where the server broadcasts probabilities `theta`.

        Returns:
            "several copies, each mask inferred": of "copies" copies, the mask of each together with
            the images. "many rounds, more masks averaged": the mean of `often` copies fitted by the
            mean over "versions" masks.
        """
        victim, config, images = self._victim, self._config, self._batch.images
        masked = victim.masked(theta, config["copies"], self._generator)
        seen = victim.smashed(images, masked).transpose(0, 1)
        each = theta.expand(1, config["copies"], -1)
        inferred = self._fit(
            seen[None],
            self._slack(seen, COARSE)[None],
            InferredEach(victim.weights, each),
            steps=3 * config["steps"],
        )
        mean, _ = victim.over_rounds(images, theta, often, self._generator)
        _, spread = victim.over_rounds(self._public[: len(images)], theta, 64, self._generator)
        spread = spread.mean(dim=0) + self._slack(seen[:, 0], COARSE)
        averaged = self._fit(
            mean[None],
            ((1 / often + 1 / config["versions"]) * spread)[None],
            self._averaging(theta, config["versions"]),
        )
        return {
            "several copies, each mask inferred": inferred.images[0],
            "many rounds, more masks averaged": averaged.images[0],
        }
