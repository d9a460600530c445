"""The records of the kept set of runs: to be adapted when records change, and nothing else is.

`runs.json` says what was claimed and what ran. It is never written again for a change that is not
meant to move a judgement.
"""

import dataclasses
import json
from pathlib import Path

from capsule import manifest as manifests
from capsule import plan, summary, verdict
from capsule.origin import Original, Verification
from capsule.record import Samples
from tests.support import records

KEPT = Path(__file__).parents[1] / "data" / "kept"
SCENARIOS = {each["id"]: each for each in json.loads((KEPT / "runs.json").read_text())["scenarios"]}
ORIGINAL_ID = "a" * 64


def record_of(scenario, index):
    """The record of one side of a scenario; side 0 is the original, whose claims are frozen."""
    side = scenario["sides"][index]
    manifest = manifest_of(scenario, side)
    trials = [trial_of(manifest, run) for run in side["runs"]]
    verifies = ORIGINAL_ID if side.get("verifies") else None
    laid_out = plan_of(manifest, trials, verifies)
    attempts, samples = [], []
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
        samples=tuple(sorted(samples, key=lambda each: (each.metric, each.seed, each.attempt))),
        claims=(),
        notes=(),
    )
    if index:
        return record
    claims = verdict.freeze(manifest.claims, summary.run_values(record))
    return dataclasses.replace(record, claims=claims)


def manifest_of(scenario, side):
    """The manifest as its reader makes it, of whole JSON; a side may have other benchmarks."""
    document = records.manifest_document()
    planned = side if "benchmarks" in side else scenario["sides"][0]
    seeds = [run["seed"] for run in planned["runs"] if not run.get("fresh")]
    document["seeds"] = list(dict.fromkeys(seeds)) or list(records.SEEDS)
    document["benchmarks"] = side.get("benchmarks", scenario["benchmarks"])
    document["claims"] = [] if "benchmarks" in side else scenario["claims"]
    return manifests.read(json.dumps(document).encode(), where="manifest.json", folder=None)


def trial_of(manifest, run):
    unit = run.get("unit", "train/default/command")
    name, case, framework = unit.split("/")
    (benchmark,) = (each for each in manifest.benchmarks if each.id == name)
    (point,) = (each for each in benchmark.cases if each.name == case)
    return plan.Trial(
        id=f"{unit}/{run['seed']}",
        benchmark=benchmark,
        case=point,
        framework=framework,
        seed=run["seed"],
        seed_source="fresh" if run.get("fresh") else "manifest",
    )


def plan_of(manifest, trials, verifies):
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
    made = plan.Plan(manifest=manifest, groups=groups, verifies=verifies, digest=None)
    return dataclasses.replace(made, digest=records.digest.of_json(plan.to_json(made)))


def attempts_of(run, trial):
    """Attempts that settled nothing, then the one that did."""
    status = run.get("status", "ok")
    fates = [("interrupted", "killed")] * run.get("interrupted", 0)
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


def samples_of(run, trial, attempt):
    facts = {each.name: each for each in trial.benchmark.metrics}
    # what a line of samples repeats of its metric: unit, direction, kind, resolution, ...
    told = {each.name for each in dataclasses.fields(Samples)}
    told &= {each.name for each in dataclasses.fields(manifests.Metric)}
    for name, each in run["metrics"].items():
        values = each["values"]
        if "repeated" in each:  # over and over, up to so many
            values = [values[i % len(values)] for i in range(each["repeated"])]
        yield Samples(
            metric=f"{trial.id.rpartition('/')[0]}/{name}",
            trial=trial.id,
            attempt=attempt,
            seed=trial.seed,
            warmup=each.get("warmup", 0),
            values=tuple(values),
            steps=tuple(each["steps"]) if "steps" in each else None,
            **{field: getattr(facts[name], field) for field in told},
        )
