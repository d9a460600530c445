"""Reports of a command's ranks on the world they formed: untrusted input, parsed and judged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from capsule import leavings, plain
from capsule.manifest import Command
from capsule.starts import DECLARED, INDEPENDENT, JOINED, NOT_SEEN, seen_by

_MOST_BYTES = 1 << 18
_MOST_WORLDS = 1000
_LIBRARIES = ("torch", "mpi4py", "jax", "tensorflow")
# it makes a world of one when it is imported, whatever the program does with it
_ON_IMPORT = "mpi4py"
_SHOWN = 8
_LONGEST = 100


@dataclass(frozen=True, kw_only=True)
class Made:
    """A world as a library showed it to a process, at once after it was made.

    Attributes:
        by: Name of the library.
        rank: Own number there.
        ranks: Number of ranks.
        token: A word that all ranks of this world share and no other world has; empty for none.
    """

    by: str
    rank: int
    ranks: int
    token: str = ""


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """Report of the processes of one rank.

    Attributes:
        has_python: True if a Python began in which worlds are noted.
        made: The worlds, in order.
    """

    has_python: bool = False
    made: tuple[Made, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Judgement of the world of all ranks.

    Attributes:
        world: As an attempt has it.
        fault: Why it is not the world that was planned, empty where it may be.
    """

    world: str
    fault: str = ""


def read(path: Path) -> Sighting:
    """Read the reports of one rank's processes from a file; other lines are ignored."""
    stream = leavings.open_file(path)
    if stream is None:
        return Sighting()
    with stream:
        # a line that a kill cut off is none
        lines = stream.read(_MOST_BYTES).split(b"\n")[:-1]
    has_python, made = False, []
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(entry, dict):
            continue
        has_python = has_python or "python" in entry
        rank, ranks, by = entry.get("rank"), entry.get("ranks"), entry.get("world")
        if by in _LIBRARIES and type(rank) is int and type(ranks) is int:
            token = plain.clean(str(entry.get("token", "")))[:_LONGEST]
            made.append(Made(by=by, rank=rank, ranks=ranks, token=token))
    return Sighting(has_python=has_python or bool(made), made=tuple(made[:_MOST_WORLDS]))


def find_whole(sightings: Sequence[Sighting]) -> list[str]:
    """Return the libraries by which every rank was in one world of all of them."""
    return [by for by in _LIBRARIES if _is_whole(by, sightings)]


def judge(sightings: Sequence[Sighting], command: Command, *, joined: bool) -> Finding:
    """Judge whether a command's ranks formed the planned world.

    Args:
        sightings: Sightings of every rank, by rank.
        command: What they ran.
        joined: True if each needs MPI of the family of a launcher that was seen to join as many.
    """
    whole = find_whole(sightings)
    if whole and command.ranks_independent:
        return Finding(world=seen_by(whole))
    if not command.ranks_independent:
        fault = next(_contradictions(sightings, has_whole=bool(whole)), "")
        if fault or whole:
            return Finding(world=seen_by(whole) if whole else NOT_SEEN, fault=fault)
    if joined:
        return Finding(world=JOINED)
    if command.declares_world:
        return Finding(world=DECLARED)
    if command.ranks_independent:
        return Finding(world=INDEPENDENT)
    return Finding(world=NOT_SEEN, fault=_explain_absence(sightings))


def _is_whole(by: str, sightings: Sequence[Sighting]) -> bool:
    """Return whether every rank was in one world of all of them, by one library."""
    ranks = len(sightings)
    own = [(rank, one) for rank, each in enumerate(sightings) for one in each.made if one.by == by]
    if {one.ranks for _, one in own} != {ranks} or next(_find_two(by, own, ranks), None):
        return False
    everybody = set(range(ranks))
    return {rank for rank, _ in own} == everybody == {one.rank for _, one in own}


def _contradictions(sightings: Sequence[Sighting], *, has_whole: bool) -> Iterator[str]:
    """Yield ways in which a world is another one than was planned."""
    ranks = len(sightings)
    for by in _LIBRARIES:
        worlds = [(rank, one) for rank, each in enumerate(sightings) for one in each.made]
        own = [(rank, one) for rank, one in worlds if one.by == by]
        sizes = {one.ranks for _, one in own}
        if by == _ON_IMPORT and sizes == {1} and has_whole:
            continue
        for rank, one in own:
            if one.ranks != ranks:
                size = f"{one.ranks} rank{'s' * (one.ranks != 1)}"
                yield f"rank {rank} is in a world of {size} by {by}, expected {ranks} ranks"
        yield from _find_two(by, own, ranks)


def _find_two(by: str, own: Sequence[tuple[int, Made]], ranks: int) -> Iterator[str]:
    """Yield worlds of the right size that are not one."""
    present = {rank for rank, _ in own}
    members: dict[str, set[int]] = {}
    for rank, one in own:
        if one.token:
            members.setdefault(one.token, set()).add(rank)
    apart = next((each for each in members.values() if len(members) > 1 and each != present), None)
    if apart is not None:
        yield (
            f"{_name(sorted(apart))} and {_name(sorted(present - apart))} are in two separate"
            f" worlds of {ranks} ranks by {by}, expected one world"
        )
    numbers: dict[tuple[str, int], int] = {}
    for rank, one in own:
        first = numbers.setdefault((one.token, one.rank), rank)
        if first != rank:
            yield (
                f"ranks {first} and {rank} both have number {one.rank} by {by}: these ranks are in"
                f" two separate worlds of {ranks} ranks"
            )


def _explain_absence(sightings: Sequence[Sighting]) -> str:
    """Return why no world, or only part of one, means that there was none; empty where it does
    not.
    """
    without = [n for n, each in enumerate(sightings) if each.has_python and not each.made]
    if any(each.made for each in sightings):
        if not without:
            return ""
        return f"{_name(without)} formed no world, but other ranks formed a world"
    if len(without) < len(sightings):
        return ""
    return (
        f"none of the {len(sightings)} ranks formed a world (torch.distributed, mpi4py,"
        " jax.distributed or MultiWorkerMirroredStrategy), so each probably did all of the work"
        ' alone; beside "command", write "ranks_independent": true if the ranks are meant to be'
        ' separate, or "world": "declared" if they form a world by other means'
    )


def _name(ranks: Sequence[int]) -> str:
    """Return ranks by their numbers, of many the first few."""
    shown = ", ".join(map(str, ranks[:_SHOWN]))
    more = f" and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
