"""Seal a record and its files into one zip, which is there whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedRandom
from pathlib import Path
from typing import NamedTuple

from capsule.archive import (
    bag,
    codec,
    crate,
    derived,
    escapes,
    limits,
    names,
    predecessors,
    reader,
    readme,
)
from capsule.archive.container import CHUNK, ZipWriter
from capsule.archive.crate import Payload
from capsule.archive.limits import MOST_BYTES
from capsule.digest import Digest
from capsule.errors import BugError, DamagedError, ExecutionError, UsageError
from capsule.record import File, Record
from capsule.sizes import size

# every digest has this length: a crate drafted with it has the size of the final one
_ANY = Digest(hex="0" * 64)
_CRATE = bag.PAYLOAD + crate.NAME


class _Content(NamedTuple):
    """A file below `data/`.

    Attributes:
        name: Its path there, as people call it.
        source: Its bytes, or where they are.
        digest: What they have to be, None for whatever they are.
    """

    name: str
    source: bytes | Path
    digest: Digest | None = None


def write(record: Record, files: Sequence[File], target: Path) -> str:
    """Seal a capsule: the same record and files make the same bytes.

    It is written under another name in the target's folder, read back by the strict reader, and
    gets its own at the end, in a step that replaces nothing.

    Args:
        record: What the capsule states.
        files: What it carries besides: `inputs/...`, `levels/...`, `logs/...` and
            `evidence/...` below `data/`, by the names that their authors gave them.
        target: The capsule file.

    Returns:
        The capsule's id: 64 hex digits.

    Raises:
        UsageError: A file has a name that a capsule cannot hold, or the target exists.
        DamagedError: A file is no longer what its digest says.
        ExecutionError: A file cannot be read, or the target not be written, for example on a full
            disk; there is no target then.
    """
    contents = _contents(record, files)
    partial = draft(target, record.uuid)
    try:
        # what a killed process left; the run is locked, so that no other process writes it
        partial.unlink(missing_ok=True)
        # its mode is what the umask leaves
        handle = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise _unwritable(error, target) from None
    try:
        with os.fdopen(handle, "w+b") as file:
            _fill(file, record, contents)
            os.fsync(file.fileno())
        capsule_id = _read_back(partial)
        _name(partial, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise _unwritable(error, target) from None
    finally:
        partial.unlink(missing_ok=True)
    return capsule_id


def rehearse(record: Record) -> None:
    """Stop before anything is measured, if what is known of a record could not be sealed.

    Raises:
        DamagedError: It is of another form than a record's documents have, or more than is read.
    """
    budget, where = limits.Budget(), "the record"
    try:
        documents = codec.state(record) | predecessors.documents(record)

        def load(name: str) -> Iterator[bytes]:
            return iter((documents[name],))

        codec.read(tuple(documents), load, where=where, budget=budget)
        if record.predecessor is not None:
            predecessors.read(record, tuple(documents), load, where=where, budget=budget)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"cannot write the record: {error!r}"[:500]) from None


def draft(target: Path, uuid: str) -> Path:
    """Return the path at which a run's capsule is written before it gets its name."""
    return target.with_name(f".{target.name}.{uuid[:8]}.capsule.partial")


def change_error(name: str, path: Path) -> DamagedError:
    """Return the error of a file that a run copied, and that is no longer what it was then."""
    return DamagedError(
        f"{name} was changed or removed since the run began",
        where=str(path),
        advice="restore the file and continue with --resume, or start a new run",
    )


def _name(partial: Path, target: Path) -> None:
    """Give a whole capsule its name, which nothing may have by then.

    Raises:
        UsageError: Something has it.
        OSError: The folder cannot be written.
    """
    try:
        # unlike a renaming, a link replaces nothing
        os.link(partial, target)
    except FileExistsError:
        raise _existence_error(target) from None
    except OSError:
        # this file system has no links
        if os.path.lexists(target):
            raise _existence_error(target) from None
        partial.rename(target)


def _existence_error(target: Path) -> UsageError:
    return UsageError(
        "already exists, and is not overwritten",
        where=str(target),
        advice="name another file with --output, or move the existing file away",
    )


def _contents(record: Record, files: Sequence[File]) -> dict[str, _Content]:
    """Return the contents below `data/`, by path in the bag, without the crate."""
    check_names(bag.PAYLOAD + file.path for file in files)
    try:
        stated = codec.documents(record) | predecessors.documents(record)
        carried = {file.path: file.digest for file in files}
        stated[readme.NAME] = b"".join(readme.build(record, carried))
    except (ValueError, KeyError) as error:
        raise BugError(f"cannot write the record: {error!r}") from error
    _require_readable(samples=stated[codec.SAMPLES], attempts=stated[codec.ATTEMPTS])
    contents = {path: _Content(name=path, source=document) for path, document in stated.items()}
    for file in files:
        if file.path in contents or not file.path.startswith(derived.CARRIED):
            raise BugError(f"unexpected file in a capsule: {file.path}")
        contents[file.path] = _Content(name=file.path, source=file.source, digest=file.digest)
    stored = escapes.encode([path for path in contents if path.startswith(escapes.FOLDERS)])
    return {bag.PAYLOAD + stored.get(path, path): one for path, one in contents.items()}


