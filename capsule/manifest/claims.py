"""Turn the `claims` entries into values, each held against the metrics that the manifest has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from capsule.manifest.model import Benchmark, Claim, Command, Margin, Metric, Published
from capsule.manifest.paths import SEGMENTS, claimed, names
from capsule.manifest.problems import Problems, nearest, shown


def claim(raw: Mapping[str, Any]) -> Claim:
    """One entry that fits the schema."""
    return Claim(
        metric=raw["metric"],
        type=raw["type"],
        margin=_margin(raw["margin"]) if "margin" in raw else None,
        at_most=_number(raw.get("at_most")),
        at_least=_number(raw.get("at_least")),
        published=_published(raw["published"]) if "published" in raw else None,
        alpha=float(raw.get("alpha", 0.05)),
        primary=raw.get("primary", True),
        looks=tuple(map(int, raw.get("looks", ()))),
        paired=raw.get("paired", False),
        resolution=_number(raw.get("resolution")),
    )


def check(claims: Mapping[int, Claim], benchmarks: Sequence[Benchmark], problems: Problems) -> None:
    """Note claims that name no metric, or that ask of a metric what it hasn't.

    Args:
        claims: By their place in the manifest.
        benchmarks: All of them.
        problems: Collects what is found.
    """
    for index, each in claims.items():
        here = f"/claims/{index}/metric"
        matched = claimed(each.metric, benchmarks)
        if each.metric.count("/") != len(SEGMENTS) - 1:
            problems.add(here, _wrong_length(each.metric, benchmarks))
        elif not matched:
            problems.add(here, _no_match(each.metric, benchmarks))
        for message in _misfits(each, matched):
            problems.add(here, f"{shown(each.metric)} {message}")
        if any(after <= before for before, after in pairwise(each.looks)):
            problems.add(f"/claims/{index}/looks", "each look needs more seeds than the one before")
        first = next(one.looks for one in claims.values() if one.looks) if each.looks else ()
        if each.looks != first:
            message = f"all claims share a re-execution's seeds, so its looks: {list(first)}"
            problems.add(f"/claims/{index}/looks", message)


def _misfits(claim: Claim, matched: Sequence[tuple[Benchmark, Metric]]) -> Iterator[str]:
    if claim.type == "noninferiority" and any(one.direction == "none" for _, one in matched):
        yield "has no better or worse: noninferiority needs a direction; use equivalence"
    if claim.type == "curve" and any(not isinstance(each.subject, Command) for each, _ in matched):
        yield "has no steps: a curve is what a command reports with a step beside each value"
    if claim.type == "distribution" and any(m.per in ("node", "block", "rank") for _, m in matched):
        yield "has one value for each node, block or rank: these are no repetitions of one thing"
    ratio = claim.margin is not None and claim.margin.ratio is not None
    if ratio and claim.published is not None and claim.published.mean <= 0:
        yield "has a published mean that is not positive, which no ratio can be of"


def _margin(raw: Mapping[str, Any]) -> Margin:
    values: dict[str, Any] = {
        key: value if key == "preset" else float(value) for key, value in raw.items()
    }
    return Margin(**values)


def _published(raw: Mapping[str, Any]) -> Published:
    n = raw.get("n")
    return Published(mean=float(raw["mean"]), sd=float(raw["sd"]), n=None if n is None else int(n))


def _number(raw: float | None) -> float | None:
    return None if raw is None else float(raw)


def _wrong_length(pattern: str, benchmarks: Sequence[Benchmark]) -> str:
    parts = pattern.split("/")
    told = f"{shown(pattern)} has {len(parts)} of the four segments {'/'.join(SEGMENTS)}"
    if len(parts) == len(SEGMENTS) - 1:
        is_command = any(
            each.id == parts[0] and isinstance(each.subject, Command) for each in benchmarks
        )
        whole = [parts[0], "default" if is_command else "*", *parts[1:]]
        told = f"{told}: the case is missing, for example {shown('/'.join(whole))}"
    return told


def _no_match(pattern: str, benchmarks: Sequence[Benchmark]) -> str:
    """Go from left to right, mending each segment that leads nowhere."""
    mended: list[str] = []
    for place, segment in enumerate(pattern.split("/")):
        there = list(dict.fromkeys(name for each in benchmarks for name in names(each, place)))
        meant = segment if segment == "*" or segment in there else nearest(segment, there)
        if meant is None:
            told = f"{shown(pattern)} matches no metric: no {SEGMENTS[place]} {shown(segment)}"
            return f"{told}; there are: {', '.join(there[:10])}"
        mended.append(meant)
        benchmarks = [each for each in benchmarks if meant in ("*", *names(each, place))]
    return f"{shown(pattern)} matches no metric; did you mean {shown('/'.join(mended))}?"
