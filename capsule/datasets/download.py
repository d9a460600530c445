"""Download one file: bounded, over a connection that stays as safe as it began, and resumable.

A download lies in a folder of its own: `content`, what came so far; `state.json`, by which the next
request can ask for the rest of the same file; `lock`, held by whoever writes there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from requests import Response

from capsule import leavings, offline, sizes, web
from capsule.addresses import explain_address, explain_refusal, is_plainly_loopback
from capsule.datasets.hashing import Progress
from capsule.errors import CannotRunError, DamagedError
from capsule.schema import parse

_CONNECT_SECONDS = 10
_READ_SECONDS = 30
_TICK_SECONDS = 0.1
# slower than this for so long, nobody waits to the end
_STALL_SECONDS, _STALL_BYTES = 60.0, 64 << 10
_PAUSES_SECONDS = (1.0, 5.0)
_MAX_REDIRECTS = 10
_CHUNK_BYTES = 1 << 16
_SPARE_BYTES = 64 << 20
_MOST_STATE_BYTES = 1 << 14
_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(?:\d{1,18}|\*)")


class _BrokenOff(Exception):
    """The connection ended before the file did: whoever asks again goes on."""


@dataclass(kw_only=True)
class _Work:
    """State shared by the downloading and the waiting thread.

    Attributes:
        done_bytes: Bytes received so far.
        total_bytes: Size of the whole file; 0 while it is unknown.
        stop: Nobody waits any longer.
    """

    done_bytes: int = 0
    total_bytes: int = 0
    stop: threading.Event = field(default_factory=threading.Event)


def download(
    url: str,
    folder: Path,
    *,
    most_bytes: int,
    trusts_bytes: bool,
    source: web.Source = "own",
    progress: Progress | None = None,
) -> Path:
    """Download a file, or the rest of it.

    Args:
        url: Its address, https, or http.
        folder: Folder of this download alone, locked by whoever calls.
        most_bytes: That it may have.
        trusts_bytes: True if a digest is held against the whole afterwards, so that the rest may be
            asked for even where the server cannot say that its file is the same as before.
        source: Who named the address.
        progress: Called in this thread with (bytes done, bytes in all or 0).

    Returns:
        The whole file, in the folder.

    Raises:
        CannotRunError: No server, no such file, no space, a redirect that is not followed, it broke
            off, or nothing may be connected to; what came is kept.
        DamagedError: It is larger than it may be.
    """
    _require_address(url, source)
    offline.require_network("the file", where=url)
    pauses = iter(_PAUSES_SECONDS)
    transfer = _Transfer(url, folder, most_bytes, trusts_bytes=trusts_bytes, source=source)
    while True:
        before = transfer.content_bytes()
        try:
            transfer.run(progress)
            return transfer.content
        except _BrokenOff as error:
            came = transfer.content_bytes()
            pause = next(pauses, None) if came - before < _STALL_BYTES else 0.0
            if pause is None:
                stopped = f"the download stopped after {sizes.size(came)}"
                what = stopped if came else "cannot be fetched"
                raise CannotRunError(
                    f"{what}: {error}",
                    where=url,
                    advice="try again later; the download continues where it stopped"
                    if came
                    else "try again later, or check the address",
                ) from None
            time.sleep(pause)


class _Transfer:
    """One file on its way into one folder."""

    def __init__(
        self, url: str, folder: Path, most_bytes: int, *, trusts_bytes: bool, source: web.Source
    ) -> None:
        self._source = source
        self.content = folder / "content"
        self._state = folder / "state.json"
        self._url = url
        self._most_bytes = most_bytes
        self._trusts_bytes = trusts_bytes

    def content_bytes(self) -> int:
        """Return the number of bytes that are present."""
        return leavings.size_bytes(self.content)

    def run(self, progress: Progress | None) -> None:
        """Run one connection.

        Raises:
            _BrokenOff: It ended before the file did.
            CannotRunError: Next to nothing comes.
        """
        work, done = _Work(), Future[None]()
        # a limit of each read bounds neither a drip of bytes nor headers without end; this bounds
        # whoever waits, and the thread ends with its connection
        threading.Thread(
            target=_settle, args=(done, lambda: self._run(work)), name="capsule-data", daemon=True
        ).start()
        try:
            self._wait(work, done, progress)
        finally:
            work.stop.set()

    def _wait(self, work: _Work, done: Future[None], progress: Progress | None) -> None:
        looked_at, seen = time.monotonic(), work.done_bytes
        while True:
            try:
                done.result(_TICK_SECONDS)
            except TimeoutError:
                if done.done():
                    raise
                if progress:
                    progress(work.done_bytes, work.total_bytes)
                if time.monotonic() - looked_at > _STALL_SECONDS:
                    if work.done_bytes - seen < _STALL_BYTES:
                        raise self._stall_error() from None
                    looked_at, seen = time.monotonic(), work.done_bytes
                continue
            if progress:
                progress(work.done_bytes, work.done_bytes)
            return

    def _run(self, work: _Work) -> None:
        with web.Session(self._url, source=self._source) as session:
            start, validator = self._resumption()
            with self._request(session, start, validator) as response:
                if start and response.headers.get("Content-Range") == f"bytes */{start}":
                    return  # killed when all had come
                start = self._begin(response, start)
                self._receive(response, start, work)

    def _resumption(self) -> tuple[int, str | None]:
        """Return the offset to resume from, and the validator that identifies the file."""
        stream = leavings.open_file(self._state)
        if stream is None:
            return 0, None
        with stream:
            data = stream.read(_MOST_STATE_BYTES)
        with suppress(DamagedError):
            match parse(data, where=str(self._state)):
                case {"url": self._url, "validator": str(validator)} if validator.isprintable():
                    return self.content_bytes(), validator
                case {"url": self._url, "validator": None} if self._trusts_bytes:
                    return self.content_bytes(), None
        return 0, None

    def _request(self, session: web.Session, start: int, validator: str | None) -> Response:
        """Ask, and follow redirects."""
        url = self._url
        headers = {"Accept": "*/*"}
        if start:
            headers["Range"] = f"bytes={start}-"
            if validator is not None:
                headers["If-Range"] = validator
        for _ in range(_MAX_REDIRECTS):
            try:
                response = session.get(
                    url, headers=headers, stream=True, timeout=(_CONNECT_SECONDS, _READ_SECONDS)
                )
            except web.FAULTS as error:
                raise _BrokenOff(web.explain(error)) from None
            if not response.is_redirect:
                return response
            response.close()
            url = self._target(response)
        raise CannotRunError(
            f"the server redirects more than {_MAX_REDIRECTS} times",
            where=self._url,
            advice="check the address",
        )

    def _target(self, response: Response) -> str:
        """Return the target of a redirect, unless it is less safe than its source."""
        try:
            target = urljoin(response.url, response.headers["Location"])
            after = urlsplit(target)
            has_login = after.username is not None or after.password is not None
        except ValueError:
            raise self._refusal("an invalid address") from None
        if has_login:
            raise self._refusal(f"an address with a login on {after.hostname}")
        fault = explain_refusal(response.url, target)
        if fault is not None:
            raise self._refusal(f"{target}, {fault}")
        return target

    def _refusal(self, target: str) -> CannotRunError:
        return CannotRunError(
            f"refused a redirect to {target}",
            where=self._url,
            advice="if you trust the target, download the file by hand, and add its path to the"
            " site file",
        )

    def _begin(self, response: Response, start: int) -> int:
        """Return the offset of the first byte of the response, and note the file's validator.

        Raises:
            CannotRunError: It is not served.
            _BrokenOff: It may be, when it is asked for anew.
        """
        status = response.status_code
        if status == 206 and start:
            sent = response.headers.get("Content-Range", "")
            first = _RANGE.fullmatch(sent)
            if first and int(first[1]) == start:
                return start
            self._forget()
            raise _BrokenOff(
                f"the server sends {sent[:80]!r}, expected the file from byte {start} on"
            )
        if status == 416 and start:
            self._forget()
            raise _BrokenOff(
                f"the server's file is shorter than the {sizes.size(start)} downloaded before"
            )
        if status != 200:
            raise self._status_error(status)
        self._forget()
        tag = response.headers.get("ETag", "")
        validator = tag if tag and not tag.startswith("W/") else None
        validator = validator or response.headers.get("Last-Modified")
        self._state.write_text(json.dumps({"url": self._url, "validator": validator}))
        return 0

    def _forget(self) -> None:
        self._state.unlink(missing_ok=True)
        self.content.unlink(missing_ok=True)

    def _status_error(self, status: int) -> Exception:
        if status in (429, 500, 502, 503, 504):
            return _BrokenOff(f"the server answered HTTP {status}")
        advice = "check the address: the owner may have moved the file"
        if status in (401, 403):
            advice = (
                "if the server requires a login (capsule does not use ~/.netrc), download the file"
                " by hand, and add its path to the site file"
            )
        return CannotRunError(f"the server answered HTTP {status}", where=self._url, advice=advice)

    def _receive(self, response: Response, start: int, work: _Work) -> None:
        length = response.headers.get("Content-Length", "")
        total = start + int(length) if length.isdecimal() and len(length) < 19 else 0
        if total > self._most_bytes:
            raise self._size_error(f"{sizes.exact_size(total)}, ")
        # a server need not say how much follows
        self._require_space(max(0, total - start))
        work.done_bytes, work.total_bytes = start, total
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.content, flags, 0o666), "ab", buffering=0) as stream:
            while piece := self._read(response):
                if work.stop.is_set():
                    return
                if work.done_bytes + len(piece) > self._most_bytes:
                    raise self._size_error("")
                stream.write(piece)
                work.done_bytes += len(piece)
            os.fsync(stream.fileno())
        if work.done_bytes < total:
            raise _BrokenOff(f"the connection ended early, expected {sizes.size(total)}")

    def _read(self, response: Response) -> bytes:
        try:
            # as it is: what a server calls its encoding is often the file's own, as of a .gz
            piece: bytes = response.raw.read(_CHUNK_BYTES, decode_content=False)
        except web.FAULTS as error:
            raise _BrokenOff(web.explain(error)) from None
        return piece

    def _stall_error(self) -> CannotRunError:
        # not tried again at once: the thread that hangs could still write
        return CannotRunError(
            f"download stalled: less than {_STALL_BYTES >> 10} KiB arrived in {_STALL_SECONDS:g} s",
            where=self._url,
            advice="try again later; the download continues where it stopped",
        )

    def _size_error(self, size: str) -> DamagedError:
        self._forget()
        return DamagedError(
            f"the file has {size}more than the limit of {sizes.exact_size(self._most_bytes)}",
            where=self._url,
            advice="if no capsule states the size of the data, raise the limit with --most",
        )

    def _require_space(self, wanted_bytes: int) -> None:
        free = shutil.disk_usage(self.content.parent).free
        needed = wanted_bytes + _SPARE_BYTES
        if needed > free:
            raise CannotRunError(
                f"the disk has too little space: {sizes.size(free)} are free, the download needs"
                f" {sizes.size(needed)}",
                where=str(self.content.parent),
                advice="free some space, or set CAPSULE_CACHE to another folder",
            )


def _require_address(url: str, source: web.Source) -> None:
    """Stop at an address that is not asked, before anything is resolved.

    Raises:
        CannotRunError: It is what only a machine's own provider serves, such as a cloud's keys; or
            this machine, where somebody else says so in a way that does not show it.
    """
    host = urlsplit(url).hostname or ""
    inwards = source != "foreign" or is_plainly_loopback(host)
    if fault := explain_address(host, may_be_this_machine=inwards):
        raise CannotRunError(
            f"refused address, {fault}",
            where=url,
            advice="download the data by hand, and add the path to the site file",
        )


def _settle(done: Future[None], work: Callable[[], None]) -> None:
    try:
        work()
        done.set_result(None)
    except OSError as error:
        wrapped = CannotRunError(
            f"cannot be written: {error.strerror}",
            where=error.filename,
            advice="free some space, or set CAPSULE_CACHE to another folder",
        )
        done.set_exception(wrapped)
    except BaseException as error:
        done.set_exception(error)
