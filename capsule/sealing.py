"""The capsule of a run: where it is written, and that it is sealed once."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from capsule import archive, earlier, places, reading
from capsule.errors import BugError, CapsuleError, DamagedError
from capsule.execute import payload
from capsule.origin import original_id
from capsule.record import Attempt, Execution, Record
from capsule.session import Session
from capsule.trust import ledger


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """A capsule that was written.

    Attributes:
        path: The file.
        id: 64 hex digits.
        record: What it states.
    """

    path: Path
    id: str
    record: Record

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """The attempts that failed; they are outcomes, and sealed with the rest."""
        return tuple(one for one in self.record.attempts if one.outcome == "failed")


def target(session: Session, output: Path | None) -> Path:
    """The capsule to write; by default one that is named by the run.

    The name of a verification ends otherwise, so that `NAME-*.capsule.zip` is the original alone.
    """
    kind = "verification" if original_id(session.setup.origin) else "capsule"
    usual = f"{session.plan.manifest.name}-{session.setup.uuid[:8]}.{kind}.zip"
    return output or Path(usual)


def complete(session: Session, target: Path) -> Sealed | None:
    """Finish the sealing of a run that was ended between its capsule and its folder's removal.

    Args:
        session: A run that was taken up again, or a new one.
        target: Where its capsule is to be.

    Returns:
        What this very run had sealed there; None when nothing lies there.

    Raises:
        UsageError: Something else lies there.
        ExecutionError: Its folder cannot be written.
    """
    places.refuse_inside(target, session.workspace.folder)
    if sealed := find(session, target):
        return _leave(session, sealed)
    places.check(output=target)
    return None


def find(session: Session, target: Path) -> Sealed | None:
    """What this very run has sealed there before, if it has."""
    if target.exists():
        with suppress(CapsuleError), reading.read(target) as capsule:
            if capsule.record.uuid == session.setup.uuid:
                return Sealed(path=target, id=capsule.id, record=capsule.record)
    return None


def seal(session: Session, execution: Execution, record: Record, target: Path) -> Sealed:
    """Write the capsule, note it as this user's own, and remove the run folder.

    Raises:
        UsageError: Something lies at the target by now; it is not written over.
        ExecutionError: The capsule cannot be written, and the run folder stays; or it cannot be
            noted as this user's own.
    """
    return _leave(session, write(session, execution, record, target))


def write(session: Session, execution: Execution, record: Record, target: Path) -> Sealed:
    """Write the capsule alone.

    Raises:
        UsageError: Something lies at the target.
        ExecutionError: It cannot be written.
    """
    places.check(output=target)
    _require_readable(record, target)
    files = [*payload.files_to_carry(session.workspace), *execution.logs]
    if session.earlier is not None:
        files += earlier.files(session.earlier, session.workspace.earlier_files)
    capsule_id = archive.write(record, files, target)
    return Sealed(path=target, id=capsule_id, record=record)


def _require_readable(record: Record, target: Path) -> None:
    """Stop before a capsule that nobody could read again replaces the run folder."""
    try:
        reading.require(record, where=str(target))
    except DamagedError as error:
        raise BugError(f"the capsule could not be read again: {error.what}") from error


def _leave(session: Session, sealed: Sealed) -> Sealed:
    try:
        ledger.add(sealed.id)
    finally:
        remove(session.workspace.folder)
    return sealed


def remove(folder: Path) -> None:
    """Remove a run's folder, out of sight in one step: half of it must not be taken up again."""
    rest = folder.with_name(f".{folder.name}.done")
    with suppress(OSError):
        folder.rename(rest)
        shutil.rmtree(rest)
