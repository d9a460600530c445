"""Public Python API: run a manifest, verify a capsule, run a pair, compare or open capsules.

    run:    manifest.load -> plan.make -> resolve -> perform -> assemble -> seal
    verify: open -> choose -> trust -> plan.make -> resolve -> trust -> perform -> assemble -> seal
            -> judge
    pair:   (manifest.load -> plan.make -> resolve) x 2 -> perform alternately
            -> (assemble -> seal) x 2 -> judge

The functions return results, and leave printing, questions and the exit to the caller. Errors are
exceptions of `capsule.errors`; a `Watch` receives progress. An interrupted run keeps its run
folder, from which `resume` continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from capsule import earlier, interruption, offline, pairing, places, reading, rerun, sealing, trying
from capsule import manifest as manifests
from capsule import plan as plans
from capsule import session as sessions
from capsule.archive import Capsule
from capsule.digest import parse_id
from capsule.errors import UsageError
from capsule.extending import extend
from capsule.fetching.store import Fetched, fetch
from capsule.judgement import diff, judge, judge_records
from capsule.manifest import Manifest
from capsule.options import (
    PairOptions,
    RereadOptions,
    ResumeOptions,
    ResumePairOptions,
    RunOptions,
    StageOptions,
    VerifyOptions,
)
from capsule.origin import Side
from capsule.resealing import reread
from capsule.resolve import Request, cache_near, resolve
from capsule.sealing import Sealed
from capsule.seeds import require_nonce
from capsule.session import Session, Terms
from capsule.staging import Staged, stage
from capsule.trust import policy as trust
from capsule.trying import Tryout
from capsule.verdict import Verdict
from capsule.verdict.several import SeveralVerdict
from capsule.watch import SILENT, Watch

__all__ = [
    "SILENT",
    "Capsule",
    "Fetched",
    "Manifest",
    "PairOptions",
    "Paired",
    "RereadOptions",
    "ResumeOptions",
    "ResumePairOptions",
    "RunOptions",
    "Sealed",
    "SeveralVerdict",
    "StageOptions",
    "Staged",
    "Tryout",
    "Verdict",
    "Verification",
    "VerifyOptions",
    "Watch",
    "diff",
    "extend",
    "fetch",
    "open",
    "pair",
    "reread",
    "resume",
    "resume_pair",
    "resume_verification",
    "run",
    "stage",
    "try_out",
    "verify",
]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """Result of a verification.

    Attributes:
        verdict: Verdict on the original, with a verdict on each claim.
        rerun: Capsule of the verification.
    """

    verdict: Verdict
    rerun: Sealed


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Result of a pair.

    Attributes:
        verdict: Verdict on the ratio of B to A.
        a, b: Capsules of the two variants.
    """

    verdict: Verdict
    a: Sealed
    b: Sealed


def run(
    manifest: str | Path | Manifest, options: RunOptions = RunOptions(), watch: Watch = SILENT
) -> Sealed:
    """Run a manifest's benchmarks on this machine, and seal the result.

    A failed trial is an outcome: it is sealed, and listed in `Sealed.failures`. If the first
    process start completes no trial, capsule stops the execution, unless `options.keep_going` is
    set.

    Args:
        manifest: Path of a manifest, or a loaded manifest.
        options: Engine, image, output and limits of the run.
        watch: Receiver of progress.

    Raises:
        UsageError: The manifest or an option is wrong, or the output already exists.
        CannotRunError: This machine lacks an engine, the image, a dataset or a device.
        DamagedError: An image, a dataset or an input has other bytes than its digest requires.
        FirstTrialError: The first process start completed no trial; resume the run folder with
            `keep_going`.
        ExecutionError: The execution was interrupted, or the capsule cannot be written; resume the
            run folder.
    """
    places.check(output=options.output, work=options.work)
    if not isinstance(manifest, Manifest):
        manifest = manifests.load(Path(manifest))
    plan = plans.make(manifest)
    request = Request.of(
        manifest, options.runtime, options.image, keep_keyring=options.keep_keyring
    )
    with cache_near(options.work, watch):
        with offline.enforce(options.offline):
            resolved = resolve(request, watch)
        sealing.check_inputs(resolved.copies, options, watch)
        trying.end_leftovers(resolved.runtime, watch)
        terms = Terms(image=resolved.override, keep_hosts=options.keep_hosts)
        session = sessions.begin(plan, resolved, terms, work=options.work)
        session = sessions.limit(session, options)
        with session.workspace.lock():
            return _finish(session, options, watch)


