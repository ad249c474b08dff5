"""One heavy run over several processes, on the devices of one machine or of several nodes.

    torchrun --standalone --nproc-per-node 8 run.py

    with launched() as ranks:
        train_random_participation(model.to(ranks.device), x, y, sizes, settings, seed=0, ranks=ranks)

Every rank holds the model and the records, draws the same participation and the same noise from the seed, and computes
the clipped gradients of its part of the drawn batch. The parts are added in the order of the ranks, so that a run
with the same number of ranks repeats bit for bit; with another number it differs by the rounding of these sums.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed

from repro._validate import choice, positive

_Answer = TypeVar("_Answer")
_OWN_NODE = (("LOCAL_RANK", 0), ("LOCAL_WORLD_SIZE", 1))
"""What torchrun says of a rank on its node, and what holds where it does not."""


class LostRankError(RuntimeError):
    """Another rank ended or did not answer in time; the run goes on from its checkpoint when it is started again."""


@dataclass(frozen=True)
class Ranks:
    """The processes of a run. `Ranks()` is a run in one process, which needs no `torch.distributed`.

    Attributes:
        rank: this process, from 0 to `count` - 1.
        count: how many there are.
        device: where this one computes.
    """

    rank: int = 0
    count: int = 1
    device: torch.device = torch.device("cpu")
    _kept: dict[tuple, Tensor] = field(default_factory=dict, compare=False, repr=False)

    @property
    def first(self) -> bool:
        """Whether this is the rank that reports and saves."""
        return self.rank == 0

    def part(self, length: int) -> slice:
        """This rank's share of `length` records; the shares of all ranks hold each once, and differ by at most one."""
        return slice(length * self.rank // self.count, length * (self.rank + 1) // self.count)

    def sum(self, part: Tensor) -> Tensor:
        """The sum over all ranks of a flat tensor, added in the order of the ranks; the same bits at every rank.

        Each rank adds one piece of the vector and hands it to the others, so that a vector travels twice, whatever
        the number of ranks.

        Raises:
            LostRankError: another rank is gone.
        """
        if self.count == 1:
            return part
        piece = -(-len(part) // self.count)
        sent, received = self._buffers(part, self.count * piece)
        sent[: len(part)] = part
        sent[len(part) :] = 0
        self._together(lambda: distributed.all_to_all_single(received, sent))
        own, *others = received.view(self.count, piece)
        for other in others:
            own += other
        sent.view(self.count, piece).copy_(own)
        self._together(lambda: distributed.all_to_all_single(received, sent))
        return received[: len(part)].clone()

    def _buffers(self, like: Tensor, length: int) -> Tensor:
        """Two vectors, kept from one sum to the next: fresh memory can take longer than the exchange."""
        kind = (like.dtype, like.device)
        if kind not in self._kept or self._kept[kind].shape[1] < length:
            self._kept[kind] = like.new_empty(2, length)
        return self._kept[kind][:, :length]

    def sum_with_gradient(self, part: Tensor) -> Tensor:
        """`sum`, for a loss that is itself the sum of one part at each rank; backwards, all ranks must take part.

        Raises:
            LostRankError: another rank is gone.
        """
        return _Summed.apply(part, self)

    def count_all(self, number: int) -> int:
        """The sum over all ranks of an integer.

        Raises:
            LostRankError: another rank is gone.
        """
        if self.count == 1:
            return number
        total = torch.tensor(number, device=self.device)
        self._together(lambda: distributed.all_reduce(total))
        return int(total)

    def first_before_others(self, action: Callable[[], _Answer]) -> _Answer:
        """What `action` returns, done by rank 0 and then by the others, as for a file that the first one writes.

        Raises:
            LostRankError: rank 0 is gone.
        """
        if self.count == 1:
            return action()
        answer = action() if self.first else None
        self._together(lambda: distributed.barrier())
        return answer if answer is not None else action()

    def check_same(self, what: str) -> None:
        """Check that every rank was given the same run.

        Args:
            what: a digest of all that decides it.

        Raises:
            ValueError: at another rank it is another one.
            LostRankError: another rank is gone.
        """
        found: list[str | None] = [None] * self.count
        if self.count > 1:
            self._together(lambda: distributed.all_gather_object(found, what))
        strangers = [str(rank) for rank, one in enumerate(found) if one != found[0]]
        if strangers:
            raise ValueError(
                "every rank must have the same settings, seed, records, first model and checkpoint, got others at rank "
                f"{', '.join(strangers)} than at rank 0"
            )

    def _together(self, call: Callable[[], object]) -> None:
        try:
            call()
        except RuntimeError as problem:  # what the backends raise has no common class below this
            raise LostRankError(
                f"rank {self.rank} of {self.count} lost another rank; start all again, and the run goes on from "
                "its last checkpoint"
            ) from problem


class _Summed(torch.autograd.Function):
    """Each rank's part counts in every rank's loss, so that its gradient is the sum of those of all ranks."""

    @staticmethod
    def forward(context, part: Tensor, ranks: Ranks) -> Tensor:
        context.ranks = ranks
        return ranks.sum(part)

    @staticmethod
    def backward(context, gradient: Tensor) -> tuple[Tensor, None]:
        return context.ranks.sum(gradient), None


ALONE = Ranks()
"""A run in one process."""


def place(
    device: str, rank: int = 0, ranks: int = 1, *, exchange: bool = True
) -> tuple[torch.device, str]:
    """Where a rank computes, and the backend of `torch.distributed` that its tensors need.

    Args:
        device: "cuda" (nccl), "cpu" (gloo), or "auto": a GPU where each rank of the node has one.
        rank: on its node, from 0.
        ranks: of the node, >= 1.
        exchange: whether there are other ranks, here or on other nodes.

    Raises:
        ValueError: `device` is none of these, or "cuda" where CUDA is missing or has fewer GPUs than ranks.
    """
    choice("device", device, ("auto", "cpu", "cuda"))
    usable = torch.cuda.is_available() and (distributed.is_nccl_available() or not exchange)
    gpus = torch.cuda.device_count() if usable else 0
    if device == "cuda" and gpus < ranks:
        raise ValueError(
            f"device must be 'cpu' or 'auto' where a node has fewer GPUs than ranks, got 'cuda' with {gpus} GPUs that "
            f"can be used, for {ranks} ranks"
        )
    if device == "cpu" or gpus < ranks:
        return torch.device("cpu"), "gloo"
    return torch.device("cuda", rank), "nccl"


@contextmanager
def launched(*, device: str = "auto", patience: float = 1800.0) -> Iterator[Ranks]:
    """The ranks that torchrun has started; one alone where it has not.

    Args:
        device: see `place`. All nodes must come to the same answer.
        patience: seconds that a rank waits for the others in one exchange, > 0: longer than rank 0 evaluates.

    Raises:
        ValueError: an argument is out of range, or there are fewer GPUs than "cuda" needs.
        LostRankError: the others did not come.
    """
    positive("patience", patience)
    if "RANK" not in os.environ:
        yield Ranks(device=place(device, exchange=False)[0])
        return
    where, backend = place(device, *(int(os.environ.get(n, d)) for n, d in _OWN_NODE))
    if backend == "nccl":
        torch.cuda.set_device(where)
        # an exchange that fails raises an error here; otherwise a watchdog would end the process
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    try:
        distributed.init_process_group(backend, timeout=timedelta(seconds=patience))
    except RuntimeError as problem:
        raise LostRankError(f"the other ranks did not come: {problem}") from problem
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size(), where)
    finally:
        distributed.destroy_process_group()
