"""Recognition of files mistaken for a manifest, with the way to a manifest."""

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
    """Recognize a file that is not JSON, with a remedy; None if its text must be parsed.

    Args:
        data: It, or its beginning.
    """
    if data.startswith(_UTF16):
        return "is UTF-16", "save it as UTF-8"
    if data.startswith(b"PK"):
        return (
            "is a zip file, probably a capsule; expected a manifest",
            "to verify a capsule: `capsule verify`; to show its contents: `capsule show`",
        )
    if not data.strip():
        return "is empty", "write a first manifest with `capsule init`"
    return None


def advise(data: bytes) -> str | None:
    r"""Return the remedy for invalid JSON, or None.

    >>> advise(b'{"a": 1,}')
    'remove the comma before }'
    >>> advise(rb'{"pattern": "\d+"}')
    'a backslash begins an escape in JSON: double it, "\\\\d"'
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
    r"""Return the probable meaning of an escape in JSON, as the end of a sentence.

    >>> advise_escape("acc\b"), advise_escape("acc\0")
    (': JSON reads \\b as a backspace; write a word boundary of a pattern as \\\\b', '')
    """
    found = next((one for one in _ESCAPES if one in text), None)
    if found is None:
        return ""
    letter, name, meant = _ESCAPES[found]
    return f": JSON reads \\{letter} as {name}; write {meant} of a pattern as \\\\{letter}"


def _advise(text: str, place: int) -> str:
    before, sign = text[:place].rstrip(), text[place : place + 1]
    if _YAML.match(text):
        return "this looks like YAML: convert it to JSON"
    if before.endswith(",") and sign in ("}", "]", ","):
        return "remove the second comma" if sign == "," else f"remove the comma before {sign}"
    if sign == "\\":
        escape = text[place : place + 2]
        return f'a backslash begins an escape in JSON: double it, "\\{escape}"'
    if sign == "'":
        return "write texts in double quotes"
    if sign and _COMMENT.match(text[text.rfind("\n", 0, place) + 1 :]):
        return "remove the comments: JSON has none"
    return "a manifest is JSON; write a first one with `capsule init`"
