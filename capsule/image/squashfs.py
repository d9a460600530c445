"""Read a squashfs 4.0 file system for its tree; nothing of it is mounted, unpacked or executed.

The format is that of the kernel's Documentation/filesystems/squashfs.rst. Each position and size in
it is whatever somebody wrote: all are checked before they are used, and what comes out is bounded.
"""

from __future__ import annotations

import hashlib
import lzma
import struct
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from capsule.errors import CannotRunError, DamagedError
from capsule.image.allowance import Allowance
from capsule.image.tree import Node, Tree

_SUPERBLOCK = struct.Struct("<IIIIIHHHHHHQQQQQQQQ")
_MAGIC = 0x73717368
_METADATA_BYTES = 8192
_MAX_BLOCK_BYTES = 1 << 20
_KEPT_FRAGMENTS = 32
_KEPT_METADATA = 4096
_NO_FRAGMENT = 0xFFFFFFFF
_PLAIN_BLOCK = 1 << 24
_FRAGMENT = struct.Struct("<QII")
_DIRECTORY_HEADER = struct.Struct("<III")
_ENTRY = struct.Struct("<HhHH")
_MAX_NAME = 256
_COMPRESSORS = {1: "gzip", 2: "lzma", 3: "lzo", 4: "xz", 5: "lz4", 6: "zstd"}
_FOLDERS, _FILES, _LINKS = (1, 8), (2, 9), (3, 10)


@dataclass(frozen=True, kw_only=True)
class _Inode:
    """One inode: kind and mode, and where its bytes lie."""

    kind: int
    mode: int
    start: int = 0
    size: int = 0
    offset: int = 0
    fragment: int = _NO_FRAGMENT
    blocks: tuple[int, ...] = ()
    target: bytes = b""


def read(stream: BinaryIO, *, start: int, size: int, where: str) -> Tree:
    """Return the tree of a squashfs inside a file.

    Args:
        stream: Seekable.
        start: Where the file system begins in it, in bytes.
        size: How long it is, in bytes.
        where: The file, for messages.

    Raises:
        DamagedError: Not such a file system, or it contradicts itself, or unpacks without end.
        CannotRunError: It is packed in a way that is not read here.
    """
    try:
        return _Reader(stream, start, size, where).tree()
    except (struct.error, IndexError, zlib.error, lzma.LZMAError) as error:
        raise DamagedError(f"the squashfs is damaged: {error}", where=where) from None


