"""`capsule verify`: re-run a capsule on this machine and judge its claims."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.errors import UntrustedError
from capsule.options import ResumeOptions, VerifyOptions
from capsule.verbs import located, verb
from capsule.verbs.located import Located
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class Arguments(VerifyOptions):
    """Arguments of `verify`: the options of a verification, and its capsule."""

    capsule: str
    resume: Path | None = None
    json: bool = False
    full: bool = False
    follow: bool = False
    dry_run: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("capsule", metavar="CAPSULE", help=located.HELP)
    located.add_id(parser, "the capsule")
    verb.add_execution(parser)
    verb.add_limits(parser, of_untrusted=True)
    verb.add_permission(parser, "an untrusted capsule")
    parser.add_argument(
        "--levels",
        choices=("capsule", "own"),
        help="origin of the measuring code: `capsule` for the capsule (default), `own` for this"
        " installation",
    )
    parser.add_argument(
        "--runs",
        type=verb.count,
        metavar="N",
        help="number of fresh seeds (default: the first look that the author planned; without a "
        "plan, the original's number of seeds)",
    )
    parser.add_argument(
        "--add",
        action="append",
        type=verb.path,
        metavar="VERIFICATION",
        help="continue an earlier verification: count its runs and add new runs. Repeatable. "
        "--runs is then the total (default: the next planned look)",
    )
    parser.add_argument(
        "--nonce",
        metavar="WORD",
        help="mix WORD into the fresh seeds. A word announced by a third party after sealing "
        "keeps author and verifier from choosing seeds. Recorded",
    )
    parser.add_argument(
        "--until-decided",
        action="store_true",
        help="keep adding runs until every claim is decided, up to the last planned look "
        "(without a plan: twice the original's number of seeds)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="run only benchmarks that a primary claim (other than `ratio`) needs; report the rest "
        "as not run. Recorded",
    )
    _add_changes(parser)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="show the planned runs, downloads and files, and the expected duration; run nothing",
    )
    verb.add_full(parser)
    verb.add_json(parser)


def _add_changes(parser: ArgumentParser) -> None:
    """Add the options that change the sealed experiment."""
    parser.add_argument(
        "--set",
        action="append",
        type=verb.setting,
        metavar="FIELD=VALUE",
        help="override a field that the author declared mutable, such as "
        "/resources/cpus_per_rank=8 or /benchmarks/0/batch=64. Repeatable. Recorded and stated in "
        "the verdict",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        help="re-run without GPUs (`cpu`) or with one GPU for each rank (`cuda`); the first line "
        "of the verdict says so, and claims that cannot run there are not judged (default: the "
        "capsule's device)",
    )


def _verify(arguments: Arguments, console: Console) -> int:
    from capsule import offline, places

    # before anything is fetched, which may take long
    if arguments.dry_run and arguments.resume is not None:
        raise verb.conflict("--dry-run")
    if arguments.resume is None:
        places.check(output=arguments.output, work=arguments.work)
    with (
        offline.enforce(arguments.offline),
        located.locate(arguments.capsule, arguments.id, console) as place,
    ):
        if arguments.dry_run:
            return _preview(arguments, place, console)
        return _verify_here(replace(arguments, id=place.id), place, console)


def _verify_here(arguments: Arguments, place: Located, console: Console) -> int:
    from capsule import api, report, verdict

    watch = console.watch(
        lambda folder: _resumption(arguments, place, folder), follow=arguments.follow
    )
    if arguments.resume is None:
        try:
            verification = api.verify(place.path, arguments, watch)
        except UntrustedError as error:
            raise _add_command(error, arguments, place) from None
    else:
        verb.refuse_beside_resume(arguments, VerifyOptions)
        options = ResumeOptions(
            output=arguments.output,
            walltime=arguments.walltime,
            disk=arguments.disk,
            pids=arguments.pids,
            memory=arguments.memory,
            strict_privacy=arguments.strict_privacy,
            trust=arguments.trust,
            allow_host=arguments.allow_host,
            until_decided=arguments.until_decided,
            offline=arguments.offline,
            id=arguments.id,
        )
        verification = api.resume_verification(place.path, arguments.resume, options, watch)
    judged, rerun = verification.verdict, verification.rerun
    flags = {
        "--id": place.id,
        "--runtime": None if arguments.runtime == "auto" else arguments.runtime,
        "--trust": arguments.trust,
        "--allow-host": arguments.allow_host,
        "--keep-hosts": arguments.keep_hosts,
        "--strict-privacy": arguments.strict_privacy,
        "--keep-keyring": arguments.keep_keyring,
    }
    going_on = verb.next_command(place.name, rerun.path, judged, flags)
    if arguments.json:
        console.document(report.verdict_to_json(judged, going_on))
    else:
        console.show(*report.draw_verdict(judged, full=arguments.full))
        console.data(f"sealed {rerun.path}")
        if going_on:
            console.data(f"to settle it: {going_on}")
    return verdict.exit_code(judged)


def _add_command(error: UntrustedError, arguments: Arguments, place: Located) -> UntrustedError:
    """Return a refusal with the command that allows exactly what was shown."""
    if not error.flags:
        return error
    flags = {
        "--id": error.where,
        **dict.fromkeys(error.flags, True),
        "--runtime": None if arguments.runtime == "auto" else arguments.runtime,
        "--image": arguments.image,
        "--levels": "own" if arguments.levels == "own" else None,
        "--runs": None if arguments.runs is None else str(arguments.runs),
        "--add": tuple(arguments.add),
        "--nonce": arguments.nonce,
        "--until-decided": arguments.until_decided,
        "--quick": arguments.quick,
        "--set": [f"{field}={json.dumps(value)}" for field, value in arguments.set],
        "--device": arguments.device,
        "--keep-hosts": arguments.keep_hosts,
        "--strict-privacy": arguments.strict_privacy,
        "--follow": arguments.follow,
        "--offline": arguments.offline,
        **verb.limit_flags(arguments),
        "--work": arguments.work,
        "--output": arguments.output,
        "--full": arguments.full,
        "--json": arguments.json,
    }
    line = verb.command("verify", place.name, flags=flags)
    advice = line if error.advice is None else f"{error.advice}\n{line}"
    # the line names the id
    return UntrustedError(error.what, advice=advice, flags=error.flags)


def _preview(arguments: Arguments, place: Located, console: Console) -> int:
    """Show what would run."""
    from capsule import api, preview, report

    with api.open(place.path, place.id) as original:
        shown = preview.preview_verification(original, arguments)
    if arguments.json:
        console.document(report.preview_to_json(shown))
    else:
        console.show(*report.draw_preview(shown))
    return 0


def _resumption(arguments: Arguments, place: Located, folder: str) -> str:
    """Return the command line that resumes a verification."""
    flags = {
        "--id": place.id,
        "--trust": arguments.trust,
        "--allow-host": arguments.allow_host,
        "--until-decided": arguments.until_decided,
        "--strict-privacy": arguments.strict_privacy,
        "--follow": arguments.follow,
        "--offline": arguments.offline,
        **verb.limit_flags(arguments),
        "--output": arguments.output,
    }
    return verb.command("verify", place.name, "--resume", folder, flags=flags)


VERIFY = Verb(
    name="verify",
    examples=(
        "capsule verify stranger.capsule.zip --trust",
        "capsule verify https://papers.example/table2.capsule.zip --id 2cf24dba5fb0 --trust",
        "capsule verify mine.capsule.zip --until-decided",
        "capsule verify mine.capsule.zip --add mine-1a2b3c4d.verification.zip",
        "capsule verify stranger.capsule.zip --trust --nonce 'SC26 committee 7'",
        "capsule verify stranger.capsule.zip --trust --quick",
        "capsule verify stranger.capsule.zip --trust --set /resources/cpus_per_rank=8",
        "capsule verify stranger.capsule.zip --trust --device cpu",
        "capsule verify mine.capsule.zip --resume mine-1a2b3c4d.run",
    ),
    one="capsule",
    add=_add,
    act=verb.door(Arguments, _verify),
)
