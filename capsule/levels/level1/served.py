"""A network as it is served: each query's own values are brought to it, and its answer awaited.

Queries take turns between two sets of values; the last one alone has those of the case, and its
answer is held to the reference like the timed calls, so that nothing that is kept passes for an
answer. Where a framework's tensors stay as they are, all queries have the case's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..catalog import serving as meaning
from ..catalog.serving import Serving
from ..frameworks import Framework
from ..instruments.calls import Series
from ..instruments.serving import serve
from ..operators import several
from ..operators.base import Call
from .microbatch import Part
from .prepared import Prepared


def metrics(serving: Serving | None) -> list[str]:
    """Return the further metrics of a served network."""
    return [facts.name for facts in meaning.METRICS[serving.scenario]] if serving else []


def measure(
    trial: Prepared,
    serving: Serving,
    parts: Sequence[Part],
    others: Sequence[Sequence[Part]],
    answers: list[tuple[Any, ...]],
) -> Iterator[Series]:
    """Serve the network.

    Args:
        trial: Whose network.
        serving: How queries come.
        parts: Parts of its batch, with the values of the case.
        others: The same with other ones, several times.
        answers: The last one is put before those that are there.
    """
    trial.placed.clear()
    call = trial.inference(parts)
    placed = tuple(trial.placed)
    values = [[part.inputs for part in one] for one in (parts, *others)]
    room = Room(trial.framework, call, placed, values)
    yield from room.serve(serving, trial.warmup, trial.batch, trial.seed)
    answers.insert(0, trial.arrays(parts, several(room.answer), trained=False))


class Room:
    """Place where queries are answered.

    Attributes:
        answer: The last one, as the framework returned it.
    """

    def __init__(
        self,
        framework: Framework,
        call: Call,
        placed: Sequence[Mapping[str, Any]],
        values: Sequence[Sequence[Mapping[str, Any]]],
    ) -> None:
        """Make ready.

        Args:
            framework: Where.
            call: Call of inference.
            placed: Its tensors by name, of each part.
            values: Sets of arrays for the parts' inputs; the last query alone has the first set,
                where there are others.
        """
        self._framework = framework
        self._call = call
        self._placed = placed
        self._values = values
        self.answer: Any = None

    def serve(self, serving: Serving, warmup: int, batch: int, seed: int) -> Iterator[Series]:
        """See `instruments.serving.serve`."""
        function, operands = self._call
        synchronize = self._framework.synchronize

        def query(number: int) -> None:
            self._deliver(serving.queries - 1 - number)
            self.answer = None
            self.answer = function(*operands)
            if synchronize is not None:
                synchronize()

        yield from serve(serving, query, warmup, batch, seed)

    def _deliver(self, before_last: int) -> None:
        fill, others = self._framework.fill, self._values[1:]
        if fill is None:
            return
        chosen = others[before_last % len(others)] if before_last and others else self._values[0]
        for tensors, arrays in zip(self._placed, chosen):
            for name, array in arrays.items():
                fill(tensors[name], array)
