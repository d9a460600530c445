"""Talk to the person at the terminal: progress, notes and tables on standard error and output.

Nothing else in capsule writes to a stream, and nothing here writes what has not passed `plain`.
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
from capsule.displays import LINE_EVERY_SECONDS, Bar, Display, Lines, make_printer, print_line
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
    """Where talk and data go: talk to standard error, data to standard output."""

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
        """One sentence of talk."""
        print_line(sentence, self._err)

    def fail(self, text: str) -> None:
        """Why the command ends without what was wanted of it."""
        from rich.text import Text

        make_printer(self._err).print(
            Text.assemble(("error:", "bold red"), " ", plain.clean_lines(text))
        )

    def data(self, fact: str) -> None:
        """One line that was asked for."""
        print_line(fact, self._out)

    def document(self, value: object) -> None:
        """What was asked for as one JSON document, for programs: ASCII, which loses nothing."""
        print(json.dumps(value, indent=2, sort_keys=True), file=self._out, flush=True)

    def show(self, *items: RenderableType) -> None:
        """Tables and text for people, on standard output."""
        # a pipe has no width of its own: 100 columns keep a table's lines whole
        width = None if self._out.isatty() else 100
        console = make_printer(self._out, width=width)
        for item in items:
            console.print(item, soft_wrap=False)

    def watch(self, resume: Callable[[str], str], *, follow: bool = False) -> Watch:
        """Show how a run goes: a bar on a terminal, a line now and then elsewhere.

        Args:
            resume: The command that goes on with the run, given the name of its folder.
            follow: Print what the workload prints; else a terminal has the last line of it.
        """
        display = Bar(self._err) if self._err.isatty() else Lines(self._err, self._clock)
        self._follower = _Follower(display, resume, self._clock, follow=follow)
        return self._follower

    def hear_download(self) -> Callable[[str, int, int | None], None]:
        """Say that something is fetched, and now and then how far it is."""
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
        """Print what one trial prints, of which no folder stays."""
        return _Listener(Lines(self._err, self._clock), str, self._clock, follow=True)

    def transfer(self, name: str) -> Callable[[int, int], None]:
        """Tell now and then how much of something has come: (bytes done, in all or 0)."""
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
        """The command that goes on with the run that was followed, None when no folder is left."""
        return self._follower.way_on() if self._follower else None

    def hang_up(self) -> None:
        """Let what cannot be written go nowhere: the interpreter would end with 120."""
        for stream in (self._out, self._err):
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Follower(Watch):
    """Counts what a run has done, and says what deserves a sentence."""

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
        """The command that goes on with the run, None while there is no folder to go on with."""
        if self._folder is None or not self._folder.exists():
            return None
        near = self._folder.is_relative_to(Path.cwd())
        return self._resume(os.path.relpath(self._folder) if near else str(self._folder))

    def stranger(self, whose: str, would_run: Sequence[str]) -> None:
        self._display.say(f"{whose}; it would run here:")
        for line in would_run:
            self._display.say(f"  {line}")

    def quick(self, sentence: str) -> None:
        self._display.say(sentence)

    def image(self, image: Image, engine: str) -> None:
        self._display.say(f"image {image.pinned or image.reference} by {engine}")

    def image_pending(self, seconds: float) -> None:
        self._display.say(
            f"the image is still being made ready, {duration(seconds)} elapsed;"
            " a first use fetches or builds it, hashes and converts it"
        )

    def image_hashing(self, seconds: float) -> None:
        if seconds >= _LONG_HASHING_SECONDS:
            self._display.say(f"the image's file was hashed in {duration(seconds)}")

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
        self._display.say("this may be private, and is sealed as it is:")
        for finding in findings[:_SHOWN]:
            self._display.say(f"  {finding}")
        if len(findings) > _SHOWN:
            self._display.say(f"  and {len(findings) - _SHOWN} more")

    def note(self, sentence: str) -> None:
        self._display.say(f"note: {sentence}")

    def leftovers(self, processes: int) -> None:
        self._display.say(
            f"ended {processes} process(es) that the interrupted run had left running"
        )

    def remains(self, sentence: str) -> None:
        self._display.say(sentence)

    def begin(self, folder: Path, total: int, done: int) -> None:
        self._folder, self._total, self._done = folder, total, done
        self._display.say(f"if this is cut off: {self.way_on()}")
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
        self._display.move(self._done + self._begun, self._trial)
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
            f"every re-run failed alike: a control run of {trials[0]}, with a seed of the"
            " original's, tells whether the fresh seeds or this machine is at fault"
        )

    def look(self, runs: int, verdict: Verdict) -> None:
        self._display.say(f"look after {runs} runs: {verdict.word}, {verdict.sentence}")

    def end(self) -> None:
        self._display.close(self._done)


class _Listener(_Follower):
    """Follows one trial, whose end somebody else tells of."""

    def trial(self, trial: str) -> None:
        self._display.say(f"trying {trial}")

    def attempt(self, attempt: Attempt) -> None:
        """Nothing is counted."""
