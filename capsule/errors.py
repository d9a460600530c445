"""Errors that users meet: class, exit code, and a message with its remedy.

    CapsuleError
    |-- UsageError          2    wrong arguments
    |   `-- ManifestError   2    the manifest breaks its schema or a rule
    |-- DamagedError        4    bytes of a capsule, image or dataset differ from their digest
    |   |-- NotJsonError    4    bytes that should be a JSON document are not JSON
    |   `-- UntrustedError  4    intact, but the user has not allowed its code to run
    |-- ExecutionError      5    the benchmark itself failed or was interrupted
    |   `-- FirstTrialError 5    the first trial of a run failed; the run stopped there
    |-- CannotRunError      6    this machine lacks an engine, image, dataset, device or scheduler
    |   |-- ProgramError    6    a program is missing, or the kernel refuses to execute it
    |   `-- FirstStartError 6    the program of the first trial did not start; the run stopped there
    `-- BugError           70    a bug in capsule

Only `capsule.cli` turns an error into an exit status; nothing else prints or exits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from capsule import plain


class CapsuleError(Exception):
    """A failure with an exit code and a message: what happened, where, and what to do next.

    Args:
        what: What is wrong, with the value that was found; one sentence.
        where: File, JSON pointer, trial or host of the failure.
        advice: Remedy, with the command or field to change.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str | None = None, advice: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.advice = advice

    def __str__(self) -> str:
        r"""Return the message as printed: usually two lines, further lines indented.

        Control characters are escaped: the text may be untrusted. The attributes keep the raw
        text.
        >>> print(UsageError("no such verb: rnu", advice="did you mean run?"))
        no such verb: rnu
          did you mean run?
        >>> print(UsageError("cannot be read", where="a\nerror: b"))
        a\nerror: b: cannot be read
        """
        head = f"{plain.clean(self.where)}: {self.what}" if self.where else self.what
        text = f"{head}\n  {self.advice}" if self.advice else head
        first, *rest = plain.clean_lines(text).split("\n")
        return "\n".join((first, *(row if row.startswith("  ") else f"  {row}" for row in rest)))


class UsageError(CapsuleError):
    """A command line with an unknown, impossible or contradictory request."""

    exit_code = 2


class ManifestError(UsageError):
    """A manifest that breaks its schema, or a rule that a schema cannot express."""


class DamagedError(CapsuleError):
    """Bytes that differ from the digest that names them: a capsule, an image, a dataset."""

    exit_code = 4


class NotJsonError(DamagedError):
    """Bytes that are not JSON, as opposed to JSON that two readers could read differently."""


class UntrustedError(DamagedError):
    """An intact, untrusted capsule that the user has not allowed to run.

    Args:
        what: What is wrong, as in `CapsuleError`.
        where: File of the failure.
        advice: Remedy.
        flags: Options that allow the run; empty if no option does.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        advice: str | None = None,
        flags: tuple[str, ...] = (),
    ) -> None:
        super().__init__(what, where=where, advice=advice)
        self.flags = flags


class ExecutionError(CapsuleError):
    """A benchmark that failed, or that ended without results."""

    exit_code = 5


class FirstTrialError(ExecutionError):
    """A failure of a run's first trial, at which the run stops until it is resumed."""


class CannotRunError(CapsuleError):
    """A lack of this machine: an engine, image, dataset, device or scheduler."""

    exit_code = 6


class ProgramError(CannotRunError):
    """A program that is missing, or that the kernel refuses to execute; a retry cannot help."""


class FirstStartError(CannotRunError):
    """A failure to start the program of a run's first trial, at which the run stops."""


class BugError(CapsuleError):
    """A bug: a state that capsule's own code should have made impossible."""

    exit_code = 70


@contextmanager
def add_advice(advice: str, kind: type[CapsuleError] = DamagedError) -> Iterator[None]:
    """Add advice to the error of a block or function, if the error has none.

    Args:
        advice: Remedy.
        kind: Class of the errors that get the advice; errors of other classes stay as they are.
    """
    try:
        yield
    except kind as error:
        error.advice = error.advice or advice
        raise
