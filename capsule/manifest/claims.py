"""Turn the `claims` entries into values, each held against the metrics that the manifest has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from capsule.manifest.model import Benchmark, Claim, Margin
from capsule.manifest.paths import SEGMENTS, match, metric_paths
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
    metrics = metric_paths(benchmarks)
    paths = [path.split("/") for path, _ in metrics]
    for index, each in claims.items():
        here = f"/claims/{index}/metric"
        if each.metric.count("/") != len(SEGMENTS) - 1:
            problems.add(here, _wrong_length(each.metric, paths))
            continue
        matched = [metric for path, metric in metrics if match(each.metric, path)]
        if not matched:
            problems.add(here, _no_match(each.metric, paths))
        if each.type == "noninferiority" and any(one.direction == "none" for one in matched):
            message = "has no better or worse: noninferiority needs a direction; use equivalence"
            problems.add(here, f"{shown(each.metric)} {message}")


def _number(raw: float | None) -> float | None:
    return None if raw is None else float(raw)


def _wrong_length(pattern: str, paths: list[list[str]]) -> str:
    parts = pattern.split("/")
    told = f"{shown(pattern)} has {len(parts)} of the four segments {'/'.join(SEGMENTS)}"
    if len(parts) == len(SEGMENTS) - 1:
        cases = {path[1] for path in paths if path[0] == parts[0]}
        case = "default" if "default" in cases else "*"
        whole = [parts[0], case, *parts[1:]]
        told = f"{told}: the case is missing, for example {shown('/'.join(whole))}"
    return told


def _no_match(pattern: str, paths: list[list[str]]) -> str:
    """Go from left to right, mending each segment that leads nowhere."""
    mended: list[str] = []
    for place, segment in enumerate(pattern.split("/")):
        there = list(dict.fromkeys(path[place] for path in paths))
        if segment != "*" and segment not in there:
            near = nearest(segment, there)
            if near is None:
                told = f"{shown(pattern)} matches no metric: no {SEGMENTS[place]} {shown(segment)}"
                return f"{told}; there are: {', '.join(there[:10])}"
            mended.append(near)
        else:
            mended.append(segment)
        paths = [path for path in paths if mended[-1] in ("*", path[place])]
    return f"{shown(pattern)} matches no metric; did you mean {shown('/'.join(mended))}?"
