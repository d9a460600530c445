"""A record on a terminal: what ran, on what, what is claimed, what was measured."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from capsule import averages, inventory, population, quick, software, stats, summary, sweeps
from capsule.image import IDENTITIES
from capsule.manifest import Benchmark, Command, Network, Operator
from capsule.origin import Side, predecessor_id
from capsule.record import Dataset, FrozenClaim, Record, Source
from capsule.report.terminal import derivation
from capsule.report.terminal.order import in_time_order
from capsule.report.terminal.roofline import draw_rooflines
from capsule.report.terminal.runs import draw_runs
from capsule.report.terminal.scaling import draw_sweeps
from capsule.report.terminal.serving import draw_latencies
from capsule.report.terminal.style import Path, draw_notes, draw_rest, grid, join_first, table, text
from capsule.runtimes.programs import PREFIX
from capsule.starts import World
from capsule.summary import MetricRuns
from capsule.verdict import sides, wording
from capsule.verdict.wording import count, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.measure import Measurement
    from rich.table import Table

_METRIC_ROWS = 40
_CLAIM_ROWS = 100
_NODES = 20
_SEEDS = 20
_COMMANDS = _DATASETS = 5
# by the words of `levels.catalog.CONDITIONS`
_CONDITIONS = {"fresh": "other values for each call", "cold": "emptied caches before each call"}
_WORLDS = 5
_SOURCES = 10
_INPUTS = _PROGRAMS = _LEFT_OUT = 5


def draw_record(
    record: Record,
    capsule_id: str | None,
    lines: Mapping[str, tuple[int, int]] | None = None,
) -> tuple[RenderableType, ...]:
    """A record as rich renderables, to be printed one below the other.

    Args:
        record: Of an original or of a re-execution.
        capsule_id: None while it is not sealed.
        lines: Of how many lines the last one gave each metric, by its path.
    """
    return tuple(_parts(record, capsule_id, lines or {}))


def _parts(
    record: Record, capsule_id: str | None, lines: Mapping[str, tuple[int, int]]
) -> Iterator[RenderableType]:
    facts = grid()
    for name, value in (*_subject(record, capsule_id), *_contents(record), *_execution(record)):
        facts.add_row(name, text(value))
    yield facts
    metrics = summary.run_values(record)
    yield from _draw_metrics(record, metrics, derivation.of_commands(record, metrics, lines))
    yield from draw_sweeps(sweeps.find(record))
    yield from draw_rooflines(record, metrics)
    yield from draw_latencies(record, metrics)
    yield from draw_runs(record, metrics)
    yield from draw_notes(remarks(record))


def remarks(record: Record) -> list[str]:
    """The notes of a record, and what is said of trials that completed."""
    messages = (one.message for one in record.attempts if one.outcome == "completed")
    sentences = (
        *(note.sentence for note in record.notes),
        *_uneven_nodes(record),
        *sweeps.explain_sharing(list(sweeps.find(record))),
        *filter(None, messages),
    )
    return list(dict.fromkeys(sentences))


def _uneven_nodes(record: Record) -> Iterator[str]:
    """Nodes that are not as the others are which ranks ran on at the same time."""
    for together in dict.fromkeys(one.nodes for one in record.attempts if len(one.nodes) > 1):
        nodes = [record.nodes[index] for index in together]
        for place, differences in inventory.outliers(nodes):
            pointer, usual, own = differences[0]
            more = f", and {count(len(differences) - 1, 'more difference')}"
            yield (
                f"node {place + 1} of {len(nodes)} is not as most of them:"
                f" {pointer.removeprefix('/')} is {json.dumps(own)}, not {json.dumps(usual)}"
                f"{more if len(differences) > 1 else ''}"
            )


def head(record: Record, capsule_id: str | None) -> Table:
    """The facts of a record as names and values."""
    rows = grid()
    seeds = ("seeds", _seeds(record))
    for name, value in (*_subject(record, capsule_id), *_execution(record), seeds):
        rows.add_row(name, text(value))
    return rows


def _subject(record: Record, capsule_id: str | None) -> Iterator[tuple[str, str]]:
    """What it is, whose, and for the sake of which other one."""
    yield "capsule", capsule_id or "not sealed"
    yield "name", f"{record.manifest.name}: {record.manifest.title}"
    yield "authors", ", ".join(author.name for author in record.manifest.authors)
    if record.verifies:
        yield "verifies", record.verifies
    if (before := predecessor_id(record.origin)) is not None:
        yield "made of", before
    if (winner := record.manifest.winner_of) is not None:
        yield "winner of", f"{winner.capsule}, its point {winner.point}"
    if record.nonce is not None:
        yield "nonce", f"{record.nonce} (the fresh seeds follow from it too)"
    for place, value in record.manifest.changed.items():
        yield "set", f"{place} to {value} (--set)"
    if left_out := quick.not_run(record):
        yield "quick", f"without {join_first(sorted(left_out), _LEFT_OUT)}: nothing there decides"
    for earlier in record.chain:
        yield "counts", f"{count(earlier.runs, 'run')} of {earlier.id}"
    if isinstance(record.origin, Side):
        yield "pair", f"side {record.origin.side.upper()} of {record.origin.pair}, run by turns"


def _execution(record: Record) -> Iterator[tuple[str, str]]:
    """When and on what it ran, and what became of it."""
    yield "run", f"{record.started} to {record.ended}, capsule-hpc {record.tool}"
    yield "runtime", record.runtime if record.contained else f"{record.runtime}, not contained"
    for program in programs(record)[:_PROGRAMS]:
        yield "program", program
    for line in software.describe(record.software)[:_PROGRAMS]:
        yield "software", line
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
        load = inventory.busy(node)
        busy = f" (busy when the run began: {load})" if load else ""
        yield "node", f"{inventory.describe(node)}{busy}"
    if len(record.nodes) > _NODES:
        yield "", f"and {len(record.nodes) - _NODES} more"
    for world in record.worlds[:_WORLDS]:
        yield "ranks", _world(world)
    if len(record.worlds) > _WORLDS:
        yield "", f"and {len(record.worlds) - _WORLDS} more"
    worlds = summary.worlds(record)
    for name, words in list(worlds.items())[:_WORLDS]:
        yield "world", words if len(worlds) == 1 else f"{words} ({name})"
    if len(worlds) > _WORLDS:
        yield "", f"and {len(worlds) - _WORLDS} more"
    outcomes = Counter(attempt.outcome for attempt in record.attempts)
    yield "attempts", ", ".join(f"{n} {name}" for name, n in sorted(outcomes.items())) or "none"


def _world(world: World) -> str:
    """What pre-flight's own program saw, which says nothing of the benchmark's ranks."""
    ranks = f"{world.ranks} on {count(len(set(world.nodes)), 'node')}; pre-flight"
    if not world.means:
        return f"{ranks}: nothing seen, since no python3 starts in the image"
    added = f"{ranks}: its own ranks added up {world.bytes >> 20} MiB"
    return f"{added} by {' and '.join(world.means)}, in {number(world.seconds, 2)} s"


def _contents(record: Record) -> Iterator[tuple[str, str]]:
    """What was run, for which paper, on which data, and how long it took."""
    manifest = record.manifest
    if manifest.paper_doi:
        yield "paper", f"https://doi.org/{manifest.paper_doi}"
    commands = [one for one in manifest.benchmarks if isinstance(one.subject, Command)]
    for benchmark in commands[:_COMMANDS]:
        assert isinstance(benchmark.subject, Command)
        if benchmark.subject.setup:
            yield "setup", f"{benchmark.id}: {shlex.join(benchmark.subject.setup)}"
        yield "command", f"{benchmark.id}: {shlex.join(benchmark.subject.words)}"
    if len(commands) > _COMMANDS:
        yield "", f"and {len(commands) - _COMMANDS} more"
    for words, names in _list_conditions(manifest.benchmarks).items():
        yield "timed", f"{join_first(names, _COMMANDS)}: with {words}"
    for dataset in record.datasets[:_DATASETS]:
        yield from _dataset(record, dataset)
    if len(record.datasets) > _DATASETS:
        yield "", f"and {len(record.datasets) - _DATASETS} more"
    yield "seeds", _seeds(record)
    if seconds := _seconds([one.seconds for one in record.attempts], "attempt"):
        yield "seconds", seconds
    if seconds := _seconds([one.setup_seconds for one in record.attempts], "setup"):
        yield "", seconds


def _list_conditions(benchmarks: Iterable[Benchmark]) -> Mapping[str, Sequence[str]]:
    """Which benchmarks have their calls timed under what conditions, but for the usual ones."""
    names: dict[str, list[str]] = {}
    for benchmark in benchmarks:
        if isinstance(subject := benchmark.subject, (Operator, Network)) and subject.conditions:
            words = " and ".join(_CONDITIONS[one] for one in subject.conditions)
            names.setdefault(words, []).append(benchmark.id)
    return names


def _dataset(record: Record, dataset: Dataset) -> Iterator[tuple[str, str]]:
    (spec,) = (spec for spec in record.manifest.datasets if spec.name == dataset.name)
    yield "data", f"{dataset.name}: {dataset.bytes} bytes, {dataset.digest}"
    yield "", f"{spec.provenance}{', in the capsule' if dataset.embedded else ''}"
    if spec.description:
        yield "", spec.description


def _seconds(durations: Iterable[float | None], name: str) -> str:
    """How long things of this name took together, and each of them; those of which it is known."""
    known = [seconds for seconds in durations if seconds is not None]
    if not known:
        return ""
    shortest, longest = number(min(known), 3), number(max(known), 3)
    spread = f", {shortest} to {longest} each" if len(known) > 1 else ""
    return f"{number(sum(known), 4)} for {count(len(known), name)}{spread}"


def programs(record: Record) -> list[str]:
    """Which of the machine's own programs ran where nothing was contained."""
    return [
        f"{name.removeprefix(PREFIX)}: {program}"
        for name, program in sorted(record.image_observations.items())
        if name.startswith(PREFIX) and not record.contained
    ]


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


