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
from capsule.manifest.model import Case, Metric, Scalar
from capsule.manifest.problems import Problems, instead, quote
from capsule.schema import pointer

Raw = Mapping[str, Any]

STUDIES = 5
_DIGITS = 6
"""Significant ones of a number that is drawn."""
_TRIES = 100
"""So often a point is drawn that its study has already, before the space is too small for it."""
_NO_CASES = '"cases": []'


class _Axis(NamedTuple):
    """What one parameter may be: one of some values, or a number of a range.

    Attributes:
        values: In their order; none for a range.
        low, high: Ends of the range, both of them in it.
        log: Whether equal ratios of it are equally likely, not equal differences.
        whole: Whether it has whole numbers alone.
        steps: How many values of it stand in a grid.
    """

    values: tuple[Scalar, ...]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    steps: int = 0

    def at(self, share: float) -> Scalar:
        """The value at a share of it, from 0 to 1."""
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
        """The values that stand in a grid."""
        if self.values:
            return list(self.values)
        # from end to end, where `at` gives whole numbers the room of half a step around them
        ends = self._replace(whole=False)
        numbers = [float(ends.at(index / (self.steps - 1))) for index in range(self.steps)]
        if not self.whole:
            return [*numbers]
        return list(dict.fromkeys(round(number) for number in numbers))

    def holds(self, value: Scalar) -> bool:
        """Whether it may be this value."""
        if self.values:
            return any(_same(value, one) for one in self.values)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return self.low <= value <= self.high and (not self.whole or value % 1 == 0)


def draw_all(raw: Raw, problems: Problems) -> Raw:
    """A manifest with the points of its searches written out where that was not done before.

    Args:
        raw: It, of which what is right fits the schema; the same where nothing is to be drawn.
        problems: Knows what is wrong, and collects why a search cannot be drawn.
    """
    entries = raw.get("benchmarks")
    if not isinstance(entries, list):
        return raw
    drawn = [
        _with_points(entry, f"/benchmarks/{index}", problems) for index, entry in enumerate(entries)
    ]
    if all(one is entry for one, entry in zip(drawn, entries, strict=True)):
        return raw
    return {**raw, "benchmarks": drawn}


def read(
    raw: Raw, cases: Sequence[Case], metrics: Sequence[Metric], here: str, problems: Problems
) -> Search | None:
    """The search of an entry, held against its cases; None where it has none, or a wrong one.

    Args:
        raw: The entry, which fits the schema.
        cases: As they were drawn.
        metrics: What each trial yields.
        here: JSON pointer of the entry.
        problems: Collects what is wrong.
    """
    if "search" not in raw:
        return None
    search, place = raw["search"], f"{here}/search"
    if "cases" not in raw:
        message = "its points are not written down; in a capsule they stand in cases"
        problems.add(place, message)
        return None
    axes = _axes(search, raw, place, problems)
    known = {metric.name: metric for metric in metrics}
    metric = known.get(search["metric"])
    if metric is None:
        message = f"no metric {quote(search['metric'])}; {instead(search['metric'], known)}"
        problems.add(f"{place}/metric", message)
    elif metric.direction == "none":
        problems.add(f"{place}/metric", f"{metric.name} has no better or worse: no trial is best")
    if problems.below(here):
        return None
    studies = int(search.get("studies", STUDIES))
    if fault := _fault(search, axes, studies, cases):
        problems.add(f"{here}/cases", f"{fault}: leave cases out, and they are drawn")
        return None
    return Search(metric=search["metric"], method=search["method"], studies=studies)


def write(raw: Raw) -> bytes:
    """The text of a manifest, with one point of a search a line."""
    entries = [{**one, "cases": []} if "search" in one else one for one in raw["benchmarks"]]
    text = json.dumps({**raw, "benchmarks": entries}, indent=2, ensure_ascii=False) + "\n"
    # inside a string its marks have backslashes, and the schema lets nobody write no case
    first, *rest = text.split(_NO_CASES)
    lists = [one["cases"] for one in raw["benchmarks"] if "search" in one]
    return "".join([first, *itertools.chain(*zip(map(_lines, lists), rest, strict=True))]).encode()


def _lines(cases: Sequence[Raw]) -> str:
    lines = ",\n".join(f"        {json.dumps(case, ensure_ascii=False)}" for case in cases)
    return f'"cases": [\n{lines}\n      ]'


def _with_points(entry: Any, here: str, problems: Problems) -> Any:
    if not isinstance(entry, dict) or "search" not in entry or "cases" in entry:
        return entry
    if problems.below(here):
        return entry
    search, place = entry["search"], f"{here}/search"
    commands.check_parameters(search["space"], f"{place}/space", problems)
    axes = _axes(search, entry, place, problems)
    if problems.below(place):
        return entry
    studies = int(search.get("studies", STUDIES))
    points = _points(search, axes, studies, place, problems)
    if points is None:
        return entry
    names = _names([len(study) for study in points])
    together = itertools.chain(*points)
    return {**entry, "cases": [{"name": next(names), **point} for point in together]}


