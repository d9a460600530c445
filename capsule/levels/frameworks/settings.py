"""Read what is in effect, one setting after the other, so that one that fails costs no other."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Callable, Protocol, runtime_checkable


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


@runtime_checkable
class KeepsSwitches(Protocol):
    """Interface of frameworks whose switches follow from the dtype."""

    @property
    def switches(self) -> MutableMapping[str, Any]:
        """Return the switches within `Framework.arithmetic`, by dtype; the caller clears them.

        A switch that was on at the end of one of several scopes counts as on.
        """
