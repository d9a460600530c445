"""Find the event files of one run in what a workload left, and lay out the scalars in them.

Their names hold the host's, and beside numbers they hold graphs, images and texts with its paths:
none of that is sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capsule import extraction, leavings
from capsule.execute.log import cannot_write
from capsule.execute.reports import writable
from capsule.sizes import size

_MARK = "tfevents"
_MOST_NAMES, _MOST_DEPTH, _SHOWN = 10_000, 16, 5


class NoEventsError(Exception):
    """There are no event files of one run, or more than are read."""


def lay_out(out: Path, name: str, target: Path) -> None:
    """Write the scalars of one run's event files, as they will be sealed.

    Args:
        out: The folder that the workload could write.
        name: Path below it, of an event file or of a folder.
        target: Is written.

    Raises:
        NoEventsError: Says what is there instead.
        ExecutionError: The file cannot be written.
    """
    pieces, left = [], extraction.MOST_BYTES
    for path in _find(out, name):
        stream = leavings.open_below(out, path)
        if stream is None:
            continue
        with stream:
            piece = stream.read(left + 1)
        left -= len(piece)
        if left < 0:
            raise NoEventsError(
                f"the event files of {name} exceed {size(extraction.MOST_BYTES)}, the most that"
                " capsule searches; write scalars to a separate folder"
            )
        try:
            pieces.append(extraction.keep_scalars(piece))
        except extraction.TooManyError as error:
            raise NoEventsError(f"the event files of {name} have {error}") from None
    try:
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(b"".join(pieces))
    except OSError as error:
        raise cannot_write(target, error) from None


def _find(out: Path, name: str) -> list[str]:
    """Return the event files of one run in the order in which TensorBoard reads them: of their
    names.

    Raises:
        NoEventsError: There are none, or of several runs.
    """
    if (stream := leavings.open_below(out, name)) is not None:
        stream.close()
        return [name]
    runs = dict(_walk(out, name))
    if name in runs:
        return runs[name]
    if not runs:
        message = f"no event files in folder {name} of the output folder {{out}}"
        raise NoEventsError(message)
    if len(runs) > 1:
        names = ", ".join(writable(run) for run in sorted(runs)[:_SHOWN])
        raise NoEventsError(
            f"expected one folder with event files below {name}, found {len(runs)}: {names}"
        )
    return runs.popitem()[1]


def _walk(out: Path, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder with event files, at or below one, and their sorted paths."""
    folders, seen = [(name, 0)], 0
    while folders:
        folder, depth = folders.pop()
        try:
            names = leavings.list_below(out, folder, _MOST_NAMES - seen)
        except OSError:
            continue
        seen += len(names)
        if seen >= _MOST_NAMES:
            raise NoEventsError(
                f"{name} contains {_MOST_NAMES} files and folders or more, too many to search;"
                " write event files to a separate folder"
            )
        logs = (one for one, is_folder in names if _MARK in one and not is_folder)
        files = sorted(f"{folder}/{one}" for one in logs)
        if files:
            yield folder, files
        if depth < _MOST_DEPTH:
            folders += [(f"{folder}/{one}", depth + 1) for one, is_folder in names if is_folder]
