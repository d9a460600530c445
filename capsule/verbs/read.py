"""`capsule check` and `capsule show`: read a capsule; nothing of it is executed.

`show network NAME` tells of a network of the catalogue instead, `show traffic MANIFEST` of what
ranks exchange, and `show scaling CAPSULE...` of how long that would take among more of them.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.collector import pause_collector
from capsule.errors import UsageError
from capsule.verbs import located, verb
from capsule.verbs.verb import Verb

if TYPE_CHECKING:
    from capsule.console import Console

_NETWORK, _TRAFFIC, _SCALING = "network", "traffic", "scaling"
_COUNTED, _PREDICTED = (4096, 65_536), (8, 64, 512, 4096)
_MOST_DIGITS = 9


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What was typed."""

    capsule: str
    id: str | None = None
    json: bool = False
    evidence: bool = False
    ranks: tuple[int, ...] = ()
    words: Sequence[str] = ()


def _add(parser: ArgumentParser) -> None:
    parser.add_argument("capsule", metavar="CAPSULE", help=located.HELP)
    located.add_id(parser, "it")
    verb.add_json(parser)


def _add_show(parser: ArgumentParser) -> None:
    _add(parser)
    parser.add_argument(
        "words",
        nargs="*",
        metavar="NAME [SIZE=N ...]",
        help=f"of a network of the catalogue, instead of a capsule: `show {_NETWORK} NAME` says how"
        " many parameters it has, what it takes and yields, and its work; of a manifest's trainings"
        f" of level 3: `show {_TRAFFIC} MANIFEST` counts what ranks exchange, with torch; of"
        f" capsules of such: `show {_SCALING} CAPSULE...` predicts steps among more ranks",
    )
    parser.add_argument(
        "--ranks",
        type=_worlds,
        metavar="N,...",
        help=f"among how many: of `show {_TRAFFIC}` (default: {','.join(map(str, _COUNTED))}) and"
        f" `show {_SCALING}` (default: {','.join(map(str, _PREDICTED))})",
    )
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
        refused = capsule.refused_values()
    if arguments.json:
        console.document({"id": capsule.id, "checked": facts, "refused": refused})
    else:
        for fact in ("intact", *refused, *facts):
            console.data(fact)
    return 0


def _show(arguments: Arguments, console: Console) -> int:
    from capsule import reading, report

    if arguments.words and arguments.capsule == _TRAFFIC:
        return _show_traffic(arguments, console)
    if arguments.words and arguments.capsule == _SCALING:
        return _show_scaling(arguments, console)
    if arguments.ranks:
        raise UsageError(
            f"--ranks is of `show {_TRAFFIC} MANIFEST` and `show {_SCALING} CAPSULE...` alone"
        )
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
        console.show(*report.draw_evidence(quotations))
    elif arguments.json:
        console.document(report.record_to_json(record, capsule.id))
    else:
        for sentence in refused:
            console.data(sentence)
        console.show(*report.draw_record(record, capsule.id, lines))
    return 0


def _show_network(arguments: Arguments, console: Console) -> int:
    from capsule import networks

    if arguments.evidence or arguments.id is not None:
        raise UsageError("--evidence and --id are of capsules, and a network is shown")
    name, *sizes = arguments.words
    network = networks.describe(name, dict(map(_size, sizes)))
    if arguments.json:
        console.document(asdict(network))
    else:
        for row in networks.draw(network):
            console.data(row)
    return 0


def _show_traffic(arguments: Arguments, console: Console) -> int:
    from capsule import manifest, traffic

    if arguments.evidence or arguments.id is not None:
        raise UsageError("--evidence and --id are of capsules, and a manifest is shown")
    if len(arguments.words) > 1:
        raise verb.refuse_several(f"show {_TRAFFIC}", "manifest", arguments.words)
    planned = manifest.load(Path(arguments.words[0]))
    counts = traffic.count(planned, arguments.ranks or _COUNTED)
    if arguments.json:
        console.document({"caveat": traffic.CAVEAT, "counts": [asdict(one) for one in counts]})
    else:
        for row in traffic.draw(counts):
            console.data(row)
    return 0


def _show_scaling(arguments: Arguments, console: Console) -> int:
    from capsule import extrapolation, reading

    if arguments.evidence:
        raise UsageError("--evidence is of one capsule, and its steps among more ranks are shown")
    if arguments.id is not None and len(arguments.words) > 1:
        raise UsageError("--id is of one capsule, and several are named")
    records = []
    for text in arguments.words:
        with (
            located.locate(text, arguments.id, console) as place,
            reading.read(place.path, place.id) as capsule,
        ):
            records.append(capsule.record)
    result = extrapolation.extrapolate(records, arguments.ranks or _PREDICTED)
    if arguments.json:
        console.document(asdict(result))
    else:
        for row in extrapolation.draw(result):
            console.data(row)
    return 0


def _worlds(text: str) -> tuple[int, ...]:
    """N,..., as typed."""
    words = text.split(",")
    if not all(re.fullmatch(f"[1-9][0-9]{{,{_MOST_DIGITS - 1}}}", word) for word in words):
        raise ArgumentTypeError(f"{text!r} is not N,... with whole numbers, such as 4096,65536")
    return tuple(dict.fromkeys(map(int, words)))


def _size(text: str) -> tuple[str, int]:
    """SIZE=N, as typed."""
    name, equals, number = text.partition("=")
    if not (name and equals and number.isascii() and number.isdigit()):
        raise UsageError(f"{text!r} is not SIZE=N with a whole number, such as batch=8")
    if len(number) > _MOST_DIGITS:
        raise UsageError(f"{name} has more than {_MOST_DIGITS} digits")
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
        "capsule show a.capsule.zip --evidence",
        "capsule show network cosmoflow side=32 --json",
        "capsule show traffic manifests/level3.json --ranks 4096,65536",
        "capsule show scaling a.capsule.zip --ranks 8,64,4096",
    ),
    one="capsule",
    add=_add_show,
    act=pause_collector()(verb.door(Arguments, _show)),
)
