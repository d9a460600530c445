"""What one rank of a world of any size exchanges, counted without the other ranks.

As a program, `python -m tests.support.counting`, it prints `tests/data/traffic.json`: the counts of
the schemes of `manifests/level3.json` at 4,096 ranks.

One process plays one rank after the other: it trains with torch's process group `fake`, in which
every operation returns at once and moves nothing. Counts are those of so many ranks; values and
times are not.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from capsule.levels import frameworks, networks
from capsule.levels.catalog import schemes, training
from capsule.levels.catalog.splitting import Work
from capsule.levels.communicators import Communicator, Traffic
from capsule.levels.frameworks.base import Distributable, require
from capsule.levels.frameworks.torch.training import start
from capsule.levels.graphs import values
from capsule.levels.graphs.graph import Graph
from capsule.levels.level3.exchanges import Member, flatten
from capsule.levels.level3.ranks import EXCHANGES
from capsule.levels.level3.staleness import Asynchronous, Server, serve
from tests.support.documented import ROOT

RANKS = 4096
_LEAST_STEPS = 2
_SEED = 17
_SGD = {one.name: one.default or 0.1 for one in training.OPTIMIZERS["sgd"]}


@dataclass(frozen=True, kw_only=True)
class Count:
    """What one rank exchanges in each step until every kind of step has been.

    Attributes:
        elements: Of all trained parameters.
        item: Bytes of each.
    """

    scheme: str
    numbers: Mapping[str, float]
    elements: int
    item: int
    ranks: int
    rank: int
    bytes_sent: tuple[int, ...]
    bytes_received: tuple[int, ...]
    messages: tuple[int, ...]


def count(graph: Graph, dtype: str, scheme: Mapping[str, Any], rank: int, ranks: int) -> Count:
    """Train by SGD as one of so many ranks, each with the graph's samples."""
    numbers = dict(scheme)
    name = numbers.pop("name")
    framework = frameworks.load("torch", "cpu", None, "default")
    drawn = values.parameters(graph, dtype, _SEED)
    tensors = {name: framework.from_numpy(one, dtype) for name, one in drawn.items()}
    trained = [tensors[name] for name in graph.trainable]
    begin = require(require(framework.networks, "torch", "").trainer, "torch", "")
    trainer = begin(graph, tensors, "sgd", _SGD)
    assert isinstance(trainer, Distributable)
    arrays = values.inputs(graph, dtype, _SEED)
    inputs = {name: framework.from_numpy(one, dtype) for name, one in arrays.items()}
    with _pretend(rank, ranks):
        traffic = _train(trainer, graph, inputs, name, numbers)
    sent, received, messages = zip(
        *((one.sent, one.received, one.messages) for one in traffic), strict=True
    )
    return Count(
        scheme=name,
        numbers=numbers,
        elements=sum(one.numel() for one in trained),
        item=trained[0].element_size(),
        ranks=ranks,
        rank=rank,
        bytes_sent=sent,
        bytes_received=received,
        messages=messages,
    )


def _train(
    trainer: Any, graph: Graph, inputs: Mapping[str, Any], scheme: str, numbers: Mapping[str, float]
) -> list[Traffic]:
    kind = EXCHANGES[scheme]
    communicator, tensors = _Alone(), trainer.parameters()
    exchange = (_OneByOne if issubclass(kind, Asynchronous) else kind)(
        Member(
            communicator=communicator,
            weight=1 / communicator.ranks,
            parts=1,
            trainer=trainer,
            graph=graph,
            work=Work(graph.name, {}, communicator.ranks, 1),
            numbers=numbers,
            leaves={name: tensors[name] for name in graph.trainable},
            start=lambda leaves: start("sgd", leaves, _SGD),
            rate=lambda _: _SGD["lr"],
        )
    )
    trainer.exchange_by(lambda _: exchange.before_step())
    steps = max(_LEAST_STEPS, int(numbers.get("period", 1)))
    traffic = []
    exchange.open(steps)
    for step in range(1, steps + 1):
        trainer.step(inputs, _SGD["lr"])
        exchange.after_step(step)
        traffic.append(communicator.take_traffic())
    for own, more in zip(traffic, exchange.close(), strict=False):
        own.add(more)
    return traffic


@contextmanager
def _pretend(rank: int, ranks: int) -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


class _Alone(Communicator):
    """Counts as any, and returns its own array for those of others."""

    def gather(self, flat: Any) -> list[Any]:
        with self._count(flat, sends=1, receives=self.ranks - 1):
            dist.all_gather([torch.empty_like(flat)] * self.ranks, flat)
        return [flat]


class _OneByOne(Asynchronous):
    """A server that serves ranks in turn, where the real one has a thread for each."""

    def open(self, steps: int) -> None:
        if self.server is None:
            return
        self.server = _Idle(self.member, 0)
        size = flatten(self.member.leaves.values())
        self._traffic = [[] for _ in range(1, self.communicator.ranks)]
        for peer, traffic in enumerate(self._traffic, 1):
            serve(self.server, peer, size, steps, traffic)


class _Idle(Server):
    """A server that takes no step, and lets nobody wait."""

    def take(self, rank: int, gradients: Any, communicator: Communicator) -> Any:
        del rank, communicator
        return gradients

    def fail(self, reason: str) -> None:
        raise RuntimeError(reason)


def make_table() -> str:
    """Return the counts of the first rank and the last, one a line."""
    document = json.loads((ROOT / "manifests" / "level3.json").read_text())
    network = networks.find("lenet")
    graph = networks.build("lenet", network.complete({"batch": 1}))
    rows = []
    for scheme in (one["scheme"] for one in document["benchmarks"] if one["level"] == 3):
        meaning = schemes.SCHEMES[scheme["name"]]
        if not (meaning.independent or meaning.splits_network):
            for rank in (0, RANKS - 1):
                rows.append(json.dumps(vars(count(graph, "float32", scheme, rank, RANKS))))
    return "[\n" + ",\n".join(rows) + "\n]\n"


if __name__ == "__main__":
    print(make_table(), end="")
