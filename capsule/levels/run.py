"""Run a job: every trial in turn, in one process, with its samples in the journal."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Callable

from . import frameworks, mpi, probe
from .catalog import determinism
from .instruments import ranges, timing
from .job import Context, Job, JobError, Trial, read
from .journal import Journal, JournalError
from .report import DivergedError, Report

Measure = Callable[[Trial, frameworks.Framework, Report], None]
"""Measures a trial, and reports whatever is due of it while it runs."""

_ALLOCATION_WORDS = (
    *("can't allocate memory", "not enough memory", "out of memory"),
    *("Failed to allocate memory", "OOM when allocating"),  # ONNX Runtime, TensorFlow
)


def load_level(level: int) -> Measure:
    """Import what measures the trials of a level, which a folder without that level need not have.

    Args:
        level: Level of Deep500, 0 to 3.
    """
    measure: Measure = import_module(f".level{level}", __package__).measure
    return measure


def main(job_path: Path, journal_path: Path) -> int:
    """Run the job file's trials and write the journal.

    A trial that fails costs that trial only.

    Returns:
        The exit status: 0 once every trial had its turn, 1 for a journal that cannot be written, 2
        for a file that is no job or a process that is none of its ranks.

    Raises:
        OSError: The job cannot be read.
    """
    _end_on_terminate()
    try:
        job = read(job_path, os.environ)
        with Journal(journal_path) as journal:
            _run(job, journal, journal_path.parent)
    except (JobError, JournalError) as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, JobError) else 1
    return 0


def _end_on_terminate() -> None:
    # as process 1 of a container a signal without a handler is ignored; elsewhere the default
    # action is better, for it does not wait for the call into the framework that is under way
    if os.getpid() == 1:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))


def _run(job: Job, journal: Journal, folder: Path) -> None:
    context = job.context
    # a framework's hundred thousands of objects stay, with a few thousand that nobody needs: no
    # collection looks at them, not while they come and not later
    gc.disable()
    software = probe.inventory({"numpy", context.framework})
    levels = {level: load_level(level) for level in sorted({trial.level for trial in job.trials})}
    hello = partial(journal.hello, context.rank, context.ranks, software)
    try:
        _require_strict(context, determinism.faults(os.environ, context.threads, context.seed))
        framework = frameworks.load(
            context.framework, context.device, context.threads, context.determinism
        )
        settings = framework.settings()
        _require_strict(context, determinism.switch_faults(settings, context.threads))
        if any(trial.goes_over_mpi for trial in job.trials):
            # all at once: a rank that fails sooner would leave the others waiting for it
            mpi.join(context.rank, context.ranks)
    except Exception as error:
        # once per trial, so that the host needs no other rule to learn it
        traceback.print_exc()
        hello(_environment(context))
        for trial in job.trials:
            journal.begin(trial.id)
            journal.end(trial.id, *_failure(error), seconds=0.0)
    else:
        gc.freeze()
        gc.enable()
        hello(
            {
                **_environment(context),
                "settings": settings,
                "empty_call_ns": timing.empty_call_ns(framework.synchronize),
                **_time_empty_range(framework),
            }
        )
        for trial in job.trials:
            _run_trial(trial, levels[trial.level], framework, journal, folder)
    journal.bye()


class DeterminismError(Exception):
    """Strict determinism was asked for, and is not to be had here; the message says why."""


def _require_strict(context: Context, faults: Iterable[str]) -> None:
    message = "; ".join(faults) if context.determinism == "strict" else ""
    if message:
        raise DeterminismError(message)


def _environment(context: Context) -> dict[str, object]:
    return {
        "framework": context.framework,
        "device": context.device,
        "determinism": context.determinism,
        "threads": context.threads,
        "affinity": sorted(os.sched_getaffinity(0)),
    }


def _time_empty_range(framework: frameworks.Framework) -> dict[str, object]:
    clock = framework.device_clock
    return {} if clock is None else {"empty_range_ns": ranges.empty_range_ns(clock)}


def _run_trial(
    trial: Trial,
    measure: Measure,
    framework: frameworks.Framework,
    journal: Journal,
    folder: Path,
) -> None:
    journal.begin(trial.id)
    report = Report(
        partial(journal.samples, trial.id),
        folder=folder,
        resume=partial(journal.resume, trial.id),
    )
    started = perf_counter()
    reason: str | None = None
    message = ""
    try:
        framework.seed(trial.context.seed)
        measure(trial, framework, report)
        message = report.remark
    except JournalError:
        # what the journal's file refuses is no outcome of the trial
        raise
    except Exception as error:
        traceback.print_exc()
        reason, message = _failure(error)
    report.close()
    if reason is None and report.non_finite:
        reason, message = "non-finite", f"not finite: {', '.join(report.non_finite)}"
    journal.end(trial.id, reason, message, seconds=perf_counter() - started)
    if reason is not None:
        # over MPI the others would wait for what this rank does not send any more
        mpi.leave(1)


def _failure(error: Exception) -> tuple[str, str]:
    """Return the reason and message for an exception of a trial."""
    kind = type(error).__name__
    words = f"{kind}: {error}"
    if isinstance(error, DivergedError):
        return "diverged", str(error)
    if (
        isinstance(error, MemoryError)
        or kind == "OutOfMemoryError"
        or any(phrase in words for phrase in _ALLOCATION_WORDS)
    ):
        return "out-of-memory", words
    return "error", words
