"""The corridor: run a manifest, verify a capsule, run two side by side, compare them, open one.

    manifest.load -> plan.make -> resolve -> perform -> assemble -> seal
    open -> choose -> trust -> plan.make -> resolve -> trust -> perform -> assemble -> seal -> judge
    (manifest.load -> plan -> resolve) x 2 -> perform by turns -> (assemble -> seal) x 2 -> judge

Nothing here prints, exits or asks. A failure is an exception of `capsule.errors`; whoever wants to
follow a run hands in a `Watch`. A run that is cut off keeps its folder for `resume` to go on with.
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
    """A capsule was run again here, and judged.

    Attributes:
        verdict: The judgement of the original's claims.
        rerun: The second capsule.
    """

    verdict: Verdict
    rerun: Sealed


@dataclass(frozen=True, kw_only=True)
class Paired:
    """What became of a pair.

    Attributes:
        verdict: Of the ratio of B to A.
        a, b: The capsules of both sides.
    """

    verdict: Verdict
    a: Sealed
    b: Sealed


def run(
    manifest: str | Path | Manifest, options: RunOptions = RunOptions(), watch: Watch = SILENT
) -> Sealed:
    """Run a manifest's benchmarks on this machine, and seal what came of them.

    Trials that fail are outcomes, sealed with the rest: see `failures` of what is returned. But a
    run whose very first trial fails stops there, unless `options.keep_going`.

    Raises:
        UsageError: The manifest or an option is wrong, or the output exists already.
        CannotRunError: An engine, the image, a dataset or a device is missing here.
        DamagedError: An image, a dataset or an input is not what it should be.
        FirstTrialError: The first trial failed; the folder can be resumed with `keep_going`.
        ExecutionError: It was cut off, or cannot be written; its folder can be resumed.
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
    """Run one trial of a manifest under a seed as verifiers will draw it, and keep nothing.

    A trial that fails is an outcome of it. Errors are those of `run`, but that nothing is resumed.
    """
    if not isinstance(manifest, Manifest):
        manifest = manifests.load(Path(manifest))
    with offline.enforce(options.offline), cache_near(None, watch):
        return trying.try_out(manifest, options, watch)


def resume(
    folder: str | Path, options: ResumeOptions = ResumeOptions(), watch: Watch = SILENT
) -> Sealed:
    """Go on with a run that was cut off; what was finished is not run again.

    Raises:
        UsageError: It is no run's folder, or that of one that verifies a capsule.
        UntrustedError: Somebody else began it, and nobody said that its code may run here.
        CannotRunError: Another process works on it, or as for `run`.
        DamagedError: As for `run`.
        ExecutionError: As for `run`.
    """
    cut_off = interruption.reopen(Path(folder), verifies=None)
    if isinstance(cut_off.setup.origin, Side):
        raise UsageError(
            "this run is one side of a pair",
            where=str(folder),
            advice=f"capsule pair --resume {Path(folder).parent}",
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
    """Run a capsule's plan again on this machine with fresh seeds, and judge its claims.

    With `options.add` the seeds go on where an earlier verification ended, and its runs count.

    Raises:
        UsageError: There is no such capsule, an option is wrong, the output exists already, or
            runs here would not be of one kind with those that they are added to.
        DamagedError: A capsule, its image or a dataset is not what it should be.
        UntrustedError: It is a stranger's, and nobody said that its code may run here.
        CannotRunError: As for `run`.
        ExecutionError: As for `run`, but that `resume_verification` goes on.
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
    """Go on with a verification that was cut off.

    Raises:
        UsageError: It is not the folder of a run that verifies this capsule, or as for `verify`.
        CannotRunError: Another process works on it, or as for `verify`.
        DamagedError, UntrustedError, ExecutionError: As for `verify`.
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
    """Run two variants by turns on this machine, and judge the ratio of B to A.

    Args:
        a: A manifest.
        b: Another one, None for the same one with another image or engine.
        options: How, how often, and how far the two may be apart.
        watch: Follows both.

    Raises:
        UsageError: A manifest or an option is wrong, or an output exists already.
        CannotRunError, DamagedError, ExecutionError: As for `run`; `resume_pair` goes on.
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
    """Go on with a pair that was cut off.

    Raises:
        UsageError: It is not the folder of a pair, or an output exists already.
        UntrustedError: As for `resume`.
        CannotRunError: Another process works on it, or as for `run`.
        DamagedError, ExecutionError: As for `pair`.
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
    """Open a capsule, a file or a folder, that is whole; to be closed, or used in a `with` block.

    Args:
        capsule: Where it lies; of one that was published, the `path` that `fetch` returns.
        id: Id that it must have, or at least its first 12 digits; None for any.

    Raises:
        UsageError: There is no such capsule.
        DamagedError: It is another one, or not as it was sealed, or its parts do not agree.
    """
    return reading.read(Path(capsule), None if id is None else parse_id(id))