class _Reader:
    def __init__(self, stream: BinaryIO, start: int, size: int, where: str) -> None:
        self._stream, self._start, self._size, self._where = stream, start, size, where
        fields = _SUPERBLOCK.unpack(self._bytes(0, _SUPERBLOCK.size))
        magic, _, _, self._block_bytes, self._fragments, compressor = fields[:6]
        if magic != _MAGIC or fields[9:11] != (4, 0):
            found = f"the first bytes {magic.to_bytes(4, 'little').hex()}"
            if magic == _MAGIC:
                found = f"version {fields[9]}.{fields[10]}"
            raise DamagedError(
                f"expected a squashfs 4.0 as root file system, found {found}", where=where
            )
        if not 4096 <= self._block_bytes <= _MAX_BLOCK_BYTES:
            raise self._damage(
                f"invalid block size of {self._block_bytes} bytes, expected 4096 to"
                f" {_MAX_BLOCK_BYTES}"
            )
        self._root, _, _, _, self._inodes, self._directories, self._fragment_table = fields[11:18]
        self._unpack = _decompressor(compressor, where)
        self._allowance = Allowance(size, where=where)
        self._metadata: OrderedDict[int, tuple[bytes, int]] = OrderedDict()
        self._fragment_blocks: OrderedDict[int, bytes] = OrderedDict()
        # a file of several names is read once
        self._files: dict[int, tuple[int, bytes]] = {}

    def tree(self) -> Tree:
        tree = Tree()
        entered: set[int] = set()
        waiting = [(self._root, tree.root)]
        while waiting:
            reference, folder = waiting.pop()
            if reference in entered:
                raise self._damage(f"the folder of inode {reference} has two parent folders")
            entered.add(reference)
            for name, below in self._list(self._inode(reference)):
                self._allowance.take_file()
                node = self._node(below)
                if node is None:
                    continue
                if name in folder.children:
                    shown = name.decode(errors="replace")
                    raise self._damage(f"a folder contains the name {shown!r} twice")
                folder.children[name] = node
                if node.kind == "d":
                    waiting.append((below, node))
        return tree

    def _node(self, reference: int) -> Node | None:
        """Return a file, link or folder; None for what no tree counts."""
        if reference not in self._files:
            inode = self._inode(reference)
            if inode.kind in _FOLDERS:
                return Node(kind="d", mode=inode.mode)
            if inode.kind in _LINKS:
                return Node(kind="l", value=inode.target)
            if inode.kind not in _FILES:
                return None
            self._files[reference] = inode.mode, self._hash(inode)
        mode, value = self._files[reference]
        return Node(kind="f", mode=mode, value=value)

    def _inode(self, reference: int) -> _Inode:
        data = self._read_metadata(self._inodes + (reference >> 16), reference & 0xFFFF)
        kind, mode, *_ = struct.unpack("<HHHHII", data(16))
        if kind == 1:
            start, _, size, offset, _ = struct.unpack("<IIHHI", data(16))
            return _Inode(kind=kind, mode=mode, start=start, size=size, offset=offset)
        if kind == 8:
            _, size, start, _, _, offset, _ = struct.unpack("<IIIIHHI", data(24))
            return _Inode(kind=kind, mode=mode, start=start, size=size, offset=offset)
        if kind in _LINKS:
            _, length = struct.unpack("<II", data(8))
            if not 0 < length <= 65536:
                raise self._damage(f"invalid length of a link: {length} bytes, expected 1 to 65536")
            return _Inode(kind=kind, mode=mode, target=data(length))
        if kind in _FILES:
            if kind == 2:
                start, fragment, offset, size = struct.unpack("<IIII", data(16))
            else:
                start, size, _, _, fragment, offset, _ = struct.unpack("<QQQIIII", data(40))
            whole, rest = divmod(size, self._block_bytes)
            count = whole + (1 if rest and fragment == _NO_FRAGMENT else 0)
            # four bytes a block: what can't be paid for is refused before it is read
            self._allowance.take(size)
            blocks = struct.unpack(f"<{count}I", data(4 * count))
            return _Inode(
                kind=kind,
                mode=mode,
                start=start,
                size=size,
                offset=offset,
                fragment=fragment,
                blocks=blocks,
            )
        if kind in (4, 5, 6, 7, 11, 12, 13, 14):
            return _Inode(kind=kind, mode=mode)
        raise self._damage(f"unknown inode type {kind}")

    def _list(self, folder: _Inode) -> Iterator[tuple[bytes, int]]:
        """Name and inode of each entry of a folder."""
        if folder.kind not in _FOLDERS:
            expected = " or ".join(map(str, sorted(_FOLDERS)))
            raise self._damage(f"invalid inode type {folder.kind} of a folder, expected {expected}")
        # which counts two entries that are not there
        left = folder.size - 3
        data = self._read_metadata(self._directories + folder.start, folder.offset)
        while left > 0:
            count, start, _ = _DIRECTORY_HEADER.unpack(data(_DIRECTORY_HEADER.size))
            left -= _DIRECTORY_HEADER.size
            for _ in range(min(count, _MAX_NAME) + 1):
                offset, _, _, length = _ENTRY.unpack(data(_ENTRY.size))
                if length >= _MAX_NAME:
                    raise self._damage(
                        f"invalid length of a name: {length + 1} bytes, expected at most"
                        f" {_MAX_NAME} bytes"
                    )
                name = data(length + 1)
                left -= _ENTRY.size + len(name)
                if name in (b".", b"..") or b"/" in name or b"\0" in name:
                    raise self._damage(f"invalid name {name.decode(errors='replace')!r}")
                yield name, start << 16 | offset

    def _hash(self, inode: _Inode) -> bytes:
        """Return hex digits of a file's SHA-256."""
        hasher = hashlib.sha256()
        place, left = inode.start, inode.size
        for field in inode.blocks:
            wanted = min(left, self._block_bytes)
            stored = field & (_PLAIN_BLOCK - 1)
            if field == 0:
                block = bytes(wanted)
            else:
                block = self._block(place, stored, plain=bool(field & _PLAIN_BLOCK))
                place += stored
            if len(block) != wanted:
                raise self._damage(
                    f"the block at byte {place - stored} has {len(block)} bytes, expected {wanted}"
                )
            hasher.update(block)
            left -= wanted
        if left:
            block = self._fragment(inode.fragment)[inode.offset : inode.offset + left]
            if len(block) != left:
                raise self._damage(
                    f"fragment {inode.fragment} has {len(block)} bytes from byte {inode.offset} on,"
                    f" expected {left}"
                )
            hasher.update(block)
        return hasher.hexdigest().encode()

    def _fragment(self, number: int) -> bytes:
        if number >= self._fragments:
            raise self._damage(
                f"invalid fragment number {number}, expected a number below {self._fragments}"
            )
        if number in self._fragment_blocks:
            self._fragment_blocks.move_to_end(number)
            return self._fragment_blocks[number]
        block, place = divmod(number, _METADATA_BYTES // _FRAGMENT.size)
        (position,) = struct.unpack("<Q", self._bytes(self._fragment_table + 8 * block, 8))
        data = self._read_metadata(position, place * _FRAGMENT.size)
        start, field, _ = _FRAGMENT.unpack(data(_FRAGMENT.size))
        # read anew where files do not lie in the order of their fragments: paid for each time
        self._allowance.take(self._block_bytes)
        stored = field & (_PLAIN_BLOCK - 1)
        content = self._block(start, stored, plain=bool(field & _PLAIN_BLOCK))
        self._fragment_blocks[number] = content
        if len(self._fragment_blocks) > _KEPT_FRAGMENTS:
            self._fragment_blocks.popitem(last=False)
        return content

    def _block(self, place: int, stored: int, *, plain: bool) -> bytes:
        data = self._bytes(place, stored)
        return data if plain else self._unpack(data, self._block_bytes)

    def _read_metadata(self, place: int, offset: int) -> Callable[[int], bytes]:
        """Return a function that reads on from a place in a table of metadata blocks."""
        block, following = self._metadata_block(place)
        if offset > len(block):
            raise self._damage(
                f"invalid offset {offset} in the block at byte {place}, expected at most"
                f" {len(block)} bytes"
            )
        left = memoryview(block)[offset:]

        def take(count: int) -> bytes:
            nonlocal left, following
            if count <= len(left):
                taken, left = bytes(left[:count]), left[count:]
                return taken
            pieces = [bytes(left)]
            missing = count - len(left)
            while missing > 0:
                block, following = self._metadata_block(following)
                pieces.append(block[:missing])
                left = memoryview(block)[missing:]
                missing -= len(block)
            return b"".join(pieces)

        return take

    def _metadata_block(self, place: int) -> tuple[bytes, int]:
        """Return one block of metadata, and where the next begins."""
        if place in self._metadata:
            self._metadata.move_to_end(place)
            return self._metadata[place]
        (field,) = struct.unpack("<H", self._bytes(place, 2))
        stored = field & 0x7FFF
        self._allowance.take(_METADATA_BYTES)
        data = self._bytes(place + 2, stored)
        block = data if field & 0x8000 else self._unpack(data, _METADATA_BYTES)
        if not block:
            raise self._damage("a block is empty")
        self._metadata[place] = block, place + 2 + stored
        if len(self._metadata) > _KEPT_METADATA:
            self._metadata.popitem(last=False)
        return self._metadata[place]

    def _bytes(self, place: int, count: int) -> bytes:
        if not 0 <= count <= self._size or not 0 <= place <= self._size - count:
            raise self._damage(
                f"invalid position: {count} bytes from byte {place}, expected a position within the"
                f" {self._size} bytes of the squashfs"
            )
        self._stream.seek(self._start + place)
        data = self._stream.read(count)
        if len(data) != count:
            raise DamagedError("the file is truncated", where=self._where)
        return data

    def _damage(self, what: str) -> DamagedError:
        return DamagedError(f"the squashfs is damaged: {what}", where=self._where)


def _decompressor(number: int, where: str) -> Callable[[bytes, int], bytes]:
    """Return a function that unpacks at most so many bytes."""
    name = _COMPRESSORS.get(number)
    if name == "gzip":
        return _unpack_zlib
    if name == "xz":
        return _unpack_xz
    if name == "zstd":
        return _unpack_zstd
    raise CannotRunError(
        f"the squashfs is compressed with {name or f'method {number}'}, which capsule cannot read",
        where=where,
        advice="build the SIF again: apptainer build --mksquashfs-args '-comp gzip' NEW.sif"
        " OLD.sif",
    )


def _unpack_zlib(data: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(data, limit)
    if not unpacker.eof and unpacker.decompress(unpacker.unconsumed_tail, 1):
        raise zlib.error(f"a block exceeds its limit of {limit} bytes")
    return unpacked


def _unpack_xz(data: bytes, limit: int) -> bytes:
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=256 << 20).decompress(data, limit)


def _unpack_zstd(data: bytes, limit: int) -> bytes:
    import zstandard

    try:
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data) as reader:
            unpacked = reader.read(limit + 1)
    except zstandard.ZstdError as error:
        raise zlib.error(str(error)) from None
    if len(unpacked) > limit:
        raise zlib.error(f"a block exceeds its limit of {limit} bytes")
    return unpacked
