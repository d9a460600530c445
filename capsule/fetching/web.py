"""Ask a server for a file: redirects are bounded, and a login goes to its own server alone."""

from __future__ import annotations

import base64
from types import TracebackType
from urllib.parse import urljoin, urlsplit

from requests import Response

from capsule.addresses import explain_refusal
from capsule.errors import CannotRunError, DamagedError
from capsule.fetching.download import STALL_SECONDS, check
from capsule.fetching.locations import Web
from capsule.web import FAULTS, Session, explain

_BY_HAND = "download the capsule with another program, and give the path of the file"
_CONNECT_SECONDS = 10
_MOST_REDIRECTS = 10


class Conversation:
    """Requests to the server of an address, and to those that it redirects to."""

    def __init__(self, server: Web) -> None:
        self._server = server
        self._session = Session(server.url, source="typed")

    def __enter__(self) -> Conversation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._session.close()

    def open(self, url: str, *, accept: str = "*/*") -> Response:
        """Return a good answer, of which nothing but the head was read.

        Raises:
            CannotRunError: There is none, or not at an address that may be asked.
            DamagedError: The answer is compressed, though it was asked not to be.
        """
        where = self._server.name
        for _ in range(_MOST_REDIRECTS + 1):
            try:
                response = self._session.get(
                    url,
                    headers={"Accept": accept, **self._login(url)},
                    stream=True,
                    timeout=(_CONNECT_SECONDS, STALL_SECONDS),
                )
            except FAULTS as error:
                raise CannotRunError(
                    f"{urlsplit(url).hostname} did not answer: {explain(error)}",
                    where=where,
                    advice="check the address, and the network of this machine",
                ) from None
            if not response.is_redirect:
                check(response, where)
                return response
            response.close()
            url = self._follow(url, response.headers["Location"])
        raise CannotRunError(
            f"the server redirects more than {_MOST_REDIRECTS} times",
            where=where,
            advice="check the address",
        )

    def require_address(self, url: str) -> str:
        """Return an address that an answer names, where it may be asked: no less safe than the
        server's.

        Raises:
            DamagedError: It is none.
        """
        fault = explain_refusal(self._server.url, url)
        if fault is not None:
            raise DamagedError(
                f"refused the file address {url[:200]!r} that the server gives, {fault}",
                where=self._server.name,
                advice=_BY_HAND,
            )
        return _without_login(url)

    def _login(self, url: str) -> dict[str, str]:
        if self._server.login is None or _origin(url) != _origin(self._server.url):
            return {}
        return {"Authorization": f"Basic {base64.b64encode(self._server.login.encode()).decode()}"}

    def _follow(self, url: str, location: str) -> str:
        """Return the target of a redirect, unless it is less safe than its source."""
        try:
            # requests reads headers as Latin-1
            target = urljoin(url, location.encode("latin-1").decode())
        except ValueError:
            target = ""
        fault = explain_refusal(url, target)
        if fault is not None:
            # which one is not said: it may hold a token
            raise CannotRunError(
                f"refused a redirect to an address {fault}",
                where=self._server.name,
                advice=_BY_HAND,
            )
        return _without_login(target)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
