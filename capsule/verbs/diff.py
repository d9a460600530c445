"""`capsule diff`: judge the claims of one capsule by the runs of other capsules."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capsule.collector import pause_collector
from capsule.verbs import located, verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Arguments of `diff`."""

    original: str
    reruns: Sequence[str]
    id: str | None = None
    json: bool = False
    full: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("original", metavar="A", help=f"original: {located.HELP}")
    parser.add_argument("reruns", metavar="B", nargs="+", help="capsules to compare with A")
    located.add_id(parser, "A")
    verb.add_full(parser)
    verb.add_json(parser)


def _diff(arguments: Arguments, console: Console) -> int:
    from capsule import judgement, report, verdict
    from capsule.verdict import several

    with ExitStack() as stack:
        original = stack.enter_context(located.locate(arguments.original, arguments.id, console))
        first, *others = (
            stack.enter_context(located.locate(name, None, console)).path
            for name in arguments.reruns
        )
        if others:
            spread = judgement.diff(original.path, first, *others, expected=original.id)
        else:
            judged = judgement.diff(original.path, first, expected=original.id)
    if others:
        if arguments.json:
            console.document(report.several_to_json(spread))
        else:
            console.show(*report.draw_several(spread, full=arguments.full))
        return several.exit_code(spread)
    going_on = verb.next_command(original.name, first, judged, {"--id": original.id})
    if arguments.json:
        console.document(report.verdict_to_json(judged, going_on))
    else:
        console.show(*report.draw_verdict(judged, full=arguments.full))
        if going_on:
            console.data(f"to settle it: {going_on}")
    return verdict.exit_code(judged)


DIFF = Verb(
    name="diff",
    examples=(
        "capsule diff original.capsule.zip rerun.verification.zip",
        "capsule diff original.capsule.zip lab1.verification.zip lab2.verification.zip",
    ),
    add=_add,
    # what was read stays while the report is imported and drawn
    act=pause_collector()(verb.door(Arguments, _diff)),
)
