"""Records of a training at several numbers of ranks, with every speed given by the test."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from capsule import manifest as manifests
from capsule import plan as plans
from capsule import summary, verdict
from capsule.manifest import Manifest
from capsule.record import Attempt, Record, Samples
from tests.support.records import make_attempt, make_record

ENTRY: dict[str, Any] = {
    "id": "strong",
    "level": 3,
    "network": "lenet",
    "datasets": ["glyphs"],
    "frameworks": ["torch"],
    "batch": 16,
    "epochs": 3,
    "optimizer": {"name": "sgd", "lr": 0.1},
    "scheme": {"name": "allreduce"},
    "scaling": "strong",
    "cases": {"ranks": [1, 2, 4]},
}

Speed = Callable[[int, int], float]
"""Samples a second, of ranks and the place of the seed; what is not finite has failed."""


def read(
    subjects: Sequence[dict[str, Any]] | None = None,
    resources: dict[str, int] | None = None,
    claims: Sequence[dict[str, Any]] = (),
    seeds: int = 2,
    **fields: Any,
) -> Manifest:
    """A manifest of one entry, of which a field is left out where it is None."""
    document = {
        "name": "sweep",
        "title": "A sweep over ranks",
        "authors": [{"name": "Ada Author"}],
        "license": "CC0-1.0",
        "resources": resources or {"ranks_per_node": 4},
        "seeds": list(range(1, seeds + 1)),
        "datasets": {"glyphs": {"generator": "glyphs", "samples": 90, "test_samples": 30}},
        "benchmarks": [
            {name: value for name, value in {**ENTRY, **fields}.items() if value is not None}
        ],
        "claims": list(claims),
        "mutable": ["resources"],
    }
    data = json.dumps(document, indent=1).encode()
    return manifests.read(data, where="manifest.json", folder=None, subjects=subjects)


def make_sweep(
    manifest: Manifest, speed: Speed, *, verifies: str | None = None, crowded: Sequence[int] = ()
) -> Record:
    """The record of a run of it, or of the verification of one.

    Args:
        manifest: What `read` gives.
        speed: Of each trial.
        verifies: Id of the capsule that was verified.
        crowded: Numbers of ranks at which ranks share cores.
    """
    planned = plans.make(manifest, verifies=verifies)
    seeds = list(dict.fromkeys(group.seed for group in planned.groups))
    attempts, samples = list[Attempt](), list[Samples]()
    for group in planned.groups:
        for trial in group.trials:
            rate = speed(group.ranks, seeds.index(group.seed))
            failed = not rate < float("inf")
            attempt = make_attempt(group.seed, trial.seed_source == "fresh", failed)
            attempts.append(
                dataclasses.replace(attempt, trial=trial.id, group=group.id, ranks=group.ranks)
            )
            values = {
                "training_throughput": rate,
                "step_time": 0.5,
                "communication_time": 0.125 if group.ranks > 1 else 0.0,
                "threads_per_core": 1.0 + (group.ranks in crowded),
            }
            for metric in trial.benchmark.metrics if not failed else ():
                if metric.name in values:
                    ranks = group.ranks if metric.per == "rank" else 1
                    samples += [
                        Samples(
                            metric=f"{trial.id.rpartition('/')[0]}/{metric.name}",
                            trial=trial.id,
                            attempt=1,
                            seed=group.seed,
                            unit=metric.unit,
                            direction=metric.direction,
                            kind=metric.kind,
                            resolution=metric.resolution,
                            per=metric.per,
                            rank=rank,
                            warmup=0,
                            values=(values[metric.name],),
                        )
                        for rank in range(ranks)
                    ]
    record = make_record(
        fresh=tuple(seeds) if verifies else (),
        verifies=verifies,
        manifest=manifest,
        plan=plans.to_json(planned),
        plan_digest=str(planned.digest),
        attempts=tuple(attempts),
        samples=tuple(samples),
        datasets=(),
    )
    claims = verdict.freeze(manifest.claims, summary.run_values(record))
    return dataclasses.replace(record, claims=claims)
