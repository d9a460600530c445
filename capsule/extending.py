"""Extend a sealed run by more seeds, in a new capsule with all runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from capsule import (
    __version__,
    archive,
    earlier,
    extension,
    offline,
    places,
    reading,
    rerun,
    resealing,
    sealing,
)
from capsule import plan as plans
from capsule import session as sessions
from capsule.archive import Capsule
from capsule.errors import DamagedError, UntrustedError, UsageError
from capsule.extension import Extended
from capsule.options import RunOptions, VerifyOptions
from capsule.origin import Extension
from capsule.resolve import resolve
from capsule.sealing import Sealed
from capsule.session import Terms
from capsule.trust import ledger
from capsule.watch import SILENT, Watch


def extend(
    capsule: str | Path, seeds: int, options: RunOptions = RunOptions(), watch: Watch = SILENT
) -> Sealed:
    """Run a capsule's plan under more seeds, and seal a new capsule with all runs.

    Args:
        capsule: Path of a capsule that this user sealed with `run`.
        seeds: Number of seeds to add; their values are derived from the capsule's id.
        options: Output and limits; engine and image stay those of the capsule.
        watch: Receiver of progress.

    Raises:
        UsageError: The capsule is not an original, an option is wrong, or this machine or version
            differs from the capsule's.
        UntrustedError: Another user sealed the capsule.
        CannotRunError: As in `run`.
        DamagedError: As in `run`, or the capsule was changed after sealing.
        ExecutionError: As in `run`.
    """
    places.check(output=options.output, work=options.work)
    with reading.read(Path(capsule)) as before, places.scratch() as scratch:
        _require_own(before, options)
        plan = plans.make(extension.add_seeds(before.record, before.id, seeds))
        _require_room(before)
        record = before.record
        request = rerun.request(before, VerifyOptions(runtime=record.runtime), scratch)
        request = replace(request, manifest=plan.manifest)
        rerun.lay_out(before, request)
        with offline.enforce(options.offline):
            resolved = resolve(request, watch)
        extended = Extended(capsule=before)
        earlier.require_same(extended, resolved)
        terms = Terms(keep_hosts=options.keep_hosts)
        session = sessions.begin(plan, resolved, terms, work=options.work, earlier=extended)
        session = sessions.limit(session, options)
        with session.workspace.lock():
            with sessions.follow(session, watch):
                target = sealing.target(session, options.output)
                sealing.check(target, session.workspace.folder)
                execution = sessions.perform(session, watch, keep_going=options.keep_going)
            execution = sessions.probe(session, execution)
            return sealing.seal(
                session,
                execution,
                sessions.assemble(session, execution),
                target,
                strict_privacy=options.strict_privacy,
                watch=watch,
            )


def _require_room(before: Capsule) -> None:
    """Check before any trial runs that the new capsule can hold its predecessor.

    Raises:
        UsageError: The new capsule would exceed the format's limits.
    """
    origin = Extension(of=before.id, seeds=1)
    try:
        archive.rehearse(replace(before.record, origin=origin, predecessor=before.as_predecessor()))
    except DamagedError as error:
        raise UsageError(
            "the new capsule, with its predecessor inside, would exceed the format's limits:"
            f" {error.what}",
            where=str(before.path),
            advice="run the manifest again with all seeds",
        ) from None


def _require_own(before: Capsule, options: RunOptions) -> None:
    """Check that the capsule is an original of this user, with the same engine and version.

    Raises:
        UsageError: The capsule is no original, another engine or image is requested, or another
            version measured it.
        UntrustedError: Another user sealed the capsule.
    """
    resealing.take(before, "added to")
    where = str(before.path)
    if not ledger.holds(before.id):
        raise UntrustedError(
            "this capsule is untrusted: only its author can add seeds to it",
            where=where,
            advice=f"capsule verify {before.path}",
        )
    if options.image is not None or options.runtime not in ("auto", before.record.runtime):
        given = f"--runtime {options.runtime}"
        if options.image is not None:
            given = f"--image {options.image}"
        raise UsageError(
            f"found {given}, but --add-seeds uses the capsule's own image and engine",
            where=where,
            advice="leave --image and --runtime out, or run the manifest again",
        )
    levels = before.record.levels
    is_own = levels["digest"] == reading.own_program(before.record.manifest)
    if levels["release"] != (__version__ if is_own else None):
        release = levels["release"] or before.record.tool
        raise UsageError(
            f"capsule-hpc {release} measured the runs; this version has other measuring code",
            where=where,
            advice=f"install capsule-hpc {release}, or run the manifest again with all seeds",
        )
