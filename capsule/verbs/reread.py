"""`capsule reread`: read the values of a sealed run again by a corrected manifest."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.options import RereadOptions
from capsule.verbs import verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class Arguments(RereadOptions):
    """Arguments of `reread`."""

    capsule: Path
    manifest: Path
    json: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("capsule", type=verb.path, metavar="CAPSULE", help="capsule file or folder")
    parser.add_argument(
        "--manifest",
        type=Path,
        required=True,
        metavar="FILE",
        help="copy of the capsule's data/manifest.json, with corrected metrics or claims",
    )
    verb.add_output(parser)
    parser.add_argument(
        "--strict-privacy",
        action="store_true",
        help="refuse to seal if a host name, user name or likely key is found (default: warn)",
    )
    verb.add_json(parser)


def _reread(arguments: Arguments, console: Console) -> int:
    from capsule import api, lint, report

    sealed = api.reread(arguments.capsule, arguments.manifest, arguments, console.listen())
    warnings = lint.warnings_of_runs(sealed.record)
    if arguments.json:
        console.document(
            {
                "capsule": str(sealed.path),
                "id": sealed.id,
                "failed": len(sealed.failures),
                "warnings": report.warnings_to_json(warnings),
            }
        )
    else:
        console.show(*report.draw_sealed(sealed.record, sealed.id, warnings, sealed.line_counts()))
        console.data(f"sealed {sealed.path}")
    if sealed.failures:
        raise report.failure(sealed.record, sealed.path)
    return 0


REREAD = Verb(
    name="reread",
    examples=("capsule reread a.capsule.zip --manifest corrected.json",),
    one="capsule",
    add=_add,
    act=verb.door(Arguments, _reread),
)
