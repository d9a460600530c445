"""Run a job: every trial in turn, in one process, with its samples in the journal."""

from __future__ import annotations

import gc
import json
import math
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from . import frameworks, level0, level1, probe
from .instruments.calls import Series
from .journal import Journal

FORMAT = "capsule-job/1"
_ALLOCATION_WORDS = (
    *("can't allocate memory", "not enough memory", "out of memory"),
    *("Failed to allocate memory", "OOM when allocating"),  # ONNX Runtime, TensorFlow
)


def main(job_path: Path, journal_path: Path) -> int:
    """Run the job file's trials and write the journal.

    A trial that fails costs that trial only.

    Returns:
        The exit status: 0 once every trial had its turn, 2 for a file that is no job.

    Raises:
        OSError: The job cannot be read or the journal cannot be written.
    """
    _end_on_terminate()
    job = json.loads(job_path.read_text(encoding="utf-8"))
    if job.get("format") != FORMAT:
        sys.stderr.write(f"{job_path}: format is {job.get('format')!r}, expected {FORMAT!r}\n")
        return 2
    with Journal(journal_path) as journal:
        _run(job, journal)
    return 0


def _end_on_terminate() -> None:
    # as process 1 of a container a signal without a handler is ignored; elsewhere the default
    # action is better, for it does not wait for the call into the framework that is under way
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))


def _run(job: Mapping[str, Any], journal: Journal) -> None:
    software = probe.inventory({"numpy", job["framework"]})
    try:
        framework = frameworks.load(
            job["framework"], job["device"], job["threads"], job["determinism"]
        )
    except Exception as error:
        # told once per trial, so that the host needs no other rule to learn it
        traceback.print_exc()
        journal.hello(software, _environment(job, {}))
        for trial in job["trials"]:
            journal.begin(trial["id"])
            journal.end(trial["id"], *_failure(error), seconds=0.0)
    else:
        # a framework's hundred thousands of objects stay: no collection need look at them again
        gc.collect()
        gc.freeze()
        journal.hello(software, _environment(job, framework.settings()))
        for trial in job["trials"]:
            _run_trial(trial, framework, job, journal)
    journal.bye()


def _environment(job: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "framework": job["framework"],
        "device": job["device"],
        "determinism": job["determinism"],
        "threads_asked": job["threads"],
        "affinity": sorted(os.sched_getaffinity(0)),
        "settings": dict(settings),
    }


def _run_trial(
    trial: Mapping[str, Any],
    framework: frameworks.Framework,
    job: Mapping[str, Any],
    journal: Journal,
) -> None:
    identity: str = trial["id"]
    journal.begin(identity)
    started = perf_counter()
    found: list[Series] = []
    reason: str | None = None
    message = ""
    try:
        framework.seed(job["seed"])
        measure = level0.measure if trial["level"] == 0 else level1.measure
        found = measure(trial, framework, job["seed"], job["device"])
    except Exception as error:
        traceback.print_exc()
        reason, message = _failure(error)
    broken = [each.metric for each in found if not all(map(math.isfinite, each.values))]
    if broken:
        reason, message = "non-finite", f"not finite: {', '.join(broken)}"
    # outside the try: what the journal's file refuses is no outcome of the trial
    for series in found:
        journal.samples(identity, series.metric, series.warmup, series.values)
    journal.end(identity, reason, message, seconds=perf_counter() - started)


def _failure(error: Exception) -> tuple[str, str]:
    """Reason and message for an exception of a trial."""
    kind = type(error).__name__
    words = f"{kind}: {error}"
    if (
        isinstance(error, MemoryError)
        or kind == "OutOfMemoryError"
        or any(phrase in words for phrase in _ALLOCATION_WORDS)
    ):
        return "out-of-memory", words
    return "error", words
