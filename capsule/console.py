"""The console: talk to people on standard error, results on standard output.

Nothing else in capsule writes to a stream, and all that this module writes has passed `plain`.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from capsule import plain
from capsule.displays import (
    LINE_EVERY_SECONDS,
    Bar,
    Display,
    Lines,
    lay_out,
    make_printer,
    print_line,
)
from capsule.durations import duration
from capsule.watch import Watch

if TYPE_CHECKING:
    from rich.console import RenderableType

    from capsule.image import Image
    from capsule.record import Attempt
    from capsule.verdict import Verdict

_LONG_HASHING_SECONDS = 2.0
_SHOWN = 8


class Console:
    """Two streams: talk goes to standard error, data to standard output."""

    def __init__(
        self,
        *,
        out: TextIO | None = None,
        err: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # a stream that is closed is None
        self._out = out or sys.stdout or io.StringIO()
        self._err = err or sys.stderr or io.StringIO()
        self._clock = clock
        self._follower: _Follower | None = None
        for stream in (self._out, self._err):
            # not every locale has letters for every name
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")

    def say(self, sentence: str) -> None:
        """Print one sentence of talk."""
        print_line(sentence, self._err)

    def fail(self, text: str) -> None:
        """Print why the command failed."""
        from rich.text import Text

        make_printer(self._err).print(
            Text.assemble(("error:", "bold red"), " ", plain.clean_lines(text))
        )

    def ask(self, text: str) -> None:
        """Print what a user has to decide before the command runs."""
        for line in plain.clean_lines(text).split("\n"):
            print_line(line, self._err)

    def data(self, fact: str) -> None:
        """Print one line of data."""
        print_line(fact, self._out)

    def document(self, value: object) -> None:
        """Print one JSON document for programs, in ASCII."""
        print(json.dumps(value, indent=2, sort_keys=True), file=self._out, flush=True)

    def show(self, *items: RenderableType) -> None:
        """Print tables and text for people on standard output."""
        # a pipe has no width of its own: 100 columns keep a table's lines whole
        has_width = self._out.isatty() or "COLUMNS" in os.environ
        width = None if has_width else 100
        console = make_printer(self._out, width=width)
        with console.capture() as drawn:
            for item in items:
                console.print(item, soft_wrap=False)
        # a table fills its last column with spaces, which would be copied with a line
        for line in drawn.get().splitlines():
            print(line.rstrip(), file=self._out)
        self._out.flush()

    def watch(self, resume: Callable[[str], str], *, follow: bool = False) -> Watch:
        """Return a watch that shows a run's progress: one live line, or some lines in a log.

        Args:
            resume: Makes the command that resumes the run, from the name of its folder.
            follow: Whether to print all output of the workload, not its last line on a terminal.
        """
        kind = Bar if self._err.isatty() else Lines
        display = kind(self._err, self._clock)
        self._follower = _Follower(display, resume, self._clock, follow=follow)
        return self._follower

    def hear_download(self) -> Callable[[str, int, int | None], None]:
        """Return a function that reports the progress of a download."""
        last: float | None = None

        def hear(name: str, done_bytes: int, total_bytes: int | None) -> None:
            nonlocal last
            now = self._clock()
            if last is None:
                self.say(f"fetching {name}")
            elif now - last < LINE_EVERY_SECONDS:
                return
            else:
                of = "" if total_bytes is None else f" of {total_bytes / 1e6:.1f}"
                self.say(f"fetching {name}: {done_bytes / 1e6:.1f}{of} MB")
            last = now

        return hear

    def listen(self) -> Watch:
        """Return a watch that prints the output of one trial, whose folder is deleted."""
        return _Listener(Lines(self._err, self._clock), str, self._clock, follow=True)

    def transfer(self, name: str) -> Callable[[int, int], None]:
        """Return a function that reports progress, given bytes done and in total (0: unknown)."""
        told_at = self._clock()

        def tell(done_bytes: int, total_bytes: int) -> None:
            nonlocal told_at
            if self._clock() - told_at >= LINE_EVERY_SECONDS:
                told_at = self._clock()
                whole = f" of {total_bytes / 1e6:.1f}" if total_bytes else ""
                self.say(f"{name}: {done_bytes / 1e6:.1f}{whole} MB")

        return tell

    @property
    def way_on(self) -> str | None:
        """The command that resumes the run that was followed, None when its folder is gone."""
        return self._follower.way_on() if self._follower else None

    def hang_up(self) -> None:
        """Discard what cannot be written: the interpreter would end with 120."""
        for stream in (self._out, self._err):
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Follower(Watch):
    """A watch that counts trials, and prints what a user has to know."""

    def __init__(
        self,
        display: Display,
        resume: Callable[[str], str],
        clock: Callable[[], float],
        *,
        follow: bool,
    ) -> None:
        self.hears_output = follow or display.has_room
        self._follow = follow
        self._display = display
        self._resume = resume
        self._clock = clock
        self._folder: Path | None = None
        self._done = 0
        self._total = 0
        self._begun = 0
        self._settling = False
        self._trial = ""
        self._complaint = ""
        self._hashed_at = clock()

    def way_on(self) -> str | None:
        """Return the command that resumes the run, None while there is no folder to resume."""
        if self._folder is None or not self._folder.exists():
            return None
        near = self._folder.is_relative_to(Path.cwd())
        return self._resume(os.path.relpath(self._folder) if near else str(self._folder))

    def stranger(self, whose: str, would_run: Sequence[str]) -> None:
        self._display.say(f"{whose}. It would run:")
        self._display.say("")
        for row in lay_out(would_run, self._display.columns):
            self._display.say(row)
        self._display.say("")

    def quick(self, sentence: str) -> None:
        self._display.say(sentence)

    def image(self, image: Image, engine: str) -> None:
        self._display.say(f"image {image.pinned or image.reference} by {engine}")

    def image_pending(self, seconds: float) -> None:
        self._display.say(
            f"preparing the image, {duration(seconds)} elapsed (first use: fetch or build,"
            " hash, convert)"
        )

    def image_hashing(self, seconds: float) -> None:
        if seconds >= _LONG_HASHING_SECONDS:
            self._display.say(f"hashed the image file in {duration(seconds)}")

    def dataset(self, name: str, done_bytes: int, total_bytes: int) -> None:
        now = self._clock()
        if now - self._hashed_at >= LINE_EVERY_SECONDS:
            self._hashed_at = now
            done, total = done_bytes / 1e9, total_bytes / 1e9
            self._display.say(f"dataset {name}: {done:.1f} of {total:.1f} GB")

    def omissions(self, sentence: str) -> None:
        self._display.say(sentence)

    def embedding(self, sentence: str) -> None:
        self._display.say(sentence)

    def private(self, findings: Sequence[str]) -> None:
        self._display.say("possibly private, will be sealed unchanged:")
        for finding in findings[:_SHOWN]:
            self._display.say(f"  {finding}")
        if len(findings) > _SHOWN:
            self._display.say(f"  and {len(findings) - _SHOWN} more")

    def note(self, sentence: str) -> None:
        self._display.say(f"note: {sentence}")

    def leftovers(self, processes: int) -> None:
        self._display.say(
            f"ended {processes} process{'es' * (processes != 1)} that the interrupted run had left"
            " running"
        )

    def remains(self, sentence: str) -> None:
        self._display.say(sentence)

    def begin(self, folder: Path, total: int, done: int) -> None:
        self._folder, self._total, self._done = folder, total, done
        self._display.say(f"to resume if interrupted: {self.way_on()}")
        self._display.open(total, done)

    def trial(self, trial: str) -> None:
        # attempts are known when their process ends; until then each begun trial but the last ran
        self._begun = 1 if self._settling else self._begun + 1
        self._settling = False
        self._trial = trial
        self._display.move(self._done + self._begun - 1, trial)

    def output(self, line: str) -> None:
        if self._follow:
            # marked, so that no line of a script passes for one of ours
            self._display.say(f"| {line}")
        else:
            self._display.move(self._done + max(0, self._begun - 1), self._trial, line)

    def attempt(self, attempt: Attempt) -> None:
        # those of one process come one after the other, and what ran there stays counted
        self._begun, self._settling = max(0, self._begun - 1), True
        self._done += attempt.outcome != "interrupted"
        self._display.move(self._done + self._begun, "")
        ending = f": {attempt.last_line}" if attempt.last_line else ""
        # one line for a process that took all of its trials along, not one a trial
        complaint = f"{attempt.group} {attempt.reason}{ending}"
        if attempt.outcome != "completed" and complaint != self._complaint:
            self._complaint = complaint
            self._display.say(f"{attempt.trial} {attempt.outcome} ({attempt.reason}){ending}")

    def control(self, trials: Sequence[str]) -> None:
        self._total += len(trials)
        self._display.grow(self._total)
        self._display.say(
            f"all re-runs failed alike: running {trials[0]} under a seed of the original,"
            " to find the cause: the fresh seeds or this machine"
        )

    def look(self, runs: int, verdict: Verdict) -> None:
        self._display.say(f"look at {runs} runs: {verdict.word}, {verdict.sentence}")

    def end(self) -> None:
        self._display.close(self._done)


class _Listener(_Follower):
    """A watch of one trial, whose end is reported elsewhere."""

    def trial(self, trial: str) -> None:
        self._display.say(f"running one trial: {trial}")

    def attempt(self, attempt: Attempt) -> None:
        """Count nothing."""
