"""Read tar files of strangers: in one pass, in bounded memory, and as every engine reads them.

What readers take differently is refused rather than guessed: sparse files, headers that hold for
all files after them, bytes behind the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from capsule.errors import DamagedError

_BLOCK_BYTES = 512
_PIECE_BYTES = 1 << 20
_ZEROS = bytes(_BLOCK_BYTES)
# of a name that stands in front of its file's header
_MOST_META_BYTES = 1 << 20
_FILES, _FOLDER, _HARD_LINK, _LINK = (b"0", b"\0", b"7"), b"5", b"1", b"2"
_SPECIAL = (b"3", b"4", b"6")
_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL = b"L", b"K", b"x", b"g"
_META = (_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL)
_MEANING = (b"path", b"linkpath", b"size")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A header of a tar.

    Attributes:
        kind: `f`, `d`, `l` for a link, `h` for a further name of a file, `x` for a device or pipe.
        path: As it is written.
        mode: Permissions.
        size: Bytes that follow.
        target: Of a link or a further name.
    """

    kind: str
    path: bytes
    mode: int
    size: int
    target: bytes


class TarReader:
    """The entries of a tar; the bytes of each can be read before the next is asked for.

    Args:
        pull: Gives so many bytes, fewer at the end alone.
        skip: Passes over so many bytes.
        where: The file, for messages.
    """

    def __init__(
        self, pull: Callable[[int], bytes], skip: Callable[[int], None], *, where: str
    ) -> None:
        self._pull, self._skip, self._where = pull, skip, where
        self._left = self._padding = 0

    def __iter__(self) -> Iterator[Entry]:
        while (entry := self._next()) is not None:
            yield entry

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the last entry."""
        while self._left:
            piece = self._take(min(self._left, _PIECE_BYTES))
            self._left -= len(piece)
            yield piece

    def _next(self) -> Entry | None:
        """The next entry with what stands in front of its header; None at the end.

        Raises:
            DamagedError: What comes is no header, or one that readers understand differently.
        """
        names: dict[bytes, bytes] = {}
        while True:
            self._skip(self._left + self._padding)
            self._left = self._padding = 0
            header = self._pull(_BLOCK_BYTES)
            if header in (_ZEROS, b""):
                if names:
                    raise self._damage("it ends behind a name")
                self._end()
                return None
            kind, entry = self._parse(header)
            if kind in _META:
                names |= self._meta(kind, entry)
                continue
            entry = self._rename(entry, names)
            self._left, self._padding = entry.size, -entry.size % _BLOCK_BYTES
            return entry

    def _parse(self, header: bytes) -> tuple[bytes, Entry]:
        if len(header) < _BLOCK_BYTES:
            raise self._damage("it is cut short")
        if _number(header[148:156]) != sum(header) - sum(header[148:156]) + 8 * 32:
            raise self._damage("a header has another checksum than it says")
        kind, name = header[156:157], header[:100].split(b"\0")[0]
        if header[257:263] == b"ustar\0" and (prefix := header[345:500].split(b"\0")[0]):
            name = prefix + b"/" + name
        size, mode = _number(header[124:136]), _number(header[100:108])
        if size is None or size < 0 or mode is None:
            raise self._damage("a header has no size or mode")
        if kind in _FILES:
            # long ago, a name alone told a folder
            what = "d" if name.endswith(b"/") else "f"
        elif kind in _SPECIAL or kind in _META:
            what = "x"
        else:
            what = {_FOLDER: "d", _HARD_LINK: "h", _LINK: "l"}.get(kind, "")
        if not what:
            raise self._damage(f"an entry is of the kind {kind!r}, which is not read here")
        holds = kind in _FILES or kind in _META
        return kind, Entry(
            kind=what,
            path=name,
            mode=mode,
            size=size if holds else 0,
            target=header[157:257].split(b"\0")[0],
        )

    def _meta(self, kind: bytes, entry: Entry) -> dict[bytes, bytes]:
        """What an entry says of the one that follows."""
        if entry.size > _MOST_META_BYTES:
            raise self._damage(f"a name takes more than {_MOST_META_BYTES} bytes")
        data = self._take(entry.size)
        self._skip(-entry.size % _BLOCK_BYTES)
        if kind in (_LONG_NAME, _LONG_LINK):
            name = b"path" if kind == _LONG_NAME else b"linkpath"
            return {name: data.split(b"\0")[0]}
        fields = self._pax(data)
        if any(name.startswith(b"GNU.sparse") for name in fields):
            raise self._damage("a file is stored as a sparse one, which is not read here")
        meant = {name: fields[name] for name in _MEANING if name in fields}
        if kind == _PAX_GLOBAL and meant:
            raise self._damage("a header names or sizes all files behind it")
        return meant

    def _pax(self, data: bytes) -> dict[bytes, bytes]:
        """The fields of a header in words: `LENGTH NAME=VALUE` and a line's end, each."""
        fields, place = {}, 0
        while place < len(data):
            text, space, _ = data[place : place + 20].partition(b" ")
            length = int(text) if space and text.isdigit() else 0
            name, equals, value = data[place + len(text) + 1 : place + length].partition(b"=")
            if not equals or not value.endswith(b"\n") or place + length > len(data):
                raise self._damage("a header in words is none")
            fields[name] = value[:-1]
            place += length
        return fields

    def _rename(self, entry: Entry, names: dict[bytes, bytes]) -> Entry:
        size = names.get(b"size")
        if size is not None and not (size.isdigit() and len(size) < 20):
            raise self._damage("a header has no size")
        changed = replace(
            entry,
            path=names.get(b"path", entry.path),
            target=names.get(b"linkpath", entry.target),
            size=int(size) if size is not None and entry.kind == "f" else entry.size,
        )
        if b"\0" in changed.path or b"\0" in changed.target:
            raise self._damage("a name holds NUL")
        return changed

    def _take(self, count: int) -> bytes:
        data = self._pull(count)
        if len(data) < count:
            raise self._damage("it is cut short")
        return data

    def _end(self) -> None:
        while piece := self._pull(_PIECE_BYTES):
            if piece.count(0) != len(piece):
                raise self._damage("there are bytes behind its end, which some readers would take")

    def _damage(self, what: str) -> DamagedError:
        return DamagedError(f"the tar is damaged: {what}", where=self._where)


def _number(field: bytes) -> int | None:
    """An octal number, or a binary one where the first bit says so."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
    text = field.split(b"\0")[0].strip()
    if not text:
        return 0
    try:
        return int(text, 8)
    except ValueError:
        return None
