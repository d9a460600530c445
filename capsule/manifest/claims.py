"""Turn the `claims` entries into values, each held against the metrics that the manifest has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capsule.manifest.model import Benchmark, Claim, Margin
from capsule.manifest.paths import SEGMENTS, claimed, names
from capsule.manifest.problems import Problems, nearest, shown


def claim(raw: Mapping[str, Any]) -> Claim:
    """One entry that fits the schema."""
    margin = raw.get("margin")
    return Claim(
        metric=raw["metric"],
        type=raw["type"],
        margin=Margin(**{key: float(value) for key, value in margin.items()}) if margin else None,
        at_most=_number(raw.get("at_most")),
        at_least=_number(raw.get("at_least")),
        alpha=float(raw.get("alpha", 0.05)),
        primary=raw.get("primary", True),
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
        if each.type == "noninferiority" and any(one.direction == "none" for _, one in matched):
            message = "has no better or worse: noninferiority needs a direction; use equivalence"
            problems.add(here, f"{shown(each.metric)} {message}")


def _number(raw: float | None) -> float | None:
    return None if raw is None else float(raw)


def _wrong_length(pattern: str, benchmarks: Sequence[Benchmark]) -> str:
    parts = pattern.split("/")
    told = f"{shown(pattern)} has {len(parts)} of the four segments {'/'.join(SEGMENTS)}"
    if len(parts) == len(SEGMENTS) - 1:
        is_command = any(each.id == parts[0] and each.command for each in benchmarks)
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
