"""What a file is that was taken for a manifest, and how it becomes one."""

from __future__ import annotations

import json
import re

_COMMENT = re.compile(r"^\s*(//|#|/\*)", re.MULTILINE)
_YAML = re.compile(r"\A(---|%YAML|[A-Za-z_][\w-]*:( |$))", re.MULTILINE)
_ESCAPES = {
    "\b": ("b", "a backspace", "a word boundary"),
    "\t": ("t", "a tab", "a tab"),
    "\n": ("n", "a line end", "a line end"),
    "\f": ("f", "a form feed", "a form feed"),
    "\r": ("r", "a carriage return", "a carriage return"),
}
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def recognize(data: bytes) -> tuple[str, str] | None:
    """What a file is instead of JSON, and what to do; None where its text has to tell.

    Args:
        data: It, or its beginning.
    """
    if data.startswith(_UTF16):
        return "is UTF-16", "save it as UTF-8"
    if data.startswith(b"PK"):
        return (
            "is a zip file, probably a capsule, and not a manifest",
            "to re-run a capsule: `capsule verify`; to see what is in it: `capsule show`",
        )
    if not data.strip():
        return "is empty", "`capsule init` writes a manifest to start from"
    return None


def advise(data: bytes) -> str | None:
    r"""How to mend what is no JSON; None where it is, and something else is wrong with it.

    >>> advise(b'{"a": 1,}')
    'leave out the comma before }'
    >>> advise(rb'{"pattern": "\d+"}')
    'JSON takes a backslash for the start of an escape: double it, "\\\\d"'
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "save it as UTF-8"
    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return _advise(text, error.pos)
    except (ValueError, RecursionError):
        return None
    return None


def advise_escape(text: str) -> str:
    r"""What was probably meant by an escape that JSON knows, as the end of a sentence.

    >>> advise_escape("acc\b"), advise_escape("acc\0")
    (': JSON reads \\b as a backspace; a word boundary of a pattern is written \\\\b', '')
    """
    found = next((one for one in _ESCAPES if one in text), None)
    if found is None:
        return ""
    letter, name, meant = _ESCAPES[found]
    return f": JSON reads \\{letter} as {name}; {meant} of a pattern is written \\\\{letter}"


def _advise(text: str, place: int) -> str:
    before, sign = text[:place].rstrip(), text[place : place + 1]
    if _YAML.match(text):
        return "it seems to be YAML: a manifest is JSON, which every YAML tool can write"
    if before.endswith(",") and sign in ("}", "]", ","):
        return "leave out the second comma" if sign == "," else f"leave out the comma before {sign}"
    if sign == "\\":
        escape = text[place : place + 2]
        return f'JSON takes a backslash for the start of an escape: double it, "\\{escape}"'
    if sign == "'":
        return "write texts in double quotes"
    if sign and _COMMENT.match(text[text.rfind("\n", 0, place) + 1 :]):
        return "leave out the comments: JSON has none"
    return "a manifest is JSON; `capsule init` writes one to start from"
