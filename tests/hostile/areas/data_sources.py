"""What a server gives for a dataset's address: archives that write elsewhere, bombs, drips."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from functools import cache
from typing import BinaryIO

from tests.hostile.case import Case, Prepare
from tests.support import registries
from tests.support.command import User, write_manifest, write_script
from tests.support.hostile_archives import REFUSED_TARS, REFUSED_ZIPS
from tests.support.registries import http

_MIB = 200
_SHOWN = "\x1b]0;owned\x07"


@cache
def _host() -> str:
    """One server for all of them, to the end of the process: a name says how it lies."""

    def answer(path: str, out: BinaryIO) -> None:
        _ANSWERS[path.split("/")[1]](out)

    server = registries.start(answer)
    return f"127.0.0.1:{server.server_address[1]}"


def _fetch(name: str, *, unpack: bool = True, digest: str | None = None) -> Prepare:
    def prepare(user: User) -> list[str]:
        source: dict[str, object] = {"url": f"http://{_host()}/{name}/corpus"}
        if unpack:
            source["unpack"] = True
        if digest is not None:
            source["digest"] = digest
        write_script(user.folder)
        write_manifest(user.folder, datasets={"corpus": source})
        return ["data", "fetch", "tiny.json"]

    return prepare


def _send(make: Callable[[], bytes]) -> Callable[[BinaryIO], None]:
    def send(out: BinaryIO) -> None:
        out.write(http(make()))

    return send


def _tar(*members: tuple[str, bytes, str], size: int = 0) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, kind, target in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, target, size
            tar.addfile(member, io.BytesIO(bytes(size)))
    return buffer.getvalue()


def _file(name: str) -> bytes:
    return _tar((name, tarfile.REGTYPE, ""), size=3)


def _through_link() -> bytes:
    """A link out of the folder, and a file below it."""
    return _tar(("out", tarfile.SYMTYPE, "/tmp"), ("out/owned", tarfile.REGTYPE, ""))


def _through_inner_link() -> bytes:
    """A link that stays inside, and a file that would be written through it."""
    return _tar(
        ("real/x", tarfile.REGTYPE, ""),
        ("way", tarfile.SYMTYPE, "real"),
        ("way/owned", tarfile.REGTYPE, ""),
    )


def _gzip_bomb() -> bytes:
    """A file of forty gigabytes in forty megabytes, of which the first are sent."""
    member = tarfile.TarInfo("zeros")
    member.size = 40 << 30
    # ten thousand members of a mebibyte each: none is compressed twice
    piece = gzip.compress(bytes(1 << 20), 9)
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT)) + piece * 4000


def _large_header() -> bytes:
    """Names of a gigabyte, which a reader would hold in memory."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
    return gzip.compress(member.tobuf(tarfile.GNU_FORMAT)) + gzip.compress(bytes(1 << 20)) * 1024


