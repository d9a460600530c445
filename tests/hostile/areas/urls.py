"""What servers send instead of a capsule, and what a command line names instead of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from tests.hostile.case import Case, Prepare
from tests.support import publishing, registries
from tests.support.capsules import pack, sample, sample_files
from tests.support.command import User
from tests.support.registries import Answer, http

_ZIP = b"PK\x03\x04"
_SECRET = "s3cret-w0rd"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


@cache
def _host() -> str:
    """One server for all of them, to the end of the process: a name says how it lies."""

    def answer(path: str, out: BinaryIO) -> None:
        parts = path.partition("?")[0].split("/")
        _ANSWERS[parts[2] if parts[1] == "v2" else parts[1]](path, out)

    server = registries.start(answer)
    return f"127.0.0.1:{server.server_address[1]}"


def _send(data: bytes) -> Answer:
    return lambda path, out: _write(out, data)


def _write(out: BinaryIO, data: bytes) -> None:
    out.write(data)


def _circle(path: str, out: BinaryIO) -> None:
    out.write(http(b"", status="302 Found", Location=f"http://{_host()}{path}"))


def _endless_redirect(path: str, out: BinaryIO) -> None:
    """A redirect whose own body never ends."""
    if path.endswith("/on"):
        out.write(http(b"", status="404 Not Found"))
        return
    out.write(f"HTTP/1.1 302 Found\r\nLocation: http://{_host()}{path}/on\r\n\r\n".encode())
    _pour(out, bytes(1 << 16))


def _pour(out: BinaryIO, data: bytes) -> None:
    while True:
        out.write(data)


def _endless_line(path: str, out: BinaryIO) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    _pour(out, b"0" * (1 << 16))


def _endless_header(path: str, out: BinaryIO) -> None:
    out.write(b"HTTP/1.1 200 OK\r\n")
    _pour(out, b"X-A: b\r\n")


@cache
def _changed() -> bytes:
    """A capsule of the right id, of which one document is another."""
    files = {**sample_files(), "data/README.md": b"# Another one\n"}
    with TemporaryDirectory() as folder:
        return pack(files, Path(folder) / "a.zip").read_bytes()


def _registry(manifest: bytes) -> Answer:
    return lambda path, out: _write(out, http(manifest, Content_Type="a/b"))


def _record(change: Callable[[dict[str, object]], object]) -> Answer:
    """A record of Zenodo that was changed, and behind it the file that it names."""

    def answer(path: str, out: BinaryIO) -> None:
        if path.endswith("/content"):
            out.write(http(sample()))
            return
        document = publishing.record(f"http://{_host()}/file", sample())
        change(document)
        out.write(http(json.dumps(document).encode()))

    return answer


def _entry(**changes: object) -> Callable[[dict[str, object]], object]:
    def change(document: dict[str, object]) -> None:
        files = document["files"]
        assert isinstance(files, list)
        files[1].update(changes)

    return change


_ANSWERS: dict[str, Answer] = {
    "honest": _send(http(sample())),
    "page": _send(http(b"<!DOCTYPE html>\x1b[2J", Content_Type="text/html; charset=\x1b[2J")),
    "kind": _send(http(b"%PDF", Content_Type="application/\x1b[2J")),
    "short": _send(_HEAD % 1_000_000 + _ZIP),
    "long": _send(_HEAD % 99 + sample()),
    "huge": _send(_HEAD % 10**18 + _ZIP),
    "full": _send(_HEAD % (100 << 30) + _ZIP),
    "odd-length": _send(b"HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n" + _ZIP),
    "compressed": _send(http(b"\x1f\x8b", Content_Encoding="gzip")),
    **dict.fromkeys(("lost", "lost-record"), _send(http(b"", status="404 Not Found"))),
    "closed": _send(http(b"", status="401 Unauthorized")),
    "busy": _send(http(b"", status="503 \x1b[2J")),
    "ssh": _send(b"SSH-2.0-\x1b[2J\r\n"),
    "circle": _circle,
    "endless-redirect": _endless_redirect,
    "endless-line": _endless_line,
    "endless-header": _endless_header,
    "elsewhere": _send(http(b"", status="302 Found", Location="file:///etc/passwd")),
    "steered": _send(http(b"", status="302 Found", Location="http://a.example/\x1b[2J")),
    "changed": lambda path, out: _write(out, http(_changed())),
    "image": _registry(
        publishing.artifact(b"PK", config={"mediaType": "application/vnd.oci.image.config.v1+json"})
    ),
    "two": _registry(publishing.artifact(b"PK", layers=[1, 2])),
    "nested": _registry(b"[" * 100_000),
    "endless-manifest": lambda path, out: _pour(out, b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1 << 16)),
    "nested-record": _send(http(b'{"files":' * 50_000)),
    "endless-record": lambda path, out: _pour(out, b"HTTP/1.1 200 OK\r\n\r\n" + bytes(1 << 16)),
    "other-record": _record(lambda document: document.update(doi="10.5281/zenodo.\x1b[2J")),
    "closed-record": _record(lambda document: document.pop("files")),
    "odd-record": _record(lambda document: document.update(files=[[]])),
    "file-record": _record(_entry(links={"self": "file:///etc/\x1b[2Jpasswd"})),
    "size-record": _record(_entry(size=10**400)),
    "name-record": _record(_entry(key="\x1b[2J.txt")),
    "checksum-record": _record(_entry(checksum="md5:" + "0" * 32)),
    "file": _send(http(sample())),
}


def _check(place: str, *words: str) -> Prepare:
    return lambda user: ["check", f"http://{_host()}/{place}", *words]


def _verify(place: str, *words: str) -> Prepare:
    return lambda user: ["verify", f"http://{_host()}/{place}", "--trust", "--allow-host", *words]


def _artifact(name: str) -> Prepare:
    return lambda user: ["check", f"oci://{_host()}/{name}:1"]


def _changed_twice(user: User) -> list[str | Path]:
    """A copy that turned out to be damaged is asked for again, and not taken for the right one."""
    words = ("--id", publishing.id_of(sample()))
    for place, status in (("changed", 4), ("honest", 0)):
        ended = user.run("check", f"http://{_host()}/{place}", *words)
        assert ended.returncode == status, ended.stderr
    return ["check", f"http://{_host()}/lost", *words]


class _Zenodo(Mapping[str, str]):
    """Names the server of a case once it is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, key: str) -> str:
        return f"http://{_host()}/{self._name}"

    def __iter__(self) -> Iterator[str]:
        return iter(["CAPSULE_ZENODO"])

    def __len__(self) -> int:
        return 1


