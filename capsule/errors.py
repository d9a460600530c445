"""Every failure a user can meet: its class, its exit code, and a message that says how to mend it.

    CapsuleError
    |-- UsageError          2    wrong arguments
    |   `-- ManifestError   2    the manifest is not what its schema and rules ask
    |-- DamagedError        4    a capsule, image or dataset is not the bytes it claims to be
    |   |-- NotJsonError    4    bytes that should be a JSON document are none
    |   `-- UntrustedError  4    intact, but nobody said that its code may run here
    |-- ExecutionError      5    the benchmark itself failed or was cut off
    |   `-- FirstTrialError 5    the first trial of a run failed, and the rest waits
    |-- CannotRunError      6    this machine lacks an engine, image, dataset, device or scheduler
    |   |-- ProgramError    6    a program is missing, or the kernel refuses to execute it
    |   `-- FirstStartError 6    the first trial's program could not be started, and the rest waits
    `-- BugError           70    a fault of capsule

Only `capsule.cli` turns one of these into an exit status; nothing else prints or exits.
"""

from __future__ import annotations

from typing import ClassVar

from capsule import plain


class CapsuleError(Exception):
    """A failure with an exit code, told as what happened, where, and what to do next.

    Args:
        what: One sentence: what is wrong, with the value that was found.
        where: File, JSON pointer, trial or host it concerns.
        advice: What would mend it, naming the command or field.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str | None = None, advice: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.advice = advice

    def __str__(self) -> str:
        r"""The message as printed: two lines as a rule, and what follows the first stands below it.

        The attributes are as they came; in here nothing steers a terminal, whoever wrote it.

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
    """The command line asks for something that does not exist or does not fit together."""

    exit_code = 2


class ManifestError(UsageError):
    """The manifest breaks its schema or a rule that a schema cannot say."""


class DamagedError(CapsuleError):
    """Bytes differ from the digest that names them: a capsule, an image, a dataset."""

    exit_code = 4


class NotJsonError(DamagedError):
    """Not JSON at all, as opposed to JSON that two readers could understand differently."""


class UntrustedError(DamagedError):
    """An intact capsule of somebody else, which nobody allowed to execute here.

    Args:
        what: As of `CapsuleError`, like the rest.
        flags: The options that would allow it, none where no option does.
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
    """The benchmark failed, or ended before it had results."""

    exit_code = 5


class FirstTrialError(ExecutionError):
    """The first trial of a run failed: the rest waits for somebody to say that it shall run."""


class CannotRunError(CapsuleError):
    """Something that the plan needs is missing on this machine."""

    exit_code = 6


class ProgramError(CannotRunError):
    """A program that is missing or that the kernel refuses to execute: to try again is vain."""


class FirstStartError(CannotRunError):
    """The program of a run's first trial could not be started: the rest waits, as above."""


class BugError(CapsuleError):
    """A state that capsule's own code should have made impossible."""

    exit_code = 70
