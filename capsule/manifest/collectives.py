"""Turn an entry of Level 3 without a training into a benchmark: operations at some sizes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from capsule.levels.catalog import collectives
from capsule.manifest import devices
from capsule.manifest.facts import metric_of
from capsule.manifest.kinds import LEVEL_OF_RANKS, Collective
from capsule.manifest.model import Benchmark, Case, Metric
from capsule.manifest.problems import Problems, instead, quote

Raw = Mapping[str, Any]


def exchanges(raw: Raw) -> bool:
    """Return whether an entry of the benchmarks exchanges arrays without a training."""
    return "collectives" in raw and raw.get("level") == LEVEL_OF_RANKS


def read(raw: Raw, here: str, device: str, problems: Problems) -> Benchmark | None:
    """Return one entry that fits the schema, or None after noting what is wrong with it.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        device: `cpu` or `cuda`, which decides what can exchange.
        problems: Collects what is wrong.
    """
    lacking = devices.list_lacking(raw["frameworks"], device)
    for index, name in enumerate(raw["frameworks"]):
        if name not in lacking and (reason := collectives.refuse(name, device)):
            problems.add(f"{here}/frameworks/{index}", reason)
    for index, name in enumerate(raw["collectives"]):
        if name not in collectives.COLLECTIVES:
            message = f"no collective {quote(name)}; {instead(name, collectives.COLLECTIVES)}"
            problems.add(f"{here}/collectives/{index}", message)
    if problems.below(here):
        return None
    return _benchmark(raw, tuple(map(metric_of, collectives.METRICS)))


def restate(
    raw: Raw, here: str, cases: tuple[Case, ...], metrics: tuple[Metric, ...], problems: Problems
) -> Benchmark | None:
    """Return the benchmark with the plan's metrics.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        cases: As the plan has them.
        metrics: Likewise.
        problems: Collects where the two contradict each other.
    """
    made = _benchmark(raw, metrics)
    if made.cases != cases:
        found, due = (quote([case.name for case in side]) for side in (cases, made.cases))
        message = f"the plan has the cases {found}, expected {due} as in the manifest"
        problems.add(f"{here}/collectives", message)
        return None
    return made


def check(benchmark: Benchmark, ranks: int, here: str, problems: Problems) -> None:
    """Note a size that so many ranks cannot exchange; at most one, for others are alike.

    Args:
        benchmark: One that exchanges.
        ranks: Number of ranks.
        here: Its JSON pointer.
        problems: Collects what is wrong.
    """
    for case in benchmark.cases:
        one = of_case(case)
        if reason := collectives.refuse_size(one.name, one.size, ranks):
            problems.add(f"{here}/bytes" if ranks > 1 else here, reason)
            return


def of_case(case: Case) -> collectives.Collective:
    """Return the exchange of a case."""
    return collectives.Collective(str(case.parameters["collective"]), int(case.parameters["bytes"]))


def to_json(case: Case) -> dict[str, str | int]:
    """Return the exchange as a job has it."""
    one = of_case(case)
    return {"name": one.name, "size": one.size}


def _benchmark(raw: Raw, metrics: tuple[Metric, ...]) -> Benchmark:
    points = [(name, int(size)) for name, size in product(raw["collectives"], raw["bytes"])]
    return Benchmark(
        id=raw["id"],
        subject=Collective(
            repetitions=int(raw.get("repetitions", 30)), warmup=int(raw.get("warmup", 3))
        ),
        cases=tuple(
            Case(name=f"{name}-{size}", parameters={"collective": name, "bytes": size})
            for name, size in points
        ),
        frameworks=tuple(raw["frameworks"]),
        metrics=metrics,
        lacking={name: frozenset() for name in raw["frameworks"]},
    )
