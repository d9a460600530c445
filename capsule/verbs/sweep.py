"""`capsule sweep`: the results of a sealed search, and the manifest of its winner."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.collector import pause_collector
from capsule.errors import UsageError
from capsule.verbs import located, verb
from capsule.verbs.verb import Family, Verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from capsule.console import Console
    from capsule.winners import Outcome

_MOST_NAMES = 20


@dataclass(frozen=True, kw_only=True)
class ShowArguments:
    """Arguments of `sweep show`."""

    capsule: str
    id: str | None = None
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class WinnerArguments:
    """Arguments of `sweep winner`."""

    capsule: str
    id: str | None = None
    benchmark: str | None = None
    framework: str | None = None
    seeds: int | None = None
    output: Path | None = None


def _add_show(parser: ArgumentParser) -> None:
    parser.add_argument("capsule", metavar="CAPSULE", help=located.HELP)
    located.add_id(parser, "the capsule")
    verb.add_json(parser)


def _add_winner(parser: ArgumentParser) -> None:
    parser.add_argument("capsule", metavar="CAPSULE", help=located.HELP)
    located.add_id(parser, "the capsule")
    parser.add_argument(
        "--benchmark",
        metavar="ID",
        help="benchmark of the search (default: the only benchmark with a search)",
    )
    parser.add_argument(
        "--framework",
        metavar="NAME",
        help="framework of the search (default: the only framework of the benchmark)",
    )
    parser.add_argument(
        "--seeds",
        type=verb.count,
        metavar="N",
        help="number of seeds of the new manifest (default: 10)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="manifest to write, in the folder of the inputs (default: print the manifest)",
    )


def _show(arguments: ShowArguments, console: Console) -> int:
    from capsule import reading, report, winners

    with (
        located.locate(arguments.capsule, arguments.id, console) as place,
        reading.read(place.path, place.id) as capsule,
    ):
        outcomes = winners.outcomes(capsule.record)
    if arguments.json:
        console.document({"id": capsule.id, "searches": [asdict(one) for one in outcomes]})
    else:
        console.show(*report.draw_searches(outcomes))
    return 0


def _winner(arguments: WinnerArguments, console: Console) -> int:
    from capsule import reading, winners

    with (
        located.locate(arguments.capsule, arguments.id, console) as place,
        reading.read(place.path, place.id) as capsule,
    ):
        outcomes = winners.outcomes(capsule.record)
        which = _choose(outcomes, arguments)
        count = winners.SEEDS if arguments.seeds is None else arguments.seeds
        text = winners.write(capsule.record, capsule.id, which, count)
    if arguments.output is None:
        console.data(text.decode().rstrip("\n"))
        return 0
    try:
        with arguments.output.open("xb") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(
            "already exists", where=str(arguments.output), advice="name another file"
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot write: {error.strerror}",
            where=str(arguments.output),
            advice="name a file in a writable folder",
        ) from None
    console.data(
        f"wrote {arguments.output}: runs {which.winner} of {which.benchmark} under fresh seeds"
    )
    return 0


def _choose(outcomes: Sequence[Outcome], arguments: WinnerArguments) -> Outcome:
    """Return the search that the arguments select.

    Raises:
        UsageError: They select none, or several.
    """
    meant = [
        one
        for one in outcomes
        if arguments.benchmark in (None, one.benchmark)
        and arguments.framework in (None, one.framework)
    ]
    if len(meant) == 1:
        return meant[0]
    names = [f"--benchmark {one.benchmark} --framework {one.framework}" for one in outcomes]
    given = {"--benchmark": arguments.benchmark, "--framework": arguments.framework}
    words = [f"{flag} {value}" for flag, value in given.items() if value is not None]
    selection = f" with {' '.join(words)}" if words else ""
    raise UsageError(
        f"expected one search{selection}, found {len(meant)}",
        where=arguments.capsule,
        advice=f"choose one: {', or '.join(names[:_MOST_NAMES])}",
    )


SWEEP = Family(
    name="sweep",
    examples=("capsule sweep show a.capsule.zip",),
    verbs=(
        Verb(
            name="show",
            purpose="show a search: studies, score, winner, quality at each budget",
            examples=(
                "capsule sweep show a.capsule.zip",
                "capsule sweep show a.capsule.zip --json",
            ),
            one="capsule",
            add=_add_show,
            act=pause_collector()(verb.door(ShowArguments, _show)),
        ),
        Verb(
            name="winner",
            purpose="write a manifest that runs the winner again under fresh seeds",
            examples=("capsule sweep winner a.capsule.zip -o winner.json",),
            one="capsule",
            add=_add_winner,
            act=pause_collector()(verb.door(WinnerArguments, _winner)),
        ),
    ),
)