def try_out(
    manifest: str | Path | Manifest, options: RunOptions = RunOptions(), watch: Watch = SILENT
) -> Tryout:
    """Run one trial of a manifest under a fresh seed and report its values without sealing.

    A failed trial is also a result: see `Tryout.attempt`. The errors are those of `run`, but
    nothing can be resumed.

    Args:
        manifest: Path of a manifest, or a loaded manifest.
        options: Engine, image and limits; `output` and `work` are ignored.
        watch: Receiver of progress.
    """
    if not isinstance(manifest, Manifest):
        manifest = manifests.load(Path(manifest))
    with offline.enforce(options.offline), cache_near(None, watch):
        return trying.try_out(manifest, options, watch)


def resume(
    folder: str | Path, options: ResumeOptions = ResumeOptions(), watch: Watch = SILENT
) -> Sealed:
    """Continue an interrupted execution of a manifest; finished trials are kept.

    Args:
        folder: Run folder of the interrupted execution.
        options: Output, limits and consent.
        watch: Receiver of progress.

    Raises:
        UsageError: The folder is not a run folder, or belongs to a verification or a pair.
        UntrustedError: The run folder is untrusted, and `options.trust` is not set.
        CannotRunError: Another process uses the run folder; or as in `run`.
        DamagedError: As in `run`.
        ExecutionError: As in `run`.
    """
    cut_off = interruption.reopen(Path(folder), verifies=None)
    if isinstance(cut_off.setup.origin, Side):
        raise UsageError(
            "the run folder is one side of a pair, which is resumed as a whole",
            where=str(folder),
            advice=f"resume the pair: capsule pair --resume {Path(folder).parent}",
        )
    code = trust.of_folder(cut_off.workspace, cut_off.plan.manifest)
    with cut_off.workspace.lock(), cache_near(Path(folder), watch):
        target = sealing.target(cut_off, options.output)
        if sealed := sealing.complete(cut_off, target, watch, own=code.own):
            return sealed
        prospect = cut_off.prospect(target)
        with offline.enforce(options.offline):
            choice = trust.require_consent(code, cut_off.request, options, prospect, watch)
            resolved = resolve(cut_off.request, watch, choice=choice)
        trust.require_containment(code, resolved, options)
        sealing.check_inputs(resolved.copies, options, watch)
        session = sessions.take_up(cut_off, resolved, watch, own=code.own)
        session = sessions.limit(session, options)
        return _finish(session, options, watch)


def _finish(session: Session, options: RunOptions | ResumeOptions, watch: Watch) -> Sealed:
    with sessions.follow(session, watch):
        target = sealing.target(session, options.output)
        sealing.check(target, session.workspace.folder)
        execution = sessions.perform(session, watch, keep_going=options.keep_going)
    execution = sessions.probe(session, execution)
    record = sessions.assemble(session, execution)
    return sealing.seal(
        session, execution, record, target, strict_privacy=options.strict_privacy, watch=watch
    )


