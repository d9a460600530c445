"""Read how a program was seeded, as hostile input, and compare the runs of several seeds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from capsule import leavings, notes, plain
from capsule.jsons import Json, JsonObject
from capsule.notes import Note
from capsule.plan import Trial

_MOST_BYTES = 1 << 17
_MOST_FUNCTIONS = 100
_LONGEST = 200
_MOST_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The seed of a generator that keeps what a program gives it.

    Attributes:
        function: What took the seed.
        seed: As the program wrote it.
        place: File and line, and the function of a library that was called there.
        process: Name of the process among those of a run.
        turn: Which seed of this place and process it is, from 0.
    """

    function: str
    seed: str
    place: str
    process: str
    turn: int

    @property
    def is_state(self) -> bool:
        """Return whether the program restored a state, perhaps of a generator with another seed."""
        return self.seed.startswith("state ")


@dataclass(frozen=True, kw_only=True)
class Report:
    """Seeds of the Python programs of one rank.

    Attributes:
        replaced: The functions that set a seed, with the first one that each was given.
        kept: Seeds that generators kept.
        is_unused: Whether every process said at its end that it drew from no injected seed.
    """

    replaced: JsonObject
    kept: tuple[Kept, ...] = ()
    is_unused: bool = False


Reported = Sequence[tuple[Trial, Sequence[Report]]]
"""Trials, each with the reports of its ranks."""


def read(path: Path) -> Report | None:
    """Return the report of one rank.

    Args:
        path: The file that `CAPSULE_SEEDING` named: a JSON object a line. Lines that are none are
            left out.

    Returns:
        None where no Python was seeded.
    """
    stream = leavings.open_file(path)
    if stream is None:
        return None
    with stream:
        lines = stream.read(_MOST_BYTES).splitlines()
    if not lines:
        return None
    replaced: dict[str, Json] = {}
    kept: list[Kept] = []
    said: Counter[str] = Counter()
    for entry in filter(None, map(_parse, lines)):
        match entry:
            case {"replaced": str(name), "value": str(seed)} if len(replaced) < _MOST_FUNCTIONS:
                replaced.setdefault(_clean(name), _clean(seed))
            case {
                "kept": str(name),
                "value": str(seed),
                "file": str(file),
                "line": int(line),
                "by": str(by),
                "process": str(process),
                "turn": int(turn),
            }:
                called = f" ({_clean(by)})" if by else ""
                kept.append(
                    Kept(
                        function=_clean(name),
                        seed=_clean(seed),
                        place=f"{_clean(file)}:{line}{called}",
                        process=_clean(process),
                        turn=turn,
                    )
                )
            case {"used": bool(is_used)}:
                said["used" if is_used else "ended"] += 1
            case {"python": str()} | {"forked": True}:
                said["begun"] += 1
    # a process that was killed, or that became another program, has not said
    is_unused = not said["used"] and said["begun"] == said["ended"] > 0
    return Report(replaced=replaced, kept=tuple(kept), is_unused=is_unused)


def _parse(line: bytes) -> JsonObject | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _clean(text: str) -> str:
    return plain.clean(text)[:_LONGEST]


def compare(reported: Reported) -> Iterator[Note]:
    """Yield a note for each benchmark in which a run's seed leaves generators, or all, as they are.

    Args:
        reported: All trials whose programs were seeded.
    """
    benchmarks: dict[str, list[tuple[Trial, Sequence[Report]]]] = {}
    for trial, reports in reported:
        benchmarks.setdefault(trial.benchmark.id, []).append((trial, reports))
    for benchmark, runs in benchmarks.items():
        fixed, varies = _find_fixed(runs)
        seeds = len({trial.seed for trial, _ in runs})
        if fixed:
            shown = tuple((one.function, one.seed, one.place) for one in fixed[:_MOST_SHOWN])
            yield notes.kept_seeds(
                benchmark=benchmark, seeds=seeds, generators=shown, more=len(fixed) - len(shown)
            )
        is_unused = all(report.is_unused for _, reports in runs for report in reports)
        # a generator that keeps the seed which a program has from CAPSULE_SEED uses it, too
        kept = (one for _, reports in runs for report in reports for one in report.kept)
        has_own = varies or (seeds == 1 and not all(one.is_state for one in kept))
        if is_unused and not has_own:
            yield notes.unused_injection(benchmark=benchmark, runs=len(runs))


def _find_fixed(runs: Reported) -> tuple[list[Kept], bool]:
    """Return the first seed of each place that has it in every run, and whether others vary."""
    found: dict[tuple[object, ...], dict[int, set[str]]] = {}
    firsts: dict[tuple[object, ...], Kept] = {}
    for trial, reports in runs:
        for rank, report in enumerate(reports):
            for one in report.kept:
                key = trial.case.name, rank, one.process, one.function, one.place, one.turn
                found.setdefault(key, {}).setdefault(trial.seed, set()).add(one.seed)
                firsts.setdefault(key, one)
    fixed: dict[tuple[str, str], Kept] = {}
    varies = False
    for place, by_seed in found.items():
        if len(set().union(*by_seed.values())) > 1:
            varies = varies or not firsts[place].is_state
        elif len(by_seed) > 1:
            one = firsts[place]
            fixed.setdefault((one.function, one.place), one)
    return list(fixed.values()), varies
