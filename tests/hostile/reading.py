"""Cases for commands that only read: they write nothing, ask nobody and start nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support.command import User

Make = Callable[[Path], Path]
"""Makes a capsule in a folder, and returns its path."""

# a capsule is read before anything else is done, whatever the command is for and allowed to do
_COMMANDS = (
    ("check",),
    ("show", "--json"),
    ("diff",),
    ("verify", "--trust", "--allow-host", "--runtime", "host"),
    ("show",),
)


def refuse(door: str, attacks: Iterable[tuple[str, Make, str]]) -> tuple[Case, ...]:
    """Cases of capsules that no command takes: each is sent to one of them, by turns.

    Args:
        door: First word of their names.
        attacks: What is wrong with a capsule, what makes it, and what is said of it.
    """
    return tuple(
        Case(
            name=f"{door}/{name}",
            prepare=_send(make, command),
            status=4,
            says=says,
            mib=256,
            reads_only=True,
        )
        for (name, make, says), command in zip(attacks, cycle(_COMMANDS), strict=False)
    )


def _send(make: Make, command: tuple[str, ...]) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        capsule = make(user.folder)
        verb, *options = command
        return [verb, capsule, *[capsule] * (verb == "diff"), *options]

    return prepare
