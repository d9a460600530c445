"""Memory-compact plans: equal parts of process starts are stored once."""

from __future__ import annotations

from sys import intern
from typing import Any, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_MOST = 4096


class Sharing:
    """Reader of a plan's groups that shares their equal parts, before any schema check.

    A hundred thousand trials have their strings in common with others, or with an attempt and
    samples, and their seeds and parameters with others.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._parameters: dict[str, dict[str, Any]] = {}

    def __call__(self, group: Any) -> None:
        """Put what was there before into the place of what is equal."""
        if not isinstance(group, dict):
            return
        self._hold(group)
        trials = group.get("trials")
        if not isinstance(trials, list):
            return
        group["trials"] = list(trials)  # as long as it is, where the parser left some room
        for trial in trials:
            if isinstance(trial, dict):
                self._hold(trial)
                parameters = trial.get("parameters")
                if isinstance(parameters, dict):
                    # unlike the values, their texts are different for 1, 1.0 and true
                    trial["parameters"] = _share(self._parameters, repr(parameters), parameters)

    def _hold(self, value: dict[str, Any]) -> None:
        for name, member in value.items():
            if type(member) is str:
                value[name] = intern(member)
            elif type(member) is int:
                value[name] = _share(self._numbers, member, member)


def _share(shared: dict[_Key, _Value], key: _Key, value: _Value) -> _Value:
    if len(shared) >= _MOST:
        shared.clear()
    return shared.setdefault(key, value)
