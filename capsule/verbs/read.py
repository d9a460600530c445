"""`capsule check` and `capsule show`: read a capsule; nothing of it is executed."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capsule.collector import pause_collector
from capsule.verbs import located, verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What was typed."""

    capsule: str
    id: str | None = None
    json: bool = False
    evidence: bool = False


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("capsule", metavar="CAPSULE", help=located.HELP)
    located.add_id(parser, "it")
    verb.add_json(parser)


def _add_show(parser: ArgumentParser) -> None:
    _add(parser)
    parser.add_argument(
        "--evidence",
        action="store_true",
        help="the line that each number was read from, of metrics that are found in texts",
    )


def _check(arguments: Arguments, console: Console) -> int:
    from capsule import reading

    with (
        located.locate(arguments.capsule, arguments.id, console) as place,
        reading.read(place.path, place.id) as capsule,
    ):
        facts = [*capsule.facts(), *reading.facts(capsule.record)]
    if arguments.json:
        console.document({"id": capsule.id, "checked": facts})
    else:
        for fact in ("intact", *facts):
            console.data(fact)
    return 0


def _show(arguments: Arguments, console: Console) -> int:
    from capsule import reading, report

    with (
        located.locate(arguments.capsule, arguments.id, console) as place,
        reading.read(place.path, place.id) as capsule,
    ):
        record = capsule.record
        quotations = list(capsule.quotations()) if arguments.evidence else []
    if arguments.evidence and arguments.json:
        console.document(report.evidence_to_json(quotations, capsule.id))
    elif arguments.evidence:
        console.show(*report.draw_evidence(quotations))
    elif arguments.json:
        console.document(report.record_to_json(record, capsule.id))
    else:
        console.show(*report.draw_record(record, capsule.id))
    return 0


CHECK = Verb(
    name="check",
    examples=("capsule check a.capsule.zip",),
    one="capsule",
    add=_add,
    act=pause_collector()(verb.door(Arguments, _check)),
)

SHOW = Verb(
    name="show",
    examples=("capsule show a.capsule.zip --json", "capsule show a.capsule.zip --evidence"),
    one="capsule",
    add=_add_show,
    act=pause_collector()(verb.door(Arguments, _show)),
)
