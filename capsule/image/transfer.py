"""Talk to a registry: bounded answers, bearer tokens, stored logins. Knows nothing of images."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar
from urllib.parse import urljoin, urlsplit
from urllib.request import parse_http_list

from requests import Response

from capsule import localpaths, offline, sizes, web
from capsule.addresses import explain_refusal, is_loopback, split
from capsule.digest import of_bytes
from capsule.errors import CannotRunError, DamagedError
from capsule.image.reference import Reference
from capsule.schema import parse

_CONNECT_SECONDS = 10
_READ_SECONDS = 30
_TOTAL_SECONDS = 120
_SLOWEST_BYTES_PER_SECOND = 128 << 10
_MAX_TOKEN_BYTES = 1 << 20
_MAX_REDIRECTS = 10
_CHUNK_BYTES = 1 << 16
_ASK = "check the reference, or ask the operators of the registry"
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer of a registry: body and media type."""

    body: bytes
    media_type: str


class Transfer:
    """One conversation with a reference's registry: two minutes in all, and more for downloads.

    Args:
        reference: Names the registry, and the repository in it.
        subject: What is asked for, for messages.
    """

    def __init__(self, reference: Reference, *, subject: str = "image") -> None:
        self._reference = reference
        self._subject = subject
        self._session = web.Session(reference.endpoint, source="own")
        self._authorization: str | None = None
        self._deadline = time.monotonic() + _TOTAL_SECONDS

    def __enter__(self) -> Transfer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.close()

    def get(self, path: str, *, accept: str, limit_bytes: int) -> Answer:
        """Fetch `/v2/NAME/<path>`, logging in when the registry asks for it.

        Raises:
            CannotRunError: No answer in time, no such thing, no permission.
            DamagedError: Longer than `limit_bytes`, or not what the registry's own header says.
        """
        offline.require_network(f"this {self._subject}", where=str(self._reference))
        return self._wait(
            partial(self._get, path, accept, limit_bytes),
            max(0.0, self._deadline - time.monotonic()),
            _TOTAL_SECONDS,
        )

    def download(self, path: str, write: Callable[[bytes], object], *, size_bytes: int) -> None:
        """Fetch `/v2/NAME/<path>` piece by piece, in two minutes and a second for each 128 KiB.

        Args:
            path: Path of a blob.
            write: Gets the pieces, in a thread; what it raises ends the transfer.
            size_bytes: How long the blob is.

        Raises:
            CannotRunError: No answer in time, no such thing, no permission.
        """
        offline.require_network(f"this {self._subject}", where=str(self._reference))
        seconds = _TOTAL_SECONDS + size_bytes / _SLOWEST_BYTES_PER_SECOND
        self._wait(partial(self._copy, path, write), seconds, seconds)

    def _wait(self, work: Callable[[], _T], seconds: float, total_seconds: float) -> _T:
        """Return the result of some work, for which nobody waits longer than so.

        A limit of each read bounds neither a drip of bytes nor `100 Continue` for ever; this bounds
        whoever waits, and the thread ends with its connection.
        """
        answer: Future[_T] = Future()
        worker = partial(_settle, answer, work)
        threading.Thread(target=worker, name="capsule-registry", daemon=True).start()
        try:
            return answer.result(seconds)
        except TimeoutError:
            raise CannotRunError(
                f"the registry did not send a whole answer within {round(total_seconds, 1):g} s",
                where=str(self._reference),
                advice="try again later",
            ) from None

    def _get(self, path: str, accept: str, limit_bytes: int) -> Answer:
        with self.open(path, accept=accept) as response:
            body = self._body(response, limit_bytes)
            self._check_header(response, body)
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip()
        return Answer(body=body, media_type=kind)

    def _copy(self, path: str, write: Callable[[bytes], object]) -> None:
        with self.open(path, accept="*/*") as response:
            for piece in self._pieces(response):
                write(piece)

    def open(self, path: str, *, accept: str) -> Response:
        """Ask for `/v2/NAME/<path>`, and leave it to the caller to read within which time and size.

        Raises:
            CannotRunError: No answer, no such thing, no permission.
        """
        url = f"{self._reference.endpoint}/v2/{self._reference.repository}/{path}"
        response = self._request(url, accept, self._authorization)
        if response.status_code == 401:
            response.close()
            self._authorization = self._login(response.headers.get("WWW-Authenticate", ""))
            response = self._request(url, accept, self._authorization)
        try:
            self._check_status(response, path)
        except CannotRunError:
            response.close()
            raise
        return response

    def _request(
        self,
        url: str,
        accept: str,
        authorization: str | None,
        query: Mapping[str, str] | None = None,
    ) -> Response:
        """Ask, and follow redirects."""
        for _ in range(_MAX_REDIRECTS):
            headers = {"Accept": accept}
            if authorization is not None:
                headers["Authorization"] = authorization
            try:
                response = self._session.get(
                    url,
                    headers=headers,
                    params=query,
                    stream=True,
                    timeout=(_CONNECT_SECONDS, _READ_SECONDS),
                )
            except web.FAULTS as error:
                raise self._unreachable(error) from None
            if not response.is_redirect:
                return response
            response.close()
            target = self._target(response)
            if _origin(response.url) != _origin(target):
                authorization = None
            url, query = target, None
        raise CannotRunError(
            f"the registry redirects more than {_MAX_REDIRECTS} times",
            where=str(self._reference),
            advice=_ASK,
        )

    def _target(self, response: Response) -> str:
        """Return the target of a redirect, unless it is less safe than the registry."""
        try:
            target = urljoin(response.url, response.headers["Location"])
        except ValueError:
            target = ""
        fault = explain_refusal(response.url, target)
        if fault is None and _is_private(target):
            return target
        # what follows the question mark may be a signature that grants access
        shown = target.partition("?")[0][:200]
        raise CannotRunError(
            f"refused a redirect to {shown!r}, {fault or 'which is not https'}",
            where=str(self._reference),
            advice=_ASK,
        )

    def _body(self, response: Response, limit_bytes: int) -> bytes:
        body = bytearray()
        for piece in self._pieces(response):
            body += piece
            if len(body) > limit_bytes:
                raise DamagedError(
                    f"the registry's answer exceeds {sizes.size(limit_bytes)}, the limit",
                    where=str(self._reference),
                )
        return bytes(body)

    def _pieces(self, response: Response) -> Iterator[bytes]:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise CannotRunError(
                f"expected an uncompressed answer of the registry, found {encoding[:80]!r}",
                where=str(self._reference),
                advice=_ASK,
            )
        while True:
            try:
                piece = response.raw.read(_CHUNK_BYTES, decode_content=False)
            except web.FAULTS as error:
                raise self._unreachable(error) from None
            if not piece:
                return
            yield piece

    def _check_header(self, response: Response, body: bytes) -> None:
        name = response.headers.get("Docker-Content-Digest", "")
        if name.startswith("sha256:") and name != str(of_bytes(body)):
            raise DamagedError(
                f"the registry sent a document {of_bytes(body)}, but its header states"
                f" {name[:80]!r}",
                where=str(self._reference),
            )

    def _check_status(self, response: Response, path: str) -> None:
        host, status = self._reference.registry, response.status_code
        if status == 200:
            return
        where = str(self._reference)
        if status in (401, 403):
            raise CannotRunError(
                f"{host} refuses access to this {self._subject} (HTTP {status})",
                where=where,
                advice=f"if the {self._subject} exists, log in first: docker login {host}",
            )
        if status == 404:
            raise CannotRunError(
                f"{host} lacks {path} of this {self._subject}",
                where=where,
                advice="check name, tag and digest, or push the image from this machine first"
                if self._subject == "image"
                else "check name, tag and digest",
            )
        raise CannotRunError(
            f"{host} answered HTTP {status}", where=where, advice="try again later"
        )

    def _unreachable(self, error: Exception) -> CannotRunError:
        way = "plain HTTP, as on every loopback address" if self._reference.is_loopback else "HTTPS"
        return CannotRunError(
            f"the registry {self._reference.registry} did not answer ({way}): {web.explain(error)}",
            where=str(self._reference),
            advice="check host and port, and whether this machine can reach them; if not, run"
            " `capsule stage` on a machine that can, and add --offline on this machine",
        )

    def _login(self, challenge: str) -> str:
        """Return the Authorization header that answers a WWW-Authenticate header."""
        scheme, _, rest = challenge.partition(" ")
        stored = _stored_login(self._reference.registry)
        basic = f"Basic {stored}" if stored else None
        if scheme.lower() == "basic":
            if basic is not None:
                return basic
            raise CannotRunError(
                f"{self._reference.registry} asks for a login, and none is stored",
                where=str(self._reference),
                advice=f"log in first: docker login {self._reference.registry}",
            )
        wanted = _parameters(rest)
        realm = wanted.get("realm", "")
        if fault := _find_fault(scheme, realm):
            raise CannotRunError(
                f"{self._reference.registry} asks for a login, {fault}",
                where=str(self._reference),
                advice=_ASK,
            )
        query = {str(name): wanted[name] for name in ("service", "scope") if name in wanted}
        with self._request(realm, "application/json", basic, query) as response:
            self._check_status(response, "token")
            token = _token(self._body(response, _MAX_TOKEN_BYTES))
        if token is None:
            raise CannotRunError(
                f"{self._reference.registry} sent no token for the login",
                where=str(self._reference),
                advice=f"log in again: docker login {self._reference.registry}",
            )
        return f"Bearer {token}"


