"""`capsule submit`: run a manifest in a Slurm job and seal a capsule."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.errors import UsageError
from capsule.options import RunOptions
from capsule.verbs import verb
from capsule.verbs.run import tell_outcome
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console
    from capsule.launch.submission import Ended, Submission
    from capsule.launch.wish import Wish
    from capsule.manifest import Manifest

_INTERRUPTED = 143


@dataclass(frozen=True, kw_only=True)
class Arguments(RunOptions):
    """Arguments of `submit`: the options of the run in the job, and its manifest."""

    source: Path
    frameworks: tuple[str, ...] = ()
    json: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source",
        type=verb.path,
        metavar="MANIFEST|DIR",
        help="manifest to submit, or the folder of an earlier submission to follow again",
    )
    verb.add_frameworks(parser)
    verb.add_runtime(parser)
    verb.add_output(parser)
    parser.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help="folder of the submission: job script, logs and run folder (default: a new NAME-*.job"
        " in the current folder)",
    )
    verb.add_offline(parser)
    verb.add_privacy(parser)
    verb.add_keyring(parser)
    verb.add_limits(parser)
    parser.add_argument(
        "--keep-going",
        action="store_true",
        help="run the other trials and seal, even if the first trial fails (default: stop)",
    )
    verb.add_json(parser)


def _submit(arguments: Arguments, console: Console) -> int:
    from capsule import manifest, places, site
    from capsule.launch import slurm, submission

    settings = site.load()
    if arguments.source.is_dir():
        slurm.require()
        _refuse_options(arguments)
        submitted = submission.reopen(arguments.source)
        wanted = manifest.load(submitted.wish.manifest)
    else:
        wanted = manifest.load(arguments.source, arguments.frameworks)
        places.check(output=arguments.output)
        folder, wish = _wish(wanted, arguments)
        slurm.require()
        submitted = submission.begin(folder, wish, name=wanted.name)
    again = _way_on(arguments, submitted)
    job = None
    try:
        job = submitted.settle(wanted.resources, settings.batch, console.say)
        ended = submitted.follow(job, console.say)
    except KeyboardInterrupt:
        if job is None:
            console.say("interrupted; a job that was already submitted keeps running")
        else:
            console.say(f"job {job} keeps running; to cancel it: scancel {job}")
        console.say(f"to follow the job again: {again}")
        raise
    return _tell(ended, submitted, again, arguments, console)


def _wish(wanted: Manifest, arguments: Arguments) -> tuple[Path, Wish]:
    """Return the folder of a submission, and the commands of its job."""
    from capsule.digest import of_bytes
    from capsule.launch import wish as wishes

    path = arguments.source.absolute()
    digest = of_bytes(path.read_bytes())
    begin = {
        "--frameworks": ",".join(arguments.frameworks),
        "--runtime": None if arguments.runtime == "auto" else arguments.runtime,
        "--image": arguments.image,
        "--keep-hosts": arguments.keep_hosts,
        "--keep-keyring": arguments.keep_keyring,
    }
    output = arguments.output.absolute() if arguments.output else None
    always = {
        **verb.limit_flags(replace(arguments, walltime=None)),
        "--output": output,
        "--strict-privacy": arguments.strict_privacy,
        "--keep-going": arguments.keep_going,
        "--offline": arguments.offline,
        "--json": True,
    }
    identity = of_bytes(verb.command(path, str(digest), flags=begin).encode()).hex[:8]
    folder = (arguments.work or Path(f"{wanted.name}-{identity}.job")).absolute()
    run = folder / "run"
    wish = wishes.Wish(
        manifest=path,
        digest=digest,
        begin=verb.command("run", path, flags={**begin, "--work": run, **always}),
        resume=verb.command("run", "--resume", run, flags=always),
        walltime=None if arguments.walltime is None else int(arguments.walltime),
    )
    return folder, wish


def _refuse_options(arguments: Arguments) -> None:
    for field in fields(RunOptions):
        if getattr(arguments, field.name) != field.default:
            raise UsageError(
                f"--{field.name.replace('_', '-')} needs a manifest, and"
                f" {arguments.source} is the folder of a submission",
                advice="to submit with this option, name the manifest",
            )
    if arguments.frameworks:
        raise UsageError(
            f"--frameworks needs a manifest, and {arguments.source} is the folder of a submission",
            advice="to submit with this option, name the manifest",
        )


def _way_on(arguments: Arguments, submitted: Submission) -> str:
    """Return the command line that follows the same job."""
    from capsule import places

    return verb.command("submit", places.near(submitted.folder), flags={"--json": arguments.json})


def _tell(
    ended: Ended, submitted: Submission, again: str, arguments: Arguments, console: Console
) -> int:
    from capsule import api, places
    from capsule.sealing import Sealed

    if ended.capsule is not None:
        with api.open(ended.capsule) as capsule:
            sealed = Sealed(path=places.near(ended.capsule), id=capsule.id, record=capsule.record)
        return tell_outcome(sealed, console, as_json=arguments.json)
    log = places.near(submitted.folder / f"job-{ended.job}.log")
    if ended.is_cut_off:
        how = f" ({ended.state})" if ended.code is None else ""
        console.say(f"job {ended.job} was interrupted{how}; finished trials are kept")
        console.say(f"to resume in another job: {again}")
        return ended.code or _INTERRUPTED
    submitted.acknowledge(ended)
    console.say(f"job {ended.job} ended with exit code {ended.code}; log: {log}")
    console.say(f"to try again: {again}; to start over: name another folder with --work")
    return ended.code or 0


SUBMIT = Verb(
    name="submit",
    examples=(
        "capsule submit manifest.json",
        "capsule submit manifest.json --runtime apptainer --walltime 04:00:00",
        "capsule submit quickstart-1a2b3c4d.job",
    ),
    one="manifest or folder",
    add=_add,
    act=verb.door(Arguments, _submit),
)
