"""A record on a terminal: what ran, on what, what is claimed, what was measured."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from capsule import averages, inventory, stats, summary
from capsule.image import IDENTITIES
from capsule.manifest import Command
from capsule.origin import Side
from capsule.record import FrozenClaim, Record, Source
from capsule.report.terminal.order import in_time_order
from capsule.report.terminal.runs import draw_runs
from capsule.report.terminal.style import Path, draw_notes, draw_rest, grid, join_first, table, text
from capsule.summary import MetricRuns
from capsule.verdict import sides, wording
from capsule.verdict.wording import count, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType
    from rich.table import Table

_METRIC_ROWS = 40
_CLAIM_ROWS = 100
_NODES = 20
_SEEDS = 20
_COMMANDS = _DATASETS = 5
_SOURCES = 10
_INPUTS = 5


def draw_record(record: Record, capsule_id: str | None) -> tuple[RenderableType, ...]:
    """A record as rich renderables, to be printed one below the other.

    Args:
        record: Of an original or of a re-execution.
        capsule_id: None while it is not sealed.
    """
    return tuple(_parts(record, capsule_id))


def _parts(record: Record, capsule_id: str | None) -> Iterator[RenderableType]:
    facts = head(record, capsule_id)
    for name, value in _contents(record):
        facts.add_row(name, text(value))
    yield facts
    metrics = summary.run_values(record)
    if record.claims:
        yield _claims(record.claims[:_CLAIM_ROWS], metrics)
        yield from draw_rest(len(record.claims) - _CLAIM_ROWS, "claims")
    yield _metrics(metrics)
    yield from draw_rest(len(metrics) - _METRIC_ROWS, "metrics")
    yield from draw_runs(record, metrics)
    yield from draw_notes(remarks(record))


def remarks(record: Record) -> list[str]:
    """The notes of a record, and what is said of trials that completed."""
    messages = (one.message for one in record.attempts if one.outcome == "completed")
    sentences = (*(note.sentence for note in record.notes), *filter(None, messages))
    return list(dict.fromkeys(sentences))


def head(record: Record, capsule_id: str | None) -> Table:
    """The facts of a record as names and values."""
    rows = grid()
    for name, value in _head(record, capsule_id):
        rows.add_row(name, text(value))
    return rows


def _head(record: Record, capsule_id: str | None) -> Iterator[tuple[str, str]]:
    yield "capsule", capsule_id or "not sealed"
    yield "name", f"{record.manifest.name}: {record.manifest.title}"
    yield "authors", ", ".join(author.name for author in record.manifest.authors)
    if record.verifies:
        yield "verifies", record.verifies
    if record.nonce is not None:
        yield "nonce", f"{record.nonce} (the fresh seeds follow from it too)"
    for earlier in record.chain:
        yield "counts", f"{count(earlier.runs, 'run')} of {earlier.id}"
    if isinstance(record.origin, Side):
        yield "pair", f"side {record.origin.side.upper()} of {record.origin.pair}, run by turns"
    yield "run", f"{record.started} to {record.ended}, capsule-hpc {record.tool}"
    yield "runtime", record.runtime if record.contained else f"{record.runtime}, not contained"
    if record.image is None:
        yield "image", "none"
    else:
        yield "image", str(record.image.identity.digest)
        kind = record.image.identity.kind
        whose = "" if kind == "manifest" else f", known by its {IDENTITIES[kind]}"
        yield "", f"{record.image.reference} ({record.image.platform}){whose}"
    for source in record.sources[:_SOURCES]:
        yield "source", _source(source)
    if len(record.sources) > _SOURCES:
        yield "", f"and {len(record.sources) - _SOURCES} more"
    for node in record.nodes[:_NODES]:
        yield "node", inventory.describe(node)
    if len(record.nodes) > _NODES:
        yield "", f"and {len(record.nodes) - _NODES} more"
    yield "seeds", _seeds(record)
    outcomes = Counter(attempt.outcome for attempt in record.attempts)
    yield "attempts", ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items())) or "none"


def _contents(record: Record) -> Iterator[tuple[str, str]]:
    """What was run, on which data, for which paper."""
    manifest = record.manifest
    commands = [one for one in manifest.benchmarks if isinstance(one.subject, Command)]
    for benchmark in commands[:_COMMANDS]:
        assert isinstance(benchmark.subject, Command)
        yield "command", f"{benchmark.id}: {shlex.join(benchmark.subject.words)}"
    if len(commands) > _COMMANDS:
        yield "", f"and {len(commands) - _COMMANDS} more"
    for dataset in record.datasets[:_DATASETS]:
        yield "data", f"{dataset.name}: {dataset.bytes} bytes, {dataset.digest}"
    if len(record.datasets) > _DATASETS:
        yield "", f"and {len(record.datasets) - _DATASETS} more"
    if manifest.paper_doi:
        yield "paper", f"https://doi.org/{manifest.paper_doi}"


def _source(source: Source) -> str:
    states = {True: ", modified", False: "", None: ", modified or not: git could not tell"}
    inputs = join_first(list(source.inputs), _INPUTS)
    return f"{inputs}: git commit {source.commit}{states[source.modified]}"


def _seeds(record: Record) -> str:
    """Of the runs that were planned, the manifest's own first."""
    seeds: dict[str, dict[str, None]] = {"manifest": {}, "fresh": {}, "control": {}}
    for trial in summary.planned_trials(record.plan):
        seeds[trial["seed_source"]][str(trial["seed"])] = None
    words = {"manifest": "", "fresh": "fresh ", "control": "of a control run "}
    return "; ".join(
        words[source] + join_first(list(some), _SEEDS) for source, some in seeds.items() if some
    )


