"""What goes wrong where ranks train together: each changes the program of one rank.

A plant is called in every rank, with its number, before the rank runs a job.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from capsule.levels.communicators import Communicator, Traffic, UnderWay
from capsule.levels.data import samplers
from capsule.levels.frameworks.torch.training import TorchTrainer
from capsule.levels.graphs import values
from capsule.levels.level2.prepared import Prepared
from capsule.levels.level3.buckets import Bucketed
from capsule.levels.level3.compressed import Compressed, TopK
from capsule.levels.level3.exchanges import (
    AllReduce,
    LocalSgd,
    Member,
    NeighbourAveraging,
    fill,
    flatten,
)
from capsule.levels.level3.groups import Parts
from capsule.levels.level3.pipelined import Pipelined
from capsule.levels.level3.ranks import Ranks
from capsule.levels.level3.sharded import Sharded
from capsule.levels.level3.spatial import Spatial
from capsule.levels.level3.staleness import Asynchronous, Server

Plant = Callable[[int], None]
SLOW = 1
"""The rank that a plant makes slow."""
_LATE_SECONDS = 0.05


def change(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put what is made of a function in its place."""
    setattr(owner, name, make(getattr(owner, name)))


def weigh(factor: Callable[[int, Member], float]) -> Plant:
    """Scale what a rank contributes to the gradients."""

    def plant(rank: int) -> None:
        change(Member, "weigh", lambda sound: lambda self: sound(self) * factor(rank, self))

    return plant


def count(wrong: Callable[[Traffic, int], None]) -> Plant:
    """Count bytes otherwise."""

    def make(sound: Any) -> Any:
        def take_traffic(self: Communicator) -> Traffic:
            traffic: Traffic = sound(self)
            wrong(traffic, self.ranks)
            return traffic

        return take_traffic

    return lambda _: change(Communicator, "take_traffic", make)


def _one_way(traffic: Traffic, _: int) -> None:
    traffic.received = 0


def _once(traffic: Traffic, _: int) -> None:
    traffic.sent, traffic.received = traffic.sent // 2, traffic.received // 2


def _of_the_node(traffic: Traffic, ranks: int) -> None:
    traffic.sent, traffic.received = traffic.sent * ranks, traffic.received * ranks


def leave_averaging_out(rank: int) -> None:
    change(AllReduce, "before_step", lambda _: lambda self: None)


def read_twice(rank: int) -> None:
    def make(sound: Any) -> Any:
        return lambda order, batch, *, rank=0, ranks=1: sound(order, batch, rank=0, ranks=ranks)

    change(samplers, "share", make)