def verify(
    capsule: str | Path, options: VerifyOptions = VerifyOptions(), watch: Watch = SILENT
) -> Verification:
    """Re-run a capsule's plan on this machine under fresh seeds, and judge its claims.

    With `options.add`, the runs of earlier verifications count. The new fresh seeds continue after
    the seeds of the earlier verifications.

    Args:
        capsule: Path of the original.
        options: Engine, output, limits, seeds and consent.
        watch: Receiver of progress.

    Raises:
        UsageError: The capsule does not exist, an option is wrong, the output already exists, or
            this machine differs from that of the earlier verification in `options.add`.
        DamagedError: A capsule, its image or a dataset has other bytes than its digest requires.
        UntrustedError: The capsule is untrusted, and `options.trust` is not set.
        CannotRunError: As in `run`.
        ExecutionError: As in `run`; continue with `resume_verification`.
    """
    places.check(output=options.output, work=options.work)
    if options.nonce is not None:
        require_nonce(options.nonce)
    with (
        offline.enforce(options.offline),
        open(capsule, options.id) as original,
        places.scratch() as scratch,
        cache_near(options.work, watch),
    ):
        code = trust.of_capsule(original, own_levels=options.levels == "own")
        request = rerun.request(original, options, scratch)
        planned = rerun.plan(original, options, watch)
        prospect = rerun.prospect(original, planned, options, own=code.own)
        choice = trust.require_consent(code, request, options, prospect, watch)
        rerun.lay_out(original, request)
        resolved = resolve(request, watch, choice=choice)
        trust.require_containment(code, resolved, options)
        if planned.added is not None:
            earlier.require_same(planned.added, resolved)
        terms = planned.terms(resolved.override, options)
        session = sessions.begin(
            planned.plan,
            resolved,
            terms,
            work=options.work,
            claims=original.record.claims,
            earlier=planned.added,
            own=code.own,
            follows=original.record.ended,
        )
        session = sessions.limit(session, prospect.limits)
        with session.workspace.lock():
            return _finish_and_judge(original, session, planned.looks, options, watch)


def resume_verification(
    capsule: str | Path,
    folder: str | Path,
    options: ResumeOptions = ResumeOptions(),
    watch: Watch = SILENT,
) -> Verification:
    """Continue an interrupted verification.

    Args:
        capsule: Path of the original.
        folder: Run folder of the interrupted verification.
        options: Output, limits and consent.
        watch: Receiver of progress.

    Raises:
        UsageError: The run folder does not belong to a verification of this capsule, or as in
            `verify`.
        CannotRunError: Another process uses the run folder, or as in `verify`.
        DamagedError, UntrustedError, ExecutionError: As in `verify`.
    """
    with offline.enforce(options.offline), open(capsule, options.id) as original:
        record = original.record
        looks = rerun.looks(record, until_decided=options.until_decided)
        cut_off = interruption.reopen(Path(folder), verifies=original.id, claims=record.claims)
        rerun.require_all_looks(looks, cut_off.workspace.header.runs)
        code = trust.of_verification(original, cut_off.workspace)
        limits = rerun.limits(original, cut_off.plan, options, own=code.own)
        with cut_off.workspace.lock(), cache_near(Path(folder), watch):
            target = sealing.target(cut_off, options.output)
            if sealed := sealing.complete(cut_off, target, watch, own=code.own):
                return Verification(verdict=judge(original, sealed.record, sealed.id), rerun=sealed)
            prospect = cut_off.prospect(target, limits)
            choice = trust.require_consent(code, cut_off.request, options, prospect, watch)
            resolved = resolve(cut_off.request, watch, choice=choice)
            trust.require_containment(code, resolved, options)
            session = sessions.take_up(
                cut_off,
                resolved,
                watch,
                claims=record.claims,
                own=code.own,
                follows=record.ended,
            )
            session = sessions.limit(session, limits)
            return _finish_and_judge(original, session, looks, options, watch)


def _finish_and_judge(
    original: Capsule,
    session: Session,
    looks: tuple[int, ...],
    options: VerifyOptions | ResumeOptions,
    watch: Watch,
) -> Verification:
    with sessions.follow(session, watch):
        target = sealing.target(session, options.output)
        sealing.check(target, session.workspace.folder)
        session, execution = rerun.perform(original, session, looks, watch)
    execution = sessions.probe(session, execution)
    record = sessions.assemble(session, execution)
    sealed = sealing.seal(
        session, execution, record, target, strict_privacy=options.strict_privacy, watch=watch
    )
    return Verification(verdict=judge(original, record, sealed.id), rerun=sealed)


