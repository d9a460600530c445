"""Records of any size, made from a manifest: an attempt and samples for every planned trial."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from capsule import archive, notes, plan, record, summary, verdict
from capsule import manifest as manifests
from capsule.manifest import Manifest, Metric, looks
from capsule.origin import Original, Verification
from capsule.plan import Trial
from capsule.record import Attempt, FrozenClaim, Record, Samples
from tests.support.records import LEVELS_DIGEST, Document, make_files, make_image, make_node

# a run of its own, and a verification of it
_DAYS = ("2026-03-01", "2026-03-02")

Draw = Callable[[Trial, Metric], Sequence[float]]
"""The values of one metric in one trial."""


def manifest_document(*, metrics: int, seeds: int, claims: Sequence[Document] = ()) -> Document:
    """A command with so many metrics, half of them of the machine, and a claim on each."""
    kinds = ("portable", "machine")
    asked = [{"metric": "train/*/*/*", "type": "equivalence"}]
    return {
        "name": "bulk",
        "title": "Bulk",
        "authors": [{"name": "Ada Author"}],
        "license": "CC-BY-4.0",
        "seeds": list(range(seeds)),
        "benchmarks": [
            {
                "id": "train",
                "command": ["true"],
                "metrics": {
                    f"m{n:05d}": {"direction": "lower", "kind": kinds[n % 2]}
                    for n in range(metrics)
                },
            }
        ],
        "claims": list(claims) or asked,
    }


def read_manifest(document: Document) -> Manifest:
    """The manifest as a capsule's reader returns it."""
    source = json.dumps(document).encode()
    return manifests.read(source, where="manifest.json", folder=None)


def make(
    manifest: Manifest,
    draw: Draw,
    *,
    verifies: str | None = None,
    claims: tuple[FrozenClaim, ...] | None = None,
    attempts: Callable[[Attempt], Attempt] = lambda attempt: attempt,
    curve: bool = False,
) -> Record:
    """A record of every trial that the manifest, or its verification, plans.

    Args:
        manifest: What is run.
        draw: Makes the values.
        verifies: Id of the capsule that is verified.
        claims: Those of that capsule; the manifest's are frozen without.
        attempts: Changes an attempt that completed; one that did not has no samples.
        curve: Values have steps.
    """
    day = _DAYS[verifies is not None]
    planned = plan.make(manifest, verifies=verifies, runs=len(manifest.seeds) if verifies else None)
    trials = [(group, trial) for group in planned.groups for trial in group.trials]
    tried = tuple(
        attempts(
            Attempt(
                trial=trial.id,
                attempt=1,
                group=group.id,
                seed=trial.seed,
                seed_source=trial.seed_source,
                outcome="completed",
                exit_code=0,
                started=f"{day}T10:00:01+00:00",
                seconds=1.5,
                ranks=group.ranks,
            )
        )
        for group, trial in trials
    )
    completed = {attempt.trial for attempt in tried if attempt.outcome == "completed"}
    samples = (
        line for _, trial in trials if trial.id in completed for line in _lines(trial, draw, curve)
    )
    execution = record.Execution(
        attempts=tried, samples=tuple(samples), software={}, effective={}, logs=()
    )
    whole = record.assemble(
        _setup(manifest, verifies, claims or ()),
        planned,
        execution,
        nodes=(make_node(),),
        ended=f"{day}T11:00:00+00:00",
    )
    if claims is None:
        claims = verdict.freeze(manifest.claims, summary.run_values(whole))
    return replace(whole, claims=claims)


def _lines(trial: Trial, draw: Draw, curve: bool) -> Iterator[Samples]:
    for metric in trial.benchmark.due(trial.framework):
        values = tuple(map(float, draw(trial, metric)))
        steps = tuple(map(float, range(len(values)))) if curve else None
        yield Samples(
            metric=f"{trial.id.rpartition('/')[0]}/{metric.name}",
            trial=trial.id,
            attempt=1,
            seed=trial.seed,
            unit=metric.unit,
            direction=metric.direction,
            kind=metric.kind,
            resolution=metric.resolution,
            per=metric.per,
            rank=0,
            warmup=0,
            values=values,
            steps=steps if metric.per in ("call", "step", "rank") else None,
        )


def _setup(manifest: Manifest, verifies: str | None, claims: Sequence[FrozenClaim]) -> record.Setup:
    runs = len(manifest.seeds)
    look = looks.place((claim.looks for claim in claims), runs)
    image = make_image() if manifest.image else None
    return record.Setup(
        uuid=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{manifest.name} {verifies}")),
        origin=Verification(of=verifies, runs=runs, look=look) if verifies else Original(),
        started=f"{_DAYS[verifies is not None]}T10:00:00+00:00",
        runtime="docker" if image else "host",
        contained=image is not None,
        image=image,
        image_observations={},
        variables={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "2"},
        threads=2,
        levels={"digest": LEVELS_DIGEST, "release": None},
        datasets=(),
        notes=() if image else (notes.no_container(),),
    )


def seal(made: Record, target: Path) -> str:
    """Seal it with the measuring code and little else; its id."""
    return archive.write(made, make_files(), target)


def normal(length: int, source: int) -> Draw:
    """So many values of a normal distribution, others for each source."""
    random = Random(source)

    def draw(_trial: Trial, _metric: Metric) -> Sequence[float]:
        return [random.gauss(0.01, 0.001) for _ in range(length)]

    return draw
