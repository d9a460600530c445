"""Writing what a server sends: sizes, digests and ends, without any server."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from requests import ConnectionError as Broken
from requests import Response

from capsule.errors import CannotRunError, CapsuleError, DamagedError, ExecutionError
from capsule.fetching import download
from capsule.fetching.download import Source

ZIP = b"PK\x03\x04"
BODY = ZIP + b"12345"


class Answer:
    """What a server sends, piece by piece; one that is an exception is raised."""

    def __init__(
        self,
        *pieces: bytes | Exception,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.status_code = status
        self.headers = headers or {}
        self.raw = self
        self.closed = False
        self._pieces = [*pieces, b""]

    def read(self, most: int, *, decode_content: bool) -> bytes:
        assert not decode_content
        piece = self._pieces.pop(0)
        if isinstance(piece, Exception):
            raise piece
        assert len(piece) <= most
        return piece

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def length(count: int | str) -> dict[str, str]:
    return {"Content-Length": str(count)}


def save(folder: Path, answer: Answer, **source: object) -> bytes:
    target = folder / "part" / "a.capsule.zip"
    target.parent.mkdir(exist_ok=True)
    asked = cast("Callable[[], Response]", lambda: answer)
    download.save(Source(open=asked, **source), target, "there", lambda *_: None)  # type: ignore[arg-type]
    assert answer.closed
    return target.read_bytes()


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_what_comes_is_written_and_has_its_digest(tmp_path: Path, algorithm: str) -> None:
    right = hashlib.new(algorithm, BODY, usedforsecurity=False).hexdigest()
    answer = Answer(BODY[:2], BODY[2:6], BODY[6:], headers=length(9))
    how = {"algorithm": algorithm, "size_bytes": 9}
    assert save(tmp_path, answer, digest=right, **how) == BODY
    (tmp_path / "part/a.capsule.zip").unlink()
    with pytest.raises(DamagedError, match=f"{algorithm} of the download is {right}, expected 00"):
        save(tmp_path, Answer(BODY), digest="00", **how)


@pytest.mark.parametrize(
    ("answer", "size", "kind", "message"),
    [
        (
            Answer(BODY, headers=length(9)),
            8,
            DamagedError,
            "the server sends 9 bytes, expected 8",
        ),
        (
            Answer(BODY, headers=length(10)),
            None,
            CannotRunError,
            "connection lost after 9 bytes of 10 bytes",
        ),
        (
            Answer(BODY, headers=length(8)),
            None,
            CannotRunError,
            "connection lost after 9 bytes of 8 bytes",
        ),
        (Answer(BODY, Broken("gone")), None, CannotRunError, "connection lost after 9 bytes: "),
        (Answer(), None, DamagedError, "the server sends an empty file"),
        (Answer(b"PK\x03", b"\x04<"), None, DamagedError, ""),
        (Answer(b"PK", b"KP"), None, DamagedError, ""),
        (
            Answer(b"  <html>"),
            None,
            DamagedError,
            "the server sends a web page instead of a capsule",
        ),
        (
            Answer(b"x", headers={"Content-Type": "text/html; charset=utf-8"}),
            *(None, DamagedError, "the server sends a web page instead of a capsule"),
        ),
        (
            Answer(b"{}", headers={"Content-Type": "application/json"}),
            *(None, DamagedError, "the server sends 'application/json' instead of a capsule"),
        ),
        (
            Answer(b"x"),
            None,
            DamagedError,
            "the server sends a file of unknown type instead of a capsule",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_not_the_file_is_told(
    tmp_path: Path,
    answer: Answer,
    size: int | None,
    kind: type[CapsuleError],
    message: str,
) -> None:
    if not message:
        # the first piece alone is looked at
        save(tmp_path, answer, size_bytes=size)
        return
    with pytest.raises(kind, match=message):
        save(tmp_path, answer, size_bytes=size)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        *((code, f"the server refuses access .HTTP {code}.") for code in (401, 403, 407)),
        *((code, f"the server has no file at this address .HTTP {code}.") for code in (404, 410)),
        *((code, f"answered HTTP {code}") for code in (201, 400, 405, 500)),
    ],
)
def test_each_status_is_told_by_what_it_means(tmp_path: Path, status: int, message: str) -> None:
    with pytest.raises(CannotRunError, match=message):
        save(tmp_path, Answer(BODY, status=status))


def test_what_is_compressed_is_refused(tmp_path: Path) -> None:
    assert save(tmp_path, Answer(BODY, headers={"Content-Encoding": "identity"})) == BODY
    (tmp_path / "part/a.capsule.zip").unlink()
    with pytest.raises(DamagedError, match="expected the uncompressed file"):
        save(tmp_path, Answer(BODY, headers={"Content-Encoding": "gzip"}))


@pytest.mark.parametrize(
    "answers",
    [
        lambda: Answer(BODY, headers=length(9)),
        lambda: Answer(BODY[:4], BODY[4:]),
        # a length of so many digits is none
        lambda: Answer(BODY, headers=length("1" * 20)),
        lambda: Answer(BODY, headers=length("nine")),
    ],
)
def test_a_capsule_has_as_many_bytes_as_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: Callable[[], Answer]
) -> None:
    monkeypatch.setattr(download, "MOST_DOWNLOAD_BYTES", 9)
    assert save(tmp_path, answers()) == BODY
    (tmp_path / "part/a.capsule.zip").unlink()
    monkeypatch.setattr(download, "MOST_DOWNLOAD_BYTES", 8)
    with pytest.raises(DamagedError, match="the download exceeds 8 bytes, the limit"):
        save(tmp_path, answers())


def test_a_length_of_nineteen_digits_is_believed(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="the download exceeds"):
        save(tmp_path, Answer(BODY, headers=length("1" * 19)))


@pytest.mark.parametrize("headers", [length(9), {}])
def test_nothing_is_read_that_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: Mapping[str, str]
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=9))
    assert save(tmp_path, Answer(BODY, headers=headers), size_bytes=9) == BODY
    (tmp_path / "part/a.capsule.zip").unlink()
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=8))
    words = "needs 9 bytes of disk space, only 8 bytes are free"
    with pytest.raises(ExecutionError, match=words) as refused:
        save(tmp_path, Answer(BODY, headers=headers), size_bytes=9)
    assert refused.value.where == str(tmp_path)


def test_an_error_of_the_file_is_not_told_as_one_of_the_connection(tmp_path: Path) -> None:
    for code, kind in ((errno.ENOSPC, ExecutionError), (errno.ECONNRESET, CannotRunError)):
        error = OSError(code, os.strerror(code))
        with pytest.raises(kind, match=os.strerror(code)) as told:
            save(tmp_path, Answer(BODY, error))
        (tmp_path / "part/a.capsule.zip").unlink()
        assert told.value.where == (str(tmp_path) if kind is ExecutionError else "there")


@pytest.mark.parametrize("stopped", [True, False])
def test_nobody_reads_on_for_whom_nobody_waits(tmp_path: Path, stopped: bool) -> None:
    pieces: Sequence[bytes] = [BODY, b"6", b"7"]
    answer = Answer(*pieces)
    asked = cast("Callable[[], Response]", lambda: answer)
    transfer = download._Transfer(Source(open=asked), tmp_path / "a", "there")
    transfer.stopped = stopped
    transfer.run()
    assert (tmp_path / "a").read_bytes() == (b"" if stopped else b"".join(pieces))
