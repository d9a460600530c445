"""Reports of a running trial: values of metrics as soon as they exist."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns

from .journal import Samples


class DivergedError(Exception):
    """A training that lost what it had learnt, or never learnt: an outcome of its trial."""


class Report:
    """Hands on each value of a trial at once, so that a kill costs none that was reported.

    A metric has either values of repetitions (`samples`) or points of a curve (`point`). Values
    that are not finite are handed on too, and remembered.

    `remark` is a sentence that the trial ends with if it completes; `off_tensor_cores` is the name
    of a kernel that computed a product on a GPU that ran none on its tensor cores.

    Two clocks run from the begin of the trial: `wall`, and `active`, which stands while the trial
    does something beside what it measures, and while a report is written.

    >>> lines, second = [], 10**9
    >>> report = Report(lines.append, clock=iter(range(0, 10 * second, second)).__next__)
    >>> report.samples("time", [3.0, 1.0], warmup=1)
    >>> report.point("loss", 10, 0.5)
    >>> lines[1]
    Samples(metric='loss', values=(0.5,), warmup=0, steps=(10.0,), wall=(3.0,), active=(2.0,))
    """

    def __init__(
        self,
        write: Callable[[Samples], None],
        clock: Callable[[], int] = monotonic_ns,
        folder: Path | None = None,
        resume: Callable[[int], None] | None = None,
    ) -> None:
        """Start the clocks.

        Args:
            write: Where values go.
            clock: Nanoseconds that never go back.
            folder: Where files go; None where none is kept.
            resume: Is called by `resume`.
        """
        self.folder = folder
        self.remark = ""
        self.off_tensor_cores = ""
        self._resume = resume
        self._is_resumed = False
        self._write = write
        self._clock = clock
        self._began = clock()
        self._pauses = 0
        self._paused_at = 0
        self._paused = 0
        # of each metric the last step, None for one without steps
        self._steps: dict[str, float | None] = {}
        self._non_finite: dict[str, None] = {}
        self._closed = False
        self._only: frozenset[str] | None = None

    def restrict(self, metrics: Iterable[str]) -> None:
        """Hand on these metrics alone, and keep no file: another rank tells the rest."""
        self._only = frozenset(metrics)

    def samples(self, metric: str, values: Iterable[float], warmup: int = 0) -> None:
        """Report values of repetitions, which follow those that the metric has already.

        Args:
            metric: Its name.
            values: At least one.
            warmup: How many of these are warm-up, not all of them; 0 but in a metric's first
                report.

        Raises:
            ValueError: There is no value, or none after the warm-up; the metric has points; or it
                warms up again.
            RuntimeError: The trial has ended.
        """
        if self._steps.get(metric) is not None:
            raise ValueError(f"{metric} was reported without a step after values with steps")
        if warmup and metric in self._steps:
            raise ValueError(
                f"{metric} was reported with {warmup} warm-up values after its first report,"
                " expected 0"
            )
        self._hand_on(Samples(metric, tuple(map(float, values)), warmup), None)

    def resume(self, epochs: int) -> None:
        """Say that an earlier attempt trained the first epochs, before anything is reported.

        No clock has seen them, so points come without times from here on.
        """
        self._is_resumed = True
        if self._resume is not None:
            self._resume(epochs)

    def point(self, metric: str, step: float, value: float) -> None:
        """Report the next point of a curve, with both clocks unless the trial is resumed.

        Args:
            metric: Its name.
            step: Where it lies, beyond the one before.
            value: What was measured there.

        Raises:
            ValueError: The step is not finite or not beyond the last one, or the metric has values
                without steps.
            RuntimeError: The trial has ended.
        """
        wall, active = self._seconds()
        place = float(step)
        if not math.isfinite(place):
            raise ValueError(f"{metric} was reported at step {step}, expected a finite number")
        last = self._steps.get(metric, -math.inf)
        if last is None:
            raise ValueError(f"{metric} was reported with a step after values without steps")
        if place <= last:
            raise ValueError(
                f"{metric} was reported at step {place:g} after step {last:g}, expected a later"
                " step"
            )
        clocks = {} if self._is_resumed else {"wall": (wall,), "active": (active,)}
        self._hand_on(Samples(metric, (float(value),), 0, (place,), **clocks), place)

    def keep(self, name: str, data: bytes) -> None:
        """Leave a file behind as evidence of the trial.

        Args:
            name: Relative path, its parts separated by `/`.
            data: What it holds.

        Raises:
            OSError: It cannot be written.
        """
        if self.folder is not None and self._only is None:
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock `active`, for an evaluation or a checkpoint; may be nested."""
        if not self._pauses:
            self._paused_at = self._clock()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                self._paused += self._clock() - self._paused_at

    def close(self) -> None:
        """Take no more: the trial has ended."""
        self._closed = True

    @property
    def non_finite(self) -> tuple[str, ...]:
        """Return metrics with a NaN or an infinity, in the order of the first."""
        return tuple(self._non_finite)

    def _seconds(self) -> tuple[float, float]:
        """Wall and active seconds since the trial began."""
        now = self._clock()
        paused = self._paused + (now - self._paused_at if self._pauses else 0)
        wall = now - self._began
        return wall / 1e9, (wall - paused) / 1e9

    def _hand_on(self, samples: Samples, step: float | None) -> None:
        if self._closed:
            raise RuntimeError(f"{samples.metric} was reported after the end of its trial")
        self._steps[samples.metric] = step
        if not all(map(math.isfinite, samples.values)):
            self._non_finite[samples.metric] = None
        if self._only is not None and samples.metric not in self._only:
            return
        with self.pause():
            self._write(samples)
