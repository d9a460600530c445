"""A capsule of a manifest that left frameworks out: checked, shown, compared and planned again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from capsule import archive, manifest, notes, plan, summary, verdict
from capsule.jsons import Json
from capsule.manifest import Manifest
from capsule.record import Attempt, Record, Samples
from tests.support.capsules import seal
from tests.support.command import User
from tests.support.records import make_attempt, make_files, make_record

LEFT_OUT = "frameworks-left-out"


def load(folder: Path, resources: Json) -> Manifest:
    document = {
        "name": "small",
        "title": "Small",
        "authors": [{"name": "A"}],
        "license": "CC0-1.0",
        "resources": resources,
        "seeds": [1, 2],
        "benchmarks": [
            {
                "id": "relu",
                "level": 0,
                "operator": "relu",
                "cases": [{"n": 8}],
                "frameworks": ["numpy", "torch", "jax"],
            }
        ],
        "claims": [
            {"metric": "relu/*/*/l2_error_ratio", "type": "bound", "at_most": 1},
            {"metric": "relu/*/jax/l2_error_ratio", "type": "bound", "at_most": 1},
        ],
    }
    folder.mkdir()
    path = folder / "m.json"
    path.write_text(json.dumps(document))
    return manifest.load(path)


def record(loaded: Manifest) -> Record:
    """The record of a run whose every value is one half."""
    planned = plan.make(loaded)
    attempts, samples = list[Attempt](), list[Samples]()
    for group in planned.groups:
        for trial in group.trials:
            attempt = make_attempt(group.seed)
            attempts.append(dataclasses.replace(attempt, trial=trial.id, group=group.id))
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
                    rank=0,
                    warmup=0,
                    values=(0.5,),
                )
                for metric in trial.benchmark.due(trial.framework)
            ]
    stated = [notes.no_container()]
    if loaded.left_out:
        stated.append(notes.NOTES(LEFT_OUT, frameworks=loaded.left_out))
    made = make_record(
        image=False,
        manifest=dataclasses.replace(loaded, folder=None),
        plan=plan.to_json(planned),
        plan_digest=str(planned.digest),
        attempts=tuple(attempts),
        samples=tuple(sorted(samples, key=lambda one: (one.metric, one.seed))),
        datasets=(),
        notes=tuple(stated),
    )
    claims = verdict.freeze(loaded.claims, summary.run_values(made))
    return dataclasses.replace(made, claims=claims)


def test_a_capsule_holds_what_was_measured_and_says_what_was_not(author: User) -> None:
    on_gpu = load(author.folder / "gpu", {"gpus_per_rank": 1})
    on_cpu = load(author.folder / "cpu", {})
    files = [file for file in make_files() if not file.path.startswith("inputs/")]
    paths = [
        seal(author.folder, record(loaded), files, name)
        for loaded, name in ((on_gpu, "gpu.zip"), (on_cpu, "cpu.zip"))
    ]
    with archive.read(paths[0]) as capsule:
        sealed = capsule.record.manifest
        again = plan.make(sealed, verifies=capsule.id)
    assert sealed.benchmarks == on_gpu.benchmarks
    assert {trial.framework for group in again.groups for trial in group.trials} == {"torch"}
    checked = author.run("check", paths[0])
    assert checked.returncode == 0, checked.stderr
    shown = author.json("show", paths[0])
    assert {name.split("/")[2] for name in shown["metrics"]} == {"torch"}
    (sentence,) = [note["sentence"] for note in shown["notes"] if note["code"] == LEFT_OUT]
    assert sentence.startswith("left out numpy, jax: capsule runs numpy, jax on CPUs only")
    compared = author.run("diff", *paths, "--json")
    assert compared.returncode in (0, 1, 3), compared.stderr
    assert "torch" in compared.stdout