def _case(name: str, status: int, says: str, prepare: Prepare | None = None) -> Case:
    """A check of what lies at a place of that name."""
    return Case(
        name=f"url/{name}",
        prepare=prepare or _check(f"{name}?key={_SECRET}"),
        status=status,
        says=says,
        says_not=_SECRET,
        mib=256,
    )


def _deposit(name: str, status: int, says: str) -> Case:
    return Case(
        name=f"url/{name}",
        prepare=lambda user: ["show", publishing.DOI],
        status=status,
        says=says,
        says_not="\x1b",
        mib=256,
        variables=_Zenodo(name),
    )


_OTHER = ("--id", "0" * 64)
_SHORT = ("--id", publishing.id_of(sample())[:11])

CASES = (
    _case("page", 4, "the server sends a web page instead of a capsule"),
    _case("kind", 4, r"'application/\x1b[2J' instead of a capsule"),
    _case("short", 6, "connection lost after 4 bytes of 976.6 KiB"),
    _case("long", 4, "not a capsule: truncated"),
    _case("huge", 4, "the download exceeds"),
    _case("full", 5, "are free"),
    _case("odd-length", 4, "not a capsule: truncated"),
    _case("compressed", 4, "expected the uncompressed file"),
    _case("lost", 6, "the server has no file at this address (HTTP 404)"),
    _case("closed", 6, "the server refuses access (HTTP 401)"),
    _case("busy", 6, "the server answered HTTP 503"),
    _case("ssh", 6, "did not answer"),
    _case("circle", 6, "the server redirects more than 10 times"),
    _case("endless-redirect", 6, "the server has no file at this address"),
    _case("endless-line", 6, "connection lost after 0 bytes"),
    _case("endless-header", 6, "did not answer"),
    _case("elsewhere", 6, "refused a redirect to an address which"),
    _case("steered", 6, "refused a redirect to an address which"),
    _case("changed", 4, "changed data/README.md"),
    _case("another-capsule", 4, "another capsule than requested", _check("honest", *_OTHER)),
    _case(
        "another-capsule-to-run", 4, "another capsule than requested", _verify("honest", *_OTHER)
    ),
    _case("id-of-eleven-digits", 2, "expected a capsule id", _check("honest", *_SHORT)),
    _case("damaged-copy", 0, "intact", _changed_twice),
    _case(
        "login-in-the-clear",
        2,
        "plain HTTP would send the login unencrypted",
        lambda user: ["check", f"http://me:{_SECRET}@a.example/b"],
    ),
    _case(
        "login-refused",
        6,
        "refuses access",
        lambda user: ["verify", f"http://me:{_SECRET}@{_host()}/closed", "--trust"],
    ),
    _case(
        "no-address",
        2,
        "the address is invalid",
        lambda user: ["check", f"https://me:{_SECRET}@[::1/b"],
    ),
    _case(
        "another-protocol",
        2,
        "cannot fetch a capsule by gopher://",
        lambda user: ["check", "gopher://a.example/b"],
    ),
    _case(
        "image", 6, "the registry sent a container image, expected a capsule", _artifact("image")
    ),
    _case("two", 4, "the manifest breaks its specification", _artifact("two")),
    _case("nested", 4, "nest", _artifact("nested")),
    _case("endless-manifest", 4, "exceeds", _artifact("endless-manifest")),
    _deposit("nested-record", 4, "nest"),
    _deposit("endless-record", 4, "the record exceeds"),
    _deposit("other-record", 4, "the server sent another record"),
    _deposit("closed-record", 6, "the record lists no files"),
    _deposit("odd-record", 6, "the record lists no files"),
    _deposit("file-record", 4, "refused the file address"),
    _deposit("size-record", 4, "does not fit in 64 bits"),
    _deposit("name-record", 6, "no file of the record ends in .capsule.zip"),
    _deposit("checksum-record", 4, "md5 of the download is"),
    _deposit("lost-record", 6, "the server has no file at this address"),
)