def _points(
    search: Raw, axes: Mapping[str, _Axis], studies: int, here: str, problems: Problems
) -> list[list[dict[str, Scalar]]] | None:
    """The points of each study, or None after noting why there are none."""
    seed = int(search.get("seed", 0))
    if search["method"] == "grid":
        return _grid(axes, studies, seed, here, problems)
    count = int(search["points"])
    if count * studies > commands.MOST_CASES:
        message = f"{studies} studies of {count} points are more than {commands.MOST_CASES} cases"
        problems.add(f"{here}/points", message)
        return None
    drawn = []
    for study in range(studies):
        shares = _halton if search["method"] == "halton" else _uniform
        points = list(itertools.islice(_new(shares(len(axes), [seed, study], count), axes), count))
        if len(points) < count:
            message = f"the space has hardly more than {len(points)} points, and {count} are due"
            problems.add(f"{here}/points", message)
            return None
        drawn.append(points)
    return drawn


def _new(
    shares: Iterator[Sequence[float]], axes: Mapping[str, _Axis]
) -> Iterator[dict[str, Scalar]]:
    """The points at some shares of the axes, without those that came before."""
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
    """All combinations, dealt out to the studies."""
    import numpy

    columns = [axis.grid() for axis in axes.values()]
    count = math.prod(map(len, columns))
    if not studies <= count <= commands.MOST_CASES:
        message = f"makes {count} points; {studies} studies take {studies} to {commands.MOST_CASES}"
        problems.add(f"{here}/space", message)
        return None
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*columns)]
    order = numpy.random.default_rng(seed).permutation(count).tolist()
    dealt = iter([points[place] for place in order])
    return [list(itertools.islice(dealt, size)) for size in sizes(count, studies)]


def sizes(count: int, studies: int) -> list[int]:
    """How many of the cases, in their order, are of each study: the first have one more.

    >>> sizes(11, 3)
    [4, 4, 3]
    """
    return [count // studies + (study < count % studies) for study in range(studies)]


def _names(counts: Sequence[int]) -> Iterator[str]:
    digits, of_study = len(str(max(counts))), len(str(len(counts)))
    for study, count in enumerate(counts, 1):
        for point in range(1, count + 1):
            yield f"s{study:0{of_study}}-p{point:0{digits}}"


def _fault(
    search: Raw, axes: Mapping[str, _Axis], studies: int, cases: Sequence[Case]
) -> str | None:
    """Why these are no points that the search may have drawn."""
    due = int(search.get("points", 0)) * studies
    if search["method"] == "grid":
        due = math.prod(len(axis.grid()) for axis in axes.values())
    if len(cases) != due:
        return f"{len(cases)} points are written, and {due} are due"
    for case, name in zip(cases, _names(sizes(due, studies)), strict=True):
        if case.name != name:
            return f"{quote(case.name)} stands where {name} is due"
        if case.parameters.keys() != axes.keys():
            return f"{name} has other parameters than the space"
        for parameter, axis in axes.items():
            if not axis.holds(case.parameters[parameter]):
                value = quote(case.parameters[parameter])
                return f"{parameter} of {name} is {value}, which the space does not hold"
    return None


def _axes(search: Raw, entry: Raw, here: str, problems: Problems) -> dict[str, _Axis]:
    """The axes of the space by their names, those that are right."""
    is_grid = search["method"] == "grid"
    if is_grid and "points" in search:
        message = "a grid has as many points as its values make: leave points out"
        problems.add(f"{here}/points", message)
    elif not is_grid and "points" not in search:
        problems.add(here, f"{search['method']} needs points, the number of each study's")
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
    if any(_same(one, other) for one, other in itertools.combinations(values, 2)):
        return "a value stands here twice"
    if numbers_only and any(isinstance(one, bool | str) for one in values):
        return "what a training varies are numbers"
    return None


def _range_fault(raw: Raw, *, is_grid: bool) -> str | None:
    low, high = raw["from"], raw["to"]
    if not low < high:
        return f"{low:g} to {high:g} is no range: from has to be less than to"
    if raw.get("scale") == "log" and low <= 0:
        return f"{low:g} has no logarithm: from has to be positive"
    if raw.get("whole") and (low % 1 or high % 1):
        return "from and to of whole numbers have to be whole"
    if is_grid and "count" not in raw:
        return "a grid takes a list of values, or a range with the count of those it is cut into"
    if not is_grid and "count" in raw:
        return "count belongs to grids: of a range any number is drawn"
    return None


def _same(one: Scalar, other: Scalar) -> bool:
    # true is 1 to Python, and no number to JSON
    return isinstance(one, bool) == isinstance(other, bool) and one == other
