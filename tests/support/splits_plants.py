"""What goes wrong where ranks share a network, or its parameters; see `ranks_plants`."""

from collections.abc import Callable
from typing import Any

import torch

from capsule.levels.communicators import Communicator
from capsule.levels.data import samplers
from capsule.levels.level3 import spatial
from capsule.levels.level3.counted import CountedStage
from capsule.levels.level3.pipelined import Pipelined
from capsule.levels.level3.sharded import Sharded
from capsule.levels.level3.spatial import Spatial
from tests.support.ranks_plants import Plant, change


def keep_part(rank: int) -> None:
    """What one rank's part is never moves."""
    if rank == 1:
        change(Sharded, "before_step", lambda _: lambda self: None)


def shift_parts(rank: int) -> None:
    """Every part begins a number early in the gradients, and not in the parameters."""
    change(
        Communicator,
        "scatter",
        lambda sound: lambda self, part, whole: sound(self, part, whole.roll(1)),
    )


def gather_once(rank: int) -> None:
    """One rank reckons on with the parameters that it has gathered first."""
    first: dict[int, Any] = {}

    def make(sound: Any) -> Any:
        def join(self: Communicator, whole: Any, part: Any) -> None:
            sound(self, whole, part)
            whole.copy_(first.setdefault(whole.numel(), whole.clone()))

        return join

    if rank == 1:
        change(Communicator, "join", make)


def change_halo(way: str, make: Callable[[Any, Any], tuple[Any, Any]]) -> Plant:
    """Change what a rank gets from either side, `forward` or `backward`."""

    def plant(rank: int) -> None:
        sound, sound_way = spatial.trade, getattr(spatial._Halo, way)

        def go(*arguments: Any) -> Any:
            change(spatial, "trade", lambda _: lambda *rows: make(*sound(*rows)))
            try:
                return sound_way(*arguments)
            finally:
                change(spatial, "trade", lambda _: sound)

        change(spatial._Halo, way, lambda _: staticmethod(go))

    return plant


def _swap_sides(before: Any, after: Any) -> tuple[Any, Any]:
    """Where there are as many rows on both."""
    return (after, before) if before.shape == after.shape else (before, after)


def _drop(before: Any, after: Any) -> tuple[Any, Any]:
    return torch.zeros_like(before), torch.zeros_like(after)


def count_slabs(is_counted: Callable[[int, bool], bool]) -> Plant:
    """Decide otherwise whose gradients are parts of the sum."""

    def make(sound: Any) -> Any:
        return lambda self, name: is_counted(self.communicator.rank, sound(self, name))

    return lambda _: change(Spatial, "is_counted", make)


def take_others(rank: int) -> None:
    """One rank's slabs are of other samples."""

    def make(sound: Any) -> Any:
        return lambda order, batch, **which: sound(order[::-1].copy(), batch, **which)

    if rank == 1:
        change(samplers, "share", make)


def weigh_micro_batches(weigh: Callable[[int, int], float]) -> Plant:
    """Scale the loss of each micro-batch, by its number and by how many there are in a step."""

    def plant(rank: int) -> None:
        number = 0

        def make(sound: Any) -> Any:
            def lose(self: Pipelined, output: Any, target: Any) -> Any:
                nonlocal number
                number += 1
                parts = self.member.parts
                return sound(self, output, target) * weigh((number - 1) % parts, parts)

            return lose

        change(Pipelined, "lose", make)

    return plant


def hand_back_nothing(rank: int) -> None:
    """Gradients of what was handed over are zeros."""

    def make(sound: Any) -> Any:
        def get(self: Any, chunk: int) -> Any:
            operations = sound(self, chunk)
            for one in operations:
                one.tensor.zero_()
            return operations

        return get

    change(CountedStage, "get_bwd_send_ops", make)


def hand_over_the_last(rank: int) -> None:
    """Each micro-batch but the first is handed over as the one before."""

    def make(sound: Any) -> Any:
        return lambda self, chunk: sound(self, max(0, chunk - 1))

    change(CountedStage, "get_fwd_send_ops", make)


def keep_stage(rank: int) -> None:
    """What one rank's stage is never moves."""
    if rank == 1:
        change(Pipelined, "before_step", lambda _: lambda self: self.member.drop_gradients())


def leave_ties_out(rank: int) -> None:
    change(Pipelined, "before_step", lambda _: lambda self: None)


PLANTS: dict[str, Plant] = {
    "one rank's part stale": keep_part,
    "boundaries of parts shifted": shift_parts,
    "parameters gathered once for all": gather_once,
    "a micro-batch dropped": weigh_micro_batches(lambda number, _: float(number > 0)),
    "micro-batches added up and not averaged": weigh_micro_batches(lambda _, parts: float(parts)),
    "no gradients handed back": hand_back_nothing,
    "the micro-batch before handed over": hand_over_the_last,
    "one rank's stage stale": keep_stage,
    "gradients of tied weights apart": leave_ties_out,
    "halo of the other side": change_halo("forward", _swap_sides),
    "halo of zeros": change_halo("forward", _drop),
    "gradient of the halo dropped": change_halo("backward", _drop),
    "dense gradient counted by every rank": count_slabs(lambda _, __: True),
    "one rank's slab left out of the sum": count_slabs(lambda rank, is_own: is_own and rank != 1),
    "other samples on one rank": take_others,
}
