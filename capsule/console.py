"""Talk to the person at the terminal: progress, notes and tables on standard error and output."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from capsule.record import Attempt

if TYPE_CHECKING:
    from rich.console import RenderableType

_LINE_EVERY_SECONDS = 10.0


def _rich(stream: TextIO, **options: Any) -> Any:
    # rich costs 50 ms to import, and honours NO_COLOR, FORCE_COLOR and TERM=dumb by itself
    from rich.console import Console as RichConsole

    class Printer(RichConsole):
        def on_broken_pipe(self) -> None:
            # rich would end with 1, which is the exit code of DIFFERENT
            raise BrokenPipeError

    return Printer(file=stream, highlight=False, soft_wrap=not stream.isatty(), **options)


class Console:
    """Where talk and data go: talk to standard error, data to standard output."""

    def __init__(self, *, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._err = err or sys.stderr

    def say(self, text: str) -> None:
        """One plain sentence of talk."""
        print(text, file=self._err, flush=True)

    def warn(self, text: str) -> None:
        """A sentence that must not be overlooked."""
        _rich(self._err).print(f"[bold yellow]note:[/] {_escaped(text)}")

    def fail(self, text: str) -> None:
        """Why the command ends without what was asked of it."""
        _rich(self._err).print(f"[bold red]error:[/] {_escaped(text)}")

    def data(self, text: str) -> None:
        """A fact that was asked for, for people or programs."""
        print(text, file=self._out, flush=True)

    def show(self, *items: RenderableType) -> None:
        """Tables and text for people, on standard output."""
        # a pipe has no width of its own: 100 columns keep a table's lines whole
        width = None if self._out.isatty() else 100
        console = _rich(self._out, width=width)
        for item in items:
            console.print(item, soft_wrap=False)

    def counter(self, what: str) -> Callable[[int, int], None]:
        """A teller of (bytes done, bytes in all) that speaks only when it takes long."""
        last = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last >= _LINE_EVERY_SECONDS:
                last = time.monotonic()
                self.say(f"{what}: {done / 1e9:.1f} of {total / 1e9:.1f} GB")

        return tell

    @contextmanager
    def progress(self, total: int, done: int = 0) -> Iterator[_Watch]:
        """Follow a run of `total` trials, `done` of which are finished already."""
        watch: _Watch = (
            _Bar(self._err, total, done) if self._err.isatty() else _Lines(self, total, done)
        )
        with watch:
            yield watch


def _escaped(text: str) -> str:
    from rich.markup import escape

    # a stranger's strings may hold terminal control sequences
    return escape("".join(c if c.isprintable() or c == "\n" else "?" for c in text))


class _Watch:
    def __init__(self, total: int, done: int) -> None:
        self.total = total
        self.done = done
        self._complaints = _Complaints()

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def trial(self, trial: str) -> None:
        raise NotImplementedError

    def attempt(self, attempt: Attempt) -> None:
        raise NotImplementedError


class _Complaints:
    """One line for an attempt that did not complete, and none for more of the same process."""

    def __init__(self) -> None:
        self._last = ""

    def about(self, attempt: Attempt) -> str | None:
        words = attempt.message.strip().splitlines()
        said = f": {words[-1]}" if words else ""
        same = f"{attempt.group} {attempt.reason}{said}"
        if same == self._last:
            return None
        self._last = same
        return f"{attempt.trial} {attempt.outcome} ({attempt.reason}){said}"


class _Lines(_Watch):
    """Plain lines, for a batch job's log: few while all is well, at once when something fails."""

    def __init__(self, console: Console, total: int, done: int) -> None:
        super().__init__(total, done)
        self._console = console
        self._last = 0.0

    def trial(self, trial: str) -> None:
        now = time.monotonic()
        if now - self._last >= _LINE_EVERY_SECONDS:
            self._last = now
            self._console.say(f"[{self.done}/{self.total}] running {trial}")

    def attempt(self, attempt: Attempt) -> None:
        self.done += attempt.outcome != "interrupted"
        if attempt.outcome != "completed" and (said := self._complaints.about(attempt)):
            self._console.say(f"[{self.done}/{self.total}] {said}")

    def __exit__(self, *_: object) -> None:
        self._console.say(f"[{self.done}/{self.total}] trials have an outcome")


class _Bar(_Watch):
    """A bar with the running trial under it."""

    def __init__(self, stream: TextIO, total: int, done: int) -> None:
        super().__init__(total, done)
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
            TextColumn("{task.description}"),
            console=_rich(stream),
        )
        self._task = self._progress.add_task("starting", total=total, completed=done)
        self._running = 0

    def __enter__(self) -> _Watch:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.update(self._task, completed=self.done, description="")
        self._progress.stop()

    def trial(self, trial: str) -> None:
        # attempts are settled when their process ends; until then each begun trial but the last ran
        self._running += 1
        self._progress.update(
            self._task, completed=self.done + self._running - 1, description=_escaped(trial)
        )

    def attempt(self, attempt: Attempt) -> None:
        self._running = 0
        self.done += attempt.outcome != "interrupted"
        self._progress.update(self._task, completed=self.done)
        if attempt.outcome != "completed" and (said := self._complaints.about(attempt)):
            self._progress.console.print(f"[yellow]{_escaped(said)}[/]")
