"""A stranger's regular expressions: whatever they are, a search takes time linear in the text.

Python's own engine tries one way after the other, for which some patterns and texts take centuries.
RE2 follows all ways at once; look-around and references back to a group, which need the other
kind, it does not know.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

# RE2 takes time in proportion to it, some half a microsecond a byte of text at the most
MOST_INSTRUCTIONS = 2000
_MOST_MEMORY_BYTES = 8 << 20


class PatternError(ValueError):
    """A pattern that RE2 does not take, or that would take it long; the message says why."""


class Match(Protocol):
    """Where a pattern fits a line."""

    def group(self, name: int, /) -> bytes | None:
        """What a group holds, None for one that took no part."""


class _Engine(Protocol):
    def search(self, line: bytes, /) -> Match | None: ...


class Pattern(NamedTuple):
    """A pattern that was compiled.

    Attributes:
        groups: How many groups it has.
        names: Number of each group that has a name.
        engine: What searches.
    """

    groups: int
    names: dict[str, int]
    engine: _Engine

    def search(self, line: bytes) -> Match | None:
        """The first place of a line that it fits."""
        return self.engine.search(line)


@lru_cache(maxsize=64)
def compile_pattern(text: str) -> Pattern:
    r"""Compile a pattern in the syntax of RE2.

    >>> compile_pattern("loss: ([0-9.]+)").search(b"step 3 loss: 0.25").group(1)
    b'0.25'

    Raises:
        PatternError: It is no such pattern.
    """
    # takes 6 ms, and most manifests have no pattern
    import re2

    options = re2.Options()
    options.max_mem = _MOST_MEMORY_BYTES
    # else it tells standard error of a pattern that is none
    options.log_errors = False
    try:
        engine = re2.compile(text.encode(), options)
    except re2.error as error:
        raise PatternError(_explain(str(error.args[0].decode(errors="replace")))) from None
    if engine.programsize > MOST_INSTRUCTIONS:
        raise PatternError(
            f"is too large: {engine.programsize} steps, and {MOST_INSTRUCTIONS} are the most;"
            " shorten its repetitions such as {1,500}"
        )
    names = {name.decode(): number for name, number in engine.groupindex.items()}
    return Pattern(groups=engine.groups, names=names, engine=engine)


def _explain(reason: str) -> str:
    """Why RE2 does not take it, in words for whoever knows patterns from elsewhere."""
    if "perl operator" in reason:
        return f"{reason}; look-around, as in (?=...), is not supported"
    if reason.startswith("invalid escape sequence") and reason[-1:].isdigit():
        return f"{reason}; references back to a group are not supported"
    return reason
