"""`capsule export csv`, `export figure`: a capsule's numbers as a table or a figure."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.collector import pause_collector
from capsule.errors import UsageError
from capsule.verbs import located, verb
from capsule.verbs.verb import Family, Verb

if TYPE_CHECKING:
    from capsule.console import Console


@dataclass(frozen=True, kw_only=True)
class CsvArguments:
    """Arguments of `export csv`."""

    capsule: str
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class FigureArguments:
    """Arguments of `export figure`."""

    capsule: str
    metric: str
    output: Path
    id: str | None = None


def _add_csv(parser: ArgumentParser) -> None:
    parser.add_argument("capsule", metavar="CAPSULE", help=located.HELP)
    located.add_id(parser, "the capsule")


def _add_figure(parser: ArgumentParser) -> None:
    _add_csv(parser)
    parser.add_argument(
        "metric",
        metavar="METRIC",
        help="metric path, for example train/default/torch/loss; * matches one whole segment",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="figure to write: .svg, .pdf or .png",
    )


def _csv(arguments: CsvArguments, console: Console) -> int:
    from capsule import reading, report

    with (
        located.locate(arguments.capsule, arguments.id, console) as place,
        reading.read(place.path, place.id) as capsule,
    ):
        for row in report.samples_to_csv(capsule.record):
            console.data(row)
    return 0


def _figure(arguments: FigureArguments, console: Console) -> int:
    from capsule import reading, report

    output = arguments.output
    if output.exists():
        raise UsageError("already exists", where=str(output), advice="name another file")
    with (
        located.locate(arguments.capsule, arguments.id, console) as place,
        reading.read(place.path, place.id) as capsule,
    ):
        picture = report.draw_figure(capsule.record, arguments.metric, output.suffix)
    try:
        with output.open("xb") as stream:
            stream.write(picture)
    except FileExistsError:
        raise UsageError("already exists", where=str(output), advice="name another file") from None
    except OSError as error:
        advice = "name a file in a writable folder"
        what = f"cannot write: {error.strerror}"
        raise UsageError(what, where=str(output), advice=advice) from None
    console.data(str(output))
    return 0


_EXAMPLES = (
    "capsule export csv a.capsule.zip > samples.csv",
    "capsule export figure a.capsule.zip 'train/*/torch/loss' -o loss.svg",
)

EXPORT = Family(
    name="export",
    examples=_EXAMPLES,
    verbs=(
        Verb(
            name="csv",
            examples=_EXAMPLES[:1],
            purpose="print all values of all metrics as CSV",
            one="capsule",
            add=_add_csv,
            act=pause_collector()(verb.door(CsvArguments, _csv)),
        ),
        Verb(
            name="figure",
            examples=_EXAMPLES[1:],
            purpose="draw a metric: curves over its steps, or a box plot of its runs",
            add=_add_figure,
            act=pause_collector()(verb.door(FigureArguments, _figure)),
        ),
    ),
)
