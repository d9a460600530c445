"""`capsule diff`: judge one capsule by others that are there already."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.collector import pause_collector
from capsule.verbs import verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What was typed."""

    original: Path
    reruns: Sequence[Path]
    json: bool = False
    full: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("original", type=Path, metavar="A")
    parser.add_argument("reruns", type=Path, metavar="B", nargs="+")
    verb.add_full(parser)
    verb.add_json(parser)


def _diff(arguments: Arguments, console: Console) -> int:
    from capsule import judgement, report, verdict
    from capsule.verdict import several

    first, *others = arguments.reruns
    if others:
        spread = judgement.diff(arguments.original, first, *others)
        if arguments.json:
            console.document(report.several_to_json(spread))
        else:
            console.show(*report.draw_several(spread, full=arguments.full))
        return several.exit_code(spread)
    judged = judgement.diff(arguments.original, first)
    going_on = verb.next_command(arguments.original, first, judged, {})
    if arguments.json:
        console.document(report.verdict_to_json(judged, going_on))
    else:
        console.show(*report.draw_verdict(judged, full=arguments.full))
        if going_on:
            console.data(f"to decide it: {going_on}")
    return verdict.exit_code(judged)


DIFF = Verb(
    name="diff",
    examples=(
        "capsule diff original.capsule.zip rerun.verification.zip",
        "capsule diff original.capsule.zip here.verification.zip there.verification.zip",
    ),
    add=_add,
    # what was read stays while the report is imported and drawn
    act=pause_collector()(verb.door(Arguments, _diff)),
)