def name_claim(claim: FrozenClaim, rule: str | None) -> RenderableType:
    """The metric of a claim, and the value that is judged, or how each run's value is made."""
    from rich.console import Group

    value = claim.pattern.value
    if value:
        return Group(Path(claim.metric), text(value, "dim"))
    return Group(Path(claim.metric), name_rule(rule)) if rule else Path(claim.metric)


def _draw_metrics(
    record: Record, metrics: Mapping[str, MetricRuns], rules: Mapping[str, str]
) -> Iterator[RenderableType]:
    """A line for each metric, those first of which something is claimed.

    Args:
        record: Whose metrics.
        metrics: Their runs.
        rules: How each run's value is made, by the path of the metric.
    """
    claims: dict[str, list[FrozenClaim]] = {}
    for claim in record.claims[:_CLAIM_ROWS]:
        claims.setdefault(claim.metric, []).append(claim)
    others = [path for path in sorted(metrics) if path not in claims]
    shown = [*claims, *others[:_METRIC_ROWS]]
    variations = {path: _variation(metrics[path]) for path in shown if path in metrics}
    right = {"justify": "right", "no_wrap": True}
    rows = table(
        ("metric", {"overflow": "fold"}),
        ("mean", right),
        ("smallest", right),
        ("largest", right),
        *([("cv of calls", right)] if any(variations.values()) else []),
        ("unit", {"no_wrap": True}),
        ("runs", right),
        *([("claim", {"overflow": "fold"})] if claims else []),
        title="Metrics, one value a run" + (", and what is claimed of them" if claims else ""),
    )
    for path in shown:
        metric = metrics.get(path)
        cells = _values(metric, variations) if metric else ["", "", "", "", "", ""]
        if not any(variations.values()):
            del cells[3]
        name = _with_order(metric, rules.get(path)) if metric else Path(path)
        rows.add_row(
            name, *cells, *([_list_claims(claims.get(path, ()), metric)] if claims else [])
        )
    yield rows
    yield from draw_rest(len(record.claims) - _CLAIM_ROWS, "claims")
    yield from draw_rest(len(others) - _METRIC_ROWS, "metrics")


