"""A stage of torch's pipelines that counts what it exchanges, and how long it computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from torch.distributed.pipelining import PipelineStage

from ..communicators import Communicator


class CountedStage(PipelineStage):  # type: ignore[misc]
    """Torch's, which hands what it sends and receives to its schedule as a list.

    Attributes:
        computing: Seconds that it took forward and backward so far.
    """

    def __init__(self, communicator: Communicator, *stage: Any, **examples: Any) -> None:
        """Create the stage as torch does, with a counter before it."""
        super().__init__(*stage, **examples)
        self._communicator = communicator
        self.computing = 0.0

    def get_fwd_recv_ops(self, fwd_chunk_id: int) -> Any:
        """Return the receives from the previous stage."""
        return self._count((), super().get_fwd_recv_ops(fwd_chunk_id))

    def get_fwd_send_ops(self, fwd_chunk_id: int) -> Any:
        """Return the sends to the next stage."""
        return self._count(super().get_fwd_send_ops(fwd_chunk_id), ())

    def get_bwd_recv_ops(self, bwd_chunk_id: int) -> Any:
        """Return the receives from the next stage."""
        return self._count((), super().get_bwd_recv_ops(bwd_chunk_id))

    def get_bwd_send_ops(self, bwd_chunk_id: int) -> Any:
        """Return the sends to the previous stage."""
        return self._count(super().get_bwd_send_ops(bwd_chunk_id), ())

    def forward_one_chunk(self, *chunk: Any, **how: Any) -> Any:
        """Run a micro-batch forward."""
        with self._compute():
            return super().forward_one_chunk(*chunk, **how)

    def backward_one_chunk(self, *chunk: Any, **how: Any) -> None:
        """Run a micro-batch backward."""
        with self._compute():
            super().backward_one_chunk(*chunk, **how)

    def _count(self, outgoing: Sequence[Any], incoming: Sequence[Any]) -> Any:
        sent, received = ([one.tensor for one in both] for both in (outgoing, incoming))
        self._communicator.count(sent, received)
        return [*outgoing, *incoming]

    @contextmanager
    def _compute(self) -> Iterator[None]:
        began = perf_counter()
        yield
        self.computing += perf_counter() - began
