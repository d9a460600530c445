"""Untrusted text made safe for a screen: without control sequences, and of limited length.

Everything that capsule prints for people has passed here: by the console, the only one that prints,
by a report's cells, whose width has to be known before, and by an error's own message. What has
passed once passes unchanged. JSON for programs is ASCII, whose escapes lose nothing.
"""

from __future__ import annotations

import re

LONGEST_LINE = 2000
MOST_LINES = 100

# Joiners hold the letters of people's names together in several scripts, and the parts of emoji;
# after a letter of ASCII, or one behind the other, they only hide that two texts are not equal.
# Compiled where one is met: few texts need it, and every command would pay for it.
_JOINER = "(?<=[^\x00-\xa0\u200c\u200d])([\u200c\u200d])(?![\u200c\u200d])"
_SPACES = "[\xa0\u1680\u2000-\u200a\u202f\u205f\u3000]"


def clean(text: object) -> str:
    r"""Return one line, in which a character that cannot be shown is written as Python writes it.

    Escape sequences, controls, line and paragraph separators, marks that change the direction of
    writing and half surrogates cannot; joiners in names can. Of a longer line the beginning is
    left, and how long it is.

    >>> clean("loss\x1b[2J\n")
    'loss\\x1b[2J\\n'
    >>> clean("x" * 4_400_000)[-27:]
    'xxx... (4400000 characters)'
    """
    text = str(text)
    shown = _escape(text[: LONGEST_LINE + 1])
    if len(shown) <= LONGEST_LINE:
        return shown
    tail = f"... ({len(text)} characters)"
    return shown[: LONGEST_LINE - len(tail)] + tail


def clean_lines(text: str) -> str:
    r"""Return the same line by line, of too many the first, and how many there are.

    >>> clean_lines("no such file: a\rb\n  give another one")
    'no such file: a\\rb\n  give another one'
    """
    if len(text) <= LONGEST_LINE and (text.isprintable() or text == "\n"):
        # nearly all that is ever printed, often a word at a time
        return text
    rows = text.split("\n")
    if len(rows) > MOST_LINES:
        rows[MOST_LINES - 1 :] = [f"... ({len(rows)} lines)"]
    return "\n".join(map(clean, rows))


def last_lines(text: str, most: int) -> str:
    r"""Return the end of a text: whole lines, of a longer line its end.

    Args:
        text: What a program printed.
        most: Letters that are left at most.

    >>> last_lines("epoch 1\nepoch 2\nepoch 3", 12)
    'epoch 3'
    >>> last_lines("0123456789", 8)
    '...56789'
    """
    if len(text) <= most:
        return text
    kept = text[-most:]
    if text[-most - 1] == "\n":
        return kept
    _, cut, whole = kept.partition("\n")
    return whole if cut and whole.strip() else f"...{kept[3:]}"


def first_and_last_lines(text: str, most: int) -> str:
    r"""Return a text whose first line says most, and of the others the last ones; of one line both
    ends.

    Args:
        text: Such as an exit code, and what was printed before it.
        most: Letters that are left at most.

    >>> first_and_last_lines("exit code 1\nepoch 1\nepoch 2\nno data", 24)
    'exit code 1\nno data'
    """
    if len(text) <= most:
        return text
    half = most // 2
    head, cut, rest = text.partition("\n")
    if not cut:
        return f"{text[: half - 3]}...{text[-half:]}"
    head = head[:half]
    return f"{head}\n{last_lines(rest, most - len(head) - 1)}"


def is_clean(text: str) -> bool:
    """Return whether every character of a line can be shown as it is, however many there are."""
    return text.isprintable() or re.sub(_JOINER, "", text).isprintable()


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    pieces = re.split(_JOINER, re.sub(_SPACES, " ", text))
    # every other piece is a joiner, which stays
    pieces[::2] = ["".join(map(_escape_one, piece)) for piece in pieces[::2]]
    return "".join(pieces)


def _escape_one(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
