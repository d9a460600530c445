"""`capsule stage`: fetch what a run on a machine without a network will need."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.errors import UsageError
from capsule.fetching import is_remote
from capsule.options import StageOptions
from capsule.verbs import located, verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class Arguments(StageOptions):
    """Arguments of `stage`."""

    source: str
    frameworks: tuple[str, ...] = ()
    json: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="CAPSULE|MANIFEST",
        help=f"manifest to run, or capsule to verify ({located.HELP})",
    )
    located.add_id(parser, "the capsule")
    verb.add_frameworks(parser)
    verb.add_runtime(parser)
    verb.add_keyring(parser)
    verb.add_permission(parser, "an untrusted capsule")
    verb.add_json(parser)


def _stage(arguments: Arguments, console: Console) -> int:
    from capsule import api, manifest, report

    watch = console.watch(lambda _: "", follow=False)
    is_manifest = not is_remote(arguments.source) and _is_manifest(Path(arguments.source))
    if is_manifest:
        name: str | Path = Path(arguments.source)
        staged = api.stage(manifest.load(Path(name), arguments.frameworks), arguments, watch)
    else:
        if arguments.frameworks:
            raise UsageError(
                "--frameworks needs a manifest, found a capsule",
                where=arguments.source,
                advice="leave --frameworks out: `capsule verify` runs all frameworks of a capsule",
            )
        with located.locate(arguments.source, arguments.id, console) as place:
            name = place.name
            arguments = replace(arguments, id=place.id)
            staged = api.stage(place.path, arguments, watch)
    flags = {
        "--id": None if is_manifest else arguments.id,
        "--frameworks": ",".join(arguments.frameworks),
        # an engine that was asked for may be another than the image would get
        "--runtime": staged.runtime if staged.image or arguments.runtime != "auto" else None,
        "--image": arguments.image,
        "--trust": not is_manifest and arguments.trust,
        "--allow-host": not is_manifest and arguments.allow_host,
        "--keep-keyring": arguments.keep_keyring,
        "--offline": True,
    }
    line = verb.command("run" if is_manifest else "verify", name, flags=flags)
    if arguments.json:
        console.document(report.staged_to_json(staged, line))
    else:
        console.show(*report.draw_staging(staged))
        console.data(line)
    return 0


def _is_manifest(path: Path) -> bool:
    """Return whether a path is a file other than a zip archive."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(2) != b"PK"


STAGE = Verb(
    name="stage",
    examples=(
        "capsule stage manifest.json --runtime apptainer",
        "capsule stage stranger.capsule.zip --trust",
    ),
    one="manifest or capsule",
    add=_add,
    act=verb.door(Arguments, _stage),
)
