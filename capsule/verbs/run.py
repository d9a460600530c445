"""`capsule run`: run a manifest and seal a capsule."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.errors import UsageError
from capsule.options import ResumeOptions, RunOptions
from capsule.verbs import verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console
    from capsule.sealing import Sealed


@dataclass(frozen=True, kw_only=True)
class Arguments(RunOptions):
    """Arguments of `run`: the options of a run, and its manifest."""

    manifest: Path | None = None
    frameworks: tuple[str, ...] = ()
    resume: Path | None = None
    trust: bool = False
    allow_host: bool = False
    follow: bool = False
    try_out: bool = False
    dry_run: bool = False
    add_seeds: int | None = None
    json: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "manifest",
        nargs="?",
        type=verb.path,
        default=None,
        metavar="MANIFEST",
        help="manifest to run (with --add-seeds: a capsule; with --resume: leave out)",
    )
    verb.add_frameworks(parser)
    verb.add_execution(parser)
    verb.add_limits(parser)
    verb.add_permission(parser, "a run folder that another user began")
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="run the other trials and seal, even if the first trial fails (default: stop)",
    )
    parser.add_argument(
        "--try",
        dest="try_out",
        action="store_true",
        help="run one trial under a fresh seed, show what would be recorded, and delete it",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show the planned trials with command, mounts and image; run nothing",
    )
    parser.add_argument(
        "--add-seeds",
        type=verb.count,
        metavar="N",
        help="extend the capsule given as MANIFEST by N seeds derived from its id; seal a new"
        " capsule with all runs",
    )
    verb.add_json(parser)


def _run(arguments: Arguments, console: Console) -> int:
    from capsule import api, manifest

    watch = console.watch(lambda folder: _resumption(arguments, folder), follow=arguments.follow)
    if arguments.resume is not None:
        _check_resumption(arguments)
        options = ResumeOptions(
            output=arguments.output,
            walltime=arguments.walltime,
            disk=arguments.disk,
            pids=arguments.pids,
            memory=arguments.memory,
            strict_privacy=arguments.strict_privacy,
            trust=arguments.trust,
            allow_host=arguments.allow_host,
            keep_going=arguments.keep_going,
            offline=arguments.offline,
        )
        sealed = api.resume(arguments.resume, options, watch)
    elif arguments.manifest is None:
        raise UsageError(
            "expected a manifest or --resume, found neither",
            advice="name a manifest; to resume a run: --resume DIR",
        )
    elif arguments.trust or arguments.allow_host:
        raise verb.without_resume("--trust" if arguments.trust else "--allow-host")
    elif arguments.try_out:
        return _try_out(arguments.manifest, arguments, console)
    elif arguments.add_seeds is not None:
        _check_addition(arguments)
        sealed = api.extend(arguments.manifest, arguments.add_seeds, arguments, watch)
    elif arguments.dry_run:
        return _plan(arguments.manifest, arguments, console)
    else:
        wanted = manifest.load(arguments.manifest, arguments.frameworks)
        sealed = api.run(wanted, arguments, watch)
    return tell_outcome(sealed, console, as_json=arguments.json)


def tell_outcome(sealed: Sealed, console: Console, *, as_json: bool) -> int:
    """Show what a run has sealed.

    Raises:
        ExecutionError: Some of its trials failed.
    """
    from capsule import lint, report

    warnings = lint.warnings_of_runs(sealed.record)
    if as_json:
        console.document(
            {
                "capsule": str(sealed.path),
                "id": sealed.id,
                "failed": len(sealed.failures),
                "warnings": report.warnings_to_json(warnings),
            }
        )
    else:
        lines, checked = sealed.line_counts(), sealed.record.manifest
        shown = [one for one in warnings if lint.is_relevant(one, checked)]
        console.show(*report.draw_sealed(sealed.record, sealed.id, shown, lines))
        console.data(f"sealed {sealed.path}")
    if sealed.failures:
        raise report.failure(sealed.record, sealed.path)
    return 0


def _check_addition(arguments: Arguments) -> None:
    unfit = {"--frameworks": arguments.frameworks, "--dry-run": arguments.dry_run}
    for flag in (flag for flag, value in unfit.items() if value):
        raise UsageError(
            f"--add-seeds and {flag} exclude each other",
            advice=f"leave {flag} out: --add-seeds runs the capsule's own plan",
        )


def _check_resumption(arguments: Arguments) -> None:
    if arguments.manifest is not None:
        raise UsageError(
            "MANIFEST and --resume exclude each other",
            advice="leave MANIFEST out: the run folder contains the manifest",
        )
    unfit = {
        "--frameworks": arguments.frameworks,
        "--dry-run": arguments.dry_run,
        "--try": arguments.try_out,
        "--add-seeds": arguments.add_seeds,
    }
    for flag in (flag for flag, value in unfit.items() if value):
        raise verb.conflict(flag)
    verb.refuse_beside_resume(arguments, RunOptions)


def _resumption(arguments: Arguments, folder: str) -> str:
    """Return the command line that resumes a run."""
    flags = {
        "--trust": arguments.trust,
        "--allow-host": arguments.allow_host,
        "--strict-privacy": arguments.strict_privacy,
        "--follow": arguments.follow,
        "--keep-going": arguments.keep_going,
        "--offline": arguments.offline,
        **verb.limit_flags(arguments),
        "--output": arguments.output,
    }
    return verb.command("run", "--resume", folder, flags=flags)


def _try_out(path: Path, arguments: Arguments, console: Console) -> int:
    """Run one trial, and show what a run would record of it."""
    from capsule import api, lint, manifest, report, site

    flags = {
        "--add-seeds": arguments.add_seeds,
        "--dry-run": arguments.dry_run,
        "--keep-going": arguments.keep_going,
        "--output": arguments.output,
        "--work": arguments.work,
    }
    for flag in (flag for flag, value in flags.items() if value):
        raise UsageError(
            f"--try and {flag} exclude each other",
            advice=f"leave {flag} out: --try runs one trial and seals nothing",
        )
    wanted = manifest.load(path, arguments.frameworks)
    tryout = api.try_out(wanted, arguments, console.listen())
    warnings = lint.warnings(wanted, launcher=site.load().launcher)
    if arguments.json:
        console.document(report.tryout_to_json(tryout, warnings))
    else:
        console.show(*report.draw_tryout(tryout, warnings))
    if tryout.attempt.outcome != "completed":
        raise report.explain_tryout(tryout)
    return 0


def _plan(path: Path, arguments: Arguments, console: Console) -> int:
    """Show what would run, and in which order."""
    from capsule import manifest, offline, preview, report

    with offline.enforce(arguments.offline):
        planned = preview.preview(manifest.load(path, arguments.frameworks), arguments)
    if arguments.json:
        console.document(report.preview_to_json(planned))
        return 0
    for group in planned.plan.groups:
        console.data(group.id)
        for trial in group.trials:
            console.data(f"  {trial.id}")
    console.show(*report.draw_preview(planned))
    return 0


RUN = Verb(
    name="run",
    examples=(
        "capsule run manifests/quickstart.json",
        "capsule run --try manifest.json",
        "capsule run manifest.json --image docker://registry.example/torch@sha256:...",
        "capsule run manifests/level0.json --frameworks torch,numpy --image docker://...",
        "capsule run --add-seeds 5 a.capsule.zip",
        "capsule run --resume quickstart-1a2b3c4d.run",
    ),
    one="manifest",
    add=_add,
    act=verb.door(Arguments, _run),
)
