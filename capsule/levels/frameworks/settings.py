"""Read what is in effect, one setting after the other, so that one that fails costs no other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable


def read(readers: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Return settings as `Framework.settings` does, some of which may be unreadable.

    >>> read({"threads": lambda: 2, "cache": lambda: [][0]})
    {'threads': 2, 'cache': None, 'missing': {'cache': 'IndexError: list index out of range'}}
    """
    settings: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, reader in readers.items():
        try:
            settings[name] = reader()
        except Exception as error:
            settings[name] = None
            missing[name] = f"{type(error).__name__}: {error}"
    return {**settings, "missing": missing}
