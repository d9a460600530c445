"""Archives as nobody should unpack them, and odd ones that are right: each with what must come out.

A tar is put together from raw headers and a zip from raw records, since the standard library does
not write most of these.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import tarfile
import zlib
from collections.abc import Callable, Mapping

Files = Mapping[str, bytes]
Expected = Files | None
"""The files that are unpacked; None for an archive that is refused."""

F, D, S, H = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
END = bytes(1024)


def header(name: bytes | str, kind: bytes = F, size: int = 0, target: bytes | str = b"") -> bytes:
    """A header of the oldest form, with a checksum."""
    name, target = (text.encode() if isinstance(text, str) else text for text in (name, target))
    fields = name[:100].ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2
    fields += (b"%011o\0" % size if size < 1 << 33 else b"\x80" + size.to_bytes(11, "big")) + bytes(
        12
    )
    return stamp(fields + b" " * 8 + kind + target[:100].ljust(100, b"\0") + bytes(255))


def stamp(block: bytes) -> bytes:
    """The header with its right checksum."""
    total = sum(block) - sum(block[148:156]) + 8 * 32
    return block[:148] + b"%06o\0 " % total + block[156:]


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def file(name: bytes | str, data: bytes = b"1", kind: bytes = F) -> bytes:
    return header(name, kind, len(data)) + padded(data)


def link(name: bytes | str, target: bytes | str, kind: bytes = S) -> bytes:
    return header(name, kind, 0, target)


def long(kind: bytes, text: bytes) -> bytes:
    """GNU's long name (L) or link (K) for the header that follows."""
    return file("././@LongLink", text + b"\0", kind)


def pax(fields: Mapping[str, bytes | str], kind: bytes = b"x") -> bytes:
    data = b""
    for name, value in fields.items():
        text = value.encode() if isinstance(value, str) else value
        rest = b" " + name.encode() + b"=" + text + b"\n"
        length = len(rest) + 1
        while len(rest) + len(str(length)) > length:
            length += 1
        data += str(length).encode() + rest
    return file("PaxHeader", data, kind)


def raw_pax(data: bytes, kind: bytes = b"x") -> bytes:
    return file("PaxHeader", data, kind)


def old_sparse(name: str, segments: list[tuple[int, bytes]], size: int) -> bytes:
    """GNU's own form, with as many extension blocks as it takes."""
    data = b"".join(part for _, part in segments)
    pairs = [b"%011o\0%011o\0" % (place, len(part)) for place, part in segments]
    first, more = pairs[:4], pairs[4:]
    block = bytearray(header(name, b"S", len(data)))
    block[257:265] = b"ustar  \0"
    block[386:482] = b"".join(first).ljust(96, b"\0")
    block[482] = bool(more)
    block[483:495] = b"%011o\0" % size
    blocks = stamp(bytes(block))
    while more:
        part, more = more[:21], more[21:]
        blocks += b"".join(part).ljust(504, b"\0") + bytes([bool(more)]) + bytes(7)
    return blocks + padded(data)


def pax_sparse(name: str, list_text: bytes, stored: bytes, size: int, minor: str = "0") -> bytes:
    """The form of posix tars: a list of decimal numbers in front of the bytes."""
    fields = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": minor,
        "GNU.sparse.name": name,
        "GNU.sparse.realsize": str(size),
    }
    return pax(fields) + file("GNUSparseFile.0/x", padded(list_text) + stored)