def _values(metric: MetricRuns, variations: Mapping[str, str]) -> list[RenderableType]:
    values = metric.values
    mean = sides.counts(metric, all_count=False).mean
    beyond = f"beyond {number(population.LARGEST)}" if values else "none"
    return [
        beyond if mean is None else number(mean, 4),
        number(min(values, default=None), 4),
        number(max(values, default=None), 4),
        variations[metric.metric],
        text(metric.unit),
        f"{len(values)} of {len(metric.runs)}",
    ]


def _list_claims(claims: Sequence[FrozenClaim], metric: MetricRuns | None) -> RenderableType:
    """What is claimed of one metric: each kind of claim, and below it what it allows."""
    from rich.console import Group

    return Group(*(text(line) for claim in claims for line in _word_claim(claim, metric)))


def _word_claim(claim: FrozenClaim, metric: MetricRuns | None) -> Iterator[str]:
    """A claim as it was frozen at sealing."""
    runs = None if metric is None else summary.values_for(claim.pattern, metric)
    secondary = "" if claim.primary else " (secondary)"
    yield f"{claim.type}{' (secondary: made or changed later)' if claim.later else secondary}"
    if claim.pattern.value:
        yield claim.pattern.value
    yield "not run" if runs is None else wording.region(claim, runs)


def _with_order(metric: MetricRuns, rule: str | None) -> RenderableType:
    """A metric's path, and below it how a run's value is made, and the values in time order."""
    from rich.console import Group

    order = in_time_order(metric) if len(set(metric.values)) > 1 else ""
    below = [_Below(f"in time order: {order}", len(metric.metric))] if order else []
    rules = [name_rule(rule)] if rule else []
    return Group(Path(metric.metric), *rules, *below)


def name_rule(rule: str) -> RenderableType:
    """How each run's value is made, to stand below the metric's path."""
    return text(rule, "dim")


class _Below:
    """A line that makes its column no wider than what stands above it."""

    def __init__(self, line: str, width: int) -> None:
        self._line = line
        self._width = width

    def __rich_console__(self, _: Console, __: ConsoleOptions) -> Iterator[RenderableType]:
        yield text(self._line, "dim")

    def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        width = min(self._width, options.max_width)
        return Measurement(width, width)


def _variation(metric: MetricRuns) -> str:
    """The coefficient of variation of the calls of a run, the median over the runs."""
    runs = [stats.variation(calls) for run in metric.runs if (calls := summary.calls(run))]
    middle = averages.median([run for run in runs if run is not None])
    return "" if middle is None else f"{middle:.1%}"
