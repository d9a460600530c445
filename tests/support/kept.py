"""The records of the kept set of runs: to be adapted when records change, and nothing else is.

`runs.json` says what was claimed and what ran. It is never written again for a change that is not
meant to move a judgement.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from capsule import digest, plan, summary, verdict
from capsule import manifest as manifests
from capsule.origin import Original, Verification
from capsule.record import Attempt, Outcome, Reason, Record, Samples
from tests.support import records

KEPT = Path(__file__).parents[1] / "data" / "kept"

Document = Mapping[str, Any]
"""A part of `runs.json`: a scenario, one side of it, or one run."""

_SCENARIOS: list[Document] = json.loads((KEPT / "runs.json").read_text())["scenarios"]
SCENARIOS = {scenario["id"]: scenario for scenario in _SCENARIOS}
ORIGINAL_ID = "a" * 64


def record_of(scenario: Document, index: int) -> Record:
    """The record of one side of a scenario; side 0 is the original, whose claims are frozen."""
    side = scenario["sides"][index]
    manifest = manifest_of(scenario, side)
    trials = [trial_of(manifest, run) for run in side["runs"]]
    verifies = ORIGINAL_ID if side.get("verifies") else None
    laid_out = plan_of(manifest, trials, verifies)
    attempts: list[Attempt] = []
    samples: list[Samples] = []
    for run, trial in zip(side["runs"], trials, strict=True):
        own = attempts_of(run, trial)
        attempts += own
        if own and run.get("metrics"):
            samples += samples_of(run, trial, own[-1].attempt)
    record = dataclasses.replace(
        records.make_record(),
        uuid=f"6f1c6b52-5d1e-4a0e-9a35-0d9c5b1f3c{index:02x}",
        origin=Verification(of=verifies, runs=1) if verifies else Original(),
        manifest=manifest,
        plan=plan.to_json(laid_out),
        plan_digest=str(laid_out.digest),
        attempts=tuple(attempts),
        samples=tuple(sorted(samples, key=lambda line: (line.metric, line.seed, line.attempt))),
        claims=(),
        notes=(),
    )
    if index:
        return record
    claims = verdict.freeze(manifest.claims, summary.run_values(record))
    return dataclasses.replace(record, claims=claims)


def manifest_of(scenario: Document, side: Document) -> manifests.Manifest:
    """The manifest as its reader makes it, of whole JSON; a side may have other benchmarks."""
    document = records.manifest_document()
    planned = side if "benchmarks" in side else scenario["sides"][0]
    seeds = [run["seed"] for run in planned["runs"] if not run.get("fresh")]
    document["seeds"] = list(dict.fromkeys(seeds)) or list(records.SEEDS)
    document["benchmarks"] = side.get("benchmarks", scenario["benchmarks"])
    document["claims"] = [] if "benchmarks" in side else scenario["claims"]
    return manifests.read(json.dumps(document).encode(), where="manifest.json", folder=None)


def trial_of(manifest: manifests.Manifest, run: Document) -> plan.Trial:
    unit = run.get("unit", "train/default/command")
    name, case, framework = unit.split("/")
    (benchmark,) = (entry for entry in manifest.benchmarks if entry.id == name)
    (point,) = (entry for entry in benchmark.cases if entry.name == case)
    return plan.Trial(
        id=f"{unit}/{run['seed']}",
        benchmark=benchmark,
        case=point,
        framework=framework,
        seed=run["seed"],
        seed_source="fresh" if run.get("fresh") else "manifest",
    )


def plan_of(
    manifest: manifests.Manifest, trials: Sequence[plan.Trial], verifies: str | None
) -> plan.Plan:
    """One process start a trial."""
    groups = tuple(
        plan.Group(
            id=f"{number:04d}-{trial.framework}-{trial.seed}",
            framework=trial.framework,
            seed=trial.seed,
            trials=(trial,),
        )
        for number, trial in enumerate(trials, 1)
    )
    # its JSON does not hold the digest
    unnamed = plan.Plan(
        manifest=manifest, groups=groups, verifies=verifies, digest=digest.of_bytes(b"")
    )
    return dataclasses.replace(unnamed, digest=digest.of_json(plan.to_json(unnamed)))


def attempts_of(run: Document, trial: plan.Trial) -> list[Attempt]:
    """Attempts that settled nothing, then the one that did."""
    status = run.get("status", "ok")
    fates: list[tuple[Outcome, Reason | None]] = [("interrupted", "killed")]
    fates *= run.get("interrupted", 0)
    if status == "ok":
        fates.append(("completed", None))
    elif status == "failed":
        fates.append(("failed", run.get("reason", "exit")))
    elif run.get("reason", "killed"):
        fates.append(("interrupted", run.get("reason", "killed")))
    return [
        records.make_attempt(
            trial.seed,
            trial.seed_source == "fresh",
            trial=trial.id,
            group=f"{trial.framework}-{trial.seed}",
            attempt=number,
            outcome=outcome,
            reason=reason,
            exit_code=0 if outcome == "completed" else None,
        )
        for number, (outcome, reason) in enumerate(fates, 1)
    ]


def samples_of(run: Document, trial: plan.Trial, attempt: int) -> Iterator[Samples]:
    metrics = {metric.name: metric for metric in trial.benchmark.metrics}
    # what a line of samples repeats of its metric: unit, direction, kind, resolution, ...
    repeated = {field.name for field in dataclasses.fields(Samples)}
    repeated &= {field.name for field in dataclasses.fields(manifests.Metric)}
    for name, series in run["metrics"].items():
        values = series["values"]
        if "repeated" in series:  # over and over, up to so many
            values = [values[i % len(values)] for i in range(series["repeated"])]
        yield Samples(
            metric=f"{trial.id.rpartition('/')[0]}/{name}",
            trial=trial.id,
            attempt=attempt,
            seed=trial.seed,
            warmup=series.get("warmup", 0),
            values=tuple(values),
            steps=tuple(series["steps"]) if "steps" in series else None,
            **{field: getattr(metrics[name], field) for field in repeated},
        )