class Zip:
    """A zip file from raw records; every field may lie."""

    def __init__(self) -> None:
        self.body, self.directory, self.count = b"", b"", 0

    def add(
        self,
        name: bytes | str,
        data: bytes = b"1",
        *,
        mode: int = 0o100644,
        method: int = 0,
        flags: int = 0x800,
        packed: bytes | None = None,
        size: int | None = None,
        crc: int | None = None,
        local_name: bytes | None = None,
        extra: bytes = b"",
        place: int | None = None,
    ) -> Zip:
        raw = name.encode() if isinstance(name, str) else name
        packed = data if packed is None else packed
        size = len(data) if size is None else size
        crc = zlib.crc32(data) if crc is None else crc
        own = raw if local_name is None else local_name
        common = struct.pack("<4H3L", flags, method, 0, 33, crc, len(packed), min(size, 0xFFFFFFFF))
        if place is None:
            place = len(self.body)
            lengths = struct.pack("<2H", len(own), 0)
            self.body += b"PK\3\4" + struct.pack("<H", 20) + common + lengths + own + packed
        self.directory += b"PK\1\2" + struct.pack("<2H", 0x031E, 20) + common
        self.directory += struct.pack("<5H", len(raw), len(extra), 0, 0, 0)
        self.directory += struct.pack("<2L", mode << 16, min(place, 0xFFFFFFFF)) + raw + extra
        self.count += 1
        return self

    def end(
        self, *, count: int | None = None, place: int | None = None, size: int | None = None
    ) -> bytes:
        count = self.count if count is None else count
        size = len(self.directory) if size is None else size
        place = len(self.body) if place is None else place
        fields = struct.pack("<4H2LH", 0, 0, count & 0xFFFF, count & 0xFFFF, size, place, 0)
        return self.body + self.directory + b"PK\5\6" + fields

    def end_64(self, count: int | None = None, place: int | None = None) -> bytes:
        count = self.count if count is None else count
        place = len(self.body) if place is None else place
        at = len(self.body) + len(self.directory)
        end = struct.pack(
            "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(self.directory), place
        )
        end += struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
        full = struct.pack("<4H2LH", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
        return self.body + self.directory + end + b"PK\5\6" + full


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def zip_link(name: str, target: bytes | str) -> Zip:
    data = target.encode() if isinstance(target, str) else target
    return Zip().add(name, data, mode=0o120777)


def _chain(count: int, kind: bytes = S) -> bytes:
    """So many links, the first to the second and so on, the last to a file."""
    links = b"".join(link(f"l{n}", f"l{n + 1}", kind) for n in range(count))
    return links + file(f"l{count}") + END


def _up(depth: int) -> bytes:
    """The links of s01: each `..` of the last one leads a folder higher than its text says."""
    return (
        file("a/b/keep")
        + link("a/b/c", "..")
        + link("a/b/c/b/c/../../../out", "target")
        + link("x", "a/b/c/b/c/" + "../" * depth + "out")
        + END
    )


def _zeros(count: int, pack: Callable[[bytes], bytes], mebibytes: int) -> bytes:
    """A file of so many zeros, of which that many MiB follow, each packed by itself."""
    return pack(header("zeros", F, count)) + pack(bytes(1 << 20)) * mebibytes


def _sign(block: bytes) -> bytes:
    """With the checksum of signed bytes."""
    total = int(block[148:154], 8) - 256 * sum(byte > 127 for byte in block)
    return block[:148] + b"%06o\0 " % total + block[156:]


def _pax_digits(count: int) -> bytes:
    return raw_pax(b"1" * count) + file("a") + END


REFUSED_TARS: dict[str, Callable[[], bytes]] = {
    "absolute": lambda: file("/tmp/owned") + END,
    "above": lambda: file("../owned") + END,
    "above-in-the-middle": lambda: file("a/../../owned") + END,
    "above-within": lambda: file("a/../owned") + END,
    "folder-above": lambda: header("../owned/", D) + END,
    "drive": lambda: file("C:/owned") + END,
    "backslash": lambda: file("..\\owned") + END,
    "nul-in-pax": lambda: pax({"path": b"a\0/../b"}) + file("x") + END,
    "no-name": lambda: file("./") + file("") + END,
    "name-of-300": lambda: long(b"L", b"x" * 300) + file("x") + END,
    "path-of-5000": lambda: long(b"L", b"x/" * 2500 + b"y") + file("x") + END,
    "path-of-a-mebibyte": lambda: long(b"L", b"x/" * (1 << 19)) + file("x") + END,
    "twice": lambda: file("a") + file("./a", b"2") + END,
    "file-then-folder": lambda: file("a") + file("a/b") + END,
    "folder-then-file": lambda: file("a/b") + file("a") + END,
    "folder-with-bytes": lambda: file("a/", b"1") + END,
    "link-then-file": lambda: file("t") + link("a", "t") + file("a", b"2") + END,
    "link-then-folder": lambda: file("t/x") + link("a", "t") + file("a/b") + END,
    "folder-then-link": lambda: file("a/b") + link("a", "t") + END,
    "link-absolute": lambda: link("a", "/etc/passwd") + file("t") + END,
    "link-above": lambda: link("a/b", "../../x") + file("x") + END,
    "link-to-itself": lambda: link("a", "a") + END,
    "link-cycle": lambda: link("a", "b") + link("b", "c") + link("c", "a") + END,
    "link-to-nothing": lambda: file("x") + link("a", "b") + END,
    "link-to-a-folder": lambda: file("d/x") + link("a", "d") + END,
    "link-to-the-top": lambda: file("d/x") + link("d/a", "..") + END,
    "link-through-a-link": lambda: file("d/x") + link("l", "d") + link("a", "l/x") + END,
    "link-through-a-file": lambda: file("f") + file("x") + link("a", "f/../x") + END,
    "link-through-nothing": lambda: file("x") + link("a", "none/../x") + END,
    "link-backslash": lambda: file("x") + link("a", "..\\x") + END,
    "link-empty": lambda: file("x") + link("a", "") + END,
    "link-nul": lambda: file("x") + pax({"linkpath": b"x\0y"}) + link("a", "x") + END,
    "links-up-1": lambda: _up(1),
    "links-up-2": lambda: _up(2),
    "links-up-3": lambda: _up(3),
    "links-of-the-case": lambda: (
        file("a/keep")
        + link("a/b/c/d", "x")
        + link("a/b/c", "..")
        + link("a/b/c/b/c/../../../planted", "keep")
        + END
    ),
    "chain-of-41": lambda: _chain(41),
    "chain-of-41-hard": lambda: _chain(41, H),
    "chain-of-10000": lambda: _chain(10_000),
    "hard-absolute": lambda: link("a", "/etc/passwd", H) + END,
    "hard-above": lambda: file("x") + link("a", "../../etc/passwd", H) + END,
    "hard-to-nothing": lambda: link("a", "b", H) + END,
    "hard-to-a-folder": lambda: header("d/", D) + link("a", "d", H) + END,
    "hard-cycle": lambda: link("a", "b", H) + link("b", "a", S) + END,
    "hard-through-a-link": lambda: file("d/x") + link("l", "d") + link("a", "l/x", H) + END,
    "character-device": lambda: header("a", b"3") + END,
    "block-device": lambda: header("a", b"4") + END,
    "pipe": lambda: header("a", b"6") + END,
    "unknown-kind": lambda: header("a", b"Z") + END,
    "multi-volume": lambda: header("a", b"M") + END,
    "volume-label": lambda: header("label", b"V") + file("a") + END,
    "wrong-checksum": lambda: file("a") + file("b").replace(b"b", b"c", 1) + END,
    "negative-size": lambda: stamp(header("a")[:124] + b"\xff" * 12 + header("a")[136:]) + END,
    "no-octal-size": lambda: stamp(header("a")[:124] + b"99999999999\0" + header("a")[136:]) + END,
    "size-of-an-exabyte": lambda: header("a", F, 1 << 60) + END,
    "size-of-95-bits": lambda: header("a", F, (1 << 87) + 1) + END,
    "cut-in-a-header": lambda: file("a") + header("b")[:300],
    "cut-in-a-file": lambda: header("a", F, 2000) + bytes(512),
    "behind-the-end": lambda: file("a") + END + file("b") + END,
    "text-behind-the-end": lambda: file("a") + END + b"#!/bin/sh",
    "zeros-behind-the-end": lambda: file("a") + END + bytes(17 << 20),
    "ends-behind-a-name": lambda: long(b"L", b"a") + END,
    "name-of-a-gibibyte": lambda: header("././@LongLink", b"L", 1 << 30) + END,
    "names-of-names": lambda: long(b"L", b"x") * 4000 + file("a") + END,
    "pax-digits": lambda: _pax_digits(80 << 10),
    "pax-digits-mebibyte": lambda: _pax_digits((1 << 20) - 1),
    "pax-digits-more": lambda: _pax_digits(3 << 20),
    "pax-no-length": lambda: raw_pax(b"path=a\n") + file("x") + END,
    "pax-length-beyond": lambda: raw_pax(b"99 path=a\n") + file("x") + END,
    "pax-length-zero": lambda: raw_pax(b"0 path=a\n") + file("x") + END,
    "pax-length-within": lambda: raw_pax(b"6 path=a\n") + file("x") + END,
    "pax-fields": lambda: raw_pax(b"4 =\n" * 200_000) + file("x") + END,
    "pax-size-negative": lambda: pax({"size": "-1"}) + file("x") + END,
    "pax-size-huge": lambda: pax({"size": "9" * 19}) + file("x") + END,
    "pax-size-endless": lambda: pax({"size": "9" * 100_000}) + file("x") + END,
    "pax-path-above": lambda: pax({"path": "../owned"}) + file("x") + END,
    "pax-link-above": lambda: pax({"linkpath": "../../x"}) + link("a", "b") + file("b") + END,
    "pax-for-all": lambda: pax({"path": "b"}, b"g") + file("x") + END,
    "gnu-long-above": lambda: long(b"L", b"../" * 80 + b"owned") + file("x") + END,
    "gnu-long-link-above": lambda: long(b"K", b"../" * 80 + b"x") + link("a", "b") + END,
    "sparse-beyond": lambda: old_sparse("s", [(1 << 20, b"12")], 100) + END,
    "sparse-overlaps": lambda: old_sparse("s", [(0, b"12"), (1, b"34")], 100) + END,
    "sparse-backwards": lambda: old_sparse("s", [(50, b"12"), (0, b"34")], 100) + END,
    "sparse-huge": lambda: old_sparse("s", [(0, b"12")], 1 << 32) + END,
    "sparse-list-without-end": lambda: (
        old_sparse("s", [(n, b"") for n in range(5)], 10)[:512]
        + (bytes(504) + b"\1" + bytes(7)) * 2000
    ),
    "sparse-pax-huge": lambda: pax_sparse("s", b"1\n0\n2\n", b"12", 1 << 60) + END,
    "sparse-pax-count": lambda: pax_sparse("s", b"9999999\n0\n2\n", b"12", 10) + END,
    "sparse-pax-digits": lambda: pax_sparse("s", b"9" * 5000, b"", 10) + END,
    "sparse-pax-words": lambda: pax_sparse("s", b"1\nx\n2\n", b"12", 10) + END,
    "sparse-pax-short": lambda: pax_sparse("s", b"1\n0\n9\n", b"12", 10) + END,
    "sparse-pax-version": lambda: pax_sparse("s", b"1\n0\n2\n", b"12", 10, minor="7") + END,
    "sparse-pax-above": lambda: pax_sparse("../s", b"1\n0\n2\n", b"12", 10) + END,
    "not-utf-8-above": lambda: file(b"\xff/../../x") + END,
    "gzip-bomb": lambda: _zeros(40 << 30, gzip.compress, 400),
    "bzip2-bomb": lambda: _zeros(40 << 30, bz2.compress, 400),
    "xz-bomb": lambda: _zeros(40 << 30, lzma.compress, 400),
    "gzip-of-end-zeros": lambda: (
        gzip.compress(file("a") + END) + gzip.compress(bytes(1 << 20)) * 99
    ),
    "gzip-of-gzip": lambda: gzip.compress(gzip.compress(file("a") + END)),
    "gzip-and-text": lambda: gzip.compress(file("a") + END) + b"text",
    "gzip-cut": lambda: gzip.compress(file("a") + END)[:-5],
    "gzip-crc": lambda: gzip.compress(file("a") + END)[:-8] + bytes(8),
    "gzip-nothing-in-many": lambda: gzip.compress(b"") * 200_000 + gzip.compress(file("a") + END),
    "bzip2-nothing-in-many": lambda: bz2.compress(b"") * 200_000,
    "xz-nothing-in-many": lambda: lzma.compress(b"") * 100_000,
    "bzip2-cut": lambda: bz2.compress(file("a") + END)[:-5],
    "xz-cut": lambda: lzma.compress(file("a") + END)[:-5],
    "xz-and-text": lambda: lzma.compress(file("a") + END) + b"text",
    "lzma-dictionary": lambda: lzma.compress(
        file("a"), filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    ),
    "page": lambda: b"<!doctype html>" * 100,
    "nothing": lambda: b"",
    "short": lambda: b"abc",
    "folders-again": lambda: gzip.compress(header("d/", D) * 200_000 + END),
    "folders-implied": lambda: gzip.compress(
        b"".join(long(b"L", b"%d/" % n + b"d/" * 1500 + b"f") + file("x", b"") for n in range(400))
    ),
    "copies": lambda: gzip.compress(
        file("f", bytes(1 << 20)) + b"".join(link(f"l{n}", "f", H) for n in range(9000))
    ),
}

MANY_FILES: dict[str, Callable[[], bytes]] = {
    f"{name}-of-files": lambda pack=pack: pack(  # type: ignore[misc]
        b"".join(file(f"{n}", b"") for n in range(90_000)) + END
    )
    for name, pack in {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}.items()
}
"""More files than real data has in as many bytes."""

_ONE = {"a": b"1"}


def _same(pack: Callable[[bytes], bytes]) -> Callable[[], bytes]:
    return lambda: pack(file("a") + END)


RIGHT_TARS: dict[str, tuple[Callable[[], bytes], Files]] = {
    "plain": (lambda: file("a") + END, _ONE),
    "without-end": (lambda: file("a"), _ONE),
    "zeros-behind-the-end": (lambda: file("a") + END + bytes(1 << 20), _ONE),
    "gzip": (_same(gzip.compress), _ONE),
    "bzip2": (_same(bz2.compress), _ONE),
    "xz": (_same(lzma.compress), _ONE),
    "gzip-in-parts": (
        lambda: gzip.compress(file("a")[:700]) + gzip.compress(file("a")[700:]),
        _ONE,
    ),
    "bzip2-in-parts": (lambda: bz2.compress(file("a")[:9]) + bz2.compress(file("a")[9:]), _ONE),
    "xz-in-parts": (lambda: lzma.compress(file("a")[:9]) + lzma.compress(file("a")[9:]), _ONE),
    "gzip-padded": (lambda: gzip.compress(file("a")) + bytes(9000), _ONE),
    "dot-slash": (lambda: header("./", D) + file("./a") + END, _ONE),
    "old-kind": (lambda: file("a", kind=b"\0") + END, _ONE),
    "contiguous": (lambda: file("a", kind=b"7") + END, _ONE),
    "folder-by-slash": (lambda: header("d/", b"\0") + file("d/a") + END, {"d/a": b"1"}),
    "folder-twice": (lambda: header("d/", D) * 2 + file("d/a") + END, {"d/a": b"1"}),
    "pax": (
        lambda: (
            pax({"path": "d/" + "x" * 200, "mtime": "1.5", "SCHILY.xattr.user.x": b"\0\n="})
            + file("x")
            + END
        ),
        {"d/" + "x" * 200: b"1"},
    ),
    "pax-over-a-cut-name": (
        lambda: pax({"path": "d/" * 45 + "x" * 100}) + file("d/" * 50) + END,
        {"d/" * 45 + "x" * 100: b"1"},
    ),
    "pax-size": (lambda: pax({"size": "3"}) + header("a") + padded(b"123") + END, {"a": b"123"}),
    "pax-size-over-the-header's": (
        lambda: pax({"size": "1025"}) + file("a") + file("b") + END,
        {"a": padded(b"1") + file("b")[:513]},
    ),
    "pax-of-git": (lambda: pax({"comment": "0" * 40}, b"g") + file("a") + END, _ONE),
    "mac": (
        lambda: file("._a", b"\0\5\x16\7") + file("a") + END,
        {"._a": b"\0\5\x16\7", "a": b"1"},
    ),
    "gnu-long": (lambda: long(b"L", b"x" * 200) + file("x") + END, {"x" * 200: b"1"}),
    "gnu-long-link": (
        lambda: (
            long(b"L", b"x" * 200)
            + file("x")
            + long(b"K", b"x" * 200)
            + long(b"L", b"y" * 200)
            + link("y", "x")
            + END
        ),
        {"x" * 200: b"1", "y" * 200: b"1"},
    ),
    "signed-checksum": (lambda: _sign(header("é", F, 1)) + padded(b"1"), {"é": b"1"}),
    "link": (lambda: file("a") + link("d/l", "../a") + END, {"a": b"1", "d/l": b"1"}),
    "link-forward": (lambda: link("l", "a") + file("a") + END, {"a": b"1", "l": b"1"}),
    "link-in-front-of-its-folder": (
        lambda: link("d/l", "e/../a") + header("d/e/", D) + file("d/a") + END,
        {"d/a": b"1", "d/l": b"1"},
    ),
    "hard": (lambda: file("d/a") + link("h", "./d/a", H) + END, {"d/a": b"1", "h": b"1"}),
    "hard-forward": (lambda: link("h", "a", H) + file("a") + END, {"a": b"1", "h": b"1"}),
    "hard-to-a-link": (
        lambda: file("a") + link("l", "a") + link("h", "l", H) + END,
        {"a": b"1", "l": b"1", "h": b"1"},
    ),
    "chain-of-40": (lambda: _chain(40), {f"l{n}": b"1" for n in range(41)}),
    "chain-of-40-backwards": (
        lambda: (
            file("l40") + b"".join(link(f"l{n}", f"l{n + 1}") for n in reversed(range(40))) + END
        ),
        {f"l{n}": b"1" for n in range(41)},
    ),
    "case": (lambda: file("a") + file("A", b"2") + END, {"a": b"1", "A": b"2"}),
    "composed": (lambda: file("é") + file("e\u0301", b"2") + END, {"é": b"1", "e\u0301": b"2"}),
    "sparse": (
        lambda: old_sparse("s", [(512, b"12"), (1024, b"3")], 2000) + file("a") + END,
        {"s": bytes(512) + b"12" + bytes(510) + b"3" + bytes(975), "a": b"1"},
    ),
    "sparse-of-many-parts": (
        lambda: old_sparse("s", [(n * 10, b"x") for n in range(60)], 600) + file("a") + END,
        {"s": (b"x" + bytes(9)) * 60, "a": b"1"},
    ),
    "sparse-of-nothing": (lambda: old_sparse("s", [(9, b"")], 9) + END, {"s": bytes(9)}),
    "sparse-pax": (
        lambda: pax_sparse("d/s", b"2\n3\n2\n9\n1\n", b"123", 12) + file("a") + END,
        {"d/s": bytes(3) + b"12" + bytes(4) + b"3" + bytes(2), "a": b"1"},
    ),
    "sparse-pax-of-many-parts": (
        lambda: (
            pax_sparse(
                "s", b"300\n" + b"".join(b"%d\n1\n" % (n * 9) for n in range(300)), b"x" * 300, 2700
            )
            + file("a")
            + END
        ),
        {"s": (b"x" + bytes(8)) * 300, "a": b"1"},
    ),
    "zeros": (
        lambda: gzip.compress(file("a", bytes(20 << 20)) + END),
        {"a": bytes(20 << 20)},
    ),
}


def _many(count: int) -> Zip:
    """So many entries that share the bytes of one: a directory of 46 bytes and a name each."""
    archive = Zip().add("x")
    first = archive.directory
    archive.directory = first + b"".join(
        first[:-1].replace(b"\1\0\0\0\0\0\0\0\0\0", b"\7\0\0\0\0\0\0\0\0\0") + b"%07d" % n
        for n in range(count)
    )
    archive.count += count
    return archive


def _quoted() -> bytes:
    """A kernel of compressed zeros that a thousand entries share."""
    packed = deflate(bytes(10 << 20))
    archive = Zip().add("0", bytes(10 << 20), method=8, packed=packed)
    for n in range(1, 1000):
        archive.add(
            f"{n}",
            bytes(10 << 20) if n == 1 else b"",
            method=8,
            packed=packed,
            size=10 << 20,
            crc=0,
            place=0,
        )
    return archive.end()


REFUSED_ZIPS: dict[str, Callable[[], bytes]] = {
    "zip-absolute": lambda: Zip().add("/tmp/owned").end(),
    "zip-above": lambda: Zip().add("../owned").end(),
    "zip-above-folder": lambda: Zip().add("a/../../owned/", b"").end(),
    "zip-backslash": lambda: Zip().add("..\\owned").end(),
    "zip-drive": lambda: Zip().add("C:/owned").end(),
    "zip-nul": lambda: Zip().add(b"a\0/../b").end(),
    "zip-no-name": lambda: Zip().add(b"").end(),
    "zip-name-of-300": lambda: Zip().add("x" * 300).end(),
    "zip-name-of-60000": lambda: Zip().add("x/" * 30000).end(),
    "zip-twice": lambda: Zip().add("a").add("a").end(),
    "zip-file-then-folder": lambda: Zip().add("a").add("a/b").end(),
    "zip-folder-with-bytes": lambda: Zip().add("a/", b"1").end(),
    "zip-link-absolute": lambda: zip_link("a", "/etc/passwd").add("b").end(),
    "zip-link-above": lambda: zip_link("a", "../x").add("x").end(),
    "zip-link-to-a-folder": lambda: zip_link("a", "d").add("d/x").end(),
    "zip-link-to-nothing": lambda: zip_link("a", "x").add("b").end(),
    "zip-link-cycle": lambda: zip_link("a", "b").add("b", b"a", mode=0o120777).end(),
    "zip-link-through-a-link": lambda: (
        zip_link("l", "d").add("d/x").add("a", b"l/x", mode=0o120777).end()
    ),
    "zip-link-then-file": lambda: zip_link("a", "b").add("b").add("a/c").end(),
    "zip-link-folder": lambda: zip_link("a/", "b").add("b").end(),
    "zip-link-long": lambda: zip_link("a", "x" * 5000).end(),
    "zip-device": lambda: Zip().add("a", b"", mode=0o060600).end(),
    "zip-pipe": lambda: Zip().add("a", b"", mode=0o010600).end(),
    "zip-encrypted": lambda: Zip().add("a", flags=1).end(),
    "zip-strong": lambda: Zip().add("a", flags=0x41).end(),
    "zip-method": lambda: Zip().add("a", method=14).end(),
    "zip-crc": lambda: Zip().add("a", crc=1).end(),
    "zip-smaller-than-stated": lambda: (
        Zip().add("a", size=10, method=8, packed=deflate(b"1")).end()
    ),
    "zip-larger-than-stated": lambda: (
        Zip().add("a", method=8, packed=deflate(bytes(1 << 20)), size=1).end()
    ),
    "zip-stored-of-two-sizes": lambda: Zip().add("a", size=10).end(),
    "zip-broken-deflate": lambda: Zip().add("a", method=8, packed=b"\xff" * 20).end(),
    "zip-cut-deflate": lambda: (
        Zip().add("a", b"12" * 99, method=8, packed=deflate(b"12" * 99)[:-3]).end()
    ),
    "zip-local-name": lambda: Zip().add("a", local_name=b"b").end(),
    "zip-overlap": _quoted,
    "zip-overlap-partly": lambda: Zip().add("a", b"1" * 50).add("b", b"2", place=10).end(),
    "zip-place-beyond": lambda: Zip().add("a").add("b", place=1 << 31).end(),
    "zip-place-of-64-bits": lambda: (
        Zip()
        .add("a")
        .add("b", place=0xFFFFFFFF, extra=struct.pack("<2HQ", 1, 8, (1 << 64) - 1))
        .end()
    ),
    "zip-no-size-64": lambda: Zip().add("a", size=0xFFFFFFFF, extra=struct.pack("<2H", 1, 0)).end(),
    "zip-bomb": lambda: (
        Zip().add("a", b"", method=8, packed=deflate(bytes(90 << 20)), size=4 << 30).end()
    ),
    "zip-bomb-bzip2": lambda: (
        Zip()
        .add("a", b"", method=12, packed=bz2.compress(bytes(1 << 20)) * 400, size=400 << 20)
        .end()
    ),
    "zip-directory-of-overlaps": lambda: _many(700_000).end_64(),
    "zip-count-more": lambda: Zip().add("a").end(count=2),
    "zip-count-huge": lambda: Zip().add("a").end_64(count=(1 << 64) - 1),
    "zip-place-64": lambda: Zip().add("a").end_64(place=(1 << 64) - 1),
    "zip-directory-beyond": lambda: Zip().add("a").end(place=1 << 31),
    "zip-directory-cut": lambda: Zip().add("a").end()[:-30],
    "zip-end-cut": lambda: Zip().add("a").end()[:-1],
    "zip-behind-the-end": lambda: Zip().add("a").end() + b"x",
    "zip-parts": lambda: Zip().add("a").end().replace(b"PK\5\6\0\0", b"PK\5\6\1\0"),
    "zip-entries": lambda: _entries(30_000),
}


def _entries(count: int) -> bytes:
    """More entries than its end says."""
    archive = Zip()
    for n in range(count // 100):
        archive.add(f"{n}", b"")
    return archive.end(count=count // 200, size=10)


def _unicode_path(raw: bytes, name: str) -> bytes:
    value = b"\1" + zlib.crc32(raw).to_bytes(4, "little") + name.encode()
    return struct.pack("<2H", 0x7075, len(value)) + value


RIGHT_ZIPS: dict[str, tuple[Callable[[], bytes], Files]] = {
    "zip": (lambda: Zip().add("a").end(), _ONE),
    "zip-64": (lambda: Zip().add("a").end_64(), _ONE),
    "zip-sizes-64": (
        lambda: (
            Zip()
            .add(
                "a",
                method=8,
                packed=deflate(b"1"),
                size=0xFFFFFFFF,
                extra=struct.pack("<2HQ", 1, 8, 1),
            )
            .end()
        ),
        _ONE,
    ),
    "zip-deflate": (lambda: Zip().add("a", method=8, packed=deflate(b"1")).end(), _ONE),
    "zip-bzip2": (lambda: Zip().add("a", method=12, packed=bz2.compress(b"1")).end(), _ONE),
    "zip-folder": (lambda: Zip().add("d/", b"", mode=0o040755).add("d/a").end(), {"d/a": b"1"}),
    "zip-folder-by-mode": (
        lambda: Zip().add("d", b"", mode=0o040755).add("d/a").end(),
        {"d/a": b"1"},
    ),
    "zip-no-mode": (lambda: Zip().add("a", mode=0).end(), _ONE),
    "zip-link": (lambda: zip_link("l", "d/a").add("d/a").end(), {"l": b"1", "d/a": b"1"}),
    "zip-utf-8": (lambda: Zip().add("é").end(), {"é": b"1"}),
    "zip-mac": (lambda: Zip().add("é", flags=0).end(), {"é": b"1"}),
    "zip-dos": (lambda: Zip().add(b"\x82", flags=0).end(), {"é": b"1"}),
    "zip-unicode-path": (
        lambda: Zip().add(b"\xe9", flags=0, extra=_unicode_path(b"\xe9", "é")).end(),
        {"é": b"1"},
    ),
    "zip-comment": (
        lambda: Zip().add("a").end()[:-2] + b"\5\0" + b"hello",
        _ONE,
    ),
    "zip-case": (lambda: Zip().add("a").add("A", b"2").end(), {"a": b"1", "A": b"2"}),
}
