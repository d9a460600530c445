"""Read what `levels` says of itself, as hostile input.

A journal is JSON lines: `hello` first, with the format's number, then for each trial a `begin`, any
number of `samples` while it runs, and an `end`; `bye` last. A process that leaves its other trials
to another one ends with an `end` that says so. A training that goes on from another attempt's
checkpoint says `resume` before its samples. Several lines of samples of one metric append to each
other. Begin and end have the time of the node's monotonic clock, and the end lists the spans of
time that were measured.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from capsule import leavings
from capsule.archive import strict
from capsule.archive.limits import MOST_SERIES_NUMBERS, MOST_TRIAL_NUMBERS
from capsule.errors import DamagedError
from capsule.execute.reports import MAX_MESSAGE, Journal, Series, TrialReport, Window, writable
from capsule.jsons import Json, JsonObject
from capsule.manifest import recipes
from capsule.plan import Trial
from capsule.record import Reason
from capsule.schema import parse
from capsule.series import pack
from capsule.sizes import size

FORMAT = "capsule-journal/1"
MAX_LINE_BYTES = 64 * 2**20
MAX_FILE_BYTES = 2 * 2**30
# what an image says to hold, and how it is set; some 20 KiB are usual
MAX_SOFTWARE_BYTES = 256 * 2**10
_NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
# spans of a trial that are measured, and a time in seconds that no clock shows
_MOST_SPANS, _LATEST = 10_000, 1e12
_PLACES = ("steps", "wall", "active")
_SWITCH = re.compile(r"[a-z][a-z0-9_]{0,79}")
_MAX_SWITCHES, _MAX_KERNEL = 64, 120
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Defect(Exception):
    """A violation of the protocol by a workload; the message names it and its place."""


def read(path: Path, trials: Sequence[Trial], *, rank: int = 0, ranks: int = 1) -> Journal:
    """Read one rank's journal as far as it is sound.

    A torn last line is what a killed process leaves, and is ignored. Anything else out of order is
    a defect: what stands before it counts, what follows does not. Whether a trial that says it
    completed lacks a metric is judged when all ranks are put together, see `reports.merge`.

    Args:
        path: The journal, which need not exist yet.
        trials: The trials that this process was given; no other may be reported.
        rank: Whose journal it is.
        ranks: World size.
    """
    reader = _Reader(trials, rank, ranks)
    defect = None
    try:
        for event in _events(path):
            if event is None:
                reader.overflow(f"a line of more than {size(MAX_LINE_BYTES)}")
            else:
                reader.take(event)
    except (Defect, DamagedError) as error:
        defect = str(error)[:MAX_MESSAGE]
    reader.close()
    return Journal(
        software=_object(reader.hello.get("software")),
        environment=_object(reader.hello.get("environment")),
        reports=tuple(reader.reports.values()),
        defect=defect,
    )


class _Reader:
    """State of a journal after the events so far."""

    def __init__(self, trials: Sequence[Trial], rank: int, ranks: int) -> None:
        self._trials = {trial.id: trial for trial in trials}
        self._rank = rank
        self._ranks = ranks
        self._current: str | None = None
        self._series: dict[str, OpenSeries] = {}
        self._due: frozenset[str] = frozenset()
        self._excess: str | None = None
        self.hello: JsonObject = {}
        self.reports: dict[str, TrialReport] = {}

    def take(self, event: JsonObject) -> None:
        kind = event.get("event")
        if (kind == "hello") == bool(self.hello):
            raise Defect("has two hello events" if self.hello else "lacks its hello event")
        if kind == "hello":
            self._greet(event)
        elif kind == "begin":
            self._begin(event)
        elif kind == "resume":
            self._resume(event)
        elif kind == "samples":
            self._append(event)
        elif kind == "end":
            self._end(event)
        elif kind != "bye":
            raise Defect(f"unknown event {str(kind)[:40]!r}")

    def _greet(self, event: JsonObject) -> None:
        if event.get("format") != FORMAT:
            raise Defect(f"has format {str(event.get('format'))[:40]!r}, expected {FORMAT!r}")
        world = event.get("rank", 0), event.get("ranks", 1)
        if world != (self._rank, self._ranks):
            raise Defect(
                f"names rank {str(world[0])[:20]} of {str(world[1])[:20]}, expected rank"
                f" {self._rank} of {self._ranks}"
            )
        self.hello = event

    def _begin(self, event: JsonObject) -> None:
        trial = event.get("trial")
        if not isinstance(trial, str) or trial not in self._trials:
            raise Defect(f"begins a trial that is not in its job: {str(trial)[:80]!r}")
        if trial in self.reports:
            raise Defect(f"begins {trial} a second time")
        if self._current is not None:
            raise Defect(f"begins {trial} before {self._current} has ended")
        self._current, self._series, self._excess = trial, {}, None
        begun = self._trials[trial]
        self._due = frozenset(metric.name for metric in begun.benchmark.due(begun.framework))
        self.reports[trial] = TrialReport(trial=trial, windows=self._open_window(event))

    def _open_window(self, event: JsonObject) -> tuple[Window, ...]:
        begin = _moment(event.get("at"))
        return () if begin is None else (Window(self._rank, begin),)

    def _under_way(self, event: JsonObject) -> Trial:
        if self._current is None or event.get("trial") != self._current:
            raise Defect(f"reports on {str(event.get('trial'))[:80]!r}, which it has not begun")
        return self._trials[self._current]

    def _resume(self, event: JsonObject) -> None:
        trial = self._under_way(event)
        report, epochs = self.reports[trial.id], event.get("epochs")
        if recipes.checkpoint_epochs(trial.benchmark, trial.case.name) is None:
            raise Defect(f"resumes {trial.id}, which has no checkpoints")
        if report.resumed_after is not None:
            raise Defect(f"resumes {trial.id} a second time")
        if self._series:
            raise Defect(f"resumes {trial.id} after its first values")
        if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
            raise Defect(f"resumes {trial.id} after {str(epochs)[:40]!r} epochs")
        # each attempt that gets further may be followed by another one
        if not recipes.has_checkpoint(trial.benchmark, trial.case.name, epochs):
            raise Defect(
                f"resumes {trial.id} after {epochs} epochs, expected an epoch with a checkpoint"
            )
        self.reports[trial.id] = replace(report, resumed_after=epochs)

    def _append(self, event: JsonObject) -> None:
        self._under_way(event)
        name = event.get("metric")
        if not isinstance(name, str) or name not in self._due:
            raise Defect(f"reports the undeclared metric {str(name)[:80]!r}")
        if self._excess is not None:
            return
        series = self._series.get(name)
        if series is None:
            series = self._series[name] = OpenSeries(name, self._rank)
        series.take(event)
        if series.numbers > MOST_SERIES_NUMBERS:
            self.overflow(f"more than {MOST_SERIES_NUMBERS} numbers of {name}")
        elif sum(one.numbers for one in self._series.values()) > MOST_TRIAL_NUMBERS:
            self.overflow(f"more than {MOST_TRIAL_NUMBERS} numbers")

    def overflow(self, what: str) -> None:
        """Keep nothing of a trial that reports more than a capsule takes of one.

        Raises:
            Defect: None is under way.
        """
        if self._current is None:
            raise Defect(f"has {what}")
        self._series = {}
        self._excess = f"reports {what}, the limit for one trial"

    def close(self) -> None:
        """Keep what the trial under way has reported so far."""
        if self._current is not None:
            series = tuple(one.close() for one in self._series.values())
            self.reports[self._current] = replace(self.reports[self._current], series=series)
            self._current = None

    def _end(self, event: JsonObject) -> None:
        trial = self._under_way(event)
        report = _close_report(self.reports[trial.id], event)
        report = replace(report, windows=tuple(_close(one, event) for one in report.windows))
        if self._excess is not None:
            report = replace(report, outcome="failed", reason="bad-result", message=self._excess)
        self.reports[trial.id] = report
        self.close()


class OpenSeries:
    """A series that still grows."""

    def __init__(self, metric: str, rank: int) -> None:
        self._metric = metric
        self._rank = rank
        self._warmup = 0
        self.values: list[float] = []
        self._places: dict[str, list[float]] = {}

    @property
    def numbers(self) -> int:
        """Return the number of values, steps and clocks included."""
        return len(self.values) + sum(map(len, self._places.values()))

    def take(self, line: JsonObject) -> None:
        """Append one line's values.

        Raises:
            Defect: Its values, its warm-up, its steps or its clocks cannot be.
        """
        values, warmup = line.get("values"), line.get("warmup", 0)
        if not isinstance(values, list) or not values:
            raise Defect(
                f"samples of {self._metric}: found {values!r:.40}, expected a list of values"
            )
        if isinstance(warmup, bool) or not isinstance(warmup, int) or not 0 <= warmup < len(values):
            raise Defect(
                f"warm-up of {self._metric}: found {warmup!r:.40}, expected fewer than the"
                f" {len(values)} values"
            )
        if warmup and self.values:
            raise Defect(f"{self._metric} has warm-up values after its first values")
        numbers = list(map(read_number, values))
        places = {name: line[name] for name in _PLACES if line.get(name) is not None}
        if self.values and places.keys() != self._places.keys():
            lone = places.keys() ^ self._places.keys()
            name = next(place for place in _PLACES if place in lone)
            one = "a step" if name == "steps" else f"its {name} time"
            raise Defect(f"{self._metric} has {one} for only some of its values")
        checked = {name: self._increasing(name, line, len(values)) for name, line in places.items()}
        self._warmup = self._warmup or warmup
        self.values += numbers
        for name, more in checked.items():
            self._places.setdefault(name, []).extend(more)

    def _increasing(self, name: str, numbers: Json, count: int) -> list[float]:
        """Return steps or times of one line, which go on from those before."""
        if not isinstance(numbers, list) or len(numbers) != count:
            found = len(numbers) if isinstance(numbers, list) else "no list"
            raise Defect(f"{name} of {self._metric}: found {found}, expected {count}, one a value")
        one = "step" if name == "steps" else f"{name} time"
        before = self._places.get(name)
        own = before[-1:] if before else []
        for number in map(read_number, numbers):
            if not math.isfinite(number):
                raise Defect(f"{self._metric} has {one} {number}")
            if own and (number < own[-1] or (number == own[-1] and name == "steps")):
                raise Defect(f"{self._metric} has {one} {number:g} after {one} {own[-1]:g}")
            own.append(number)
        return own[-count:]

    def close(self) -> Series:
        """Return all of it."""
        places = {name: tuple(numbers) for name, numbers in self._places.items()}
        return Series(
            metric=self._metric,
            rank=self._rank,
            warmup=self._warmup,
            values=pack(self.values),
            steps=places.get("steps"),
            wall=places.get("wall"),
            active=places.get("active"),
        )


def _events(path: Path) -> Iterator[JsonObject | None]:
    """Yield the events of a journal; None for a line that is too long."""
    for number, line in _lines(path):
        # parsed, so many numbers take ten times the memory
        if len(line) > MAX_LINE_BYTES or line.count(b",") > 2 * MOST_SERIES_NUMBERS:
            yield None
            continue
        if number == 1 and len(line) > MAX_SOFTWARE_BYTES:
            raise Defect(f"has a hello event of more than {size(MAX_SOFTWARE_BYTES)}, the limit")
        event = parse_foreign(line, where=f"journal line {number}")
        if not isinstance(event, dict):
            raise Defect(f"line {number} is {event!r:.40}, expected a JSON object")
        yield event


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    stream = leavings.open_file(path)
    if stream is None:
        return
    with stream:
        if os.fstat(stream.fileno()).st_size > MAX_FILE_BYTES:
            raise Defect(f"larger than {size(MAX_FILE_BYTES)}")
        for number in range(1, MAX_FILE_BYTES):
            line = stream.readline(MAX_LINE_BYTES + 1)
            is_whole = line.endswith(b"\n")
            while len(line) > MAX_LINE_BYTES and not is_whole:
                rest = stream.readline(MAX_LINE_BYTES)
                is_whole = rest.endswith(b"\n")
                if not rest:
                    break
            if not is_whole:
                return
            yield number, line


def parse_foreign(data: bytes, *, where: str) -> Json:
    """JSON of a workload, whose strings can be written again.

    Raises:
        DamagedError: It is not strict JSON.
    """
    value: Json = strict.parse_canonical_line(data.removesuffix(b"\n"))
    if value is not None:
        return value
    value = parse(data, where=where)
    return _writable(value) if _SURROGATE.search(data) else value


def _writable(value: Json) -> Json:
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, list):
        return [_writable(item) for item in value]
    if isinstance(value, dict):
        return {writable(key): _writable(item) for key, item in value.items()}
    return value


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _close_report(report: TrialReport, event: JsonObject) -> TrialReport:
    outcome, reason, seconds = event.get("outcome"), event.get("reason"), event.get("seconds")
    if outcome not in ("completed", "failed"):
        raise Defect(f"ends {report.trial} as {str(outcome)[:40]!r}")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
        raise Defect(f"ends {report.trial} without a duration")
    message = str(event.get("message", ""))[:MAX_MESSAGE]
    kernel = event.get("off_tensor_cores")
    report = replace(
        report,
        switches=_read_switches(event.get("switches")),
        off_tensor_cores=kernel[:_MAX_KERNEL] if isinstance(kernel, str) else "",
    )
    if outcome == "completed":
        return replace(report, outcome="completed", message=message, seconds=float(seconds))
    known: tuple[Reason, ...] = ("error", "out-of-memory", "non-finite", "diverged")
    why: Reason = next((kind for kind in known if kind == reason), "error")
    return replace(
        report,
        outcome="failed",
        reason=why,
        message=message,
        seconds=float(seconds),
        leaves=event.get("leaves") is True,
    )


def _close(window: Window, event: JsonObject) -> Window:
    """Return the window of a trial that has ended."""
    listed = event.get("timed")
    spans: list[tuple[float, float]] = []
    for span in listed if isinstance(listed, list) and len(listed) <= _MOST_SPANS else ():
        moments = [_moment(one) for one in span] if isinstance(span, list) else []
        match moments:
            case [float(begin), float(end)]:
                spans.append((begin, end))
    return window._replace(end=_moment(event.get("at")), timed=tuple(spans))


def _moment(value: Json) -> float | None:
    """Return a time in seconds, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LATEST:
        return None
    return float(value)


def _read_switches(value: Json) -> dict[str, bool | None]:
    """Return the switches of a trial, of those that have a name and are on, off or not known."""
    if not isinstance(value, dict):
        return {}
    return {
        name: switch
        for name, switch in list(value.items())[:_MAX_SWITCHES]
        if _SWITCH.fullmatch(name) and (switch is None or isinstance(switch, bool))
    }


def read_number(value: Json) -> float:
    """Return a number of a journal or a results file, whose NaN and infinities may be words.

    Raises:
        Defect: It is none.
    """
    if type(value) is float:
        return value
    if isinstance(value, str) and value in _NON_FINITE:
        return _NON_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Defect(f"expected a number, found {str(value)[:40]!r}")
    try:
        return float(value)
    except OverflowError:
        raise Defect(
            f"an integer of {int(value).bit_length()} bits exceeds 1.8e308, the largest"
            " floating-point number, in magnitude"
        ) from None
