"""`capsule pair`: two variants on one node, by turns."""

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
    """What was typed: the options of a pair, and of which manifests."""

    manifest: Path | None = None
    other: Path | None = None
    resume: Path | None = None
    trust: bool = False
    allow_host: bool = False
    json: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "manifest", nargs="?", type=verb.path, default=None, metavar="A", help="a manifest"
    )
    parser.add_argument(
        "other",
        nargs="?",
        type=Path,
        default=None,
        metavar="B",
        help="another one; the same one by default",
    )
    for side in "ab":
        parser.add_argument(
            f"--runtime-{side}", choices=_RUNTIMES, help=f"what starts {side.upper()}"
        )
        parser.add_argument(f"--image-{side}", metavar="REF", help=f"image of {side.upper()}")
        parser.add_argument(
            f"--output-{side}", type=Path, metavar="FILE", help=f"capsule of {side.upper()}"
        )
    parser.add_argument(
        "--pairs",
        type=verb.count,
        metavar="N",
        help="rounds of one process start on either side; by default one for each seed of A",
    )
    parser.add_argument(
        "--margin",
        type=float,
        metavar="RATIO",
        help="ratio up to which the two count as the same (default: 1.01, one percent)",
    )
    parser.add_argument(
        "--metrics",
        type=verb.names,
        metavar="PATTERN,...",
        help="machine metrics to judge; by default those that A claims anything about, else all"
        " times",
    )
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="folder of both runs while they are under way"
    )
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with an interrupted pair")
    verb.add_offline(parser)
    verb.add_privacy(parser)
    verb.add_keyring(parser)
    verb.add_permission(parser, "the folder of a pair that somebody else began")
    verb.add_json(parser)


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
        raise UsageError("name one manifest or two, or the folder of a pair with --resume")
    elif arguments.trust or arguments.allow_host:
        raise verb.without_resume("--trust" if arguments.trust else "--allow-host")
    else:
        paired = api.pair(arguments.manifest, arguments.other, arguments, watch)
    if arguments.json:
        console.document(report.verdict_to_json(paired.verdict))
    else:
        console.show(*report.draw_verdict(paired.verdict))
        console.data(f"capsule of A {paired.a.path}")
        console.data(f"capsule of B {paired.b.path}")
    return verdict.exit_code(paired.verdict)


def _refuse_beside_resume(arguments: Arguments) -> None:
    if arguments.manifest is not None:
        raise UsageError("name manifests, or the folder of a pair with --resume, but not both")
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
