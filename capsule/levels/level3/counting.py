"""What ranks of a world of any size exchange, counted at the call without the others being there.

One process at a time plays one of the ranks: it trains with torch's process group `fake`, in which
every operation returns at once and moves nothing. What decides what is exchanged runs as it would
among so many ranks, so counts are those of that world. Values and times are not: nobody answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import frameworks, networks
from ..catalog import schemes
from ..catalog.splitting import Work
from ..frameworks.base import Distributable, FrameworkError, require
from ..graphs import values
from ..graphs.graph import Graph
from ..job import Scheme

if TYPE_CHECKING:
    from ..communicators import Traffic

LEAST_STEPS = 2
"""Steps that are counted of a training whose period is shorter."""

PLAYED = 4
"""Ranks of a world of which each one is played."""

_SEED = 17


@dataclass(frozen=True)
class Training:
    """A training, of which each rank takes as few samples a step as it can.

    Attributes:
        graph: The network for these samples.
        dtype: Word of `DTYPES`.
        optimizer: Key of `training.OPTIMIZERS`.
        numbers: All that the optimizer takes.
        scheme: What it exchanges by.
    """

    graph: Graph
    dtype: str
    optimizer: str
    numbers: Mapping[str, float]
    scheme: Scheme

    @property
    def steps(self) -> int:
        """Until every kind of step has been."""
        return max(LEAST_STEPS, int(self.scheme.numbers.get("period", 1)))


def main() -> int:
    """Print what ranks exchange in each of some trainings, as one JSON array of arrays.

    Standard input has a JSON object: `trainings`, each with `network`, `sizes`, its
    `batch` among them, `dtype`, `optimizer` and `scheme`, the last two with their `name` among
    their numbers; and `worlds`, how many ranks there are.

    Returns:
        The exit status: 2 where ranks cannot train so, 6 where torch, or its group, is not there.
    """
    request = json.load(sys.stdin)
    try:
        rows = [count(_read(entry), tuple(request["worlds"])) for entry in request["trainings"]]
    except (ValueError, FrameworkError, ImportError) as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, ValueError) else 6
    sys.stdout.write(json.dumps(rows) + "\n")
    return 0


def count(subject: Training, worlds: Sequence[int]) -> list[dict[str, Any]]:
    """What the first rank exchanges, and the last; of few ranks each one.

    Args:
        subject: What they train.
        worlds: Numbers of ranks.

    Returns:
        JSON values, for each world and rank: `ranks`, `rank`, `elements`, how many numbers are
        trained, `item`, the bytes of each, and by the names of `schemes.TRAFFIC` a value for each
        step.
    """
    framework = frameworks.load("torch", "cpu", None, "default")
    drawn = values.parameters(subject.graph, subject.dtype, _SEED)
    tensors = {name: framework.from_numpy(one, subject.dtype) for name, one in drawn.items()}
    trained = [tensors[name] for name in subject.graph.trainable]
    size = {
        "elements": sum(one.numel() for one in trained),
        "item": trained[0].element_size(),
    }
    rows: list[dict[str, Any]] = []
    for ranks in worlds:
        for rank in range(ranks) if ranks <= PLAYED else (0, ranks - 1):
            with _pretend(rank, ranks):
                traffic = _train(subject, framework, tensors)
            columns = zip(*((one.sent, one.received, one.messages) for one in traffic))
            place = {"ranks": ranks, "rank": rank}
            rows.append({**place, **size, **dict(zip(schemes.TRAFFIC, columns))})
    return rows


def _train(
    subject: Training, framework: frameworks.Framework, tensors: Mapping[str, Any]
) -> list[Traffic]:
    """Some steps of the rank that this process plays."""
    from ..frameworks.torch.training import start
    from .exchanges import Member
    from .playing import Alone, choose

    native = require(framework.networks, framework.name, "run networks")
    begin = require(native.trainer, framework.name, "train")
    trainer = begin(subject.graph, tensors, subject.optimizer, subject.numbers)
    assert isinstance(trainer, Distributable)
    communicator, tensors = Alone(), trainer.parameters()
    exchange = choose(subject.scheme.name)(
        Member(
            communicator=communicator,
            weight=1 / communicator.ranks,
            parts=1,
            trainer=trainer,
            graph=subject.graph,
            work=Work(subject.graph.name, {}, communicator.ranks, 1),
            numbers=subject.scheme.numbers,
            leaves={name: tensors[name] for name in subject.graph.trainable},
            start=lambda leaves: start(subject.optimizer, leaves, subject.numbers),
            rate=lambda _: subject.numbers["lr"],
        )
    )
    trainer.exchange_by(lambda _: exchange.before_step())
    arrays = values.inputs(subject.graph, subject.dtype, _SEED)
    inputs = {name: framework.from_numpy(one, subject.dtype) for name, one in arrays.items()}
    traffic = []
    exchange.open(subject.steps)
    for step in range(1, subject.steps + 1):
        trainer.step(inputs, subject.numbers["lr"])
        exchange.after_step(step)
        traffic.append(communicator.take_traffic())
    for own, more in zip(traffic, exchange.close()):
        own.add(more)
    return traffic


@contextmanager
def _pretend(rank: int, ranks: int) -> Iterator[None]:
    """Make torch's default process group one of so many ranks, none of which is there."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _read(entry: Mapping[str, Any]) -> Training:
    sizes = networks.find(entry["network"]).complete(entry["sizes"])
    numbers, scheme = dict(entry["optimizer"]), dict(entry["scheme"])
    return Training(
        graph=networks.build(entry["network"], sizes),
        dtype=entry["dtype"],
        optimizer=numbers.pop("name"),
        numbers=numbers,
        scheme=Scheme(scheme.pop("name"), scheme),
    )
