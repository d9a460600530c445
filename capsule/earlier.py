"""An earlier verification whose runs count with a new one's: that they may, and one record of both.

A capsule has every run that it counts, so the last one of a chain stands for all of it.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from capsule import extension, notes, reading, reexecution, summary
from capsule.archive import Capsule
from capsule.diff.changes import SAME_IMAGE, relate_images
from capsule.errors import DamagedError, ExecutionError, UsageError
from capsule.execute import payload
from capsule.extension import Extended
from capsule.manifest import Scalar
from capsule.notes import Note
from capsule.origin import Added, Verification
from capsule.record import Attempt, File, Record, device_order, sample_order
from capsule.resolve import Resolved

_CARRIED = ("evidence", "logs")


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A verification that further runs are added to.

    Attributes:
        capsule: Open, and whole.
        seeds: Its fresh seeds in their order, with those of verifications that it adds to itself.
    """

    capsule: Capsule
    seeds: tuple[int, ...]

    @property
    def record(self) -> Record:
        """Return the record of the earlier verification."""
        return self.capsule.record

    @property
    def chain(self) -> tuple[Added, ...]:
        """Return the ids of the earlier verifications that this one adds to."""
        before = self.record.chain
        own = len(self.seeds) - sum(one.runs for one in before)
        return (*before, Added(id=self.capsule.id, runs=own))

    @property
    def trials(self) -> frozenset[str]:
        """Return ids of the trials that need not run again."""
        return frozenset(trial["id"] for trial in summary.planned_trials(self.record.plan))


@dataclass(frozen=True, kw_only=True)
class How:
    """Conditions of further runs, which earlier runs must share to count.

    Attributes:
        nonce: What their seeds follow from besides the capsule's id.
        quick: True if they leave out what decides nothing.
        set: What is set of the manifest's mutable part.
        device: Device that they run on, None for any.
    """

    nonce: str | None = None
    quick: bool = False
    set: Mapping[str, Scalar] = field(default_factory=dict)
    device: str | None = None


def take(original: Capsule, paths: Sequence[Path], how: How = How()) -> Earlier | None:
    """Read earlier verifications of a capsule, and take the one that counts the runs of all.

    Args:
        original: The capsule.
        paths: Paths of earlier verifications.
        how: Further runs will be made.

    Returns:
        None where none is named.

    Raises:
        UsageError: One verifies something else or in another way, or two have runs under the same
            seeds.
        DamagedError: One is not as it was sealed, or no verification of the capsule ends in it.
    """
    if not paths:
        return None
    opened = [_check(reading.read(path), original, how) for path in paths]
    last = max(opened, key=lambda one: len(one.seeds))
    counted = [one.id for one in last.chain]
    for one in opened:
        if one.capsule.id not in counted:
            raise UsageError(
                f"{len(one.seeds)} seeds of this verification also occur in {last.capsule.path};"
                " a seed counts only once",
                where=str(one.capsule.path),
                advice="give only one of the two verifications with --add",
            )
        counted.remove(one.capsule.id)
    return last


def reopen(path: Path, origin: Verification) -> Earlier:
    """Read the copy that a run folder keeps.

    Raises:
        DamagedError: It is not the capsule that the run was begun with.
    """
    capsule = reopen_capsule(path, origin.added[-1].id)
    return Earlier(capsule=capsule, seeds=reading.fresh_seeds(capsule.record))


def reopen_capsule(path: Path, capsule_id: str) -> Capsule:
    """Read the copy of a capsule that a run folder keeps.

    Raises:
        DamagedError: It is not the capsule that the run was begun with.
    """
    changed = "the run folder was changed; start a new run"
    try:
        capsule = reading.read(path)
    except DamagedError as error:
        raise DamagedError(error.what, where=error.where, advice=changed) from None
    if capsule.id != capsule_id:
        raise DamagedError(
            f"found capsule {capsule.id[:12]}, expected {capsule_id[:12]}, which the run extends",
            where=str(path),
            advice=changed,
        )
    return capsule


def keep(earlier: Earlier | Extended, path: Path) -> None:
    """Copy it into a run folder, for a resumed run.

    Raises:
        ExecutionError: It cannot be read or written.
    """
    source = earlier.capsule.path
    try:
        if source.is_dir():
            shutil.copytree(source, path)
        else:
            shutil.copyfile(source, path)
    except OSError as error:
        raise ExecutionError(
            f"cannot copy: {error.strerror or error}",
            where=str(source),
            advice="make the capsule readable, or name a run folder on another disk with --work",
        ) from None


