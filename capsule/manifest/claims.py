"""Turn the `claims` entries into values, each held against the metrics that the manifest has."""

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
    """One entry that fits the schema."""
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
    """Note claims that name no metric, or that ask of a metric what it hasn't.

    Args:
        claims: By their place in the manifest.
        benchmarks: All of them.
        problems: Collects what is found.
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
            problems.add(f"/claims/{index}/looks", "each look needs more seeds than the one before")
        first = next(one.looks for one in claims.values() if one.looks) if claim.looks else ()
        if claim.looks != first:
            message = f"all claims share a re-execution's seeds, so its looks: {list(first)}"
            problems.add(f"/claims/{index}/looks", message)


def _picks(claim: Claim, benchmarks: Sequence[Benchmark]) -> Iterator[str]:
    """Where a claim picks a trial of a search: the luck by which it was best comes with it."""
    if _is_best_of_all(claim.metric, benchmarks):
        yield (
            f"is nothing that a search claims, such as the best of all its trials, which is better"
            f" than they are by luck: its {SCORE} is the median over its studies"
        )
        return
    benchmark_id, case, *_ = (*claim.metric.split("/"), "")
    for one in benchmarks:
        if one.search and benchmark_id in ("*", one.id) and case in one.case_names:
            yield (
                "is about one point of a search, and whichever is best there was lucky too: claim"
                f" {one.id}/{SEARCH}/*/{SCORE}, the median over its studies, and of a single point"
                " what it gives when it is run again under fresh seeds (capsule sweep winner)"
            )


def _why_not_there(pattern: str, benchmarks: Sequence[Benchmark]) -> str | None:
    """Why a benchmark has no metric that others have; None where that is not the matter."""
    benchmark_id, case, *_, metric = pattern.split("/")
    for one in benchmarks:
        if (
            benchmark_id in ("*", one.id)
            and case in one.case_names
            and metric in [name.name for name in scaling.metrics_in(one, "*")]
        ):
            return (
                f"{quote(pattern)} asks for what {case} has not: it has the fewest ranks, with"
                " which those of other cases are compared"
            )
        if benchmark_id in ("*", one.id) and (reason := serving.refuse(one, metric)):
            return f"{quote(pattern)} asks for too much: {reason}"
        if (
            isinstance(one.subject, Recipe)
            and one.subject.own_optimizer
            and benchmark_id in ("*", one.id)
            and metric in one.subject.lacks
        ):
            return (
                f"{quote(pattern)} asks how right the steps are, and"
                f" {one.subject.own_optimizer.path} defines no formula that says what a right one"
                " is: define formula(step, state, parameter, gradient), or leave the claim out"
            )
    return None


def _is_best_of_all(pattern: str, benchmarks: Sequence[Benchmark]) -> bool:
    """Whether a pattern asks for another metric of a search as a whole than its score."""
    segments = pattern.split("/")
    return (
        len(segments) == len(SEGMENTS)
        and segments[1] == SEARCH
        and segments[3] not in ("*", SCORE)
        and any(one.search and segments[0] in ("*", one.id) for one in benchmarks)
    )


def _misfits(claim: Claim, matched: Sequence[tuple[Benchmark, Metric]]) -> Iterator[str]:
    if claim.type == "noninferiority" and any(metric.direction == "none" for _, metric in matched):
        yield "has no better or worse: noninferiority needs a direction; use equivalence"
    if claim.type == "curve" and any(
        not isinstance(benchmark.subject, Command) for benchmark, _ in matched
    ):
        yield "has no steps: a curve is what a command reports with a step beside each value"
    if claim.mean_of_last is not None:
        yield from _misfits_of_last(claim.mean_of_last, matched)
    if claim.type == "distribution" and any(m.per in ("node", "block", "rank") for _, m in matched):
        yield "has one value for each node, block or rank: these are no repetitions of one thing"
    steps = (
        metric.resolution if claim.resolution is None else claim.resolution for _, metric in matched
    )
    if claim.mean == "geometric" and any(step >= 1 for step in steps):
        yield "is counted, and a count may be 0, which has no geometric mean; leave mean out"
    ratio = claim.margin is not None and claim.margin.ratio is not None
    if ratio and claim.published is not None and claim.published.mean <= 0:
        yield "has a published mean that is not positive, which no ratio can be of"


def _misfits_of_last(k: int, matched: Sequence[tuple[Benchmark, Metric]]) -> Iterator[str]:
    """What keeps metrics from having a mean of their last evaluations."""
    for benchmark, metric in matched:
        if metric.per == "step":
            continue
        what = f"the mean of the last {k}" if k > 1 else "the last"
        if not isinstance(benchmark.subject, Command):
            yield f"has no steps, so {quote(metric.name)} has no last evaluations: leave value out"
        else:
            yield (
                f"is judged by {what} of its evaluations, and {quote(metric.name)} is declared per"
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
    """What a pattern lacks, with one that names a metric of this manifest."""
    parts = pattern.split("/")
    count = f"{len(parts)} segment{'s' * (len(parts) != 1)}"
    message = f"{quote(pattern)} has {count}, not the four of {'/'.join(SEGMENTS)}"
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
    """Each metric of each benchmark, in its first case and framework."""
    for benchmark in benchmarks:
        if benchmark.cases and benchmark.frameworks:
            unit = f"{benchmark.id}/{benchmark.cases[0].name}/{benchmark.frameworks[0]}"
            yield from (
                f"{unit}/{metric.name}" for metric in benchmark.due(benchmark.frameworks[0])
            )


def _only(benchmarks: Sequence[Benchmark], place: int) -> str:
    """The one name that stands at a place of these benchmarks' metric paths, else `*`."""
    there = {name for benchmark in benchmarks for name in names(benchmark, place)}
    return there.pop() if len(there) == 1 else "*"


def _no_match(pattern: str, benchmarks: Sequence[Benchmark]) -> str:
    """Go from left to right, mending each segment that leads nowhere."""
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
