"""Write the capsule of a run, once, and remove its run folder."""

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
from capsule.sizes import size
from capsule.trust import ledger
from capsule.trust.privacy import Privacy, summary
from capsule.watch import SILENT, Watch


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """The capsule that a call sealed.

    Attributes:
        path: File of the capsule.
        id: Id of the capsule, 64 hex digits.
        record: Data in the capsule.
    """

    path: Path
    id: str
    record: Record

    @property
    def failures(self) -> tuple[Attempt, ...]:
        """Return the failed attempts, which capsule seals like all other attempts."""
        return tuple(one for one in self.record.attempts if one.outcome == "failed")

    def line_counts(self) -> dict[str, tuple[int, int]]:
        """Count the matching lines of each metric that capsule reads from its last matching line.

        Returns:
            By metric, the smallest and the largest count per attempt among the first 100
            completed attempts; empty if the capsule has no such metric.
        """
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
    """Warn about possibly private text in the files that a run will carry, before it starts.

    Args:
        inputs: File of each input and embedded dataset, by its path below `data/`.
        options: Options of the run; `strict_privacy` turns a finding into an error.
        watch: Receiver of the findings.

    Raises:
        UsageError: Something is possibly private, and `strict_privacy` is set.
    """
    keep_hosts = not isinstance(options, ResumeOptions) and options.keep_hosts
    findings = Privacy(keep_hosts=keep_hosts).scan_inputs(inputs)
    if findings and options.strict_privacy:
        raise UsageError(
            f"not started, possibly private: {summary(findings)}",
            advice="remove the private text from the inputs, or leave --strict-privacy out",
        )
    if findings:
        watch.private(list(map(str, findings)))


def target(run: Session | CutOff, output: Path | None) -> Path:
    """Return the file name of the capsule to write; by default one made from the run's name.

    A verification gets another ending, so that `NAME-*.capsule.zip` matches the original alone.
    """
    kind = "verification" if original_id(run.setup.origin) else "capsule"
    usual = f"{run.plan.manifest.name}-{run.setup.uuid[:8]}.{kind}.zip"
    return output or Path(usual)


def complete(run: CutOff, target: Path, watch: Watch, *, own: bool) -> Sealed | None:
    """Finish a run that was killed after its capsule was sealed and before its folder was removed.

    Returns:
        The capsule that this run sealed; None if it sealed none.
    """
    sealed = recover(run, target)
    if sealed is not None:
        leave([sealed], run.workspace.folder, watch, own=own)
    return sealed


def recover(run: Session | CutOff, *targets: Path) -> Sealed | None:
    """Return the capsule that this run sealed earlier at one of these places, or None.

    Also remove the draft that a kill right after sealing may have left.
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
    """Check before anything is measured that the capsule can be written to its place.

    Raises:
        UsageError: A file already exists there, or the place is inside the run folder.
        ExecutionError: The target's folder is not writable.
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
        execution: Samples, logs and evidence of the run.
        record: Data to seal.
        target: File name of the capsule.
        strict_privacy: True to refuse to seal possibly private text.
        watch: Receiver of findings, and of a failure to list the capsule.

    Raises:
        UsageError: The target exists by now; it is not overwritten.
        DamagedError: An input that the run copied at its start has changed.
        ExecutionError: The capsule cannot or must not be written; the run folder stays.
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
    """Write the capsule; arguments and errors are those of `seal`."""
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
            f"not sealed, possibly private: {summary(findings)}",
            where=str(workspace.to_resume),
            advice="all measurements are kept: edit the logs, or leave --strict-privacy out, then"
            " continue with --resume",
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
    """Check the total size of the logs before reading them: a sparse file can claim any size.

    Raises:
        ExecutionError: The logs together are larger than a capsule may carry.
    """
    # what is gone meanwhile is told where it is read
    sizes = {str(one.source): leavings.size_bytes(one.source) for one in execution.logs}
    if sum(sizes.values()) > MOST_LOG_BYTES:
        raise ExecutionError(
            f"the logs are too large: found {size(sum(sizes.values()))} in all, expected at most"
            f" {size(MOST_LOG_BYTES)}",
            where=max(sizes, key=sizes.__getitem__),
            advice="all measurements are kept: shorten this log, the largest, then continue with"
            " --resume",
        )


def _require_readable(record: Record, target: Path) -> None:
    """Check that the capsule can be read again, before it replaces the run folder."""
    try:
        reading.require(record, where=str(target))
    except DamagedError as error:
        raise BugError(f"the new capsule would be unreadable: {error.what}") from error


def leave(sealed: Sequence[Sealed], folder: Path, watch: Watch, *, own: bool) -> None:
    """List capsules as this user's own if `own`, and remove their run folder."""
    try:
        for one in sealed:
            if own and (fault := ledger.add(one.id)):
                watch.note(fault)
    finally:
        places.discard(folder)


def _aim(run: Session | CutOff) -> Path | None:
    """Return the target of an earlier, interrupted sealing of this run."""
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
    """Note the target, so that a resumed run with another target does not seal twice."""
    before = _aim(session)
    if before is not None:
        archive.draft(before, session.setup.uuid).unlink(missing_ok=True)
    note = json.dumps({"target": str(target.absolute())})
    write_durably(session.workspace.sealing, note.encode())
