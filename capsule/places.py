"""Where a run and its capsule lie: free before anything runs, and there whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from capsule.errors import ExecutionError, UsageError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def check(*, output: Path | None, work: Path | None = None, flag: str = "--output") -> None:
    """Stop before a day of measuring rather than after it, if what comes of it has no place.

    Args:
        output: The capsule to write, None for a new name in the current folder.
        work: The run folder to make, None for a new name in the current folder.
        flag: By which the output is named.

    Raises:
        UsageError: Something lies there already, or there is no such folder.
        ExecutionError: The folder cannot be written.
    """
    if output is not None and os.path.lexists(output):
        raise UsageError(
            "exists already, and nothing is written over it",
            where=str(output),
            advice=f"name another file with {flag}, or move that one away",
        )
    if work is not None and os.path.lexists(work):
        raise UsageError(
            "the run folder exists already",
            where=str(work),
            advice="go on with it by --resume, or name another one with --work",
        )
    if output is not None and work is not None and output.absolute() == work.absolute():
        raise UsageError(f"{flag} and --work name the same place", where=str(output))
    folder = output.parent if output else Path()
    if not folder.is_dir():
        raise UsageError(
            f"there is no such folder to write {output or 'a capsule'} in",
            where=str(folder),
            advice=f"make it, or name another place with {flag}",
        )
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ExecutionError(
            f"no capsule can be written here: {error.strerror}",
            where=str(folder.absolute()),
            advice=f"name another place with {flag}",
        ) from None


def refuse_inside(output: Path, folder: Path) -> None:
    """Stop where a capsule would lie in the folder of its own run, and be removed with it.

    Raises:
        UsageError: It would.
    """
    if folder.resolve() in output.absolute().resolve().parents:
        raise UsageError(
            "the folder of the run is removed once it is sealed, and the capsule would be with it",
            where=str(output),
            advice="name another place for the capsule",
        )


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name when it is whole, and is removed when it is not.

    Raises:
        ExecutionError: It cannot be written.
    """
    # its own name: what a killed process left must not be in the way of the next one
    partial = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        yield partial
        partial.rename(folder)
    except ExecutionError as error:
        raise _failure(error.what, folder) from None
    except OSError as error:
        where = folder if error.errno in _NO_SPACE else error.filename or folder
        raise _failure(f"cannot write: {error.strerror}", where) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _failure(fault: str, where: object) -> ExecutionError:
    return ExecutionError(
        f"the run folder cannot be made: {fault}",
        where=str(where),
        advice="free some space or choose another folder with --work; nothing has run yet",
    )