def drop_uneven_rest(rank: int) -> None:
    def span(self: Ranks, batch: int) -> tuple[int, int]:
        size = batch // self.ranks
        return size * self.rank, size * (self.rank + 1)

    def share(order: Any, batch: int, *, rank: int = 0, ranks: int = 1) -> Any:
        size = batch // ranks
        used = order[: len(order) // batch * batch].reshape(-1, batch)
        return [one[size * rank : size * (rank + 1)] for one in used]

    change(Ranks, "span", lambda _: span)
    change(samplers, "share", lambda _: share)


def draw_alike(rank: int) -> None:
    def rows(self: Prepared, arrays: Mapping[str, Any], batch: int) -> dict[str, Any]:
        first, end = self.team.span(batch)
        noise, rows = self.graph(batch).noise, {}
        for name, array in arrays.items():
            start = 0 if name in noise else first
            size = len(array) // batch
            rows[name] = array[size * start : size * (start + end - first)]
        return rows

    change(Prepared, "rows", lambda _: rows)


def begin_apart(rank: int) -> None:
    change(
        values,
        "parameters",
        lambda sound: lambda graph, dtype, seed: sound(graph, dtype, seed + rank),
    )


def keep_state(rank: int) -> None:
    """Momentum of the first step for good."""

    def make(sound: Any) -> Any:
        def step(self: Any, *arguments: Any) -> Any:
            before = {one: self.state[one].get("momentum_buffer") for one in self.state}
            kept = {one: buffer.clone() for one, buffer in before.items() if buffer is not None}
            loss = sound(self, *arguments)
            for one, buffer in kept.items():
                self.state[one]["momentum_buffer"].copy_(buffer)
            return loss

        return step

    if rank == 1:
        change(torch.optim.SGD, "step", make)


def forget_state(rank: int) -> None:
    """No momentum is left of the step before."""

    def make(sound: Any) -> Any:
        def step(self: Any, inputs: Any, rate: float) -> Any:
            loss = sound(self, inputs, rate)
            self._optimizer.state.clear()
            return loss

        return step

    change(TorchTrainer, "step", make)


def _flag(name: str) -> Path:
    """A file that all ranks of a job see."""
    return Path(os.environ["CAPSULE_RENDEZVOUS"].partition("://")[2]).with_name(name)


def _await(name: str) -> None:
    while not _flag(name).exists():
        os.sched_yield()


def slow_down(rank: int) -> None:
    """One rank begins an operation a while after all others have."""
    steps = 0

    def make(sound: Any) -> Any:
        def before_step(self: AllReduce) -> None:
            nonlocal steps
            steps += 1
            if rank == SLOW:
                _await(f"waiting-{steps}")
                began = perf_counter()
                while perf_counter() < began + _LATE_SECONDS:
                    pass
            else:
                _flag(f"waiting-{steps}").touch()
            sound(self)

        return before_step

    change(AllReduce, "before_step", make)


def run_ahead(rank: int) -> None:
    """Nobody waits for a rank that is far behind, in the judged steps and in those of an epoch."""
    steps, held = 0, {2: 3, 5: 7}

    def make(sound: Any) -> Any:
        def before_step(self: Asynchronous) -> None:
            nonlocal steps
            steps += 1
            if rank and steps in held:
                _await(f"done-{held[steps]}")
            sound(self)
            if not rank:
                _flag(f"done-{steps}").touch()

        return before_step

    change(Asynchronous, "before_step", make)
    change(
        Server, "__init__", lambda sound: lambda self, member, bound: sound(self, member, bound + 9)
    )


def leave(rank: int) -> None:
    """One rank ends with an error in the middle of an epoch, and others meet only a third one."""
    steps = 0

    def make(sound: Any) -> Any:
        def before_step(self: Any) -> None:
            nonlocal steps
            steps += 1
            if rank == 1 and steps == 5:
                raise MemoryError("planted")
            sound(self)

        return before_step

    for kind in (Asynchronous, Sharded, Spatial, Pipelined):
        change(kind, "before_step", make)


def average_neighbours_gradients(rank: int) -> None:
    def before_step(self: NeighbourAveraging) -> None:
        ranks = self.communicator.ranks
        peers = sorted({(rank - 1) % ranks, (rank + 1) % ranks} - {rank})
        own = flatten(self.member.gradients())
        everybody = [own, *self.communicator.swap(own, peers)]
        fill(self.member.gradients(), sum(everybody) / len(everybody))

    change(NeighbourAveraging, "before_step", lambda _: before_step)
    change(NeighbourAveraging, "after_step", lambda _: lambda self, step: None)


def divide_by_three(rank: int) -> None:
    change(
        Communicator,
        "swap",
        lambda sound: lambda self, flat, peers: [*sound(self, flat, peers), 0 * flat],
    )


def take_others_for_neighbours(rank: int) -> None:
    """A ring of four in another order: 0, 2, 1, 3."""
    peers = [2, 3] if rank < 2 else [0, 1]
    change(Communicator, "swap", lambda sound: lambda self, flat, _: sound(self, flat, peers))


def forget_the_rest(rank: int) -> None:
    def before_step(self: Compressed) -> None:
        fill(self.member.gradients(), self._exchange(self.member.weigh()))

    change(Compressed, "before_step", lambda _: before_step)


def choose_by_sign(rank: int) -> None:
    def choose(self: TopK, kept: Any) -> Any:
        places = torch.sort(kept, descending=True, stable=True).indices
        return places[: int(kept.numel() * self.member.numbers["density"])]

    change(TopK, "_choose", lambda _: choose)


def scale_by_ones_own(rank: int) -> None:
    def make(sound: Any) -> Any:
        def gather(self: Communicator, flat: Any) -> Any:
            arrays = sound(self, flat)
            return arrays if flat.numel() > 1 else [flat] * len(arrays)

        return gather

    change(Communicator, "gather", make)


def average_a_step_late(rank: int) -> None:
    change(LocalSgd, "after_step", lambda sound: lambda self, step: sound(self, step - 1))


def send_before_the_last_part(rank: int) -> None:
    change(Bucketed, "_count", lambda _: lambda self: [one.numel() for one in self._buckets])
    # else it depends on who is first whether the next micro-batch is sent after all
    change(Communicator, "begin_all_reduce", lambda sound: lambda *which: wait(sound(*which)))


def wait(under_way: UnderWay) -> UnderWay:
    under_way.work.wait()
    return under_way


def send_all_but_one(rank: int) -> None:
    change(
        Communicator, "begin_all_reduce", lambda sound: lambda self, flat: sound(self, flat[:-1])
    )


def apply_twice(rank: int) -> None:
    def make(sound: Any) -> Any:
        def apply(self: Server, rank: int, gradients: Any) -> None:
            sound(self, rank, gradients)
            if rank == 1:
                self._optimizer.step()

        return apply

    change(Server, "_apply", make)


def hand_out_old_ones(rank: int) -> None:
    def make(sound: Any) -> Any:
        def take(self: Server, rank: int, gradients: Any, communicator: Communicator) -> Any:
            before = flatten(self._leaves)
            sound(self, rank, gradients, communicator)
            return before

        return take

    change(Server, "take", make)


def normalize_alone(rank: int) -> None:
    for name in ("before_step", "after_step"):
        change(Parts, name, lambda _: lambda *_: None)


PLANTS: dict[str, Plant] = {
    "rank 0's gradient dropped": weigh(lambda rank, _: float(rank > 0)),
    "sum instead of mean": weigh(lambda _, member: 1 / member.weight),
    "division by one rank more": weigh(
        lambda _, member: member.communicator.ranks / (member.communicator.ranks + 1)
    ),
    "ranks count alike, whatever their samples": weigh(
        lambda _, member: 1 / member.weight / member.communicator.ranks
    ),
    "one rank's gradient taken twice": weigh(lambda rank, _: 1.0 + (rank == 1)),
    "averaging left out": leave_averaging_out,
    "a shard read twice": read_twice,
    "rest of an uneven batch dropped": drop_uneven_rest,
    "equal noise on every rank": draw_alike,
    "other initial parameters on each rank": begin_apart,
    "one rank's optimizer state stale": keep_state,
    "statistics of one rank's groups alone": normalize_alone,
    "one slow rank": slow_down,
    "bytes counted one way": count(_one_way),
    "a two-way exchange counted once": count(_once),
    "bytes of the whole node counted by each rank": count(_of_the_node),
    "neighbours average gradients, not parameters": average_neighbours_gradients,
    "two neighbours divide by three": divide_by_three,
    "a wrong neighbour": take_others_for_neighbours,
    "parameters averaged a step late": average_a_step_late,
    "momentum forgotten with each averaging": forget_state,
    "buckets sent before the last micro-batch": send_before_the_last_part,
    "last number of each bucket not sent": send_all_but_one,
    "error feedback left out": forget_the_rest,
    "largest chosen with their sign": choose_by_sign,
    "numbers of others scaled by one's own scale": scale_by_ones_own,
    "one rank's gradient applied twice": apply_twice,
    "parameters handed out from before the step": hand_out_old_ones,
    "staleness beyond its bound": run_ahead,
    "one rank leaves": leave,
}
