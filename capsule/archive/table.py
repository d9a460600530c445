"""Memory-compact mapping keyed by sorted file names."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from typing import TypeVar, overload

from capsule.digest import Digest

_Value = TypeVar("_Value")
_DIGEST_BYTES = 32


class _Sorted(Mapping[str, _Value]):
    """Values by sorted names, gone through without looking up each."""

    @abstractmethod
    def pairs(self) -> Iterator[tuple[str, _Value]]:
        """Return each name with its value."""

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs())

    def items(self) -> ItemsView[str, _Value]:
        return _Items(self)

    def values(self) -> ValuesView[_Value]:
        return _Values(self)


class _Items(ItemsView[str, _Value]):
    def __init__(self, table: _Sorted[_Value]) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[tuple[str, _Value]]:
        return self._table.pairs()


class _Values(ValuesView[_Value]):
    def __init__(self, table: _Sorted[_Value]) -> None:
        super().__init__(table)
        self._table = table

    def __iter__(self) -> Iterator[_Value]:
        return (value for _, value in self._table.pairs())


class Table(_Sorted[_Value]):
    """Values by names.

    Args:
        names: Sorted, none twice.
        values: That of each.
    """

    def __init__(self, names: Sequence[str], values: Sequence[_Value]) -> None:
        self._names = names
        self._values = values

    def place(self, name: object) -> int:
        """Return the position of a name among the sorted names.

        Raises:
            KeyError: It is none of them.
        """
        if isinstance(name, str):
            place = bisect_left(self._names, name)
            if place < len(self._names) and self._names[place] == name:
                return place
        raise KeyError(name)

    def pairs(self) -> Iterator[tuple[str, _Value]]:
        """Return each name with its value."""
        return zip(self._names, self._values, strict=True)

    def __getitem__(self, name: str) -> _Value:
        return self._values[self.place(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Below(_Sorted[_Value]):
    """The part of sorted names that lies below a folder, without it.

    Args:
        whole: Values by sorted names.
        folder: It ends in a slash.
    """

    def __init__(self, whole: Mapping[str, _Value], folder: str) -> None:
        self._whole = whole
        self._folder = folder
        self._count = sum(name.startswith(folder) for name in whole)

    def pairs(self) -> Iterator[tuple[str, _Value]]:
        """Yield each name with its value."""
        folder = self._folder
        for name, value in self._whole.items():
            if name.startswith(folder):
                yield name.removeprefix(folder), value

    def __getitem__(self, name: str) -> _Value:
        return self._whole[self._folder + name]

    def __iter__(self) -> Iterator[str]:
        folder = self._folder
        return (name.removeprefix(folder) for name in self._whole if name.startswith(folder))

    def __len__(self) -> int:
        return self._count


class Digests(Sequence[Digest]):
    """Digests of 32 bytes, one behind the other."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def append(self, digest: bytes) -> None:
        """Put another, as bytes, behind them."""
        self._bytes += digest

    def __iter__(self) -> Iterator[Digest]:
        for start in range(0, len(self._bytes), _DIGEST_BYTES):
            yield Digest(hex=self._bytes[start : start + _DIGEST_BYTES].hex())

    def __len__(self) -> int:
        return len(self._bytes) // _DIGEST_BYTES

    @overload
    def __getitem__(self, place: int) -> Digest: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Digest]: ...
    def __getitem__(self, place: int | slice) -> Digest | Sequence[Digest]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(len(self)))]
        start = range(len(self))[place] * _DIGEST_BYTES
        return Digest(hex=self._bytes[start : start + _DIGEST_BYTES].hex())
