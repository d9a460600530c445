"""What a terminal or a log gets to see: clean text, and how far a run is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Protocol, TextIO

from capsule import plain
from capsule.durations import duration

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment

LINE_EVERY_SECONDS = 10.0
_LONGEST_BESIDE = 80


def print_line(text: str, stream: TextIO) -> None:
    """Print one line, whatever the text."""
    print(plain.clean(text), file=stream, flush=True)


def make_printer(stream: TextIO, width: int | None = None) -> RichConsole:
    """Rich's console, which lets no text steer the terminal."""
    # rich costs 50 ms to import, and honours NO_COLOR, FORCE_COLOR and TERM=dumb by itself
    from rich.console import Console as RichConsole

    class Printer(RichConsole):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            # what steers the terminal on purpose, such as a bar's, is no text
            for segment in super().render(renderable, options):
                shown = segment.text if segment.control else plain.clean_lines(segment.text)
                yield segment if shown is segment.text else segment._replace(text=shown)

        def on_broken_pipe(self) -> None:
            # rich would end with 1, which is the exit code of DIFFERENT
            raise BrokenPipeError

    return Printer(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not stream.isatty(),
        width=width,
    )


class Display(Protocol):
    """Where a run's progress is seen.

    Attributes:
        has_room: Whether there is room for the last line that a workload printed.
    """

    has_room: ClassVar[bool]

    def open(self, total: int, done: int) -> None:
        """Trials start, `done` of them were finished before."""

    def grow(self, total: int) -> None:
        """There are more trials than there were: so many."""

    def say(self, text: str) -> None:
        """One sentence, which stays."""

    def move(self, done: int, trial: str, line: str = "") -> None:
        """So many are finished, and this one runs, which printed a line."""

    def close(self, done: int) -> None:
        """No more trials start."""


class Lines:
    """Plain lines for a batch job's log: few while all is well, at once when something fails."""

    has_room: ClassVar[bool] = False

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._total = self._before = 0
        self._start = self._last = clock()

    def open(self, total: int, done: int) -> None:
        """Begin with so many trials, of which so many are done."""
        self._total = total
        self._before = done
        self._start = self._clock()
        self._last = self._start - LINE_EVERY_SECONDS

    def grow(self, total: int) -> None:
        """There are more trials now."""
        self._total = total

    def say(self, text: str) -> None:
        """One line beside it."""
        print_line(text, self._stream)

    def move(self, done: int, trial: str, line: str = "") -> None:  # noqa: ARG002 - the bar's
        """So many are done, and this one runs."""
        now = self._clock()
        if now - self._last < LINE_EVERY_SECONDS:
            return
        self._last = now
        elapsed, ran = now - self._start, done - self._before
        left = f", about {duration(elapsed / ran * (self._total - done))} left" if ran else ""
        self.say(f"[{done}/{self._total}] {duration(elapsed)} elapsed{left}, running {trial}")

    def close(self, done: int) -> None:
        """No trial follows."""
        elapsed = duration(self._clock() - self._start)
        self.say(f"[{done}/{self._total}] trials have an outcome, {elapsed} elapsed")


class Bar:
    """A bar with the running trial beside it, and the last line that it printed."""

    has_room: ClassVar[bool] = True

    def __init__(self, stream: TextIO) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._progress = Progress(
            SpinnerColumn(),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=make_printer(stream),
        )

    def open(self, total: int, done: int) -> None:
        """Begin with so many trials, of which so many are done."""
        self._task = self._progress.add_task("starting", total=total, completed=done)
        self._progress.start()

    def grow(self, total: int) -> None:
        """There are more trials now."""
        self._progress.update(self._task, total=total)

    def say(self, text: str) -> None:
        """One line beside it."""
        # a command line that is wrapped by us cannot be copied
        self._progress.console.print(plain.clean(text), soft_wrap=True)

    def move(self, done: int, trial: str, line: str = "") -> None:
        """So many are done, and this one runs."""
        beside = f"{plain.clean(trial)} {plain.clean(line)[:_LONGEST_BESIDE]}"
        self._progress.update(self._task, completed=done, description=beside.rstrip())

    def close(self, done: int) -> None:
        """No trial follows."""
        self._progress.update(self._task, completed=done, description="")
        self._progress.stop()
