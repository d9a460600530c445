"""`capsule check` and `capsule show`: read a capsule; nothing of it is executed.

`show network NAME` tells of a network of the catalogue instead.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from capsule.collector import pause_collector
from capsule.errors import UsageError
from capsule.verbs import located, verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console

_NETWORK = "network"
_REMOVED = {
    "traffic": "`show traffic` no longer exists: run the manifest; the capsule contains bytes_sent,"
    " bytes_received and messages of each rank",
    "scaling": "`show scaling` no longer exists: measure cases of several ranks in one benchmark"
    ' with "scaling", as in manifests/scaling.json',
}
_MOST_DIGITS = 9


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Arguments of the verbs that read a capsule."""

    capsule: str
    id: str | None = None
    json: bool = False
    evidence: bool = False
    full: bool = False
    ranks: str | None = None
    words: Sequence[str] = ()


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("capsule", metavar="CAPSULE", help=located.HELP)
    located.add_id(parser, "the capsule")
    verb.add_json(parser)


def _add_show(parser: ArgumentParser) -> None:
    _add(parser)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="NAME [SIZE=N ...]",
        help=f"`show {_NETWORK} NAME` shows the parameters, inputs, outputs and work of a network"
        " of the catalogue",
    )
    parser.add_argument("--ranks", help=SUPPRESS)
    parser.add_argument(
        "--evidence",
        action="store_true",
        help="show the log or file line that each value was read from",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="print everything: whole ids, times, packages, all metrics, runs and notes",
    )


def _check(arguments: Arguments, console: Console) -> int:
    from capsule import reading

    with (
        located.locate(arguments.capsule, arguments.id, console) as place,
        reading.read(place.path, place.id) as capsule,
    ):
        facts = [*capsule.facts(), *reading.facts(capsule.record)]
        refused = capsule.refused_values()
    if arguments.json:
        console.document({"id": capsule.id, "checked": facts, "refused": refused})
    else:
        for fact in ("intact", *refused, *facts):
            console.data(fact)
    return 0


def _show(arguments: Arguments, console: Console) -> int:
    from capsule import reading, report

    _refuse_removed(arguments)
    if arguments.words and arguments.capsule == _NETWORK:
        return _show_network(arguments, console)
    if arguments.words:
        raise verb.refuse_several("show", "capsule", (arguments.capsule, *arguments.words))
    with (
        located.locate(arguments.capsule, arguments.id, console) as place,
        reading.read(place.path, place.id) as capsule,
    ):
        record = capsule.record
        quotations = list(capsule.quotations()) if arguments.evidence else []
        is_drawn = not (arguments.evidence or arguments.json)
        refused = capsule.refused_values() if is_drawn else []
        lines = capsule.line_counts() if is_drawn else {}
    if arguments.evidence and arguments.json:
        console.document(report.evidence_to_json(quotations, capsule.id))
    elif arguments.evidence:
        console.show(*report.draw_evidence(quotations, full=arguments.full))
    elif arguments.json:
        console.document(report.record_to_json(record, capsule.id))
    else:
        drawn = report.draw_record(record, capsule.id, lines, refused, full=arguments.full)
        console.show(*drawn)
    return 0


def _show_network(arguments: Arguments, console: Console) -> int:
    from capsule import networks

    for option in ("evidence", "full", "id"):
        if getattr(arguments, option):
            raise UsageError(
                f"--{option} needs a capsule, found the network {arguments.words[0]}",
                advice=f"leave --{option} out",
            )
    name, *sizes = arguments.words
    network = networks.describe(name, dict(map(_size, sizes)))
    if arguments.json:
        console.document(asdict(network))
    else:
        for row in networks.draw(network):
            console.data(row)
    return 0


def _refuse_removed(arguments: Arguments) -> None:
    """Stop at what an earlier version showed, and say what to do instead.

    Raises:
        UsageError: It is asked for.
    """
    if arguments.words and arguments.capsule in _REMOVED:
        raise UsageError(_REMOVED[arguments.capsule])
    if arguments.ranks is not None:
        raise UsageError(
            "--ranks no longer exists: the capsule of a run contains the traffic of each rank",
            advice="leave --ranks out",
        )


def _size(text: str) -> tuple[str, int]:
    """SIZE=N, as typed."""
    name, equals, number = text.partition("=")
    if not (name and equals and number.isascii() and number.isdigit()):
        raise UsageError(
            f"expected SIZE=N with a whole number, found {text!r}",
            advice="write the size as a whole number, such as batch=8",
        )
    if len(number) > _MOST_DIGITS:
        raise UsageError(
            f"{name} has {len(number)} digits, at most {_MOST_DIGITS} are allowed",
            advice="give a smaller number",
        )
    return name, int(number)


CHECK = Verb(
    name="check",
    examples=("capsule check a.capsule.zip",),
    one="capsule",
    add=_add,
    act=pause_collector()(verb.door(Arguments, _check)),
)

SHOW = Verb(
    name="show",
    examples=(
        "capsule show a.capsule.zip --json",
        "capsule show a.capsule.zip --full",
        "capsule show a.capsule.zip --evidence",
        "capsule show network cosmoflow side=32 --json",
    ),
    one="capsule",
    add=_add_show,
    act=pause_collector()(verb.door(Arguments, _show)),
)
