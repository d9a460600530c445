"""Decompression of untrusted streams, in bounded pieces."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, Protocol

from capsule.errors import DamagedError

Method = Literal["gzip", "bzip2", "xz", "zstd", "deflate"]
Read = Callable[[int], bytes]
"""Returns at most so many bytes, and none at the end."""

PIECE_BYTES = 1 << 20
# what follows the end of a stream is copied: many tiny streams in one large piece would be slow
_READ_BYTES = 1 << 14
# zstandard returns at once all that it can make of its input
_ZSTD_READ_BYTES = 1 << 10
_ZSTD_WINDOW_BYTES = 1 << 27
_XZ_MEMORY_BYTES = 128 << 20
# to begin a stream takes time, even if nothing comes out of it
_FREE_STREAMS, _MIN_STREAM_BYTES = 10_000, 128
_MAGIC: dict[bytes, Method] = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
}


class _Decompressor(Protocol):
    """One compressed stream, with the interface of `bz2` and `lzma`."""

    @property
    def eof(self) -> bool:
        """Return whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Return whether it can use more input now."""

    @property
    def unused_data(self) -> bytes:
        """Return input that is left over."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return the next bytes of the content."""


class _Zlib:
    """A gzip member (`window_bits` 31) or a raw deflate stream (-15)."""

    needs_input = True

    def __init__(self, window_bits: int) -> None:
        self._stream = zlib.decompressobj(window_bits)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unconsumed_tail or self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._stream.decompress(data, max_length)


class _Zstd:
    """A Zstandard frame; `max_length` has no effect, so the input has to be short."""

    needs_input = True

    def __init__(self) -> None:
        import zstandard

        self._error = zstandard.ZstdError
        self._stream = zstandard.ZstdDecompressor(
            max_window_size=_ZSTD_WINDOW_BYTES
        ).decompressobj()

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        del max_length
        try:
            return self._stream.decompress(data)
        except self._error as error:
            raise ValueError(str(error)) from None


_DECOMPRESSORS: dict[Method, Callable[[], _Decompressor]] = {
    "gzip": partial(_Zlib, 31),
    "deflate": partial(_Zlib, -15),
    "bzip2": bz2.BZ2Decompressor,
    "xz": partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, _XZ_MEMORY_BYTES),
    "zstd": _Zstd,
}


def find_method(start: bytes) -> Method | None:
    """Return how a file that begins with these bytes is compressed; None if it is not."""
    return next((method for magic, method in _MAGIC.items() if start.startswith(magic)), None)


def copy(read: Read) -> Iterator[bytes]:
    """Yield a stream as it is."""
    while piece := read(PIECE_BYTES):
        yield piece


def decompress(
    read: Read, method: Method, *, where: str, may_be_padded: bool = False
) -> Iterator[bytes]:
    """Yield the content of compressed streams that follow one another.

    Args:
        read: The compressed bytes.
        method: How all of the streams are compressed.
        where: The file, for messages.
        may_be_padded: True if zeros may follow the last stream.

    Raises:
        DamagedError: The data is broken or cut short, something else follows it, or it is made of
            many streams with next to nothing in them.
    """
    count = _ZSTD_READ_BYTES if method == "zstd" else _READ_BYTES
    streams = content_bytes = 0
    data = read(count)
    while data:
        if may_be_padded and streams and not data.strip(b"\0"):
            data = read(count)
            continue
        streams += 1
        most = _FREE_STREAMS + content_bytes // _MIN_STREAM_BYTES
        if streams > most:
            raise DamagedError(
                f"too many compressed streams for {content_bytes} bytes of content: found"
                f" {streams}, expected at most {most}",
                where=where,
            )
        stream = _DECOMPRESSORS[method]()
        while not stream.eof:
            if not data and stream.needs_input:
                data = read(count)
            try:
                piece = stream.decompress(data, PIECE_BYTES)
            # bz2 raises OSError
            except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
                raise DamagedError(f"cannot decompress: {error}", where=where) from None
            if not (piece or data or stream.eof):
                raise DamagedError("compressed data truncated", where=where)
            data = stream.unused_data
            content_bytes += len(piece)
            if piece:
                yield piece
        data = data or read(count)


class Source:
    """A stream of bytes that is read forward, made of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = memoryview(b"")

    def pull(self, count: int) -> bytes:
        """Return so many bytes, fewer only at the end."""
        taken = [self._buffer[:count]]
        self._buffer = self._buffer[count:]
        missing = count - len(taken[0])
        while missing and (piece := memoryview(next(self._pieces, b""))):
            taken.append(piece[:missing])
            self._buffer = piece[missing:]
            missing -= len(taken[-1])
        return b"".join(taken)

    def peek(self, count: int) -> bytes:
        """Return so many bytes, fewer only at the end; they are read again."""
        data = self.pull(count)
        self._buffer = memoryview(data + self._buffer)
        return data

    def skip(self, count: int) -> None:
        """Pass over so many bytes."""
        while count and (piece := self.pull(min(count, PIECE_BYTES))):
            count -= len(piece)
