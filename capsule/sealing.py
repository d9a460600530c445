"""The capsule of a run: where it is written, and that it is sealed once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from capsule import archive, earlier, extension, leavings, places, reading
from capsule.archive.limits import MOST_LOG_BYTES
from capsule.errors import BugError, CapsuleError, DamagedError, ExecutionError, UsageError
from capsule.execute import payload
from capsule.execute.workspace import read_file, write_durably
from capsule.extension import Extended
from capsule.interruption import CutOff
from capsule.options import PairOptions, ResumeOptions, RunOptions
from capsule.origin import original_id
from capsule.record import Attempt, Execution, Record
from capsule.schema import parse
from capsule.session import Session
from capsule.trust import ledger
from capsule.trust.privacy import Privacy, summary
from capsule.watch import SILENT, Watch


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

    def line_counts(self) -> dict[str, tuple[int, int]]:
        """Of how many lines the last one gave each metric; empty where nothing is read of texts."""
        if not self.record.manifest.reads_texts:
            return {}
        from capsule.archive import texts

        with suppress(KeyError), ZipFile(self.path) as opened:
            return texts.count_lines(
                self.record.manifest,
                self.record.attempts,
                lambda name: (opened.read(f"data/{name}"),),
            )
        return {}


def check_inputs(
    inputs: Mapping[str, Path], options: RunOptions | PairOptions | ResumeOptions, watch: Watch
) -> None:
    """Tell what may be private in the files that a run will carry, before it is begun.

    Args:
        inputs: Inputs and small data: path below `data/`, and where each lies.
        options: Say whether that is an error.
        watch: Is told.

    Raises:
        UsageError: Something may be, and nothing private is to be sealed.
    """
    keep_hosts = not isinstance(options, ResumeOptions) and options.keep_hosts
    findings = Privacy(keep_hosts=keep_hosts).scan_inputs(inputs)
    if findings and options.strict_privacy:
        raise UsageError(
            f"nothing has run, since this may be private: {summary(findings)}",
            advice="take it out of the inputs, or leave --strict-privacy out",
        )
    if findings:
        watch.private(list(map(str, findings)))


def target(run: Session | CutOff, output: Path | None) -> Path:
    """The capsule to write; by default one that is named by the run.

    The name of a verification ends otherwise, so that `NAME-*.capsule.zip` is the original alone.
    """
    kind = "verification" if original_id(run.setup.origin) else "capsule"
    usual = f"{run.plan.manifest.name}-{run.setup.uuid[:8]}.{kind}.zip"
    return output or Path(usual)


def complete(run: CutOff, target: Path, watch: Watch, *, own: bool) -> Sealed | None:
    """Finish the sealing of a run that was ended between its capsule and its folder's removal.

    Returns:
        What this very run had sealed; None when it was not sealed.
    """
    sealed = recover(run, target)
    if sealed is not None:
        leave([sealed], run.workspace.folder, watch, own=own)
    return sealed


def recover(run: Session | CutOff, *targets: Path) -> Sealed | None:
    """What this very run has sealed before at one of these places, or where it last set out to.

    A kill between the capsule's name and the removal of its draft's is made up for.
    """
    for place in (*targets, _aim(run)):
        if place is None or not place.exists():
            continue
        with suppress(CapsuleError), reading.read(place) as capsule:
            if capsule.record.uuid == run.setup.uuid:
                archive.draft(place, run.setup.uuid).unlink(missing_ok=True)
                return Sealed(path=place, id=capsule.id, record=capsule.record)
    return None


def check(target: Path, folder: Path, *, flag: str = "--output") -> None:
    """Stop before anything is measured, if the capsule has no place.

    Raises:
        UsageError: Something lies there, or it is in the folder of the run.
        ExecutionError: Its folder cannot be written.
    """
    places.refuse_inside(target, folder)
    places.check(output=target, flag=flag)


def seal(
    session: Session,
    execution: Execution,
    record: Record,
    target: Path,
    *,
    strict_privacy: bool = False,
    watch: Watch = SILENT,
) -> Sealed:
    """Write the capsule, list it as this user's own if its code is, and remove the run folder.

    Args:
        session: The run.
        execution: What it left behind.
        record: What is stated of that.
        target: Where its capsule is to be.
        strict_privacy: Seal nothing that may be private.
        watch: Is told what may be, otherwise, and where the capsule could not be listed.

    Raises:
        UsageError: Something lies at the target by now; it is not written over.
        DamagedError: A file that the run copied when it was begun has changed.
        ExecutionError: The capsule cannot or must not be written, and the run folder stays.
    """
    sealed = write(session, execution, record, target, strict_privacy=strict_privacy, watch=watch)
    leave([sealed], session.workspace.folder, watch, own=session.own)
    return sealed


def write(
    session: Session,
    execution: Execution,
    record: Record,
    target: Path,
    *,
    strict_privacy: bool = False,
    watch: Watch = SILENT,
) -> Sealed:
    """Write the capsule alone; arguments and errors are those of `seal`."""
    places.check(output=target)
    _require_readable(record, target)
    _set_aim(session, target)
    workspace = session.workspace
    privacy = Privacy(workspace.folder, keep_hosts=workspace.header.keep_hosts)
    with suppress(FileNotFoundError):
        leavings.remove(workspace.clean_logs)
    _require_room(execution)
    logs, findings = privacy.clean_files(execution.logs, workspace.clean_logs)
    findings += privacy.scan_record(record)
    if findings and strict_privacy:
        raise ExecutionError(
            f"not sealed, since this may be private: {summary(findings)}",
            where=str(workspace.to_resume),
            advice="everything measured is kept: change those logs, or leave --strict-privacy out,"
            " and take up the run with --resume",
        )
    if findings:
        watch.private(list(map(str, findings)))
    files = [*payload.files_to_carry(workspace), *logs]
    if isinstance(session.earlier, Extended):
        files = [*payload.files_to_carry(workspace), *extension.place(logs)]
        files += earlier.carry(session.earlier.capsule, session.workspace.earlier_files)
    elif session.earlier is not None:
        files += earlier.files(session.earlier, session.workspace.earlier_files)
    capsule_id = archive.write(record, files, target)
    return Sealed(path=target, id=capsule_id, record=record)


def _require_room(execution: Execution) -> None:
    """Stop before logs are read that no capsule carries: a file of holes costs a workload nothing.

    Raises:
        ExecutionError: They are too large together.
    """
    # what is gone meanwhile is told where it is read
    sizes = {str(one.source): leavings.size_bytes(one.source) for one in execution.logs}
    if sum(sizes.values()) > MOST_LOG_BYTES:
        raise ExecutionError(
            f"the workloads printed {sum(sizes.values())} bytes, and {MOST_LOG_BYTES} are the most"
            " that a capsule carries",
            where=max(sizes, key=sizes.__getitem__),
            advice="everything measured is kept: shorten that log, and take up the run with"
            " --resume",
        )


def _require_readable(record: Record, target: Path) -> None:
    """Stop before a capsule that nobody could read again replaces the run folder."""
    try:
        reading.require(record, where=str(target))
    except DamagedError as error:
        raise BugError(f"the capsule could not be read again: {error.what}") from error


def leave(sealed: Sequence[Sealed], folder: Path, watch: Watch, *, own: bool) -> None:
    """List capsules as this user's if they are, and remove the folder of what they were made of."""
    try:
        for one in sealed:
            if own and (fault := ledger.add(one.id)):
                watch.note(fault)
    finally:
        places.discard(folder)


def _aim(run: Session | CutOff) -> Path | None:
    """Where the run's capsule was to be written when its sealing began."""
    note = run.workspace.sealing
    if not leavings.is_file(note):
        return None
    # without a container a workload could have written it, and then it names no place of ours
    with suppress(DamagedError):
        match parse(read_file(note), where=str(note)):
            case {"target": str(target)} if "\0" not in target:
                return places.near(Path(target))
    return None


def _set_aim(session: Session, target: Path) -> None:
    """Note where the capsule goes: whoever goes on elsewhere must not seal the run twice."""
    before = _aim(session)
    if before is not None:
        archive.draft(before, session.setup.uuid).unlink(missing_ok=True)
    note = json.dumps({"target": str(target.absolute())})
    write_durably(session.workspace.sealing, note.encode())
