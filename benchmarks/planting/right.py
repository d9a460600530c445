"""Trials of what is right, under seeds that no other trial has: none may break a bound.

Each operator runs by torch's own function, by numpy's, and by the algorithms of `functions`; each
network of `manifests/level1.json` by torch and, kind of node by kind of node, by the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from capsule.levels import catalog, frameworks
from capsule.levels.frameworks.base import Framework

from . import functions, networks
from .faults import Fault
from .trials import KEPT, claims, measure, prepare

STORE = Path(__file__).parents[2] / "docs" / "right-trials.json"


@dataclass
class Count:
    """Trials of one algorithm in one dtype.

    Attributes:
        seeds: The first, and the one after the last.
        trials: How many.
        beyond: How many of them failed, or broke a bound.
        worst: The largest error over its bound.
    """

    seeds: tuple[int, int]
    trials: int = 0
    beyond: int = 0
    worst: float = 0.0


@dataclass
class Tally:
    """What came out, by subject, then algorithm, then dtype."""

    seeds: range
    counts: dict[str, dict[str, dict[str, Count]]] = field(default_factory=dict)

    def add(self, subject: str, name: str, dtype: str, worst: float, *, broken: bool) -> None:
        """Count a trial."""
        ends = (self.seeds.start, self.seeds.stop)
        by_dtype = self.counts.setdefault(subject, {}).setdefault(name, {})
        count = by_dtype.setdefault(dtype, Count(ends))
        count.trials += 1
        count.beyond += broken
        count.worst = max(count.worst, worst)

    def rows(self) -> Iterator[Count]:
        """All of them."""
        for by_name in self.counts.values():
            for by_dtype in by_name.values():
                yield from by_dtype.values()


def run(subjects: Iterable[str], dtypes: Iterable[str], seeds: range) -> Tally:
    """Trials of these operators and networks, one for each seed, case and algorithm."""
    torch, numpy = prepare(derivatives=True), frameworks.load("numpy", "cpu", 1, "default")
    tally = Tally(seeds)
    for subject in subjects:
        for dtype in dtypes:
            for case in range(_cases(subject)):
                ways = list(_ways(subject, case, dtype, torch, numpy))
                for seed in seeds:
                    for name, framework, algorithm in ways:
                        broken, worst = _judge(framework, subject, case, dtype, seed, algorithm)
                        tally.add(subject, name, dtype, worst, broken=bool(broken))
                        if broken:
                            where = f"{subject} (case {case}) by {name} in {dtype}, {seed}"
                            print(f"ALARM: a right {where}: {broken}", flush=True)
                    KEPT.clear()
    return tally


def _cases(subject: str) -> int:
    return 1 if subject in catalog.NETWORKS else len(catalog.OPERATORS[subject].cases["quick"])


def _ways(
    subject: str, case: int, dtype: str, torch: Framework, numpy: Framework
) -> Iterator[tuple[str, Framework, Fault | None]]:
    """Names, and who runs what."""
    entry = catalog.SUBJECTS[subject]
    is_network = subject in catalog.NETWORKS
    if not is_network and not catalog.refusal(entry, "numpy", dtype, "cpu"):
        yield "numpy", numpy, None
    if catalog.refusal(entry, "torch", dtype, "cpu"):
        return
    yield "torch", torch, None
    if is_network:
        others = functions.of_network(subject, networks.kinds_of(subject))
    else:
        others = functions.of_operator(subject, case)
    for one in others:
        if not one.dtypes or dtype in one.dtypes:
            yield f"{one.kind}, {one.node}" if one.node else one.kind, torch, one


def _judge(
    framework: Framework, subject: str, case: int, dtype: str, seed: int, algorithm: Fault | None
) -> tuple[str, float]:
    """What a right trial breaks, "" where it breaks nothing, and its largest ratio."""
    values = measure(framework, subject, case, dtype, seed, algorithm)
    if values is None:
        return "failed", 0.0
    level = 1 if subject in catalog.NETWORKS else 0
    broken, worst = [], 0.0
    for one in claims(level):
        name = one.metric.rpartition("/")[2]
        if name not in values:
            continue
        value = values[name]
        if one.at_most is not None and isfinite(value):
            worst = max(worst, value / one.at_most)
        # written so that a NaN is broken too
        if not (one.at_least or 0) <= value <= (value if one.at_most is None else one.at_most):
            broken.append(f"{name} {value:.3g}")
    return ", ".join(broken), worst


def keep(tally: Tally) -> None:
    """Add to what is kept.

    Raises:
        SystemExit: These seeds do not follow those that are kept.
    """
    kept = read()
    for subject, by_name in tally.counts.items():
        for name, by_dtype in by_name.items():
            for dtype, count in by_dtype.items():
                before = kept.setdefault(subject, {}).setdefault(name, {}).get(dtype)
                kept[subject][name][dtype] = _join(before, count) if before else count
    lines = []
    for subject, by_name in kept.items():
        rows = [
            f"{json.dumps(name)}: "
            + json.dumps(
                {
                    dtype: [*one.seeds, one.trials, one.beyond, float(f"{one.worst:.3g}")]
                    for dtype, one in by_dtype.items()
                }
            )
            for name, by_dtype in by_name.items()
        ]
        lines.append(f"{json.dumps(subject)}: {{\n" + ",\n".join(rows) + "\n}")
    STORE.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def _join(before: Count, count: Count) -> Count:
    if before.seeds[1] != count.seeds[0]:
        raise SystemExit(
            f"{STORE.name} has seeds up to {before.seeds[1]}, to which those from"
            f" {count.seeds[0]} on do not follow: go on with --seed {before.seeds[1]}"
        )
    return Count(
        (before.seeds[0], count.seeds[1]),
        before.trials + count.trials,
        before.beyond + count.beyond,
        max(before.worst, count.worst),
    )


def read() -> dict[str, dict[str, dict[str, Count]]]:
    """What is kept."""
    if not STORE.exists():
        return {}
    return {
        subject: {
            name: {dtype: _count(row) for dtype, row in by_dtype.items()}
            for name, by_dtype in by_name.items()
        }
        for subject, by_name in json.loads(STORE.read_text(encoding="utf-8")).items()
    }


def _count(row: list[float]) -> Count:
    first, after, trials, beyond, worst = row
    return Count((int(first), int(after)), int(trials), int(beyond), worst)


def table(dtypes: Iterable[str]) -> Iterator[str]:
    """How many trials of each algorithm, and their largest error over its bound."""
    kept, shown = read(), list(dtypes)
    yield "| of | by | " + " | ".join(shown) + " |"
    yield "| --- | --- |" + " --- |" * len(shown)
    for subject, by_name in kept.items():
        for name, by_dtype in by_name.items():
            cells = [_cell(by_dtype.get(dtype)) for dtype in shown]
            yield f"| {subject} | {name} | " + " | ".join(cells) + " |"


def _cell(one: Count | None) -> str:
    if one is None:
        return ""
    beyond = f", **{one.beyond} beyond**" if one.beyond else ""
    return f"{one.trials}, {one.worst:.2g}{beyond}"


def total(counts: Mapping[str, Mapping[str, Mapping[str, Count]]]) -> str:
    """A sentence for all."""
    parts = []
    for group, names in (("operators", catalog.OPERATORS), ("networks", catalog.NETWORKS)):
        rows = [
            one
            for subject, by_name in counts.items()
            if subject in names
            for by_dtype in by_name.values()
            for one in by_dtype.values()
        ]
        if rows:
            trials, beyond = sum(one.trials for one in rows), sum(one.beyond for one in rows)
            parts.append(f"{trials} trials of right {group}, {beyond} beyond a bound")
    return "; ".join(parts)
