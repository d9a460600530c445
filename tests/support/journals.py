"""Jobs run by the real program on this machine, and what its journal says of each trial."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import capsule.levels

LEVELS = Path(capsule.levels.__file__).parent

HEAD = {
    "format": "capsule-job/1",
    "seed": 17,
    "determinism": "default",
    "device": "cpu",
    "threads": 1,
    "ranks": 1,
    "data": {},
}


@dataclass
class Ended:
    """A trial as its journal has it: every value by metric, and how it ended."""

    values: dict[str, list[float]] = field(default_factory=dict)
    reason: str | None = "never began"
    message: str = ""


def trial(level, name, dtype="float32", *, identity=None, source=None, **parameters):
    """An entry of a job's trials: three timed calls after one to warm up."""
    entry = {
        "id": identity or f"{name}/default/{dtype}/17",
        "benchmark": "benchmark",
        "level": level,
        "network" if level else "operator": name,
        "dtype": dtype,
        "case": "default",
        "parameters": parameters,
        "repetitions": 3,
        "warmup": 1,
        "datasets": [],
    }
    return entry if source is None else {**entry, "source": str(source)}


def run(folder, framework, trials, **fields):
    """What became of each trial, by id; the program itself must end well."""
    document = {**HEAD, "framework": framework, "trials": trials, **fields}
    (folder / "job.json").write_text(json.dumps(document))
    done = subprocess.run(
        [sys.executable, str(LEVELS), "run", "job.json", "journal.jsonl"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ends = {entry["id"]: Ended() for entry in trials}
    for line in (folder / "journal.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "samples":
            values = ends[event["trial"]].values.setdefault(event["metric"], [])
            values += map(float, event["values"])
        elif event["event"] == "end":
            ends[event["trial"]].reason = event["reason"]
            ends[event["trial"]].message = event["message"]
    return ends