def pair(
    a: str | Path | Manifest,
    b: str | Path | Manifest | None = None,
    options: PairOptions = PairOptions(),
    watch: Watch = SILENT,
) -> Paired:
    """Run two variants alternately on this machine, and judge the ratio of B to A.

    Args:
        a: Manifest of variant A.
        b: Manifest of variant B; None to run A's manifest with another image or engine.
        options: Engines, images, number of rounds and margin.
        watch: Receiver of progress of both variants.

    Raises:
        UsageError: A manifest or an option is wrong, or an output already exists.
        CannotRunError, DamagedError, ExecutionError: As in `run`; continue with `resume_pair`.
    """
    pairing.check_outputs((options.output_a, options.output_b), options.work)
    one = a if isinstance(a, Manifest) else manifests.load(Path(a))
    other = one if b is None else b if isinstance(b, Manifest) else manifests.load(Path(b))
    planned = pairing.plan(one, other, options)
    engines = ((options.runtime_a, options.image_a), (options.runtime_b, options.image_b))
    with cache_near(options.work, watch):
        with offline.enforce(options.offline):
            first, second = (
                resolve(
                    Request.of(side.manifest, runtime, image, keep_keyring=options.keep_keyring),
                    watch,
                )
                for side, (runtime, image) in zip(planned, engines, strict=True)
            )
        for side in (first, second):
            sealing.check_inputs(side.copies, options, watch)
        sides = pairing.begin(planned, (first, second), options)
        with pairing.lock(sides.both):
            return _finish_pair(sides, options, watch)


def resume_pair(
    folder: str | Path,
    options: ResumePairOptions = ResumePairOptions(),
    watch: Watch = SILENT,
) -> Paired:
    """Continue an interrupted pair.

    Args:
        folder: Run folder of the interrupted pair.
        options: Outputs and consent.
        watch: Receiver of progress of both variants.

    Raises:
        UsageError: The folder is not the run folder of a pair, or an output already exists.
        UntrustedError: As in `resume`.
        CannotRunError: Another process uses the run folder; or as in `run`.
        DamagedError, ExecutionError: As in `pair`.
    """
    cut_off = pairing.reopen(Path(folder))
    codes = [trust.of_folder(side.workspace, side.plan.manifest) for side in cut_off.both]
    choices = [
        trust.require_consent(code, side.request, options, side.prospect(None), watch)
        for code, side in zip(codes, cut_off.both, strict=True)
    ]
    near = cache_near(Path(folder), watch)
    with offline.enforce(options.offline), near, pairing.lock(cut_off.both):
        own = all(code.own for code in codes)
        outputs = options.output_a, options.output_b
        if sealed := pairing.complete(cut_off, outputs, watch, own=own):
            return _judge_pair(*sealed)
        a, b = (
            resolve(side.request, watch, choice=choice)
            for side, choice in zip(cut_off.both, choices, strict=True)
        )
        for code, resolved in zip(codes, (a, b), strict=True):
            trust.require_containment(code, resolved, options)
        return _finish_pair(pairing.take_up(cut_off, (a, b), watch, own=own), options, watch)


def _finish_pair(
    sides: pairing.Sides, options: PairOptions | ResumePairOptions, watch: Watch
) -> Paired:
    targets = pairing.targets(sides, (options.output_a, options.output_b))
    of_a, of_b = pairing.perform(sides, watch)
    executions = sessions.probe(sides.a, of_a), sessions.probe(sides.b, of_b)
    private = options.strict_privacy
    return _judge_pair(
        *pairing.seal(sides, executions, targets, strict_privacy=private, watch=watch)
    )


def _judge_pair(a: Sealed, b: Sealed) -> Paired:
    return Paired(verdict=judge_records(a.record, a.id, b.record, b.id), a=a, b=b)


def open(  # noqa: A001 - reads as `api.open`
    capsule: str | Path,
    id: str | None = None,  # noqa: A002 - as in `VerifyOptions`
) -> Capsule:
    """Open a capsule (its zip file, or the folder of an unpacked one) and check every digest.

    Close the returned capsule, or use it in a `with` block.

    Args:
        capsule: Path of the capsule; for a published capsule, the `path` that `fetch` returns.
        id: Required id, or at least its first 12 digits; None accepts any.

    Raises:
        UsageError: The capsule does not exist.
        DamagedError: The capsule has another id, was changed after sealing, or contradicts itself.
    """
    return reading.read(Path(capsule), None if id is None else parse_id(id))
