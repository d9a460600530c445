"""Read a layer once: its blob's digest, its content's, and what it changes in the tree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from capsule.digest import Digest
from capsule.errors import DamagedError
from capsule.image.allowance import Allowance
from capsule.image.compression import PIECE_BYTES, Source, copy, decompress, find_method
from capsule.image.tars import Entry, TarReader
from capsule.image.tree import Node, Tree

_WHITEOUT, _OPAQUE = b".wh.", b".wh..wh..opq"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Digests and size of a layer that was read.

    Attributes:
        digest: Digest of the blob.
        size_bytes: Size of the blob.
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
        tree: Tree of the layers below.
        number: Number of the layer, from 1.
        kind: Its media type, None where nothing states one.
        allowance: Limit on the unpacked bytes of the image.
        where: The image, for messages.

    Raises:
        DamagedError: It is no layer, or unpacks without end.
    """
    source = _Source(stream, kind, allowance, where)
    reader = TarReader(source.pull, source.skip, where=where)
    for entry in reader:
        allowance.take_file()
        _place(tree, entry, reader, number, where)
    source.drain(number)
    return source.sum_up()


class _Source(Source):
    """A blob as it is unpacked, both sides hashed."""

    def __init__(
        self, stream: BinaryIO, kind: str | None, allowance: Allowance, where: str
    ) -> None:
        self._stream, self._allowance, self._where = stream, allowance, where
        self._packed, self._plain = hashlib.sha256(), hashlib.sha256()
        self._packed_bytes = self._plain_bytes = 0
        super().__init__(self._observe(unpack(self._read, kind, where)))

    def drain(self, number: int) -> None:
        """Read what is behind the end of the blob's content, which has to be nothing."""
        if self.pull(1) or self._read(1):
            raise DamagedError(f"layer {number} has data after its tar", where=self._where)

    def sum_up(self) -> Seen:
        return Seen(
            digest=Digest(hex=self._packed.hexdigest()),
            size_bytes=self._packed_bytes,
            diff_id=Digest(hex=self._plain.hexdigest()),
            tar_bytes=self._plain_bytes,
        )

    def _observe(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._allowance.take(len(piece))
            self._plain.update(piece)
            self._plain_bytes += len(piece)
            yield piece

    def _read(self, count: int) -> bytes:
        piece = self._stream.read(count)
        self._packed.update(piece)
        self._packed_bytes += len(piece)
        return piece


def unpack(read: Callable[[int], bytes], kind: str | None, where: str) -> Iterator[bytes]:
    """Return the content of a blob, in pieces.

    Args:
        read: Gives its next bytes.
        kind: Its media type, which has to say truly how it is packed; None where there is none.
        where: The image, for messages.

    Raises:
        DamagedError: It is packed otherwise than its media type says, or not as its first bytes do.
    """
    start = read(PIECE_BYTES)
    method = find_method(start)
    packed = method if method in ("gzip", "zstd") else None
    if kind is not None and kind.rpartition("+")[2].rpartition(".")[2] != (packed or "tar"):
        raise DamagedError(
            f"a layer has the media type {kind}, but is"
            f" {f'compressed with {packed}' if packed else 'an uncompressed tar'}",
            where=where,
        )
    whole = Source(chain((start,), copy(read))).pull
    return copy(whole) if packed is None else decompress(whole, packed, where=where)


def _show(path: bytes) -> str:
    return repr(path[:100].decode(errors="replace"))


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
            raise DamagedError(
                f"layer {number} has the whiteout {_show(entry.path)}, which names no file",
                where=where,
            )
        tree.remove(b"/".join((folder, hidden)), layer=number, where=where)
    elif entry.kind == "h":
        first = tree.find(entry.target, where=where)
        if first is None or first.kind not in "flx":
            raise DamagedError(
                f"layer {number}: the hard link {_show(entry.path)} points to the missing file"
                f" {_show(entry.target)}",
                where=where,
            )
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
