"""`capsule pair`: compare two variants that run alternately on one machine."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.errors import UsageError
from capsule.options import PairOptions, ResumePairOptions
from capsule.verbs import verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console

_RUNTIMES = ("auto", "apptainer", "docker", "podman", "host")


@dataclass(frozen=True, kw_only=True)
class Arguments(PairOptions):
    """Arguments of `pair`: the options of a pair, and its manifests."""

    manifest: Path | None = None
    other: Path | None = None
    resume: Path | None = None
    trust: bool = False
    allow_host: bool = False
    json: bool = False


def _add(parser: ArgumentParser) -> None:
    _add_variants(parser)
    parser.add_argument(
        "--pairs",
        type=verb.count,
        metavar="N",
        help="number of A-B rounds (default: one per seed of A)",
    )
    parser.add_argument(
        "--margin",
        type=float,
        metavar="RATIO",
        help="largest ratio that counts as equal (default: 1.01, that is 1 %%)",
    )
    parser.add_argument(
        "--metrics",
        type=verb.names,
        metavar="PATTERN,...",
        help="machine metrics to judge (default: the metrics that A claims, else all times)",
    )
    parser.add_argument(
        "--work",
        type=Path,
        metavar="DIR",
        help="folder of both runs, removed after sealing (default: a new NAME-*.pair in the"
        " current folder)",
    )
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="resume the interrupted pair in DIR"
    )
    verb.add_offline(parser)
    verb.add_privacy(parser)
    verb.add_keyring(parser)
    verb.add_permission(parser, "a pair folder that another user began")
    verb.add_json(parser)


def _add_variants(parser: ArgumentParser) -> None:
    """Add both manifests, and the options that each side has of its own."""
    parser.add_argument(
        "manifest",
        nargs="?",
        type=verb.path,
        default=None,
        metavar="A",
        help="manifest of variant A",
    )
    parser.add_argument(
        "other",
        nargs="?",
        type=Path,
        default=None,
        metavar="B",
        help="manifest of variant B (default: A)",
    )
    for side in "ab":
        parser.add_argument(
            f"--runtime-{side}",
            choices=_RUNTIMES,
            help=f"container engine of {side.upper()} (default: auto)",
        )
        parser.add_argument(
            f"--image-{side}",
            metavar="REF",
            help=f"image of {side.upper()} (default: the manifest's image)",
        )
        parser.add_argument(
            f"--output-{side}",
            type=Path,
            metavar="FILE",
            help=f"capsule of {side.upper()} to write (default: a new file in the current folder)",
        )


def _pair(arguments: Arguments, console: Console) -> int:
    from capsule import api, report, verdict

    flags = {
        "--trust": arguments.trust,
        "--allow-host": arguments.allow_host,
        "--strict-privacy": arguments.strict_privacy,
        "--offline": arguments.offline,
        "--output-a": arguments.output_a,
        "--output-b": arguments.output_b,
    }
    watch = console.watch(lambda folder: verb.command("pair", "--resume", folder, flags=flags))
    if arguments.resume is not None:
        _refuse_beside_resume(arguments)
        options = ResumePairOptions(
            output_a=arguments.output_a,
            output_b=arguments.output_b,
            strict_privacy=arguments.strict_privacy,
            trust=arguments.trust,
            allow_host=arguments.allow_host,
            offline=arguments.offline,
        )
        paired = api.resume_pair(arguments.resume, options, watch)
    elif arguments.manifest is None:
        raise UsageError(
            "expected a manifest or --resume, found neither",
            advice="name one manifest or two; to resume a pair: --resume DIR",
        )
    elif arguments.trust or arguments.allow_host:
        raise verb.without_resume("--trust" if arguments.trust else "--allow-host")
    else:
        paired = api.pair(arguments.manifest, arguments.other, arguments, watch)
    if arguments.json:
        console.document(report.verdict_to_json(paired.verdict))
    else:
        console.show(*report.draw_verdict(paired.verdict))
        console.data(f"sealed A: {paired.a.path}")
        console.data(f"sealed B: {paired.b.path}")
    return verdict.exit_code(paired.verdict)


def _refuse_beside_resume(arguments: Arguments) -> None:
    if arguments.manifest is not None:
        raise UsageError(
            "manifests and --resume exclude each other",
            advice="leave the manifests out: the pair's folder contains both manifests",
        )
    free = {field.name for field in fields(ResumePairOptions)}
    for field in fields(PairOptions):
        own = getattr(arguments, field.name)
        if field.name not in free and own != field.default:
            raise verb.conflict(f"--{field.name.replace('_', '-')}")


PAIR = Verb(
    name="pair",
    examples=(
        "capsule pair manifest.json --runtime-a apptainer --runtime-b host --pairs 40",
        "capsule pair old.json new.json --margin 1.02",
        "capsule pair --resume manifest-1a2b3c4d.pair",
    ),
    one="manifest",
    add=_add,
    act=verb.door(Arguments, _pair),
)
