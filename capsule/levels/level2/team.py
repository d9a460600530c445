"""Team of processes that train the same network; also the team of a single process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..frameworks.base import NativeTensor, Trainer
from ..graphs.graph import Graph

if TYPE_CHECKING:
    from .prepared import Prepared
    from .progress import Progress


class Team:
    """A process that trains alone.

    Attributes:
        rank: Its place among the processes of the training, from 0.
        ranks: How many these are.
    """

    rank = 0
    ranks = 1

    @property
    def share(self) -> tuple[int, int]:
        """Return this process's share of a batch, from 0, and the number of shares."""
        return self.rank, self.ranks

    def span(self, batch: int) -> tuple[int, int]:
        """Return first and last sample of this process in a batch, as `samplers.share` does."""
        return span(batch, *self.share)

    def part(self, graph: Graph) -> Graph:
        """Return this process's part of a network."""
        return graph

    def judged_samples(self, batch: int, parts: int) -> int:
        """Return samples of a step, and so many micro-batches, that `hold` needs the reference
        for.
        """
        return 0 * batch * parts

    def hold(self, trial: Prepared) -> None:
        """See that the first steps together are right."""

    def join(self, trial: Prepared, trainer: Trainer, batch: int, parts: int) -> None:
        """Let a trainer that has its samples of each batch train with those of others.

        Args:
            trial: What is trained.
            trainer: With so many micro-batches of a step.
            batch: Samples of all.
            parts: Number of micro-batches.
        """

    def open_epoch(self, steps: int) -> None:
        """Make ready for so many steps."""

    def step(self, trainer: Trainer, inputs: Mapping[str, NativeTensor], rate: float) -> Any:
        """`Trainer.step`, together."""
        return trainer.step(inputs, rate)

    def average(self, losses: Sequence[float], batch: int) -> list[float]:
        """Return the losses of whole batches, of those of its own samples."""
        del batch
        return list(losses)

    def gather_order(self, taken: Sequence[Any], batch: int) -> Any:
        """Return the numbers of all samples of some steps, as they were taken; of its own in
        each.
        """
        import numpy

        del batch
        return numpy.concatenate(taken)

    def agree(self, *values: float) -> tuple[float, ...]:
        """Return the common value where each process has a value of its own."""
        return values

    def settle(self, epochs: Sequence[int]) -> int:
        """Return the last epoch after which all have a checkpoint, of those after which this one
        has.
        """
        return max(epochs, default=0)

    def state(self) -> Mapping[str, NativeTensor]:
        """Return all that later steps depend on beside the trainer's state, by name."""
        return {}

    def go_on(self, steps: int, state: Mapping[str, NativeTensor]) -> None:
        """Go on after so many steps of an earlier attempt, whose `state` is among others."""

    def close_epoch(self, trial: Prepared, so_far: Progress, epoch: int) -> None:
        """Report what is known of an epoch from training together."""

    @contextmanager
    def evaluate(self, trainer: Trainer) -> Iterator[None]:
        """Have the parameters that the network is judged by in a trainer, for a time."""
        del trainer
        yield


def span(batch: int, rank: int, ranks: int) -> tuple[int, int]:
    """Return first and last sample of one share of a batch."""
    return batch * rank // ranks, batch * (rank + 1) // ranks
