"""Placeholders in a command's texts: `{seed}`, `{lr}`, `{data:mnist}`.

`{{seed}}` is the text `{seed}`; what is no name in braces (`{}`, `{print $1}`, `${HOME}`) stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_PLACEHOLDER = re.compile(r"(?<!\$)(\{)?\{([A-Za-z_][A-Za-z0-9_]*(?::[^{}\s]*)?)\}(?(1)\})")


def names(text: str) -> Iterator[str]:
    """Return the names of its placeholders.

    >>> list(names("--lr={lr} {{seed}} ${HOME} {print $1} {data:mnist}"))
    ['lr', 'data:mnist']
    """
    return (match[2] for match in _PLACEHOLDER.finditer(text) if match[1] is None)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return the text with its placeholders replaced; what is put in is not looked into again.

    Raises:
        KeyError: A placeholder has no value.

    >>> fill("{{lr}}={lr}", {"lr": "{seed}"})
    '{lr}={seed}'
    """
    return _PLACEHOLDER.sub(
        lambda match: match[0][1:-1] if match[1] is not None else values[match[2]], text
    )
