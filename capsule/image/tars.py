"""Read untrusted tar files: in one pass, in bounded memory, and as every engine reads them.

What readers take differently is refused rather than guessed: headers that hold for all files after
them, bytes behind the end and, in images, sparse files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from capsule.errors import DamagedError

BLOCK_BYTES = 512
_PIECE_BYTES = 1 << 20
_ZEROS = bytes(BLOCK_BYTES)
# of the headers with names and other facts in front of a file's own header
_MOST_META_BYTES = 1 << 20
_MOST_META_HEADERS = 8
_MOST_FIELDS = 64
_MOST_DIGITS = 20
# GNU tar ends a file with 10 KiB of zeros; large blocking factors make it more
_MOST_END_BYTES = 16 << 20
_FILES, _FOLDER, _HARD_LINK, _LINK = (b"0", b"\0", b"7"), b"5", b"1", b"2"
_SPECIAL = (b"3", b"4", b"6")
_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL = b"L", b"K", b"x", b"g"
_META = (_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL)
_MEANING = (b"path", b"linkpath", b"size")
# a file with holes: of GNU tar's own format, and of the pax format that bsdtar writes too
_SPARSE = b"S"
_SPARSE_FIELD = b"GNU.sparse."
_MAP_PLACE, _MAP_SEGMENTS, _MAP_EXTENDS, _MAP_SIZE = 386, 4, 482, slice(483, 495)
_EXTENSION_SEGMENTS, _EXTENSION_EXTENDS = 21, 504
_SEGMENT_BYTES = 24
_MOST_MAP_BYTES = 256 << 10


def is_header(block: bytes) -> bool:
    """Return whether a tar may begin with this block: its checksum is right, or all is zero."""
    if len(block) < BLOCK_BYTES or block == _ZEROS:
        return block == _ZEROS
    stated = block[148:156]
    total = sum(block) - sum(stated) + len(stated) * ord(" ")
    # once computed with signed bytes, which differs in names that are not ASCII
    negative = 0 if block.isascii() else sum(byte > 127 for byte in block)
    return _number(stated) in (total, total - 256 * negative)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A header of a tar.

    Attributes:
        kind: `f`, `d`, `l` for a link, `h` for a further name of a file, `x` for a device or pipe.
        path: As it is written.
        mode: Permissions.
        size: Size of the content in bytes.
        target: Target of a link or a further name.
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
        reads_sparse: True if files may be stored without their holes.
    """

    def __init__(
        self,
        pull: Callable[[int], bytes],
        skip: Callable[[int], None],
        *,
        where: str,
        reads_sparse: bool = False,
    ) -> None:
        self._pull, self._skip, self._where = pull, skip, where
        self._reads_sparse = reads_sparse
        self._left = self._padding = self._size = 0
        self._segments: Sequence[tuple[int, int]] = ()

    def __iter__(self) -> Iterator[Entry]:
        while (entry := self._next()) is not None:
            yield entry

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes of the last entry."""
        place = 0
        for offset, length in self._segments:
            yield from _zeros(offset - place)
            place = offset + length
            after = self._left - length
            while self._left > after:
                piece = self._take(min(self._left - after, _PIECE_BYTES))
                self._left -= len(piece)
                yield piece
        yield from _zeros(self._size - place)

    def _next(self) -> Entry | None:
        """Return the next entry with what stands in front of its header; None at the end.

        Raises:
            DamagedError: What comes is no header, or one that readers understand differently.
        """
        names: dict[bytes, bytes] = {}
        headers = meta_bytes = 0
        while True:
            self._skip(self._left + self._padding)
            self._left = self._padding = 0
            header = self._pull(BLOCK_BYTES)
            if header in (_ZEROS, b""):
                if names:
                    raise self._damage("truncated between the name of a file and the file's header")
                self._end()
                return None
            kind, entry = self._parse(header)
            if kind in _META:
                headers, meta_bytes = headers + 1, meta_bytes + entry.size
                if headers > _MOST_META_HEADERS:
                    raise self._damage(f"a file has more than {_MOST_META_HEADERS} headers")
                if meta_bytes > _MOST_META_BYTES:
                    raise self._damage(f"the names of a file exceed {_MOST_META_BYTES >> 20} MiB")
                names |= self._meta(kind, entry)
                continue
            entry = self._rename(entry, names)
            self._left, self._padding = entry.size, -entry.size % BLOCK_BYTES
            return self._lay_out(kind, header, entry, names)

    def _lay_out(
        self, kind: bytes, header: bytes, entry: Entry, names: Mapping[bytes, bytes]
    ) -> Entry:
        """Note where the bytes that are stored belong in the file; what is between them is zero."""
        sparse = {
            name.removeprefix(_SPARSE_FIELD): value
            for name, value in names.items()
            if name.startswith(_SPARSE_FIELD)
        }
        if kind == _SPARSE:
            size, segments = self._read_old_map(header)
        elif sparse:
            version = sparse.get(b"major"), sparse.get(b"minor")
            if version != (b"1", b"0") or entry.kind != "f":
                form = ".".join(_text(one or b"none") for one in version)
                raise self._damage(
                    f"the sparse entry {_show(entry.path)} has GNU format {form}, expected a file"
                    " in GNU format 1.0"
                )
            size, segments = self._decimal(sparse.get(b"realsize", b"")), self._read_map()
            entry = replace(entry, path=sparse.get(b"name", entry.path))
        else:
            self._size, self._segments = entry.size, ((0, entry.size),)
            return entry
        place = 0
        for offset, length in segments:
            if offset < place or offset + length > size:
                raise self._damage(
                    f"a part of the sparse file {_show(entry.path)} has bytes {offset} to"
                    f" {offset + length}, expected a part within bytes {place} to {size}"
                )
            place = offset + length
        if sum(length for _, length in segments) != self._left:
            found = sum(length for _, length in segments)
            raise self._damage(
                f"the parts of the sparse file {_show(entry.path)} have {found} bytes, expected"
                f" {self._left}"
            )
        self._size, self._segments = size, segments
        return replace(entry, size=size)

    def _read_old_map(self, header: bytes) -> tuple[int, Sequence[tuple[int, int]]]:
        size = _number(header[_MAP_SIZE])
        segments = self._segments_of(header, _MAP_PLACE, _MAP_SEGMENTS)
        extends, read_bytes = header[_MAP_EXTENDS], 0
        while extends:
            block = self._take(BLOCK_BYTES)
            read_bytes += BLOCK_BYTES
            if read_bytes > _MOST_MAP_BYTES:
                raise self._damage(
                    f"the list of a sparse file's parts exceeds {_MOST_MAP_BYTES >> 10} KiB"
                )
            segments += self._segments_of(block, 0, _EXTENSION_SEGMENTS)
            extends = block[_EXTENSION_EXTENDS]
        if size is None:
            raise self._damage(
                f"the header of a sparse file has the invalid size {_show(header[_MAP_SIZE])}"
            )
        return size, segments

    def _segments_of(self, block: bytes, place: int, count: int) -> list[tuple[int, int]]:
        segments = []
        for at in range(place, place + count * _SEGMENT_BYTES, _SEGMENT_BYTES):
            fields = block[at : at + 12], block[at + 12 : at + 24]
            offset, length = map(_number, fields)
            if offset is None or length is None:
                found = " and ".join(map(_show, fields))
                raise self._damage(
                    f"a part of a sparse file has the offset and length {found}, expected numbers"
                )
            if length:
                segments.append((offset, length))
        return segments

    def _read_map(self) -> Sequence[tuple[int, int]]:
        """Return the list in decimal numbers, a line each, that stands in front of the stored
        bytes.
        """
        text, lines = b"", 1
        while text.count(b"\n") < lines:
            if self._left < BLOCK_BYTES:
                raise self._damage("the list of a sparse file's parts is truncated")
            if len(text) >= _MOST_MAP_BYTES:
                raise self._damage(
                    f"the list of a sparse file's parts exceeds {_MOST_MAP_BYTES >> 10} KiB"
                )
            text += self._take(BLOCK_BYTES)
            self._left -= BLOCK_BYTES
            if lines == 1 and b"\n" in text:
                lines += 2 * self._decimal(text.split(b"\n", 1)[0])
        numbers = [self._decimal(line) for line in text.split(b"\n")[1:lines]]
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return [(offset, length) for offset, length in pairs if length]

    def _decimal(self, text: bytes) -> int:
        if not (text.isdigit() and len(text) < _MOST_DIGITS):
            shown = text[:_MOST_DIGITS].decode(errors="replace")
            raise self._damage(
                f"expected a number of at most {_MOST_DIGITS - 1} digits, found {shown!r}"
            )
        return int(text)

    def _parse(self, header: bytes) -> tuple[bytes, Entry]:
        if len(header) < BLOCK_BYTES:
            raise self._damage("it is truncated")
        if not is_header(header):
            name = header[:100].split(b"\0")[0]
            raise self._damage(
                f"wrong checksum {_show(header[148:156])} of the header of {_show(name)}"
            )
        kind, name = header[156:157], header[:100].split(b"\0")[0]
        if header[257:263] == b"ustar\0" and (prefix := header[345:500].split(b"\0")[0]):
            name = prefix + b"/" + name
        size, mode = _number(header[124:136]), _number(header[100:108])
        if size is None or size < 0 or mode is None:
            found = f"size {_show(header[124:136])} and mode {_show(header[100:108])}"
            raise self._damage(
                f"the header of {_show(name)} has {found}, expected octal or binary numbers"
            )
        if kind in _FILES or (kind == _SPARSE and self._reads_sparse):
            what = "f"
        elif kind in _SPECIAL or kind in _META:
            what = "x"
        else:
            what = {_FOLDER: "d", _HARD_LINK: "h", _LINK: "l"}.get(kind, "")
        if not what:
            raise self._damage(f"the entry {_show(name)} has the unsupported type {kind!r}")
        holds = kind in _META or what == "f"
        return kind, Entry(
            kind=what,
            path=name,
            mode=mode,
            size=size if holds else 0,
            target=header[157:257].split(b"\0")[0],
        )

    def _meta(self, kind: bytes, entry: Entry) -> dict[bytes, bytes]:
        """Parse an entry that describes the next one."""
        data = self._take(entry.size)
        self._skip(-entry.size % BLOCK_BYTES)
        if kind in (_LONG_NAME, _LONG_LINK):
            name = b"path" if kind == _LONG_NAME else b"linkpath"
            return {name: data.split(b"\0")[0]}
        fields = self._pax(data)
        sparse = {name for name in fields if name.startswith(_SPARSE_FIELD)}
        if sparse and not self._reads_sparse:
            path = fields.get(_SPARSE_FIELD + b"name")
            file = "a file" if path is None else f"the file {_show(path)}"
            raise self._damage(f"{file} is stored as a sparse file, which capsule does not support")
        meant = {name: fields[name] for name in (*_MEANING, *sparse) if name in fields}
        if kind == _PAX_GLOBAL and meant:
            names = ", ".join(map(_text, meant))
            raise self._damage(
                f"a global header sets {names} of all files, which capsule does not support"
            )
        return meant

    def _pax(self, data: bytes) -> dict[bytes, bytes]:
        """Return the fields of a header in words: `LENGTH NAME=VALUE` and a line's end, each."""
        fields: dict[bytes, bytes] = {}
        place = count = 0
        while place < len(data):
            count += 1
            if count > _MOST_FIELDS:
                raise self._damage(f"an extended header has more than {_MOST_FIELDS} fields")
            text, space, _ = data[place : place + 20].partition(b" ")
            length = int(text) if space and text.isdigit() else 0
            name, equals, value = data[place + len(text) + 1 : place + length].partition(b"=")
            if not equals or not value.endswith(b"\n") or place + length > len(data):
                shown = data[place : place + 40].decode(errors="replace")
                raise self._damage(
                    f"expected LENGTH NAME=VALUE in an extended header, found {shown!r}"
                )
            fields[name] = value[:-1]
            place += length
        return fields

    def _rename(self, entry: Entry, names: dict[bytes, bytes]) -> Entry:
        size = names.get(b"size")
        changed = replace(
            entry,
            path=names.get(b"path", entry.path),
            target=names.get(b"linkpath", entry.target),
            size=entry.size if size is None or entry.kind != "f" else self._decimal(size),
        )
        if changed.kind == "f" and changed.path.endswith(b"/"):
            # long ago, a name alone told a folder
            changed = replace(changed, kind="d")
        if b"\0" in changed.path or b"\0" in changed.target:
            raise self._damage("a name contains NUL")
        return changed

    def _take(self, count: int) -> bytes:
        data = self._pull(count)
        if len(data) < count:
            raise self._damage("it is truncated")
        return data

    def _end(self) -> None:
        count = 0
        while piece := self._pull(_PIECE_BYTES):
            count += len(piece)
            if count > _MOST_END_BYTES:
                raise self._damage(f"more than {_MOST_END_BYTES >> 20} MiB follow the end marker")
            if piece.count(0) != len(piece):
                raise self._damage(
                    "data follows the end marker, and other programs may read this data as files"
                )

    def _damage(self, what: str) -> DamagedError:
        return DamagedError(f"the tar is damaged: {what}", where=self._where)


def _text(data: bytes) -> str:
    return data[:100].decode(errors="replace")


def _show(data: bytes) -> str:
    return repr(_text(data))


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield bytes(min(count, _PIECE_BYTES))
        count -= _PIECE_BYTES


def _number(field: bytes) -> int | None:
    """Return an octal number, or a binary one where the first bit says so."""
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ((1 << (8 * len(field) - 1)) - 1)
    text = field.split(b"\0")[0].strip()
    if not text:
        return 0
    try:
        return int(text, 8)
    except ValueError:
        return None