def _claims(claims: Sequence[FrozenClaim], metrics: Mapping[str, MetricRuns]) -> RenderableType:
    rows = table(
        ("claim", {"no_wrap": True}),
        ("metric", {"overflow": "fold"}),
        ("allowed", {"overflow": "fold"}),
        title="Claims, as frozen at sealing",
    )
    for claim in claims:
        primary = "" if claim.primary else " (secondary)"
        metric = metrics.get(claim.metric)
        runs = None if metric is None else summary.values_for(claim.pattern, metric)
        allowed = wording.region(claim, runs)
        rows.add_row(f"{claim.type}{primary}", name_claim(claim), text(allowed))
    return rows


def name_claim(claim: FrozenClaim) -> RenderableType:
    """The metric of a claim, with the value that is judged where it is not the runs' own."""
    from rich.console import Group

    value = claim.pattern.value
    return Group(Path(claim.metric), text(value, "dim")) if value else Path(claim.metric)


def _metrics(metrics: Mapping[str, MetricRuns]) -> RenderableType:
    right = {"justify": "right", "no_wrap": True}
    rows = table(
        ("metric", {"overflow": "fold"}),
        ("mean", right),
        ("smallest", right),
        ("largest", right),
        ("cv of calls", right),
        ("unit", {"no_wrap": True}),
        ("runs", right),
        title="Metrics, one value a run",
    )
    for path in sorted(metrics)[:_METRIC_ROWS]:
        metric = metrics[path]
        values = metric.values
        rows.add_row(
            _with_order(metric),
            number(sides.counts(metric, all_count=False).mean, 4),
            number(min(values, default=None), 4),
            number(max(values, default=None), 4),
            _variation(metric),
            text(metric.unit),
            f"{len(values)} of {len(metric.runs)}",
        )
    return rows


def _with_order(metric: MetricRuns) -> RenderableType:
    """A metric's path, and below it its values in the order in which the runs started."""
    from rich.console import Group

    order = in_time_order(metric)
    below = [text(f"in time order: {order}", "dim")] if order else []
    return Group(Path(metric.metric), *below)


def _variation(metric: MetricRuns) -> str:
    """The coefficient of variation of the calls of a run, the median over the runs."""
    runs = [stats.variation(calls) for run in metric.runs if (calls := summary.calls(run))]
    middle = averages.median([run for run in runs if run is not None])
    return "" if middle is None else f"{middle:.1%}"
