"""What became of each trial of a job that the real program ran on this machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import jobs
from tests.support.trials import ENTRY, Entry


@dataclass(frozen=True)
class Ended:
    """A trial as its journal has it: every value by metric, and how it ended."""

    values: dict[str, list[float]]
    reason: str | None
    message: str


def trial(
    level: int,
    name: str,
    dtype: str = "float32",
    *,
    identity: str | None = None,
    source: Path | None = None,
    **parameters: Any,
) -> Entry:
    """An entry of a job's trials: three timed calls after one to warm up."""
    entry = {
        **ENTRY,
        "id": identity or f"{name}/default/{dtype}/17",
        "level": level,
        "network" if level else "operator": name,
        "dtype": dtype,
        "parameters": parameters,
        "repetitions": 3,
        "warmup": 1,
    }
    return entry if source is None else {**entry, "source": str(source)}


def run(folder: Path, framework: str, trials: Sequence[Entry]) -> dict[str, Ended]:
    """How each trial ended, by id; the program itself ends well."""
    journal = jobs.run(folder, jobs.job(trials, framework=framework))
    ends = {}
    for identity in (entry["id"] for entry in trials):
        lines = jobs.samples(journal, identity)
        values = {metric: list(map(float, line["values"])) for metric, line in lines.items()}
        end = jobs.end(journal, identity)
        ends[identity] = Ended(values, end["reason"], end["message"])
    return ends