def require_same(earlier: Earlier | Extended, resolved: Resolved) -> None:
    """Stop where runs here would be of another image or by another program.

    Raises:
        UsageError: Says which.
    """
    where, record = str(earlier.capsule.path), earlier.record
    for sentence in earlier.capsule.refused_values()[:1]:
        raise UsageError(
            sentence,
            where=where,
            advice="run the manifest again with all seeds"
            if isinstance(earlier, Extended)
            else "verify the original again with this version, without --add",
        )
    there, here = record.image, resolved.image
    if (there or here) and relate_images(there, here) not in SAME_IMAGE:
        names = [
            "no image" if one is None else str(one.identity.digest)[:19] for one in (there, here)
        ]
        override = record.image_override
        raise UsageError(
            f"different images: earlier runs used {names[0]}, new runs would use {names[1]}",
            where=where,
            advice=f"repeat the command with --image {override}"
            if override
            else f"leave --image out, and use --runtime {record.runtime}, as the earlier runs did",
        )
    levels = payload.levels_facts(resolved.levels, record.manifest)
    if levels["digest"] != record.levels["digest"]:
        release, origin = record.levels["release"], record.origin
        used_own = isinstance(origin, Verification) and origin.levels == "own"
        raise UsageError(
            f"different measuring code: earlier runs used {_name_code(record.levels)}, new runs"
            f" would use {_name_code(levels)}",
            where=where,
            advice=("use --levels own" if used_own else "leave --levels out")
            + (f"; install capsule-hpc {release}" if release else ""),
        )


def _name_code(levels: Mapping[str, str | None]) -> str:
    """Return the start of a measuring code's digest, and the release if it is known."""
    release = f" (capsule-hpc {levels['release']})" if levels["release"] else ""
    return f"{(levels['digest'] or 'code without a digest')[:21]}{release}"


def merge(record: Record, earlier: Earlier | Extended) -> Record:
    """Merge the runs of both verifications into one record; earlier nodes come last.

    Args:
        record: Record of the present run; its plan is that of both.
        earlier: What ran before.
    """
    if isinstance(earlier, Extended):
        return extension.merge(record, earlier)
    before = earlier.record
    inherited = map(notes.inherit, before.notes)
    stated = (*record.notes, *inherited, *_software_notes(record, before))
    attempts = tuple(_carry_over(one, len(record.nodes), earlier) for one in before.attempts)
    placed = (replace(one, node=one.node + len(record.nodes)) for one in before.devices)
    return replace(
        record,
        nodes=(*record.nodes, *before.nodes),
        worlds=(*(one.follow(len(record.nodes)) for one in before.worlds), *record.worlds),
        attempts=(*attempts, *record.attempts),
        samples=tuple(sorted((*before.samples, *record.samples), key=sample_order)),
        devices=tuple(sorted((*placed, *record.devices), key=device_order)),
        notes=tuple(dict.fromkeys(stated)),
    )


def files(earlier: Earlier, folder: Path) -> list[File]:
    """Return the files that the new capsule takes over from an earlier verification.

    Args:
        earlier: Its capsule is read again.
        folder: To lay the files out in; what an interrupted call left there is removed.

    Raises:
        DamagedError: It was changed since it was read.
        ExecutionError: The folder cannot be written.
    """
    shutil.rmtree(folder, ignore_errors=True)
    return [
        File(path=_carried_path(path.relative_to(folder).as_posix(), earlier), source=path)
        for kind in _CARRIED
        for path in earlier.capsule.extract(kind, folder / kind)
    ]


def carry(capsule: Capsule, folder: Path) -> list[File]:
    """Return logs and evidence of a capsule, where they lie in it.

    Args:
        capsule: Is read again.
        folder: To lay the files out in; what an interrupted call left there is removed.

    Raises:
        DamagedError: It was changed since it was read.
        ExecutionError: The folder cannot be written.
    """
    shutil.rmtree(folder, ignore_errors=True)
    return [
        File(path=path.relative_to(folder).as_posix(), source=path)
        for kind in _CARRIED
        for path in capsule.extract(kind, folder / kind)
    ]


