"""A record on a terminal: what ran, on what, what is claimed, what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING

from capsule import summary, sweeps
from capsule.record import Record
from capsule.report.terminal import derivation
from capsule.report.terminal.devices import draw_devices
from capsule.report.terminal.facts import Fact, list_facts
from capsule.report.terminal.listing import Column, Listing
from capsule.report.terminal.metrics import Metrics, list_metrics, order_paths
from capsule.report.terminal.naming import ShortNames
from capsule.report.terminal.order import list_in_time_order
from capsule.report.terminal.prose import Prose
from capsule.report.terminal.remarks import list_remarks
from capsule.report.terminal.roofline import draw_rooflines
from capsule.report.terminal.runs import list_runs
from capsule.report.terminal.scaling import draw_sweeps
from capsule.report.terminal.serving import draw_latencies
from capsule.report.terminal.style import grid, join_first
from capsule.verdict.wording import count

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

_MOST_LINES = 120
# lines of the parts at most; the table of metrics has what the others leave
_HEAD_LINES, _EXTRA_LINES, _TABLE_LINES, _RUN_LINES, _NOTE_LINES = 36, 28, 14, 18, 16
_FACT_LINES = 3
_NOTES = 5
_NAMES = 5
_VALUES_OF_A_LINE = 20

Lines = Mapping[str, tuple[int, int]]
"""Of how many lines the last one gave each metric, the fewest and the most, by its path."""


def draw_record(
    record: Record,
    capsule_id: str | None,
    lines: Lines | None = None,
    refused: Sequence[str] = (),
    *,
    full: bool = False,
) -> tuple[RenderableType, ...]:
    """Return a record as rich renderables, to be printed one below the other.

    Args:
        record: Of an original or of a re-run.
        capsule_id: None while it is not sealed.
        lines: See `Lines`.
        refused: Values that today's rules of reading texts refuse, as sentences.
        full: Print all of it; else one screen, which counts what has no room.
    """
    if full:
        return tuple(_draw_whole(record, capsule_id, lines or {}, refused))
    return (_Screen(record, capsule_id, lines or {}, refused),)


class _Screen:
    """A record in at most 120 lines, whatever it holds; see `draw_record`."""

    def __init__(
        self, record: Record, capsule_id: str | None, lines: Lines, refused: Sequence[str]
    ) -> None:
        self._record = record
        self._id = capsule_id
        self._lines = lines
        self._refused = refused

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment

        def render(parts: Iterable[RenderableType], most: int) -> list[list[Segment]]:
            lines = [
                line for one in parts for line in console.render_lines(one, options, pad=False)
            ]
            if len(lines) > most:
                rest = Prose(f"and {len(lines) - most + 1} more lines: --full", "dim")
                lines[most - 1 :] = console.render_lines(rest, options, pad=False)
            return lines

        record = self._record
        metrics = summary.run_values(record)
        names = ShortNames(order_paths(record, metrics))
        facts = render(_draw_head(record, self._id, self._refused, _FACT_LINES), _HEAD_LINES)
        rules = render(draw_rules(record, metrics, names, self._lines), _FACT_LINES)
        extras = render(_draw_extras(record, metrics, _TABLE_LINES), _EXTRA_LINES)
        runs = render(_draw_runs(record, metrics, names, _RUN_LINES), _RUN_LINES)
        notes = render(_draw_notes(record), _NOTE_LINES)
        others = (facts, rules, extras, runs, notes)
        left = _MOST_LINES - sum(len(part) + 1 for part in others if part)
        table = render(_draw_metrics(record, metrics, names, left), left)
        for place, part in enumerate(filter(None, (facts, table + rules, extras, runs, notes))):
            for line in [*[[]] * bool(place), *part]:
                yield from line
                yield Segment.line()


def _draw_whole(
    record: Record, capsule_id: str | None, lines: Lines, refused: Sequence[str]
) -> Iterator[RenderableType]:
    """All of a record, with whole paths, ids and lists."""
    metrics, names = summary.run_values(record), ShortNames(())
    yield from _draw_head(record, capsule_id, refused, None)
    yield ""
    yield from _draw_metrics(record, metrics, names, None)
    if rules := derivation.of_commands(record, metrics, lines, whole=True):
        yield ""
        yield Listing(
            title="Derivation of the value of a run",
            names=list(rules),
            columns=[Column(heading="", cells=list(rules.values()), is_text=True)],
        )
    yield from _draw_order(metrics)
    for part in _draw_extras(record, metrics, None):
        yield ""
        yield part
    yield ""
    yield from _draw_runs(record, metrics, names, None)
    for part in draw_devices(record):
        yield ""
        yield part
    yield ""
    yield from (Prose(f"note: {sentence}") for sentence in list_remarks(record))


def _draw_head(
    record: Record, capsule_id: str | None, refused: Sequence[str], most_lines: int | None
) -> Iterator[RenderableType]:
    """Yield title, authors and facts of a record."""
    manifest = record.manifest
    name = f"capsule {capsule_id[:12]}" if capsule_id else "not sealed"
    yield Prose(f"{name}  {manifest.name}: {manifest.title}", "bold", most_lines=most_lines)
    names = [author.name for author in manifest.authors]
    authors = ", ".join(names) if most_lines is None else join_first(names, _NAMES)
    day = date.fromisoformat(record.started[:10])
    yield Prose(
        f"by {authors}, {day.day} {day:%b %Y}, capsule-hpc {record.tool}", most_lines=most_lines
    )
    yield ""
    refusals = (("refused", sentence) for sentence in refused)
    facts = list_facts(record, capsule_id, whole=most_lines is None)
    yield _tabulate((*refusals, *facts), most_lines)


def head(record: Record, capsule_id: str) -> RenderableType:
    """Return the facts of a sealed record as labels and texts."""
    manifest = record.manifest
    authors = join_first([author.name for author in manifest.authors], _NAMES)
    facts = (
        ("capsule", capsule_id),
        ("name", f"{manifest.name}: {manifest.title}"),
        ("authors", authors),
        *list_facts(record, capsule_id, whole=False),
    )
    return _tabulate(facts, _FACT_LINES)


def _tabulate(facts: Iterable[Fact], most_lines: int | None) -> RenderableType:
    """Labels and texts below each other; a label that repeats is printed once."""
    rows, above = grid(), None
    for label, words in facts:
        rows.add_row("" if label == above else label, Prose(words, most_lines=most_lines))
        above = label
    return rows


def _draw_metrics(
    record: Record, metrics: Metrics, names: ShortNames, most_lines: int | None
) -> Iterator[RenderableType]:
    if metrics or record.claims:
        yield list_metrics(record, metrics, names, most_lines)


def draw_rules(
    record: Record, metrics: Metrics, names: ShortNames, lines: Lines
) -> Iterator[RenderableType]:
    """Draw how values of runs are made, where a run gave several numbers."""
    paths: dict[str, list[str]] = {}
    for path, rule in derivation.of_commands(record, metrics, lines).items():
        paths.setdefault(rule, []).append(names.shorten(path))
    if paths:
        words = "; ".join(f"{rule} ({join_first(some, _NAMES)})" for rule, some in paths.items())
        yield Prose(f"value of a run: {words}", "dim", most_lines=_FACT_LINES)


def _draw_order(metrics: Metrics) -> Iterator[RenderableType]:
    """The values of all runs in the order of time, in which a drift is seen."""
    names, cells = [], []
    for path, metric in metrics.items():
        values = list_in_time_order(metric) if len(set(metric.values)) > 1 else []
        for first in range(0, len(values), _VALUES_OF_A_LINE):
            names.append("" if first else path)
            cells.append(", ".join(values[first : first + _VALUES_OF_A_LINE]))
    if names:
        yield ""
        column = Column(heading="values in time order", cells=cells, is_text=True)
        yield Listing(names=names, columns=[column])


def _draw_extras(
    record: Record, metrics: Metrics, most_lines: int | None
) -> Iterator[RenderableType]:
    """Tables that only some subjects have."""
    yield from draw_sweeps(sweeps.find(record), most_lines)
    yield from draw_rooflines(record, metrics, most_lines)
    yield from draw_latencies(record, metrics, most_lines)


def _draw_runs(
    record: Record, metrics: Metrics, names: ShortNames, most_lines: int | None
) -> Iterator[RenderableType]:
    if record.attempts:
        yield list_runs(record, metrics, names, most_lines)


def _draw_notes(record: Record) -> Iterator[RenderableType]:
    """The first notes, and how many more there are."""
    sentences = list_remarks(record)
    for sentence in sentences[:_NOTES]:
        yield Prose(f"note: {sentence}", most_lines=_FACT_LINES)
    if len(sentences) > _NOTES:
        yield Prose(f"and {count(len(sentences) - _NOTES, 'more note')}: --full", "dim")
