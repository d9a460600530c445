"""The claims of a manifest, read and checked against its metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

from capsule.manifest import scaling, serving
from capsule.manifest.kinds import Command, Recipe
from capsule.manifest.model import SCORE, SEARCH, Benchmark, Claim, Margin, Metric, Published
from capsule.manifest.paths import SEGMENTS, matches, names
from capsule.manifest.problems import Problems, nearest, quote

# a path takes a microsecond, and a manifest may hold a thousand claims
_MOST_PATHS = 1000


def claim(raw: Mapping[str, Any]) -> Claim:
    """Return the claim of an entry that fits the schema."""
    return Claim(
        metric=raw["metric"],
        type=raw["type"],
        label=raw.get("label"),
        margin=_margin(raw["margin"]) if "margin" in raw else None,
        at_most=_number(raw.get("at_most")),
        at_least=_number(raw.get("at_least")),
        mean=raw.get("mean", "arithmetic"),
        mean_of_last=int(raw["value"]["mean_of_last"]) if "value" in raw else None,
        published=_publication(raw["published"]) if "published" in raw else None,
        alpha=float(raw.get("alpha", 0.05)),
        primary=raw.get("primary", True),
        looks=tuple(map(int, raw.get("looks", ()))),
        paired=raw.get("paired", False),
        resolution=_number(raw.get("resolution")),
        failure_margin=_number(raw.get("failure_margin")),
    )


def check(claims: Mapping[int, Claim], benchmarks: Sequence[Benchmark], problems: Problems) -> None:
    """Note claims that match no metric, or that do not fit their metric.

    Args:
        claims: Claims by their place in the manifest.
        benchmarks: All benchmarks of the manifest.
        problems: Collects the problems.
    """
    for index, claim in claims.items():
        here = f"/claims/{index}/metric"
        matched = matches(claim.metric, benchmarks)
        if claim.metric.count("/") != len(SEGMENTS) - 1:
            problems.add(here, _wrong_length(claim.metric, benchmarks))
        elif not matched and not _is_best_of_all(claim.metric, benchmarks):
            reason = _why_not_there(claim.metric, benchmarks)
            problems.add(here, reason or _no_match(claim.metric, benchmarks))
        for message in _picks(claim, benchmarks):
            problems.add(here, f"{quote(claim.metric)} {message}")
        for message in _misfits(claim, matched):
            problems.add(here, f"{quote(claim.metric)} {message}")
        if any(after <= before for before, after in pairwise(claim.looks)):
            message = (
                f"the looks {list(claim.looks)} do not increase: give each look more seeds than the"
                " look before"
            )
            problems.add(f"/claims/{index}/looks", message)
        first = next(one.looks for one in claims.values() if one.looks) if claim.looks else ()
        if claim.looks != first:
            message = f"found {list(claim.looks)}, expected the looks of all claims, {list(first)}"
            problems.add(f"/claims/{index}/looks", message)


def _picks(claim: Claim, benchmarks: Sequence[Benchmark]) -> Iterator[str]:
    """Yield what is wrong with a claim on one trial of a search, which was selected by luck too."""
    if _is_best_of_all(claim.metric, benchmarks):
        yield (
            "cannot be claimed: the best of all trials of a search is partly luck. Claim"
            f" {SCORE}, the median over the studies"
        )
        return
    benchmark_id, case, *_ = (*claim.metric.split("/"), "")
    for one in benchmarks:
        if one.search and benchmark_id in ("*", one.id) and case in one.case_names:
            yield (
                "is about one point of a search, and the best point is partly luck. Claim"
                f" {one.id}/{SEARCH}/*/{SCORE}, the median over the studies; or run the point again"
                " under fresh seeds (capsule sweep winner), and claim its metric"
            )


def _why_not_there(pattern: str, benchmarks: Sequence[Benchmark]) -> str | None:
    """Return why a benchmark lacks a metric that others have, None for another reason."""
    benchmark_id, case, *_, metric = pattern.split("/")
    for one in benchmarks:
        if (
            benchmark_id in ("*", one.id)
            and case in one.case_names
            and metric in [name.name for name in scaling.metrics_in(one, "*")]
        ):
            return (
                f"{quote(pattern)} matches no metric: {case} has the fewest ranks, and {metric}"
                " needs more; name a case with more ranks"
            )
        if benchmark_id in ("*", one.id) and (reason := serving.refuse(one, metric)):
            return f"{quote(pattern)} cannot be claimed: {reason}"
        if (
            isinstance(one.subject, Recipe)
            and one.subject.own_optimizer
            and benchmark_id in ("*", one.id)
            and metric in one.subject.lacks
        ):
            return (
                f"{quote(pattern)} compares steps with a formula, and"
                f" {one.subject.own_optimizer.path} defines no formula: define"
                " formula(step, state, parameter, gradient), or remove the claim"
            )
    return None


def _is_best_of_all(pattern: str, benchmarks: Sequence[Benchmark]) -> bool:
    """Return whether a pattern names a metric of a whole search other than its score."""
    segments = pattern.split("/")
    return (
        len(segments) == len(SEGMENTS)
        and segments[1] == SEARCH
        and segments[3] not in ("*", SCORE)
        and any(one.search and segments[0] in ("*", one.id) for one in benchmarks)
    )


def _misfits(claim: Claim, matched: Sequence[tuple[Benchmark, Metric]]) -> Iterator[str]:
    if claim.type == "noninferiority" and any(metric.direction == "none" for _, metric in matched):
        yield 'has "direction": "none", and noninferiority needs lower or higher: use equivalence'
    if claim.type == "curve" and any(
        not isinstance(benchmark.subject, Command) for benchmark, _ in matched
    ):
        yield "has no steps: a curve needs a command that reports a step beside each value"
    if claim.mean_of_last is not None:
        yield from _misfits_of_last(claim.mean_of_last, matched)
    if claim.type == "distribution" and any(m.per in ("node", "block", "rank") for _, m in matched):
        yield "has one value per node, block or rank: a distribution needs repeated measurements"
    steps = (
        metric.resolution if claim.resolution is None else claim.resolution for _, metric in matched
    )
    if claim.mean == "geometric" and any(step >= 1 for step in steps):
        yield 'is a count, and a count of 0 has no geometric mean: remove "mean"'
    ratio = claim.margin is not None and claim.margin.ratio is not None
    if ratio and claim.published is not None and claim.published.mean <= 0:
        yield f"has a published mean of {claim.published.mean:g}: a ratio needs a positive mean"


def _misfits_of_last(k: int, matched: Sequence[tuple[Benchmark, Metric]]) -> Iterator[str]:
    """Yield why a metric has no mean of its last evaluations."""
    for benchmark, metric in matched:
        if metric.per == "step":
            continue
        what = f"the mean of the last {k}" if k > 1 else "the last"
        if not isinstance(benchmark.subject, Command):
            yield f'has no steps, so {quote(metric.name)} has no last evaluations: remove "value"'
        else:
            yield (
                f"is judged by {what} of its evaluations, but {quote(metric.name)} is declared per"
                f' {metric.per}: declare it "per": "step", and report a step beside each value'
            )
        return


def _margin(raw: Mapping[str, Any]) -> Margin:
    values: dict[str, Any] = {
        key: value if key == "preset" else float(value) for key, value in raw.items()
    }
    return Margin(**values)


def _publication(raw: Mapping[str, Any]) -> Published:
    n = raw.get("n")
    return Published(mean=float(raw["mean"]), sd=float(raw["sd"]), n=None if n is None else int(n))


def _number(raw: float | None) -> float | None:
    return None if raw is None else float(raw)


def _wrong_length(pattern: str, benchmarks: Sequence[Benchmark]) -> str:
    """Return what a pattern lacks, with an example from this manifest."""
    parts = pattern.split("/")
    count = f"{len(parts)} segment{'s' * (len(parts) != 1)}"
    message = f"{quote(pattern)} has {count}, expected the four of {'/'.join(SEGMENTS)}"
    if len(parts) == len(SEGMENTS) - 1:
        for place in (1, 2, 0, 3):
            whole = [*parts[:place], "*", *parts[place:]]
            matched = [benchmark for benchmark, _ in matches("/".join(whole), benchmarks)]
            if matched:
                whole[place] = _only(matched, place)
                example = quote("/".join(whole))
                return f"{message}: the {SEGMENTS[place]} is missing, for example {example}"
    near = max(
        islice(_first_paths(benchmarks), _MOST_PATHS),
        key=lambda path: len(set(parts) & set(path.split("/"))),
        default=None,
    )
    return f"{message}, for example {quote(near)}" if near else message


def _first_paths(benchmarks: Sequence[Benchmark]) -> Iterator[str]:
    """Yield each metric of each benchmark, in its first case and framework."""
    for benchmark in benchmarks:
        if benchmark.cases and benchmark.frameworks:
            unit = f"{benchmark.id}/{benchmark.cases[0].name}/{benchmark.frameworks[0]}"
            yield from (
                f"{unit}/{metric.name}" for metric in benchmark.due(benchmark.frameworks[0])
            )


def _only(benchmarks: Sequence[Benchmark], place: int) -> str:
    """Return the only name at a place of these benchmarks' metric paths, else `*`."""
    there = {name for benchmark in benchmarks for name in names(benchmark, place)}
    return there.pop() if len(there) == 1 else "*"


def _no_match(pattern: str, benchmarks: Sequence[Benchmark]) -> str:
    """Return what is wrong with a pattern, and the path that was probably meant."""
    mended: list[str] = []
    for place, segment in enumerate(pattern.split("/")):
        there = list(
            dict.fromkeys(name for benchmark in benchmarks for name in names(benchmark, place))
        )
        meant = segment if segment == "*" or segment in there else nearest(segment, there)
        if meant is None:
            message = f"{quote(pattern)} matches no metric: no {SEGMENTS[place]} {quote(segment)}"
            return f"{message}; there are: {', '.join(there[:10])}"
        mended.append(meant)
        benchmarks = [
            benchmark for benchmark in benchmarks if meant in ("*", *names(benchmark, place))
        ]
    return f"{quote(pattern)} matches no metric; did you mean {quote('/'.join(mended))}?"
