"""Untrusted regular expressions, searched in time linear in the text.

Python's own engine tries one way after the other, for which some patterns and texts take centuries.
RE2 follows all ways at once; look-around and references back to a group, which need the other
kind, it does not know. `{number}` in a pattern stands for one whole number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol

# RE2 takes time in proportion to it, some half a microsecond a byte of text at the most
MOST_INSTRUCTIONS = 2000
_MOST_MEMORY_BYTES = 8 << 20
PLACEHOLDER = "{number}"
"""Stands in a pattern for a number as programs print it."""
_NUMBER = (
    r"[-+\x{2212}]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
    r"|(?i:\b(?:inf(?:inity)?|nan)\b))"
)
_TOKEN = re.compile(
    r"(?P<quoted>\\Q(?:(?!\\E).)*(?:\\E)?)|(?P<escaped>\\.)"
    r"|(?P<listed>\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\])"
    r"|(?P<placeholder>\{number\})|(?P<opens>\((?P<how>\?(?:P?<(?P<name>\w+)>|[^)(:]*:)?)?)"
    r"|(?P<closes>\))|(?P<other>.)",
    re.DOTALL,
)


class PatternError(ValueError):
    """A pattern that RE2 does not take, or that would take it long; the message says why."""


class Match(Protocol):
    """A match of a pattern in a line."""

    def group(self, name: int, /) -> bytes | None:
        """Return the text of a group, or None if it took no part."""

    def span(self, name: int = 0, /) -> tuple[int, int]:
        """Return first and last byte of a group, or of the whole; (-1, -1) if it took no part."""


class _Engine(Protocol):
    def search(self, line: bytes, /) -> Match | None: ...


class Pattern(NamedTuple):
    """Return a pattern that was compiled.

    Attributes:
        groups: How many groups it has.
        names: Number of each group that has a name.
        engine: What searches.
    """

    groups: int
    names: dict[str, int]
    engine: _Engine

    def search(self, line: bytes) -> Match | None:
        """Return the first place of a line that it fits."""
        return self.engine.search(line)


class Part(NamedTuple):
    """A capturing group, or a placeholder, in the source of a pattern.

    Attributes:
        start, end: Where it stands, its parentheses included.
        name: The group's; empty for one without.
        is_placeholder: True if it is `{number}` outside of every capturing group, and so is one.
    """

    start: int
    end: int
    name: str
    is_placeholder: bool


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> Pattern:
    r"""Compile a pattern in the syntax of RE2, in which `{number}` stands for a whole number.

    >>> compile_pattern("loss: {number}").search(b"step 3 loss: 2.5e-07").group(1)
    b'2.5e-07'

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
        engine = re2.compile(_expand(text).encode(), options)
    except re2.error as error:
        reason = str(error.args[0].decode(errors="replace"))
        raise PatternError(_explain(_contract(reason))) from None
    if engine.programsize > MOST_INSTRUCTIONS:
        raise PatternError(
            f"is too large: {engine.programsize} steps, limit {MOST_INSTRUCTIONS};"
            " shorten repetitions such as {1,500}"
        )
    names = {name.decode(): number for name, number in engine.groupindex.items()}
    return Pattern(groups=engine.groups, names=names, engine=engine)


def replace_value(text: str, content: str, group: str = "value") -> str | None:
    r"""Return the same pattern with something else in the group that holds the number, or the step.

    Args:
        text: A pattern that compiles.
        content: What the group is to fit.
        group: `value` or `step`.

    Returns:
        None where no group, or not one alone, holds the number.

    >>> replace_value("loss: ([0-9.]+)%", "{number}"), replace_value("a {number}", r"\S+")
    ('loss: {number}%', 'a (\\S+)')
    """
    parts = list(_parts(text))
    value = [part for part in parts if part.name == group] or [
        part
        for part in parts
        if group == "value" and part.name == "" and (len(parts) == 1 or part.is_placeholder)
    ]
    if len(value) != 1:
        return None
    start, end, name, _ = value[0]
    opens = f"(?P<{name}>" if name else "(" if len(parts) == 1 else "(?P<value>"
    whole = content == PLACEHOLDER and opens == "("
    return f"{text[:start]}{content if whole else f'{opens}{content})'}{text[end:]}"


def _parts(text: str) -> Iterator[Part]:
    """Yield the capturing groups and free placeholders of a pattern, by where they end."""
    opened: list[tuple[int, str | None]] = []
    for token in _TOKEN.finditer(text):
        if token["opens"]:
            captures = token["how"] is None or token["name"] is not None
            opened.append((token.start(), (token["name"] or "") if captures else None))
            # (?i) is closed by its own parenthesis, as (?:...) is
        elif token["closes"] and opened:
            start, name = opened.pop()
            if name is not None:
                yield Part(start, token.end(), name, is_placeholder=False)
        elif token["placeholder"] and all(name is None for _, name in opened):
            yield Part(token.start(), token.end(), "", is_placeholder=True)


def _expand(text: str) -> str:
    """Return a pattern as RE2 takes it: what `{number}` stands for is a group, unless it is in
    one.
    """
    parts = list(_parts(text))
    free = {part.start for part in parts if part.is_placeholder}
    is_alone = len(free) == 1 and all(part.name != "value" for part in parts)
    pieces, at = [], 0
    for token in _TOKEN.finditer(text):
        if token["placeholder"]:
            opens = ("(?P<value>" if is_alone else "(") if token.start() in free else "(?:"
            pieces += [text[at : token.start()], f"{opens}{_NUMBER})"]
            at = token.end()
    return "".join((*pieces, text[at:]))


def _contract(reason: str) -> str:
    """Return RE2's message about a pattern, in terms of the author's pattern."""
    for opens in ("(?P<value>", "(?:", "("):
        reason = reason.replace(f"{opens}{_NUMBER})", PLACEHOLDER)
    return reason


def _explain(reason: str) -> str:
    """Return why RE2 does not take it, in words for whoever knows patterns from elsewhere."""
    if "perl operator" in reason:
        return f"{reason}; look-around, as in (?=...), is not supported"
    if reason.startswith("invalid escape sequence") and reason[-1:].isdigit():
        return rf"{reason}; backreferences to a group, as in \1, are not supported"
    return reason
