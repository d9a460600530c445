"""Time of `capsule diff A B` on two capsules of a million samples each, against hashing them.

    python benchmarks/harness/reading.py [--repetitions N]

Two shapes: few metrics with very long series, and many runs of many metrics with short ones. Prints
the medians of wall and processor time in seconds, and the ratio of processor times to an
interpreter that hashes the same files; ends with 1 when the wall time of a `diff` is over a second.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from capsule import archive, digest, jsons, manifest, notes, plan, record, summary, verdict
from capsule.origin import Original, Verification

LIMIT_SECONDS = 1.0
SAMPLES = 1_000_000
SHAPES = {"long series": (20, 5), "short series": (333, 100)}  # metrics, seeds
WARMUP = 3
LEVELS = record.File(path="levels/__main__.py", source=b"raise SystemExit(0)\n")
TIMES = ("2026-03-01T10:00:00+00:00", "2026-03-01T11:00:00+00:00")
LATER = ("2026-03-02T10:00:00+00:00", "2026-03-02T11:00:00+00:00")
UNCOMPILED = "PYTHONDONTWRITEBYTECODE"
HASHING = """
import hashlib, sys
for path in sys.argv[1:]:
    with open(path, "rb") as stream:
        hashlib.file_digest(stream, "sha256")
"""


def make_manifest(metrics: int, seeds: int) -> manifest.Manifest:
    """A command with so many metrics, half of them of the machine, and a claim on each."""
    kinds = ("portable", "machine")
    document = {
        "name": "reading",
        "title": "Reading",
        "authors": [{"name": "Ada Author"}],
        "license": "CC-BY-4.0",
        "seeds": list(range(seeds)),
        "benchmarks": [
            {
                "id": "train",
                "command": ["true"],
                "metrics": {
                    f"m{n:03d}": {"direction": "lower", "kind": kinds[n % 2]}
                    for n in range(metrics)
                },
            }
        ],
        "claims": [{"metric": "train/*/*/*", "type": "equivalence"}],
    }
    return manifest.read(json.dumps(document).encode(), where="reading", folder=None)


def execution(planned: plan.Plan, random: np.random.Generator, started: str) -> record.Execution:
    """A million random samples, as many in each series."""
    trials = [(group, trial) for group in planned.groups for trial in group.trials]
    series = [(trial, m) for _, trial in trials for m in trial.benchmark.due(trial.framework)]
    length = SAMPLES // len(series)
    samples = tuple(
        record.Samples(
            metric=f"{trial.id.rpartition('/')[0]}/{metric.name}",
            trial=trial.id,
            attempt=1,
            seed=trial.seed,
            unit=metric.unit,
            direction=metric.direction,
            kind=metric.kind,
            resolution=metric.resolution,
            warmup=WARMUP,
            values=tuple(random.normal(0.01, 0.001, length).tolist()),
        )
        for trial, metric in series
    )
    attempts = tuple(
        record.Attempt(
            trial=trial.id,
            attempt=1,
            group=group.id,
            seed=trial.seed,
            seed_source=trial.seed_source,
            outcome="completed",
            exit_code=0,
            started=started,
            seconds=1.5,
        )
        for group, trial in trials
    )
    return record.Execution(attempts=attempts, samples=samples, software={}, effective={}, logs=())


def seal(
    described: manifest.Manifest, target: Path, original: record.Record | None, of: str | None
) -> tuple[record.Record, str]:
    """Seal a run, or a re-execution of the original that has the id `of`: its record and its id."""
    times = TIMES if original is None else LATER
    levels = digest.of_tree({"__main__.py": digest.of_bytes(LEVELS.source)})
    setup = record.Setup(
        uuid=f"6f1c6b52-5d1e-4a0e-9a35-0d9c5b1f3c1{2 if of else 1}",
        origin=Verification(of=of, runs=len(described.seeds), look=1) if of else Original(),
        started=times[0],
        runtime="host",
        contained=False,
        image=None,
        image_observations={},
        variables={},
        threads=2,
        levels={"digest": str(levels), "release": None},
        datasets=(),
        notes=(notes.no_container(),),
    )
    planned = plan.make(described, verifies=of)
    seen = execution(planned, np.random.default_rng(0 if original is None else 1), times[0])
    node: jsons.JsonObject = {"identity": {}, "class": {}, "state": {}, "missing": {}}
    assembled = record.assemble(setup, planned, seen, nodes=(node,), ended=times[1])
    claims = verdict.freeze(described.claims, summary.run_values(assembled))
    sealed = replace(assembled, claims=original.claims if original else claims)
    return sealed, archive.write(sealed, [LEVELS], target)


def seconds(arguments: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and processor time of an interpreter that ends as a `diff` does."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments], check=False, env=environment, stdout=subprocess.DEVNULL
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"exit code {done.returncode}: {arguments}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(folder: Path, shape: tuple[int, int], repetitions: int) -> list[list[float]]:
    """Medians of wall and processor time: of hashing two capsules, then of `diff`."""
    paths = [folder / "a.capsule.zip", folder / "b.capsule.zip"]
    original, capsule_id = seal(make_manifest(*shape), paths[0], None, None)
    seal(make_manifest(*shape), paths[1], original, capsule_id)
    files = list(map(str, paths))
    commands = (["-c", HASHING, *files], ["-m", "capsule", "diff", *files])
    # an installed package is compiled, even if not everything that is run here is to be
    environment = {name: os.environ[name] for name in os.environ.keys() - {UNCOMPILED}}
    environment["PYTHONPYCACHEPREFIX"] = str(folder)
    rounds = [[seconds(words, environment) for words in commands] for _ in range(repetitions + 1)]
    # the first round compiles, and warms the page cache
    medians: list[list[float]] = np.median(rounds[1:], axis=0).tolist()
    return medians


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=7)
    repetitions = parser.parse_args().repetitions
    print(f"{'':14} {'wall':>7} {'cpu':>7}   hashing {'wall':>7} {'cpu':>7}   ratio of cpu")
    slow = False
    for name, shape in SHAPES.items():
        with TemporaryDirectory() as folder:
            hashing, diff = measure(Path(folder), shape, repetitions)
        ratio = diff[1] / hashing[1]
        print(
            f"{name:14} {diff[0]:7.2f} {diff[1]:7.2f}           {hashing[0]:7.2f}"
            f" {hashing[1]:7.2f}   {ratio:12.1f}"
        )
        slow = slow or diff[0] > LIMIT_SECONDS
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
