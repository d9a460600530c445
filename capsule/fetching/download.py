"""Write what a server sends into a file: within the size of a capsule, and while it comes."""

from __future__ import annotations

import errno
import hashlib
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from requests import Response

from capsule import sizes
from capsule.archive.limits import MOST_BYTES, MOST_DIRECTORY_BYTES
from capsule.errors import CannotRunError, DamagedError, ExecutionError
from capsule.web import FAULTS, explain

STALL_SECONDS = 120
# headers of entries take no more than the directory, which repeats them
MOST_DOWNLOAD_BYTES = MOST_BYTES + 2 * MOST_DIRECTORY_BYTES
# so little is no progress: a server that drips bytes holds nobody for ever
_CHUNK_BYTES = 1 << 14
_TICK_SECONDS = 0.5
# what a file has to say that a connection has not
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
_ZIP = b"PK\x03\x04"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file that can be downloaded.

    Attributes:
        open: Asks for it, and returns an answer whose body is not read yet.
        size_bytes: How long somebody said that it is.
        algorithm: `sha256` or `md5`, of `digest`.
        digest: Expected digest of its bytes, in hexadecimal digits; empty if none is known.
    """

    open: Callable[[], Response]
    size_bytes: int | None = None
    algorithm: str = "sha256"
    digest: str = ""


def save(source: Source, target: Path, where: str, hear: Callable[[int, int | None], None]) -> None:
    """Download a file, whole or not at all.

    Args:
        source: What to ask for.
        target: File to write.
        where: For messages.
        hear: Is told how many bytes came, and how many there will be.

    Raises:
        CannotRunError: It does not come, comes to a standstill, or ends early.
        DamagedError: It is no capsule, is larger than one may be, or not what it was said to be.
        ExecutionError: There is no room for it.
    """
    transfer = _Transfer(source, target, where)
    # a limit of each read bounds neither a drip of bytes nor `100 Continue` for ever; this bounds
    # whoever waits, and the thread ends with its connection
    threading.Thread(target=transfer.run, name="capsule-download", daemon=True).start()
    try:
        transfer.wait(hear)
    finally:
        transfer.stopped = True


class _Transfer:
    def __init__(self, source: Source, target: Path, where: str) -> None:
        self.stopped = False
        self._source = source
        self._target = target
        self._where = where
        self._done = 0
        self._total: int | None = None
        self._end: Future[None] = Future()

    def run(self) -> None:
        """Do all of the work, in a thread of its own."""
        try:
            self._receive()
        except BaseException as error:
            self._end.set_exception(error)
        else:
            self._end.set_result(None)

    def wait(self, hear: Callable[[int, int | None], None]) -> None:
        """Wait for its end as long as bytes come."""
        mark, since = 0, time.monotonic()
        hear(mark, None)
        while not self._end.done():
            now = time.monotonic()
            if self._done != mark:
                mark, since = self._done, now
                hear(mark, self._total)
            elif now - since > STALL_SECONDS:
                raise CannotRunError(
                    f"download stalled after {sizes.size(self._done)}: less than"
                    f" {_CHUNK_BYTES >> 10} KiB arrived in {STALL_SECONDS:g} s",
                    where=self._where,
                    advice="try again later",
                )
            self._pause()
        self._end.result()

    def _pause(self) -> None:
        try:
            self._end.exception(_TICK_SECONDS)
        except TimeoutError:
            return

    def _receive(self) -> None:
        with self._source.open() as response:
            check(response, self._where)
            self._total = self._expect_size(response)
            try:
                self._write(response)
            except FAULTS as error:
                raise self._explain_end(error) from None

    def _expect_size(self, response: Response) -> int | None:
        """Check the announced number of bytes before any are read."""
        text = response.headers.get("Content-Length", "")
        total = int(text) if text.isdecimal() and len(text) < 20 else None
        if total is not None and self._source.size_bytes not in (None, total):
            raise DamagedError(
                f"the server sends {total} bytes, expected {self._source.size_bytes} bytes",
                where=self._where,
                advice="try again; if the sizes differ again, ask the publisher of the capsule",
            )
        size = total if total is not None else self._source.size_bytes
        if size is not None:
            self._refuse_large(size)
            free = shutil.disk_usage(self._target.parent).free
            if size > free:
                raise ExecutionError(
                    f"the download needs {sizes.size(size)} of disk space,"
                    f" only {sizes.size(free)} are free",
                    where=str(self._target.parent.parent),
                    advice="free some space, or set CAPSULE_CACHE to another folder",
                )
        return size

    def _write(self, response: Response) -> None:
        hasher = hashlib.new(self._source.algorithm, usedforsecurity=False)
        start = b""
        with self._target.open("xb") as stream:
            while not self.stopped and (
                piece := response.raw.read(_CHUNK_BYTES, decode_content=False)
            ):
                start = start or piece
                if not start.startswith(_ZIP[: len(start)]):
                    raise self._no_capsule(response, start)
                self._done += len(piece)
                self._refuse_large(self._done)
                hasher.update(piece)
                stream.write(piece)
        if not self._done:
            raise self._no_capsule(response, b"")
        if self._total is not None and self._done != self._total:
            raise self._explain_end(None)
        if self._source.digest and hasher.hexdigest() != self._source.digest:
            raise DamagedError(
                f"{self._source.algorithm} of the download is {hasher.hexdigest()}, expected"
                f" {self._source.digest}",
                where=self._where,
                advice="try again; if the digests differ again, ask the publisher of the capsule",
            )

    def _refuse_large(self, size_bytes: int) -> None:
        if size_bytes > MOST_DOWNLOAD_BYTES:
            raise DamagedError(
                f"the download exceeds {sizes.size(MOST_DOWNLOAD_BYTES)}, the limit",
                where=self._where,
                advice="check the address, or ask the publisher of the capsule",
            )

    def _no_capsule(self, response: Response, start: bytes) -> DamagedError:
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
        page = kind == "text/html" or start.lstrip()[:1] == b"<"
        what = "a web page" if page else f"{kind[:80]!r}" if kind else "a file of unknown type"
        return DamagedError(
            f"the server sends {what} instead of a capsule"
            if start
            else "the server sends an empty file instead of a capsule",
            where=self._where,
            advice="give the address of the file itself: copy its download link"
            if page
            else "check the address, or ask the publisher of the capsule",
        )

    def _explain_end(self, error: Exception | None) -> Exception:
        if isinstance(error, OSError) and error.errno in _DISK:
            return ExecutionError(
                f"cannot be written: {error.strerror}",
                where=str(self._target.parent.parent),
                advice="free some space, or set CAPSULE_CACHE to another folder",
            )
        of = "" if self._total is None else f" of {sizes.size(self._total)}"
        reason = "" if error is None else f": {explain(error)}"
        return CannotRunError(
            f"connection lost after {sizes.size(self._done)}{of}{reason}",
            where=self._where,
            advice="try again",
        )


def check(response: Response, where: str) -> None:
    """Stop unless an answer is a good one.

    Raises:
        CannotRunError: Says what its status means.
        DamagedError: It is compressed.
    """
    status = response.status_code
    if status != 200:
        response.close()
        what, advice = _refusal(status)
        raise CannotRunError(what, where=where, advice=advice)
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        response.close()
        raise DamagedError(
            f"the server sends Content-Encoding {encoding[:80]!r}, expected the uncompressed file",
            where=where,
            advice="download the capsule with another program, and give the path of the file",
        )


def _refusal(status: int) -> tuple[str, str]:
    """Return the error and remedy for a status."""
    if status in (401, 403, 407):
        return (
            f"the server refuses access (HTTP {status})",
            "if the server requires a login, write https://USER:PASSWORD@HOST/PATH",
        )
    if status in (404, 410):
        return f"the server has no file at this address (HTTP {status})", "check the address"
    return f"the server answered HTTP {status}", "try again later"