def _settle(answer: Future[_T], work: Callable[[], _T]) -> None:
    try:
        answer.set_result(work())
    except BaseException as error:
        answer.set_exception(error)


def _find_fault(scheme: str, realm: str) -> str | None:
    """Return why a login for a token is refused, None if it is safe.

    Args:
        scheme: Scheme of the challenge.
        realm: Address that sends tokens.
    """
    if scheme.lower() != "bearer":
        return f"found the scheme {scheme[:80]!r}, expected Basic or Bearer"
    if not _is_private(realm):
        # what follows the question mark may be a signature that grants access
        return f"found the realm {realm.partition('?')[0][:200]!r}, expected an https:// address"
    return None


def _parameters(challenge: str) -> dict[str, str]:
    """Parse the parameters of a challenge, in time linear in its length.

    >>> _parameters('realm="https://h/token",service="s, t"')
    {'realm': 'https://h/token', 'service': 's, t'}
    """
    pairs = (item.partition("=") for item in parse_http_list(challenge))
    return {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def _origin(url: str) -> tuple[str, str]:
    """Whom a login is for: a protocol and a host with its port."""
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _is_private(url: str) -> bool:
    """Return whether a login may be sent there: nobody on the way can read it."""
    try:
        parts = split(url)
        return parts.scheme == "https" or (
            parts.scheme == "http" and is_loopback(parts.hostname or "")
        )
    except ValueError:
        return False


def _token(body: bytes) -> str | None:
    try:
        answer = parse(body, where="token")
        token = answer.get("token") or answer.get("access_token")
    except (DamagedError, AttributeError):
        return None
    return token if isinstance(token, str) and token.isascii() and token.isprintable() else None


def _stored_login(registry: str) -> str | None:
    """Base64 of `user:password` as `docker login` stored it, None where it stored nothing here."""
    folder = Path(os.environ.get("DOCKER_CONFIG") or localpaths.home() / ".docker")
    key = "https://index.docker.io/v1/" if registry == "docker.io" else registry
    try:
        login = json.loads((folder / "config.json").read_text())["auths"][key]["auth"]
        base64.b64decode(login, validate=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(login) or None