def _carried_path(path: str, earlier: Earlier) -> str:
    """Return the path of a log or evidence in the new capsule; each run numbers starts from 1."""
    kind, _, rest = path.partition("/")
    return f"{kind}/{earlier.capsule.id[:12]}/{rest}"


def _carry_over(attempt: Attempt, nodes: int, earlier: Earlier) -> Attempt:
    return replace(
        attempt,
        nodes=tuple(node + nodes for node in attempt.nodes),
        evidence=tuple(
            replace(one, path=_carried_path(one.path, earlier)) for one in attempt.evidence
        ),
    )


def _software_notes(record: Record, before: Record) -> list[Note]:
    if record.image is not None or record.software == before.software:
        return []
    return [notes.NOTES("added-software")]


def _check(capsule: Capsule, original: Capsule, how: How) -> Earlier:
    """Check that further runs may be added to a capsule.

    Raises:
        UsageError: They may not.
        DamagedError: No verification of the original ends in it.
    """
    record, where = capsule.record, str(capsule.path)
    origin = record.origin
    if not isinstance(origin, Verification):
        raise UsageError(
            f"found a capsule of kind {origin.kind}, but --add needs a verification",
            where=where,
            advice="give a capsule that `capsule verify` sealed",
        )
    if origin.of != original.id:
        raise UsageError(
            f"verifies capsule {origin.of[:12]}, expected {original.id[:12]}",
            where=where,
            advice=f"give a verification of {original.path}",
        )
    reexecution.require(original, capsule)
    _require_alike(origin, how, where)
    _require_device(record, how, where)
    seeds = reading.fresh_seeds(record)
    if not seeds:
        raise UsageError(
            "more runs change nothing: this verification has no fresh seeds, because no"
            + (" primary" if origin.quick else "")
            + " claim of the original is judged under fresh seeds",
            where=where,
        )
    trials = summary.planned_trials(record.plan)
    if control := next((trial for trial in trials if trial["seed_source"] == "control"), None):
        benchmark = control["id"].partition("/")[0]
        raise UsageError(
            f"all fresh runs of benchmark {benchmark} failed in the same way; the verification's"
            " control runs show the cause",
            where=where,
            advice="fix the cause that the verification's verdict names, and verify the original"
            " again",
        )
    return Earlier(capsule=capsule, seeds=seeds)


def _require_device(record: Record, how: How, where: str) -> None:
    """Stop where further runs would be made on another device.

    Raises:
        UsageError: Names both.
    """
    device = record.manifest.resources.device
    if how.device not in (None, device):
        raise UsageError(
            f"the earlier runs took place on {device}, the new runs would take place on"
            f" {how.device}",
            where=where,
            advice=f"repeat the command with --device {device}, or verify the original again"
            " without --add",
        )


def _require_alike(origin: Verification, how: How, where: str) -> None:
    """Stop where further runs would be made otherwise than those of a verification.

    Raises:
        UsageError: Says in what.
    """
    if origin.nonce != how.nonce:
        drawn = "without a nonce" if origin.nonce is None else f"with the nonce {origin.nonce!r}"
        further = "without a nonce" if how.nonce is None else f"with the nonce {how.nonce!r}"
        raise UsageError(
            f"the earlier seeds were drawn {drawn}, the new seeds would be drawn {further}",
            where=where,
            advice="leave --nonce out, or verify the original again without --add"
            if origin.nonce is None
            else f"repeat the command with --nonce {shlex.quote(origin.nonce)}",
        )
    if origin.quick != how.quick:
        raise UsageError(
            "the earlier verification left benchmarks out (--quick), the new verification would run"
            " all benchmarks"
            if origin.quick
            else "the earlier verification ran all benchmarks, the new verification would leave"
            " benchmarks out (--quick)",
            where=where,
            advice="add --quick, or verify the original again without --add"
            if origin.quick
            else "leave --quick out",
        )
    if dict(origin.set) != dict(how.set):
        there = ", ".join(f"{place}={value}" for place, value in origin.set.items())
        words = [f"{place}={json.dumps(value)}" for place, value in origin.set.items()]
        options = " ".join(f"--set {shlex.quote(word)}" for word in words)
        raise UsageError(
            f"the earlier runs used --set {there or '(nothing)'}, the new runs would use"
            f" {', '.join(f'{place}={value}' for place, value in how.set.items()) or '(nothing)'}",
            where=where,
            advice=(f"repeat the command with {options}" if options else "leave --set out")
            + ", or verify the original again without --add",
        )
