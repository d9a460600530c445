"""A search of hyper-parameters: its points are drawn once, and from then on written numbers.

The points make studies: groups that were drawn independently of each other, each a search of its
own (AlgoPerf, Dahl et al. 2023, arXiv:2306.07179, section 4.4). A search's score is the median over
its studies of the best trial of each.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from capsule.manifest import commands
from capsule.manifest.kinds import Search
from capsule.manifest.model import Metric, Scalar
from capsule.manifest.problems import Problems, instead, quote
from capsule.schema import pointer

Raw = Mapping[str, Any]

STUDIES = 5
_DIGITS = 6
"""Significant ones of a number that is drawn."""
_TRIES = 100
"""Redraws of a repeated point before the space counts as too small."""
_MOST_NUMBERS = 1_000_000
"""Most redraws for one manifest."""
_NO_CASES = '"cases": []'


class _Axis(NamedTuple):
    """Values of one parameter: a list, or numbers of a range.

    Attributes:
        values: In their order; none for a range.
        low, high: Ends of the range, both of them in it.
        log: True if equal ratios of it are equally likely, not equal differences.
        whole: True if it has whole numbers alone.
        steps: How many values of it stand in a grid.
    """

    values: tuple[Scalar, ...]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    steps: int = 0

    def at(self, share: float) -> Scalar:
        """Return the value at a share of it, from 0 to 1."""
        if self.values:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        # each whole number has as much room as the others
        half = 0.5 if self.whole else 0.0
        low, high = self.low - half, self.high + half
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        value = round(value) if self.whole else float(f"{value:.{_DIGITS}g}")
        value = min(max(value, self.low), self.high)
        return int(value) if self.whole else float(value)

    def grid(self) -> list[Scalar]:
        """Return the values that stand in a grid."""
        if self.values:
            return list(self.values)
        # from end to end, where `at` gives whole numbers the room of half a step around them
        ends = self._replace(whole=False)
        numbers = [float(ends.at(index / (self.steps - 1))) for index in range(self.steps)]
        if not self.whole:
            return [*numbers]
        return list(dict.fromkeys(round(number) for number in numbers))

    def holds(self, value: Any) -> bool:
        """Return whether it may be this value."""
        if self.values:
            # true is 1 to Python, and no number to JSON
            return any(value == one and isinstance(value, bool) == isinstance(one, bool)
                       for one in self.values)  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and (not self.whole or value % 1 == 0)


def take_points(raw: Any) -> tuple[Any, dict[int, Any]]:
    """Return a document without the points of its searches, and these by the place of the
    benchmark.

    They are nearly all of a large manifest, and `put_points` checks them a hundred times as fast as
    a schema is held against them.
    """
    entries = raw.get("benchmarks") if isinstance(raw, dict) else None
    if not isinstance(entries, list):
        return raw, {}
    points = {
        place: entry["cases"]
        for place, entry in enumerate(entries)
        if isinstance(entry, dict) and "search" in entry and "cases" in entry
    }
    if not points:
        return raw, {}
    lean = [
        {name: value for name, value in entry.items() if name != "cases"}
        if place in points
        else entry
        for place, entry in enumerate(entries)
    ]
    return {**raw, "benchmarks": lean}, points


def put_points(
    raw: Raw, points: Mapping[int, Any], problems: Problems, *, draws: bool
) -> tuple[Raw, bool]:
    """Return a manifest with the points of its searches, and whether any were drawn.

    Args:
        raw: It without them, of which what is right fits the schema.
        points: Those that are written, from `take_points`.
        problems: Knows what is wrong, and collects what is wrong with points.
        draws: True if those that are not written are drawn.
    """
    entries = list(raw["benchmarks"]) if isinstance(raw.get("benchmarks"), list) else []
    drawn = False
    left = _MOST_NUMBERS
    for place, entry in enumerate(entries):
        here = f"/benchmarks/{place}"
        if not isinstance(entry, dict) or "search" not in entry or problems.below(here):
            continue
        axes = _axes(entry["search"], entry, f"{here}/search", problems)
        if problems.below(here):
            continue
        cases = points.get(place)
        if place in points:
            if fault := _fault(entry["search"], axes, cases):
                message = f'{fault}: remove "cases" to let capsule draw the points'
                problems.add(f"{here}/cases", message)
        elif draws:
            cases, drawn = _draw(entry["search"], axes, left, f"{here}/search", problems), True
        if cases is not None:
            left -= len(cases) * len(axes)
            entries[place] = {**entry, "cases": cases}
    return ({**raw, "benchmarks": entries} if entries else raw), drawn


def read(raw: Raw, metrics: Sequence[Metric], here: str, problems: Problems) -> Search | None:
    """Return the search of an entry; None where it has none, or a wrong one.

    Args:
        raw: The entry, with points that are those of the search.
        metrics: What each trial yields.
        here: JSON pointer of the entry.
        problems: Collects what is wrong.
    """
    if "search" not in raw:
        return None
    search, place = raw["search"], f"{here}/search"
    if "cases" not in raw:
        message = 'the points of the search are missing: restore "cases" of the sealed manifest'
        problems.add(place, message)
        return None
    known = {metric.name: metric for metric in metrics}
    metric = known.get(search["metric"])
    if metric is None:
        message = f"no metric {quote(search['metric'])}; {instead(search['metric'], known)}"
        problems.add(f"{place}/metric", message)
    elif metric.direction == "none":
        problems.add(
            f"{place}/metric",
            f"{metric.name} has no direction, so no trial is best; use a metric with a direction",
        )
    if problems.below(here):
        return None
    return Search(metric=search["metric"], method=search["method"], studies=_studies(search))


def write(raw: Raw) -> bytes:
    """Return the text of a manifest, with one point of a search a line."""
    entries = [{**one, "cases": []} if "search" in one else one for one in raw["benchmarks"]]
    text = json.dumps({**raw, "benchmarks": entries}, indent=2, ensure_ascii=False) + "\n"
    # inside a string its marks have backslashes, and the schema lets nobody write no case
    first, *rest = text.split(_NO_CASES)
    lists = [one["cases"] for one in raw["benchmarks"] if "search" in one]
    return "".join([first, *itertools.chain(*zip(map(_lines, lists), rest, strict=True))]).encode()


def _lines(cases: Sequence[Raw]) -> str:
    lines = ",\n".join(f"        {json.dumps(case, ensure_ascii=False)}" for case in cases)
    return f'"cases": [\n{lines}\n      ]'


def _studies(search: Raw) -> int:
    return int(search.get("studies", STUDIES))


def _draw(
    search: Raw, axes: Mapping[str, _Axis], most: int, here: str, problems: Problems
) -> list[dict[str, Scalar]] | None:
    """Return the points as cases, or None after noting why there are none.

    Args:
        search: Fits the schema.
        axes: Its.
        most: So many numbers at most.
        here: Its JSON pointer.
        problems: Collects what is wrong.
    """
    commands.check_parameters(axes, f"{here}/space", problems)
    count = _count(search, axes)
    if problems.below(here):
        return None
    if count > commands.MOST_CASES or count * len(axes) > most:
        message = (
            f"makes {count:.15g} points of {len(axes)} numbers, expected at most"
            f" {commands.MOST_CASES} points and {most} numbers in all; use fewer points"
        )
        problems.add(here, message)
        return None
    points = _points(search, axes, _studies(search), here, problems)
    if points is None:
        return None
    names = _names([len(study) for study in points])
    return [{"name": next(names), **point} for point in itertools.chain(*points)]


def _count(search: Raw, axes: Mapping[str, _Axis]) -> int:
    """Return the number of points in all studies."""
    if search["method"] != "grid":
        return int(search["points"]) * _studies(search)
    return math.prod(len(axis.grid()) for axis in axes.values())


def _points(
    search: Raw, axes: Mapping[str, _Axis], studies: int, here: str, problems: Problems
) -> list[list[dict[str, Scalar]]] | None:
    """Return the points of each study, or None after noting why there are none."""
    seed = int(search.get("seed", 0))
    if search["method"] == "grid":
        return _grid(axes, studies, seed, here, problems)
    count = int(search["points"])
    drawn = []
    for study in range(studies):
        shares = _halton if search["method"] == "halton" else _uniform
        points = list(itertools.islice(_new(shares(len(axes), [seed, study], count), axes), count))
        if len(points) < count:
            message = (
                f"the space has only about {len(points)} points, but each study needs {count}:"
                ' widen the space, or lower "points"'
            )
            problems.add(f"{here}/points", message)
            return None
        drawn.append(points)
    return drawn


def _new(
    shares: Iterator[Sequence[float]], axes: Mapping[str, _Axis]
) -> Iterator[dict[str, Scalar]]:
    """Yield the points at some shares of the axes, without those that came before."""
    seen: set[str] = set()
    tries = 0
    for row in shares:
        point = {
            name: axis.at(share) for (name, axis), share in zip(axes.items(), row, strict=True)
        }
        key = json.dumps(point)
        tries = tries + 1 if key in seen else 0
        if tries > _TRIES:
            return
        if not tries:
            seen.add(key)
            yield point


def _uniform(axes: int, seed: Sequence[int], count: int) -> Iterator[Sequence[float]]:
    import numpy

    generator = numpy.random.default_rng(seed)
    while True:
        yield from generator.random((count, axes)).tolist()


def _halton(axes: int, seed: Sequence[int], count: int) -> Iterator[Sequence[float]]:
    import numpy

    # a second to import, and needed here alone: whoever reads a capsule finds the points written
    from scipy.stats import qmc

    # each study has a scrambling of its own (Owen 2017, arXiv:1706.02808)
    sequence = qmc.Halton(axes, scramble=True, seed=numpy.random.default_rng(seed))
    while True:
        yield from sequence.random(count).tolist()


def _grid(
    axes: Mapping[str, _Axis], studies: int, seed: int, here: str, problems: Problems
) -> list[list[dict[str, Scalar]]] | None:
    """Return all combinations, dealt out to the studies."""
    import numpy

    columns = [axis.grid() for axis in axes.values()]
    count = math.prod(map(len, columns))
    if count < studies:
        message = (
            f"makes {count} points, but {studies} studies need at least {studies}: add values, or"
            ' lower "studies"'
        )
        problems.add(f"{here}/space", message)
        return None
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*columns)]
    order = numpy.random.default_rng(seed).permutation(count).tolist()
    dealt = iter([points[place] for place in order])
    return [list(itertools.islice(dealt, size)) for size in sizes(count, studies)]


def sizes(count: int, studies: int) -> list[int]:
    """Return the number of cases of each study, in order; the first ones have one more.

    >>> sizes(11, 3)
    [4, 4, 3]
    """
    return [count // studies + (study < count % studies) for study in range(studies)]


def _names(counts: Sequence[int]) -> Iterator[str]:
    digits, of_study = len(str(max(counts))), len(str(len(counts)))
    for study, count in enumerate(counts, 1):
        for point in range(1, count + 1):
            yield f"s{study:0{of_study}}-p{point:0{digits}}"


def _fault(search: Raw, axes: Mapping[str, _Axis], cases: Any) -> str | None:
    """Return why these are no points that the search may have drawn."""
    due, studies = _count(search, axes), _studies(search)
    if not isinstance(cases, list) or len(cases) != due or not studies <= due:
        found = f"{len(cases)} points" if isinstance(cases, list) else "no list of points"
        return f"found {found}, expected {due} points in {studies} studies"
    if due > commands.MOST_CASES:
        return f"{due} points exceed the limit, {commands.MOST_CASES}"
    fields = {"name", *axes}
    for case, name in zip(cases, _names(sizes(due, studies)), strict=True):
        if not isinstance(case, dict) or case.get("name") != name:
            written = case.get("name") if isinstance(case, dict) else case
            return f"found {quote(written)}, expected a case with the name {name}"
        if case.keys() != fields:
            odd = min(case.keys() ^ fields)
            if odd in fields:
                return f"{name} lacks the parameter {quote(odd)} of the space"
            return f"{name} has the parameter {quote(odd)}, which is not in the space"
        for parameter, axis in axes.items():
            if not axis.holds(case[parameter]):
                value = quote(case[parameter])
                return f"{parameter} of {name} is {value}, which is not in the space"
    return None


def _axes(search: Raw, entry: Raw, here: str, problems: Problems) -> dict[str, _Axis]:
    """Return the axes of the space by their names, those that are right."""
    is_grid = search["method"] == "grid"
    if is_grid and "points" in search:
        message = 'the values of a grid determine its points: remove "points"'
        problems.add(f"{here}/points", message)
    elif not is_grid and "points" not in search:
        problems.add(here, f'{search["method"]} needs "points", the number of points of each study')
    axes = {}
    for name, raw in search["space"].items():
        place = f"{here}/space{pointer(name[:200])}"
        numbers_only = "command" not in entry
        if isinstance(raw, list):
            fault = _list_fault(raw, numbers_only=numbers_only)
            axes[name] = _Axis(values=tuple(raw))
        else:
            fault = _range_fault(raw, is_grid=is_grid)
            axes[name] = _Axis(
                values=(),
                low=raw["from"],
                high=raw["to"],
                log=raw.get("scale") == "log",
                whole=raw.get("whole", False),
                steps=int(raw.get("count", 0)),
            )
        if fault:
            problems.add(place, fault)
    return axes


def _list_fault(values: Sequence[Scalar], *, numbers_only: bool) -> str | None:
    if (twice := commands.find_repeated(values)) is not None:
        return f"{quote(twice)} is given twice"
    words = [one for one in values if isinstance(one, bool | str)]
    if numbers_only and words:
        return f"{quote(words[0])} is not a number: a training can vary only numbers"
    return None


def _range_fault(raw: Raw, *, is_grid: bool) -> str | None:
    low, high = raw["from"], raw["to"]
    if not low < high:
        return f'found "from" {low:g} and "to" {high:g}: from must be less than to'
    if raw.get("scale") == "log" and low <= 0:
        return f"{low:g} has no logarithm: from must be positive"
    if raw.get("whole") and (low % 1 or high % 1):
        return f'{low:g} to {high:g} with "whole": from and to must be whole numbers'
    if is_grid and "count" not in raw:
        return "count is missing: a grid needs a list of values, or a range with count"
    if not is_grid and "count" in raw:
        return "count is only for grids: remove count"
    return None