def _require_readable(*, samples: bytes, attempts: bytes) -> None:
    """Stop where a workload reported more than readers take: how much was not known before."""
    budget, where = limits.Budget(), "the capsule of this run"
    try:
        budget.spend_lines(samples, limits.LINE_BYTES, where=where)
        budget.spend_lines(attempts, limits.ATTEMPT_BYTES, where=where)
        limits.require_short_lines(samples, where=where)
    except DamagedError as error:
        raise ExecutionError(
            error.what,
            where=where,
            advice="report fewer values, for example every tenth step, and start a new run",
        ) from None


def check_names(paths: Iterable[str]) -> None:
    """Stop before a day of measuring rather than after it, if files could not be sealed.

    Args:
        paths: Where files would lie in the capsule, from `data/` on, by the names that their
            authors gave them.

    Raises:
        UsageError: Names the files.
        CannotRunError: In this locale it is not known what names are.
    """
    below = [path.removeprefix(bag.PAYLOAD) for path in sorted(paths)]
    named = [path for path in below if path.startswith(escapes.FOLDERS)]
    escapes.require_locale(named)
    faults = list(escapes.faults(named))
    others = [bag.PAYLOAD + path for path in below if not path.startswith(escapes.FOLDERS)]
    faults += [f"{path!r}: {fault}" for path in others if (fault := names.fault(path))]
    faults += names.clashes(others)
    if faults:
        raise UsageError(
            f"a capsule cannot contain these file names: {'; '.join(faults[:10])}",
            advice="rename the files, or `exclude` those that the benchmark does not need",
        )


def _fill(file: BufferedRandom, record: Record, contents: Mapping[str, _Content]) -> None:
    sizes = {path: _size(one.source) for path, one in contents.items()}
    if sum(sizes.values()) > MOST_BYTES:
        raise ExecutionError(
            f"the capsule would have {size(sum(sizes.values()))}, mostly logs; the limit is"
            f" {size(MOST_BYTES)}",
            advice="shorten the logs in the run folder, then continue with --resume",
        )

    def describe(path: str, file_digest: Digest) -> Payload:
        return Payload(
            path=path.removeprefix(bag.PAYLOAD),
            name=contents[path].name,
            size_bytes=sizes[path],
            digest=file_digest,
        )

    paths = sorted(contents)
    draft = crate.build(record, lambda: (describe(path, _ANY) for path in paths))
    crate_bytes = sum(map(len, draft))
    info = bag.info(
        record,
        payload_bytes=sum(sizes.values()) + crate_bytes,
        payload_files=len(contents) + 1,
    )
    archive = ZipWriter(file)

    def add(name: str, data: bytes) -> Digest:
        return archive.add(name, len(data), [data])

    tags = {bag.INFO: add(bag.INFO, info), bag.BAGIT: add(bag.BAGIT, bag.DECLARATION)}
    payload: dict[str, Digest] = {}
    for path in paths:
        one = contents[path]
        payload[path] = archive.add(path, sizes[path], _chunks(one.source))
        if isinstance(one.source, Path) and one.digest not in (None, payload[path]):
            raise change_error(one.name, one.source)
    described = crate.build(record, lambda: (describe(path, payload[path]) for path in paths))
    payload[_CRATE] = archive.add(_CRATE, crate_bytes, described)
    tags[bag.MANIFEST] = add(bag.MANIFEST, bag.manifest(payload))
    add(bag.TAG_MANIFEST, bag.manifest(tags))
    archive.finish()


def _size(source: bytes | Path) -> int:
    if isinstance(source, bytes):
        return len(source)
    try:
        return source.stat().st_size
    except OSError as error:
        raise _unreadable(error, source) from None


def _chunks(source: bytes | Path) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    try:
        with source.open("rb", buffering=0) as stream:
            while chunk := stream.read(CHUNK):
                yield chunk
    except OSError as error:
        raise _unreadable(error, source) from None


def _read_back(partial: Path) -> str:
    try:
        with reader.read(partial) as capsule:
            return capsule.id
    except DamagedError as error:
        raise BugError(f"the new capsule is unreadable: {error}") from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unreadable(error: OSError, source: Path) -> ExecutionError:
    return ExecutionError(
        f"cannot read for sealing: {error.strerror}",
        where=str(source),
        advice="make the file readable, then continue with --resume",
    )


def _unwritable(error: OSError, target: Path) -> ExecutionError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ExecutionError(
            "no space left on the disk: nothing was sealed, all measurements are kept",
            where=str(target),
            advice="free some space, or name a file on another disk with --output, then continue"
            " with --resume",
        )
    return ExecutionError(
        f"cannot write the capsule: {error.strerror}",
        where=str(target),
        advice="name a file in a writable folder with --output, then continue with --resume",
    )