def _chained_headers() -> bytes:
    """Names of names of names: each is read within the one before."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, 2
    return (member.tobuf(tarfile.GNU_FORMAT) + b"x\0".ljust(512, b"\0")) * 4000


def _deep() -> bytes:
    return _file("/".join(["d"] * 1500))


def _encrypted() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"x")
    data = bytearray(buffer.getvalue())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def _zip_link() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("out")
        entry.external_attr = 0o120777 << 16
        archive.writestr(entry, "../../../../etc")
        archive.writestr("a", b"x")
    return buffer.getvalue()


def _endless(out: BinaryIO) -> None:
    out.write(b"HTTP/1.0 200 OK\r\n\r\n")
    while True:
        out.write(bytes(1 << 16))


def _huge(out: BinaryIO) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900000000000000000\r\n\r\n")


def _elsewhere(target: str) -> Callable[[BinaryIO], None]:
    def send(out: BinaryIO) -> None:
        out.write(http(b"", status="302 Found", Location=target))

    return send


_ARCHIVES: dict[str, tuple[Callable[[], bytes], str]] = {
    "absolute": (
        lambda: _file("/tmp/owned"),
        "an entry outside the folder of the archive: '/tmp/owned'",
    ),
    "above": (lambda: _file("a/../../owned"), "an entry outside the folder of the archive"),
    "steers": (lambda: _file(f"../{_SHOWN}"), "an entry outside the folder of the archive"),
    "through-a-link": (_through_link, "is a link out of the archive"),
    "through-an-inner-link": (
        _through_inner_link,
        "contains 'way' both as a folder and as a file or link",
    ),
    "link-out": (
        lambda: _tar(("a/b", tarfile.SYMTYPE, "../../x")),
        "is a link out of the archive",
    ),
    "hard-link-out": (
        lambda: _tar(("a", tarfile.LNKTYPE, "/etc/passwd")),
        "is a link out of the archive",
    ),
    "hard-link-to-nothing": (
        lambda: _tar(("a", tarfile.LNKTYPE, "b")),
        "which is missing in the archive",
    ),
    "device": (lambda: _tar(("a", tarfile.BLKTYPE, "")), "is a device or pipe, expected a file"),
    "pipe": (lambda: _tar(("a", tarfile.FIFOTYPE, "")), "is a device or pipe, expected a file"),
    "twice": (
        lambda: _tar(("a", tarfile.REGTYPE, ""), ("./a", tarfile.REGTYPE, "")),
        "contains 'a' twice",
    ),
    "dangling": (lambda: _tar(("a", tarfile.SYMTYPE, "b")), "which is missing in the archive"),
    "gzip-bomb": (_gzip_bomb, "unpacks to more than"),
    "zip-bomb": (REFUSED_ZIPS["zip-bomb"], "unpacks to more than"),
    "zip-overlap": (REFUSED_ZIPS["zip-overlap"], "entries overlap"),
    "links-through-links": (REFUSED_TARS["links-of-the-case"], "as a folder and as a file or link"),
    "header-of-digits": (REFUSED_TARS["pax-digits-mebibyte"], "in an extended header"),
    "large-header": (_large_header, "the names of a file exceed"),
    "chained-headers": (_chained_headers, "has more than 8 headers"),
    "deep": (_deep, "contains a name of 1500 levels, the limit is 100 levels"),
    "encrypted": (_encrypted, "'a' is encrypted"),
    "zip-link": (_zip_link, "is a link out of the archive"),
    "zip-above": (lambda: _zip("../owned"), "an entry outside the folder of the archive"),
    "zip-backslash": (lambda: _zip("..\\owned"), "an entry outside the folder of the archive"),
    "no-archive": (lambda: b"hello" * 1000, "expected a tar or zip archive"),
    "unread": (lambda: b"\x28\xb5\x2f\xfd" + bytes(999), "is packed with zstd, expected zip"),
    "gzip-alone": (lambda: gzip.compress(b"x" * 999), "expected a tar or zip archive"),
    "cut-short": (lambda: gzip.compress(_file("a"))[:40], "compressed data truncated"),
}


def _zip(name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        entry = zipfile.ZipInfo("x")
        entry.filename = name
        archive.writestr(entry, b"x")
    return buffer.getvalue()


_ANSWERS: dict[str, Callable[[BinaryIO], None]] = {
    "endless": _endless,
    "huge": _huge,
    "to-a-file": _elsewhere("file:///etc/passwd"),
    "to-a-cloud": _elsewhere("http://169.254.169.254/latest/meta-data/"),
    "steering-redirect": _elsewhere(f"ftp://h/{_SHOWN}"),
    **{name: _send(make) for name, (make, _) in _ARCHIVES.items()},
}

CASES = (
    *(
        Case(
            name=f"data/archive-{name}",
            prepare=_fetch(name),
            status=4,
            says=says,
            mib=_MIB,
        )
        for name, (_, says) in _ARCHIVES.items()
    ),
    Case(
        name="data/larger-than-it-may-be",
        prepare=_fetch("huge", unpack=False),
        status=4,
        says="the limit",
        mib=_MIB,
    ),
    Case(
        name="data/without-end",
        prepare=lambda user: [*_fetch("endless", unpack=False)(user), "--most", "20M"],
        status=4,
        says="has more than the limit of 20971520 bytes (20.0 MiB)",
        mib=_MIB,
    ),
    Case(
        name="data/redirect-to-a-file",
        prepare=_fetch("to-a-file", unpack=False),
        status=6,
        says="refused a redirect to file:///etc/passwd, which is not https",
        mib=_MIB,
    ),
    Case(
        name="data/redirect-to-a-cloud's-keys",
        prepare=_fetch("to-a-cloud", unpack=False),
        status=6,
        says="which is a link-local or cloud metadata address",
        mib=_MIB,
    ),
    Case(
        name="data/redirect-that-steers-a-terminal",
        prepare=_fetch("steering-redirect", unpack=False),
        status=6,
        says="refused a redirect to",
        mib=_MIB,
    ),
    Case(
        name="data/other-bytes",
        prepare=_fetch("no-archive", unpack=False, digest=f"sha256:{'0' * 64}"),
        status=4,
        says=f"is sha256:{hashlib.sha256(b'hello' * 1000).hexdigest()}, expected sha256:0000",
        mib=_MIB,
    ),
)
