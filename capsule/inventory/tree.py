"""Read a machine's files below any root, and never lose the reason why one could not be read.

Readers build plain nested values whose leaves may be `Unread`; `settle` turns those into null and
a table of reasons, so that no reader has to carry the table along.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from capsule import schema
from capsule.jsons import Json

Reason = Literal["absent", "not permitted", "tool missing"]


@dataclass(frozen=True, kw_only=True)
class Unread:
    """A field without a value, and why."""

    reason: Reason
    detail: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}"


# what a reader builds: JSON with unread leaves
Fact: TypeAlias = "Mapping[str, Fact] | Sequence[Fact] | Unread | str | int | float | bool | None"


@dataclass(frozen=True, kw_only=True)
class Part:
    """Facts of one reader, by the way they are compared; leaves may be `Unread`.

    Attributes:
        identity: Which one it is: serials, addresses, names. Hashed and never compared.
        klass: What kind it is: model, counts, sizes, rates.
        state: How it is set: versions, governors, modes, limits.
        momentary: What it happened to be doing; differs between two looks at one machine.
    """

    identity: Mapping[str, Fact] = field(default_factory=dict)
    klass: Mapping[str, Fact] = field(default_factory=dict)
    state: Mapping[str, Fact] = field(default_factory=dict)
    momentary: Mapping[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True)
class Tree:
    """The `/proc`, `/sys` and `/etc` of this machine, or of another one recorded below `root`."""

    root: Path

    @property
    def live(self) -> bool:
        """Return whether this is the running machine, whose driver libraries can be asked too."""
        return self.root == Path("/")

    def raw(self, path: str) -> bytes | Unread:
        """Return the bytes of a file, or why there are none."""
        try:
            return (self.root / path).read_bytes()
        except OSError as error:
            return _why(error, path)

    def text(self, path: str) -> str | Unread:
        """Return a file's text without surrounding white space and NULs, or why there is none."""
        data = self.raw(path)
        if isinstance(data, Unread):
            return data
        text = data.decode("utf-8", "replace").strip("\0 \t\r\n")
        return text or Unread(reason="absent", detail=f"/{path} is empty")

    def number(self, path: str) -> int | Unread:
        """Return a file that holds one decimal integer, or why there is none."""
        return whole(self.text(path), f"/{path}")

    def fields(self, path: str, separator: str) -> dict[str, str] | Unread:
        """Return a file of `name<separator>value` lines; the first of two equal names stays."""
        text = self.text(path)
        if isinstance(text, Unread):
            return text
        fields: dict[str, str] = {}
        for line in text.splitlines():
            name, mark, value = line.partition(separator)
            if mark:
                fields.setdefault(name.strip(), value.strip())
        return fields

    def names(self, path: str) -> list[str]:
        """Return the sorted entries of a folder; none when it is not there or may not be listed."""
        try:
            return sorted(entry.name for entry in (self.root / path).iterdir())
        except OSError:
            return []

    def nothing(self, path: str, wanted: str) -> Unread:
        """Return why a folder gave no entry of the wanted kind."""
        try:
            next((self.root / path).iterdir(), None)
        except OSError as error:
            return _why(error, path)
        return Unread(reason="absent", detail=f"/{path} has no {wanted}")

    def has(self, path: str) -> bool:
        """Return whether something is there."""
        try:
            return (self.root / path).exists()
        except OSError:
            return False


def _why(error: OSError, path: str) -> Unread:
    if error.errno in (errno.EACCES, errno.EPERM):
        return Unread(reason="not permitted", detail=f"/{path}")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return Unread(reason="absent", detail=f"/{path}")
    # sysfs answers EINVAL for the speed of a link that is down, EIO or ENODEV for firmware faults
    return Unread(reason="absent", detail=f"/{path}: {error.strerror}")


def pick(fields: dict[str, str] | Unread, name: str, path: str) -> str | Unread:
    """Return one field of `Tree.fields`; its absence keeps the file's own reason when there is
    one.
    """
    if isinstance(fields, Unread):
        return fields
    return fields.get(name) or Unread(reason="absent", detail=f"/{path} has no {name!r}")


def whole(text: str | Unread, where: str) -> int | Unread:
    """Return the decimal integer that a text starts with, or why there is none.

    Args:
        text: `4096`, `64 kB`; an unread one stays unread.
        where: Its place in a reason.
    """
    if isinstance(text, Unread):
        return text
    try:
        return int(text.split()[0])
    except (ValueError, IndexError):
        return Unread(reason="absent", detail=f"{where} holds {text[:40]!r}, not a number")


def expand(ranges: str) -> list[int]:
    """Return the numbers of a kernel list.

    >>> expand("0-2,8")
    [0, 1, 2, 8]
    """
    numbers: list[int] = []
    for part in ranges.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (not last or last.isdecimal()):
            numbers.extend(range(int(first), int(last or first) + 1))
    return numbers


def compress(numbers: list[int]) -> str:
    """Return a kernel list of some numbers, the inverse of `expand`.

    >>> compress([0, 1, 2, 8])
    '0-2,8'
    """
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def settle(value: Fact, pointer: str, missing: dict[str, str]) -> Json:
    """Replace every `Unread` leaf by None and note its reason under its JSON pointer.

    Args:
        value: Nested dicts, lists and scalars.
        pointer: Where `value` will stand in the document.
        missing: Gets one entry for each unread leaf.
    """
    if isinstance(value, Unread):
        missing[pointer] = str(value)
        return None
    if isinstance(value, Mapping):
        return {
            name: settle(item, f"{pointer}{schema.pointer(name)}", missing)
            for name, item in value.items()
        }
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return [settle(item, f"{pointer}/{index}", missing) for index, item in enumerate(value)]
