"""What goes wrong where ranks exchange arrays alone; see `ranks_plants`."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from tests.support.ranks_plants import Plant, change


def leave_out(rank: int) -> None:
    """Rank 1 adds nothing to sums."""

    def make(sound: Any) -> Any:
        def all_reduce(flat: Any) -> Any:
            if rank == 1:
                flat.zero_()
            return sound(flat)

        return all_reduce

    change(dist, "all_reduce", make)


def swap_parts(rank: int) -> None:
    """Rank 0 gets what others gave it in another order."""

    def make(sound: Any) -> Any:
        def all_to_all_single(obtained: Any, own: Any) -> None:
            sound(obtained, own)
            if rank == 0:
                obtained.copy_(torch.cat(obtained.chunk(2)[::-1]))

        return all_to_all_single

    change(dist, "all_to_all_single", make)


def repeat_first(rank: int) -> None:
    """Whoever has got something once gets that again, and nothing is exchanged any more."""
    kept: list[Any] = []

    def make(sound: Any) -> Any:
        def broadcast(flat: Any, root: int) -> None:
            if not kept:
                sound(flat, root)
                kept.append(flat.clone())
            elif rank != root:
                flat.copy_(kept[0])

        return broadcast

    change(dist, "broadcast", make)


def lose_last(rank: int) -> None:
    """The last element does not come back."""

    def make(sound: Any) -> Any:
        def recv(flat: Any, peer: int) -> Any:
            source = sound(flat, peer)
            if rank == 0 and len(flat) > 1:
                flat[-1] = 0
            return source

        return recv

    change(dist, "recv", make)


PLANTS: Mapping[str, Plant] = {
    "a part of a sum left out": leave_out,
    "parts in another order": swap_parts,
    "the first result repeated": repeat_first,
    "an element lost on its way": lose_last,
}
