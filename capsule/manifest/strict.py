"""Restrictions of a manifest with strict determinism; see `levels.catalog.determinism`."""

from __future__ import annotations

from collections.abc import Sequence

from capsule.levels.catalog import determinism
from capsule.manifest.kinds import Collective, Command, Reading, Recipe
from capsule.manifest.model import Benchmark
from capsule.manifest.problems import Problems


def check(benchmarks: Sequence[Benchmark], device: str, problems: Problems) -> None:
    """Note what strict determinism cannot be promised of."""
    for index, one in enumerate(benchmarks):
        here, subject = f"/benchmarks/{index}", one.subject
        if isinstance(subject, Command):
            for name, value in subject.environment.items():
                if reason := determinism.fault(name, value):
                    problems.add(f"{here}/environment/{name}", f"{reason} (determinism is strict)")
            continue
        for place, framework in enumerate(one.frameworks):
            name = "" if isinstance(subject, (Reading, Collective)) else subject.name
            if reason := determinism.refusal(framework, device, name):
                message = f'"determinism": "strict" is impossible: {reason}'
                problems.add(f"{here}/frameworks/{place}", message)
        for made in subject.settings.values() if isinstance(subject, Recipe) else ():
            if reason := determinism.refuse_mode(made.tuning.compile_mode):
                message = f'"determinism": "strict" is impossible: {reason}'
                problems.add(f"{here}/tuning/compile_mode", message)
