"""Trials of what is right, under seeds that no other trial has: none may break a bound.

Each operator runs by torch's own function, by numpy's, and by the algorithms of `functions`; each
network of `manifests/level1.json` by torch and, kind of node by kind of node, by the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from capsule.levels import catalog, frameworks
from capsule.levels.frameworks.base import Framework

from . import functions, networks
from .faults import Fault
from .trials import KEPT, claims, measure, prepare


@dataclass
class Count:
    """Trials of one algorithm in one dtype.

    Attributes:
        trials: How many.
        beyond: How many of them failed, or broke a bound.
    """

    trials: int = 0
    beyond: int = 0


@dataclass
class Tally:
    """What came out, by subject, then algorithm, then dtype."""

    counts: dict[str, dict[str, dict[str, Count]]] = field(default_factory=dict)

    def add(self, subject: str, name: str, dtype: str, *, broken: bool) -> None:
        """Count a trial."""
        by_dtype = self.counts.setdefault(subject, {}).setdefault(name, {})
        count = by_dtype.setdefault(dtype, Count())
        count.trials += 1
        count.beyond += broken

    def rows(self) -> Iterator[Count]:
        """All of them."""
        for by_name in self.counts.values():
            for by_dtype in by_name.values():
                yield from by_dtype.values()


def run(subjects: Iterable[str], dtypes: Iterable[str], seeds: range) -> Tally:
    """Trials of these operators and networks, one for each seed, case and algorithm."""
    torch, numpy = prepare(derivatives=True), frameworks.load("numpy", "cpu", 1, "default")
    tally = Tally()
    for subject in subjects:
        for dtype in dtypes:
            for case in range(_cases(subject)):
                ways = list(_ways(subject, case, dtype, torch, numpy))
                for seed in seeds:
                    for name, framework, algorithm in ways:
                        broken = _judge(framework, subject, case, dtype, seed, algorithm)
                        tally.add(subject, name, dtype, broken=bool(broken))
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
) -> str:
    """Name what a right trial breaks, "" where it breaks nothing."""
    values = measure(framework, subject, case, dtype, seed, algorithm)
    if values is None:
        return "failed"
    level = 1 if subject in catalog.NETWORKS else 0
    broken = []
    for one in claims(level):
        name = one.metric.rpartition("/")[2]
        if name not in values:
            continue
        value = values[name]
        # written so that a NaN is broken too
        if not (one.at_least or 0) <= value <= (value if one.at_most is None else one.at_most):
            broken.append(f"{name} {value:.3g}")
    return ", ".join(broken)


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
