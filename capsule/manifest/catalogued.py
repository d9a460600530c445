"""Metrics of Levels 0 to 3 that mean something else than in this version's catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from capsule.levels import catalog
from capsule.levels.catalog import MetricFacts, collectives, reading, schemes, serving, training
from capsule.levels.catalog.users import MODULE_METRICS
from capsule.manifest.kinds import Collective, Command, Network, Operator, Reading, Recipe, Subject
from capsule.manifest.model import Benchmark

_MEANING = ("unit", "direction", "kind", "resolution")


def deviations(benchmarks: Iterable[Benchmark]) -> Iterator[str]:
    """Yield each metric that is declared otherwise than in the catalogue, or is not in it, as a
    sentence.

    The metrics of a command are its author's.

    Args:
        benchmarks: As a plan states them.
    """
    for benchmark in benchmarks:
        if isinstance(benchmark.subject, Command):
            continue
        known = {facts.name: facts for facts in _facts(benchmark.subject)}
        for metric in benchmark.metrics:
            name, facts = f"{benchmark.id}/*/*/{metric.name}", known.get(metric.name)
            if facts is None:
                yield f"{name} is not in this version's catalogue"
                continue
            yield from (
                f"{name} has {field} {getattr(metric, field)}; this version's catalogue has"
                f" {getattr(facts, field)}"
                for field in _MEANING
                if getattr(metric, field) != getattr(facts, field)
            )


def _facts(subject: Subject) -> Iterator[MetricFacts]:
    match subject:
        case Operator():
            yield from (*catalog.OPERATOR_METRICS, *catalog.ROOFLINE_METRICS)
        case Network():
            served = chain.from_iterable(serving.METRICS.values())
            yield from (*catalog.NETWORK_METRICS, *MODULE_METRICS, *served)
        case Reading():
            yield from reading.METRICS
        case Collective():
            yield from collectives.METRICS
        case Recipe():
            # another version's catalogue may have other networks
            known = subject.module or subject.name in training.QUALITY
            for is_module in (False, True) if known else ():
                yield from training.metrics(
                    subject.quality,
                    has_target=True,
                    stops=False,
                    is_module=is_module,
                    copies=True,
                )
            yield from chain.from_iterable(map(schemes.metrics, schemes.SCHEMES))
