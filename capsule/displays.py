"""Displays of a running capsule command: clean text, and how far the run is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar, Protocol, TextIO

from capsule import plain
from capsule.durations import duration

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment

LINE_EVERY_SECONDS = 10.0
_LONGEST_BESIDE = 200
_LINE_COLUMNS = 80
_LABEL_COLUMNS = 11
_LEAST_COLUMNS = 20


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


def lay_out(facts: Iterable[str], columns: int) -> Iterator[str]:
    r"""Yield the lines of a form: labels in one column, values wrapped beside them.

    Args:
        facts: Each as `label: value`; a label that repeats the one before is printed once.
        columns: Width of the screen.

    >>> print("\n".join(lay_out(["files: a.py (1 byte)", "files: b.py", "GPUs: none"], 40)))
      files      a.py (1 byte)
                 b.py
      GPUs       none
    """
    from textwrap import wrap

    # a value that goes on stands further right than one that begins: none can pass for another
    space = " " * (_LABEL_COLUMNS + 2)
    shown = ""
    for fact in facts:
        label, _, value = plain.clean(fact).partition(": ")
        width = max(columns - len(space), _LEAST_COLUMNS)
        rows = wrap(
            value, width, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
        )
        for n, row in enumerate(rows or [""]):
            yield f"  {'' if n or label == shown else label:{_LABEL_COLUMNS}}{row}".rstrip()
        shown = label


class Progress:
    """Counter and clock of the progress line of an execution.

    Args:
        clock: Seconds that go on.
        total: Trials of the run.
        before: Trials that an earlier part of the run finished.
    """

    def __init__(self, clock: Callable[[], float], total: int, before: int) -> None:
        self.total = total
        self._clock = clock
        self._before = self._done = before
        self._start = clock()
        self._trial = self._subject = ""
        self._has_several = False

    def move(self, done: int, trial: str) -> None:
        """Note how many trials are finished, and which one runs; empty for none.

        Args:
            done: Number of finished trials.
            trial: A trial's id, whose last segment is its seed.
        """
        subject = trial.rpartition("/")[0]
        self._has_several |= bool(trial and self._subject and subject != self._subject)
        self._done, self._trial = done, trial
        self._subject = subject or self._subject

    def describe(self) -> str:
        """Return which trial of how many runs, the time it took so far, and about the rest."""
        seconds, ran = self._clock() - self._start, self._done - self._before
        rest = round(seconds / ran * (self.total - self._done)) if ran else 0
        left = f", about {duration(rest)} left" if rest else ""
        clock = f"{duration(round(seconds))} elapsed{left}"
        if not self._trial:
            return f"{self._done} of {self.total} trials finished, {clock}"
        # one subject is what the reader has started, and needs no name
        name = f": {self._subject}" if self._has_several else ""
        seed = self._trial.rpartition("/")[2]
        return f"trial {self._done + 1} of {self.total} (seed {seed}), {clock}{name}"

    def conclude(self) -> str:
        """Return how many trials are finished, and the time that they took."""
        seconds = self._clock() - self._start
        return f"{self._done} of {self.total} trials finished in {duration(seconds)}"


class Display(Protocol):
    """A place where a run's progress is shown.

    Attributes:
        has_room: Whether there is room for the last line that a workload printed.
    """

    has_room: ClassVar[bool]

    @property
    def columns(self) -> int:
        """Width of the screen."""

    def open(self, total: int, done: int) -> None:
        """Begin to show `total` trials, of which `done` were finished before."""

    def grow(self, total: int) -> None:
        """Change the number of trials."""

    def say(self, text: str) -> None:
        """Print one sentence, which stays."""

    def move(self, done: int, trial: str, line: str = "") -> None:
        """Show that `done` trials are finished, and `trial` runs and printed a line."""

    def close(self, done: int) -> None:
        """Show that no more trials start."""


class Lines:
    """Plain lines for a batch job's log: few while all is well, at once when something fails."""

    has_room: ClassVar[bool] = False
    columns = _LINE_COLUMNS

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        self._stream = stream
        self._clock = clock
        self._progress = Progress(clock, 0, 0)
        self._last = clock()

    def open(self, total: int, done: int) -> None:
        """Begin to show `total` trials, of which `done` were finished before."""
        self._progress = Progress(self._clock, total, done)
        self._last = self._clock() - LINE_EVERY_SECONDS

    def grow(self, total: int) -> None:
        """Change the number of trials."""
        self._progress.total = total

    def say(self, text: str) -> None:
        """Print one line."""
        print_line(text, self._stream)

    def move(self, done: int, trial: str, line: str = "") -> None:  # noqa: ARG002 - the bar's
        """Show that `done` trials are finished, and `trial` runs, if the last line is old."""
        self._progress.move(done, trial)
        now = self._clock()
        if now - self._last >= LINE_EVERY_SECONDS:
            self._last = now
            self.say(self._progress.describe())

    def close(self, done: int) -> None:
        """Show that no more trials start."""
        self._progress.move(done, "")
        self.say(self._progress.conclude())


class Bar:
    """One live line of a terminal: the run's progress, and what the workload printed last."""

    has_room: ClassVar[bool] = True

    def __init__(self, stream: TextIO, clock: Callable[[], float]) -> None:
        from rich.progress import Progress as Live
        from rich.progress import ProgressColumn, SpinnerColumn, Task
        from rich.text import Text

        self._clock = clock
        self._progress = Progress(clock, 0, 0)
        self._line = ""
        self._is_over = False

        bar = self

        class Line(ProgressColumn):
            def render(self, task: Task) -> Text:  # noqa: ARG002 - there is one
                # where the terminal is narrow, the end is cut: the workload's line
                return Text(bar.describe(), no_wrap=True, overflow="ellipsis")

        self._live = Live(SpinnerColumn(finished_text=""), Line(), console=make_printer(stream))

    @property
    def columns(self) -> int:
        """Width of the terminal."""
        return self._live.console.width

    def describe(self) -> str:
        """Return the live line, with what matters most first."""
        if self._is_over:
            return self._progress.conclude()
        return f"{self._progress.describe()}  {self._line}".rstrip()

    def open(self, total: int, done: int) -> None:
        """Begin to show `total` trials, of which `done` were finished before."""
        self._progress = Progress(self._clock, total, done)
        self._task = self._live.add_task("", total=1)
        self._live.start()

    def grow(self, total: int) -> None:
        """Change the number of trials."""
        self._progress.total = total

    def say(self, text: str) -> None:
        """Print one line above the live one."""
        # a command line that is wrapped by us cannot be copied
        self._live.console.print(plain.clean(text), soft_wrap=True)

    def move(self, done: int, trial: str, line: str = "") -> None:
        """Show that `done` trials are finished, and `trial` runs and printed a line."""
        self._progress.move(done, plain.clean(trial))
        self._line = plain.clean(line)[:_LONGEST_BESIDE]

    def close(self, done: int) -> None:
        """Show that no more trials start."""
        self._progress.move(done, "")
        self._is_over = True
        self._live.update(self._task, completed=1)
        self._live.stop()
