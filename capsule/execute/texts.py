"""Read a command's metrics where the manifest says that they are: in what it printed, in its files.

A number is read from the text as it will be sealed, without the paths of this machine: whoever has
the capsule reads the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from capsule import extraction, leavings
from capsule.execute import eventfiles
from capsule.execute.reports import Series, Text, TrialReport, writable
from capsule.execute.workspace import RankFiles
from capsule.extraction import MOST_BYTES, Extract, Value
from capsule.localpaths import LocalPaths
from capsule.manifest import commands
from capsule.manifest.sources import OUT, SCALARS, Source
from capsule.plan import Trial

RESULTS = f"{OUT}results.jsonl"
"""The name of what a command reports by our protocol, as a text."""
_STREAMS = ("stdout", "stderr")
_NAMES, _LONGEST = 10, 80


def read(
    files: RankFiles, trial: Trial, paths: LocalPaths, *, ended_well: bool, rank: int
) -> TrialReport:
    """Read the metrics of a trial that say where they are.

    Args:
        files: What one rank left. The scalars of its event files are laid out beside it, as they
            will be sealed.
        trial: The trial, whose benchmark declares the metrics.
        paths: Paths of this machine, which are not sealed.
        ended_well: True if the command ended with exit code 0; of one that did not, nothing is
            read: what it would still have printed is not known.
        rank: Whose files.
    """
    sources = _select(trial, rank)
    if not ended_well or not sources:
        return TrialReport(trial=trial.id, outcome="completed" if ended_well else None)
    extract = _extract(files, sources, paths)
    return TrialReport(
        trial=trial.id,
        outcome="failed" if extract.reason else "completed",
        reason=extract.reason,
        message=extract.message or "\n".join(extract.notes),
        series=tuple(_series(name, values, rank) for name, values in extract.values.items()),
    )


def find_echoes(
    files: Sequence[RankFiles], trial: Trial, paths: LocalPaths, series: Sequence[Series]
) -> Iterator[str]:
    """Yield metrics of the whole trial whose value another rank than the first has, too: a
    sentence each.

    Args:
        files: What each rank left, by rank.
        trial: The trial, whose benchmark declares the metrics.
        paths: Paths of this machine, which are not sealed.
        series: What was read of the first rank.
    """
    shared = [one for one in trial.benchmark.due(trial.framework) if one.per != "rank"]
    own = {one.metric: one.values for one in series if one.rank == 0}
    left = {one.name: one for one in shared if own.get(one.name)}
    for rank, other in enumerate(files[1:], start=1):
        values = commands.name_values(trial.case, trial=trial.id, seed=trial.seed, rank=rank)
        for name, source in extraction.select(list(left.values()), 0, values).items():
            found = _extract(other, {name: source}, paths).values.get(name, ())
            if tuple(one.value for one in found) == own[name]:
                del left[name]
                yield (
                    f"{name}: rank {rank} has the same value as rank 0, {own[name][-1]:g}, and"
                    " capsule saw no world of the ranks: each rank may have done all of the work"
                    " alone"
                )


def _extract(files: RankFiles, sources: Mapping[str, Source], paths: LocalPaths) -> Extract:
    """Return metrics out of the texts that one rank left."""
    texts: dict[str, bytes] = {}
    absent: dict[str, str] = {}
    for name in {source.text for source in sources.values()}:
        try:
            if name.endswith(SCALARS):
                eventfiles.lay_out(files.out, _folder(name), _path(files, name))
        except eventfiles.NoEventsError as error:
            absent[name] = str(error)
            continue
        text = _load(files, name, paths)
        if text is not None:
            texts[name] = text
        elif name.startswith(OUT):
            beside = ", ".join(_list(files.out)) or "nothing"
            shown = extraction.describe(name)
            absent[name] = (
                f"no file {shown} in the output folder {{out}}; the folder contains {beside}"
            )
    return extraction.extract(
        sources, texts, absent=absent, load=lambda name: _load(files, name, paths)
    )


def find(files: RankFiles, trial: Trial, rank: int, *, reported: bool) -> Iterator[Text]:
    """Yield the texts of one rank that a capsule keeps as evidence, as far as they are there.

    Args:
        files: What the rank left, after `read`.
        trial: The trial, whose benchmark declares the metrics.
        rank: Whose files.
        reported: True if what it reported by our protocol is to be kept too.
    """
    # the streams in any case: a corrected manifest may find its numbers there
    names = {source.text for source in _select(trial, rank).values()} | set(_STREAMS)
    names |= {RESULTS} if reported else set()
    for name in sorted(names):
        stream = _open(files, name)
        if stream is None:
            continue
        with stream:
            size_bytes = stream.seek(0, os.SEEK_END)
        # a stream is sealed whatever its size, where it holds anything
        if size_bytes > 0 if name in _STREAMS else size_bytes <= MOST_BYTES:
            yield Text(name=name, rank=rank, path=_path(files, name))


def _select(trial: Trial, rank: int) -> dict[str, Source]:
    values = commands.name_values(trial.case, trial=trial.id, seed=trial.seed, rank=rank)
    return extraction.select(trial.benchmark.due(trial.framework), rank, values)


def _load(files: RankFiles, name: str, paths: LocalPaths) -> bytes | None:
    stream = _open(files, name)
    if stream is None:
        return None
    with stream:
        return extraction.take(paths.clean_stream(stream))


def _open(files: RankFiles, name: str) -> BinaryIO | None:
    if name in _STREAMS or name.endswith(SCALARS):
        return leavings.open_file(_path(files, name))
    return leavings.open_below(files.out, name.removeprefix(OUT))


def _path(files: RankFiles, name: str) -> Path:
    if name.endswith(SCALARS):
        # beside the out folder, where no workload is shown it
        return files.folder / "scalars" / _folder(name).replace("/", "%")
    streams = {"stdout": files.stdout, "stderr": files.stderr}
    return streams.get(name, files.folder / name)


def _folder(name: str) -> str:
    """Return the path below the out folder of event files, by the name of their text."""
    return name.removeprefix(OUT).removesuffix(SCALARS)


def _list(folder: Path) -> list[str]:
    """Return some names in a folder, which may hold any number."""
    try:
        with os.scandir(folder) as listing:
            names = sorted(writable(entry.name) for entry in islice(listing, _NAMES))
    except OSError:
        return []
    return [name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..." for name in names]


def _series(name: str, values: tuple[Value, ...], rank: int) -> Series:
    steps = tuple(value.step for value in values if value.step is not None)
    return Series(
        metric=name,
        rank=rank,
        warmup=0,
        values=tuple(value.value for value in values),
        steps=steps or None,
    )
