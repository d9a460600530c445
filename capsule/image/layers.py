"""Read a layer once: its blob's digest, its content's, and what it changes in the tree."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from capsule.digest import Digest
from capsule.errors import DamagedError
from capsule.image.allowance import Allowance
from capsule.image.tars import Entry, TarReader
from capsule.image.tree import Node, Tree

_PIECE_BYTES = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_WHITEOUT, _OPAQUE = b".wh.", b".wh..wh..opq"
_WINDOW_BYTES = 1 << 27
_ZSTD_BYTES = 1024


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a layer was found to be.

    Attributes:
        digest: Of the blob.
        size_bytes: Of the blob.
        diff_id: Digest of the tar inside.
        tar_bytes: Size of that.
    """

    digest: Digest
    size_bytes: int
    diff_id: Digest
    tar_bytes: int


def apply(
    stream: BinaryIO,
    tree: Tree,
    *,
    number: int,
    kind: str | None,
    allowance: Allowance,
    where: str,
) -> Seen:
    """Lay a layer over a tree.

    Args:
        stream: The blob, from its beginning to its end.
        tree: Of the layers below.
        number: Of the layer, from 1.
        kind: Its media type, None where nothing states one.
        allowance: Of the image, for what comes out.
        where: The image, for messages.

    Raises:
        DamagedError: It is no layer, or unpacks without end.
    """
    source = _Source(stream, kind, allowance, where)
    reader = TarReader(source.pull, source.skip, where=where)
    for entry in reader:
        allowance.take_file()
        _place(tree, entry, reader, number, where)
    source.drain()
    return source.sum_up()


class _Source:
    """A blob as it is unpacked, both sides hashed."""

    def __init__(
        self, stream: BinaryIO, kind: str | None, allowance: Allowance, where: str
    ) -> None:
        self._stream, self._allowance, self._where = stream, allowance, where
        self._packed, self._plain = hashlib.sha256(), hashlib.sha256()
        self._packed_bytes = self._plain_bytes = 0
        self._pieces = unpack(self._read, kind, where)
        self._buffer = memoryview(b"")

    def pull(self, count: int) -> bytes:
        pieces = [self._buffer[:count]]
        self._buffer = self._buffer[count:]
        missing = count - len(pieces[0])
        while missing and (piece := memoryview(self._next())):
            pieces.append(piece[:missing])
            self._buffer = piece[missing:]
            missing -= len(pieces[-1])
        return b"".join(pieces)

    def skip(self, count: int) -> None:
        while count and (piece := self.pull(min(count, _PIECE_BYTES))):
            count -= len(piece)

    def drain(self) -> None:
        """Read what is behind the end of the blob's content, which has to be nothing."""
        if self._next() or self._read(1):
            raise DamagedError("a layer goes on behind its end", where=self._where)

    def sum_up(self) -> Seen:
        return Seen(
            digest=Digest(hex=self._packed.hexdigest()),
            size_bytes=self._packed_bytes,
            diff_id=Digest(hex=self._plain.hexdigest()),
            tar_bytes=self._plain_bytes,
        )

    def _next(self) -> bytes:
        piece = next(self._pieces, b"")
        self._allowance.take(len(piece))
        self._plain.update(piece)
        self._plain_bytes += len(piece)
        return piece

    def _read(self, count: int) -> bytes:
        piece = self._stream.read(count)
        self._packed.update(piece)
        self._packed_bytes += len(piece)
        return piece


def unpack(read: Callable[[int], bytes], kind: str | None, where: str) -> Iterator[bytes]:
    """The content of a blob, in pieces.

    Args:
        read: Gives its next bytes.
        kind: Its media type, which has to say truly how it is packed; None where there is none.
        where: The image, for messages.

    Raises:
        DamagedError: It is packed otherwise than its media type says, or not as its first bytes do.
    """
    start = read(_PIECE_BYTES)
    method = "gzip" if start.startswith(_GZIP) else "zstd" if start.startswith(_ZSTD) else "tar"
    if kind is not None and kind.rpartition("+")[2].rpartition(".")[2] != method:
        raise DamagedError(f"a layer of {kind} is {method}", where=where)
    if method == "gzip":
        return _gunzip(start, read, where)
    if method == "zstd":
        return _unzstd(start, read, where)
    return _plain(start, read)


def _plain(start: bytes, read: Callable[[int], bytes]) -> Iterator[bytes]:
    while start:
        yield start
        start = read(_PIECE_BYTES)


def _gunzip(data: bytes, read: Callable[[int], bytes], where: str) -> Iterator[bytes]:
    try:
        while data:
            # as many members as there are, one behind the other
            member = zlib.decompressobj(31)
            while not member.eof:
                if not data and not (data := read(_PIECE_BYTES)):
                    raise DamagedError("a layer is cut short", where=where)
                if piece := member.decompress(data, _PIECE_BYTES):
                    yield piece
                data = member.unconsumed_tail
            data = member.unused_data or read(_PIECE_BYTES)
    except zlib.error as error:
        raise DamagedError(f"a layer cannot be unpacked: {error}", where=where) from None


def _unzstd(data: bytes, read: Callable[[int], bytes], where: str) -> Iterator[bytes]:
    import zstandard

    try:
        while data:
            # as many frames as there are, one behind the other
            frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
            while not frame.eof:
                if not data and not (data := read(_ZSTD_BYTES)):
                    raise DamagedError("a layer is cut short", where=where)
                # it gives all that comes of a piece at once, so that it gets small ones
                piece, data = frame.decompress(data[:_ZSTD_BYTES]), data[_ZSTD_BYTES:]
                if piece:
                    yield piece
            data = frame.unused_data + data or read(_ZSTD_BYTES)
    except zstandard.ZstdError as error:
        raise DamagedError(f"a layer cannot be unpacked: {error}", where=where) from None


def _place(tree: Tree, entry: Entry, reader: TarReader, number: int, where: str) -> None:
    """Do to the tree what unpacking an entry does."""
    folder, _, name = entry.path.rstrip(b"/").rpartition(b"/")
    if name == _OPAQUE:
        tree.clear(folder, layer=number, where=where)
    elif name.startswith(_WHITEOUT):
        hidden = name.removeprefix(_WHITEOUT)
        if hidden.startswith(_WHITEOUT):
            # aufs's own, which no engine keeps
            return
        if hidden in (b"", b".", b".."):
            raise DamagedError("a layer takes away what has no name", where=where)
        tree.remove(b"/".join((folder, hidden)), layer=number, where=where)
    elif entry.kind == "h":
        first = tree.find(entry.target, where=where)
        if first is None or first.kind not in "flx":
            raise DamagedError("a layer has a further name of a file that is none", where=where)
        copy = Node(kind=first.kind, mode=first.mode, value=first.value, layer=number)
        tree.put(entry.path, copy, where=where)
    else:
        value = entry.target
        if entry.kind == "f":
            hasher = hashlib.sha256()
            for piece in reader.pieces():
                hasher.update(piece)
            value = hasher.hexdigest().encode()
        kind = entry.kind
        node = Node(kind=kind, mode=entry.mode, value=value if kind in "fl" else b"", layer=number)
        tree.put(entry.path, node, where=where)
