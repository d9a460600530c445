"""The fields of a job's document, each checked as it is taken."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NoReturn, Union

from .catalog import training

Scalar = Union[int, float, str]

_SHOWN = 80


class JobError(Exception):
    """A file that is no job, or a process that is none of its ranks; the message says why."""


class Fields:
    """The fields of a JSON object, each taken as what it must be."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise JobError(f"{path or 'the job'} is {_quote(value)}, expected an object")
        self._values: dict[str, object] = value
        self._path = path

    def where(self, name: str) -> str:
        """Return the place of a field in the document, for messages."""
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        """Return whether there is such a field."""
        return name in self._values

    def take(self, name: str) -> object:
        """Return the value of a field, whatever it is."""
        if name not in self._values:
            raise JobError(f"{self._path or 'the job'} lacks the field {name!r}")
        return self._values[name]

    def refuse(self, name: str, expected: str) -> NoReturn:
        """Say that a field is not what is due."""
        raise JobError(f"{self.where(name)} is {_quote(self._values[name])}, expected {expected}")

    def text(self, name: str) -> str:
        """Return a string."""
        value = self.take(name)
        return value if isinstance(value, str) else self.refuse(name, "a string")

    def choice(self, name: str, words: Sequence[str]) -> str:
        """Return one of some words."""
        value = self.text(name)
        return value if value in words else self.refuse(name, " or ".join(map(json.dumps, words)))

    def truth(self, name: str) -> bool:
        """True or false."""
        value = self.take(name)
        return value if isinstance(value, bool) else self.refuse(name, "true or false")

    def whole(self, name: str, least: int, most: int | None = None) -> int:
        """Return a whole number between two bounds, both allowed."""
        value = self.take(name)
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < least
            or (most is not None and value > most)
        ):
            end = "" if most is None else f" and <= {most}"
            self.refuse(name, f"a whole number >= {least}{end}")
        return value

    def array(self, name: str) -> list[object]:
        """Return a list of anything."""
        value = self.take(name)
        return value if isinstance(value, list) else self.refuse(name, "an array")

    def words(self, name: str) -> list[str]:
        """Return a list of strings."""
        values = self.array(name)
        strings = [value for value in values if isinstance(value, str)]
        return strings if len(strings) == len(values) else self.refuse(name, "a list of strings")

    def object(self, name: str) -> Fields:
        """Return the fields of an object."""
        return Fields(self.take(name), self.where(name))

    def number(self, name: str) -> float:
        """Return a number."""
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.refuse(name, "a number")
        return value

    def numbers(self, but: str) -> dict[str, float]:
        """Return all fields but one, each a number."""
        return {name: self.number(name) for name in self._values if name != but}

    def complete(self, numbers: tuple[training.Number, ...]) -> dict[str, float]:
        """Return all numbers of an optimizer or a schedule."""
        try:
            return training.complete(numbers, self._values)
        except ValueError as error:
            raise JobError(f"{self._path}: {error}") from None

    def milestones(self, schedule: str) -> tuple[int, ...]:
        """Return the milestones of a schedule."""
        try:
            return training.read_milestones(schedule, self._values.get("milestones"))
        except ValueError as error:
            raise JobError(f"{self._path}: {error}") from None

    def texts(self, name: str) -> dict[str, str]:
        """Return an object of strings."""
        fields = Fields(self.take(name), self.where(name))
        return {key: fields.text(key) for key in fields._values}

    def scalars(self, name: str) -> dict[str, Scalar]:
        """Return an object of numbers and strings."""
        fields = Fields(self.take(name), self.where(name))
        return {key: fields._scalar(key) for key in fields._values}

    def _scalar(self, name: str) -> Scalar:
        value = self.take(name)
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            self.refuse(name, "a number or a string")
        return value


def _quote(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
