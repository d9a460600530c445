"""capsule by its command line, and the numbers inside the capsules that it seals."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .part import Called, Json, Settings, UnavailableError, call, median

_RATIOS = (
    *("l2_error_ratio", "element_error_ratio", "grad_l2_error_ratio"),
    *("grad_element_error_ratio", "gradient_check", "node_error_ratio"),
    "reference_error_ratio",
)
"""Metrics of an error over its bound: above 1 is a false alarm of a right program."""


class Program:
    """The command line of the checkout."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.work = Path(settings.work)
        self._env = {
            **os.environ,
            "HOME": str(self.work / "home"),
            "NO_COLOR": "1",
            "COLUMNS": "120",
            # `python3` of a manifest's command is this one
            "PATH": f"{Path(settings.python).parent}{os.pathsep}{os.environ.get('PATH', '')}",
        }

    def __call__(
        self, *words: object, limit_s: float, env: Mapping[str, str] | None = None
    ) -> Called:
        """Run one command of capsule in the working folder."""
        command = [self.settings.python, "-m", "capsule", *words]
        return call(command, limit_s, env={**self._env, **(env or {})}, folder=self.work)

    def python(self, *words: object, limit_s: float) -> Called:
        """Run the interpreter itself."""
        return call([self.settings.python, *words], limit_s, env=self._env, folder=self.work)

    def write(
        self,
        name: str,
        benchmarks: Sequence[Json],
        *,
        seeds: Sequence[int] = (17,),
        cpus: int = 1,
        **more: object,
    ) -> Path:
        """Write a manifest for the device of the check, and return its path."""
        resources: Json = {"cpus_per_rank": cpus, "walltime": "00:30:00"}
        if self.settings.cuda:
            resources["gpus_per_rank"] = 1
        document = {
            "name": name,
            "title": f"GPU check: {name}",
            "authors": [{"name": "The capsule authors"}],
            "license": "CC0-1.0",
            "resources": resources,
            "seeds": list(seeds),
            "benchmarks": list(benchmarks),
            **more,
        }
        path = self.work / f"{name}.json"
        path.write_text(json.dumps(document, indent=1))
        return path

    def run(
        self,
        manifest: Path,
        limit_s: float,
        *,
        name: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> tuple[Json, Path | None]:
        """Run a manifest on the host; return the outcome, and the capsule if one was sealed."""
        name = name or manifest.stem
        sealed = self.work / f"{name}.capsule.zip"
        called = self(
            *("run", manifest, "--runtime", "host", "--keep-going"),
            *("--output", sealed, "--work", self.work / f"{name}.run"),
            limit_s=limit_s,
            env=env,
        )
        return called.outcome, sealed if sealed.exists() else None


def read_member(sealed: Path, name: str) -> str:
    """Return the text of a file in a capsule, found by the end of its name.

    Raises:
        UnavailableError: The capsule has no such file.
    """
    with zipfile.ZipFile(sealed) as archive:
        for member in archive.namelist():
            if member.endswith(f"/{name}"):
                return archive.read(member).decode()
    raise UnavailableError(f"{sealed.name} has no {name}")


def read_samples(sealed: Path) -> dict[str, list[list[float]]]:
    """Return the samples of each metric's path, a list for each trial, without warm-up."""
    found: dict[str, list[list[float]]] = {}
    for line in read_member(sealed, "samples.jsonl").splitlines():
        row = json.loads(line)
        values = [value for value in row["values"] if isinstance(value, (int, float))]
        found.setdefault(row["metric"], []).append(values[row.get("warmup") or 0 :])
    return found


def read_medians(sealed: Path, metrics: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the median of each named metric by benchmark."""
    wanted, found = set(metrics), {}
    for path, trials in read_samples(sealed).items():
        benchmark, metric = path.partition("/")[0], path.rpartition("/")[2]
        value = median([value for values in trials for value in values])
        if metric in wanted and value is not None:
            found.setdefault(benchmark, {})[metric] = value
    return found


def read_attempts(sealed: Path) -> list[Json]:
    """Return the attempts of all trials."""
    return [json.loads(line) for line in read_member(sealed, "attempts.jsonl").splitlines()]


def read_failures(sealed: Path) -> dict[str, str]:
    """Return the message of each trial without a result."""
    return {
        str(row["trial"]): f"{row.get('reason') or row['outcome']}: {row.get('message', '')}"[:300]
        for row in read_attempts(sealed)
        if row["outcome"] != "completed"
    }


def read_ratios(sealed: Path) -> dict[str, float]:
    """Return the largest ratio of an error to its bound, by `benchmark/metric`."""
    largest: dict[str, float] = {}
    for path, trials in read_samples(sealed).items():
        benchmark, metric = path.partition("/")[0], path.rpartition("/")[2]
        if metric in _RATIOS:
            key = f"{benchmark}/{metric}"
            worst = max((value for values in trials for value in values), default=0.0)
            largest[key] = max(largest.get(key, 0.0), worst)
    return largest


def find_alarms(ratios: Mapping[str, float]) -> dict[str, float]:
    """Return the ratios that are above 1, or no number."""
    return {key: value for key, value in ratios.items() if not value <= 1}
