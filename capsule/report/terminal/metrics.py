"""The table of a record's metrics, and what is claimed of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from capsule import averages, population, stats, summary
from capsule.freezing import spreads
from capsule.manifest import Margin
from capsule.record import FrozenClaim, Record
from capsule.report.terminal.listing import MOST_ROWS, Column, Listing
from capsule.report.terminal.naming import ShortNames
from capsule.summary import MetricRuns
from capsule.verdict import sides, wording
from capsule.verdict.wording import number

Metrics = Mapping[str, MetricRuns]
"""By their paths."""


def order_paths(record: Record, metrics: Metrics) -> list[str]:
    """Return the paths of all metrics: those first that a primary claim is about, then claimed."""
    claims = sorted(record.claims, key=lambda claim: not claim.primary)
    return list(dict.fromkeys((*(claim.metric for claim in claims), *sorted(metrics))))


def list_metrics(
    record: Record, metrics: Metrics, names: ShortNames, most_lines: int | None
) -> Listing:
    """Return the table: a row for each claim, and for each metric that nobody claims.

    Args:
        record: Whose metrics.
        metrics: Its values, as `summary.run_values` gives them.
        names: How the screen calls them.
        most_lines: Lines that the table may have; None for all metrics, in all words.
    """
    every = order_paths(record, metrics)
    paths = every if most_lines is None else every[:MOST_ROWS]
    claims: dict[str, list[FrozenClaim]] = {path: [] for path in paths}
    for claim in record.claims:
        if claim.metric in claims:
            claims[claim.metric].append(claim)
    # further claims on a metric have rows of their own, without its name and values
    rows = [
        (path, claim, place == 0)
        for path, own in claims.items()
        for place, claim in enumerate(own or [None])
    ]
    values = {path: _values(metrics.get(path), whole=most_lines is None) for path in paths}
    numbers = [values[path] if is_first else _NO_VALUES for path, _, is_first in rows]
    titles = ("mean", "min", "max", "runs", "cv of calls")
    ranks = (0, 4, 3, 2, 5)
    columns = [
        Column(heading=title, cells=cells, rank=rank)
        for title, rank, cells in zip(titles, ranks, zip(*numbers, strict=True), strict=True)
        if title not in ("runs", "cv of calls") or any(cells)
    ]
    if record.claims:
        word = _word_in_full if most_lines is None else word_claim
        claimed = [
            word(claim, metrics.get(path)) if claim is not None else "-" for path, claim, _ in rows
        ]
        columns.append(Column(heading="claim", cells=claimed, is_text=True))
    return Listing(
        title=f"metrics in {names.prefix}" if names.prefix else "",
        names=[_name(path, metrics, names) if is_first else "" for path, _, is_first in rows],
        columns=columns,
        most_lines=most_lines,
        more_rows=len(every) - len(paths),
    )


def with_unit(value: str, unit: str) -> str:
    """Return a number with its unit; a pure number has none."""
    return value if unit == "1" else f"{value} {unit}"


def _name(path: str, metrics: Metrics, names: ShortNames) -> str:
    is_curve = path in metrics and any(
        line.steps is not None for run in metrics[path].runs for line in run.samples
    )
    return f"{names.shorten(path)}{' (curve)' if is_curve else ''}"


_NO_VALUES = ("", "", "", "", "")


def _values(metric: MetricRuns | None, *, whole: bool) -> Sequence[str]:
    """Mean, least and largest; how many runs have a value, where some lack it; scatter of calls."""
    if metric is None:
        return _NO_VALUES
    values = metric.values
    mean = sides.counts(metric, all_count=False).mean
    beyond = f"beyond {number(population.LARGEST)}" if values else "none"
    return (
        beyond if mean is None else with_unit(number(mean, 4), metric.unit),
        with_unit(number(min(values), 4), metric.unit) if values else "",
        with_unit(number(max(values), 4), metric.unit) if values else "",
        f"{len(values)} of {len(metric.runs)}" if whole or len(values) < len(metric.runs) else "",
        _variation(metric),
    )


def _variation(metric: MetricRuns) -> str:
    """The coefficient of variation of the calls of a run, the median over the runs."""
    runs = [stats.variation(calls) for run in metric.runs if (calls := summary.calls(run))]
    middle = averages.median([run for run in runs if run is not None])
    return "" if middle is None else f"{middle:.1%}"


def word_claim(claim: FrozenClaim, metric: MetricRuns | None) -> str:
    """Return a claim in a few words: its label, its type, what it allows, and its rank.

    Args:
        claim: As it was frozen at sealing.
        metric: What it is about; None where that did not run.
    """
    return _join_claim(claim, "not run" if metric is None else _allowed(claim, metric.unit))


def _word_in_full(claim: FrozenClaim, metric: MetricRuns | None) -> str:
    """The same with the source of its margin."""
    runs = None if metric is None else summary.values_for(claim.pattern, metric)
    return _join_claim(claim, "not run" if runs is None else wording.region(claim, runs))


def _join_claim(claim: FrozenClaim, allowed: str) -> str:
    label = f"{claim.pattern.label}: " if claim.pattern.label else ""
    value = f" of the {claim.pattern.value}" if claim.pattern.value else ""
    return f"{label}{claim.type}{value}, {allowed}{_rank(claim)}"


def _rank(claim: FrozenClaim) -> str:
    if claim.later:
        return ", secondary (added or changed after the runs)"
    return "" if claim.primary else ", secondary"


def _allowed(claim: FrozenClaim, unit: str) -> str:
    match claim.type:
        case "exact":
            return "equal values under equal seeds"
        case "ratio":
            return "not judged"
        case "threshold":
            return with_unit(wording.constants(claim), unit)
        case "bound":
            return with_unit(f"every run {wording.constants(claim)}", unit)
        case "distribution":
            return f"distance below {number(claim.upper)}"
        case _:
            return "".join(_margin(claim, unit))


def _margin(claim: FrozenClaim, unit: str) -> Iterator[str]:
    if claim.lower is None and claim.upper is None:
        yield "no margin"
        return
    end = claim.upper if claim.upper is not None else -(claim.lower or 0.0)
    is_one_sided = claim.type == "noninferiority"
    if claim.scale == "log":
        factor = number(wording.natural(end, log=True), 4)
        yield f"{'worse by a factor of at most' if is_one_sided else 'within a factor of'} {factor}"
    else:
        yield f"{'worse by at most ' if is_one_sided else '±'}{with_unit(number(end), unit)}"
    author = claim.pattern.margin or Margin()
    if claim.margin_source == "spread":
        yield f" ({number(spreads(claim.pattern))} sd)"
    elif author.relative is not None:
        yield f" ({number(100 * author.relative)} %)"
    if claim.type == "curve":
        yield " at every step"
