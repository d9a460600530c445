"""Common parts of all conversations over HTTP."""

from __future__ import annotations

import socket
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Literal
from urllib.parse import urlsplit

import requests
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, NewConnectionError

from capsule import __version__
from capsule.addresses import explain_address, is_loopback, is_plainly_loopback
from capsule.errors import CannotRunError

FAULTS = (requests.RequestException, HTTPError, HTTPException, OSError)
"""Exceptions of a transfer: `requests` wraps only some of them."""


Source = Literal["typed", "own", "foreign"]
"""Origin of the first address: typed by the user, from a file of the user, or untrusted."""


class Session(requests.Session):
    """Follows no redirect, sends no login but what it is told to, and judges where it connects.

    A name is resolved once for each connection, every address of it is judged, and the connection
    goes to one of those. Behind a proxy, which resolves names itself, only a name can be judged.

    Args:
        url: The first address; its host may be more than those that a server names later.
        source: Who named it.
    """

    def __init__(self, url: str, *, source: Source) -> None:
        super().__init__()
        host = urlsplit(url).hostname or ""
        self.headers["Accept-Encoding"] = "identity"  # digests are of the bytes as they are
        self.headers["User-Agent"] = f"capsule-hpc/{__version__}"
        # requests would send what ~/.netrc has for the host
        self.auth = _no_login
        # no proxy can reach this machine's loopback
        self.trust_env = not is_loopback(host)
        door = _Door(host, source)
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(door))

    def get_redirect_target(self, resp: Response) -> None:
        """Return None: capsule handles redirects, whose bodies would be read without limit."""


def explain(error: BaseException) -> str:
    """Return the innermost cause: requests wraps the one useful sentence three times."""
    while inner := _cause(error):
        error = inner
    words = str(error).rpartition(": ")[2][:200]
    # what was asked for may be a secret
    return type(error).__name__ if not words or "://" in words or "?" in words else words


def _cause(error: BaseException) -> Exception | None:
    candidates = (getattr(error, "reason", None), *error.args[:1])
    return next((one for one in candidates if isinstance(one, Exception)), None)


def _no_login(request: PreparedRequest) -> PreparedRequest:
    return request


class _Door:
    """Decides for one session which addresses are connected to."""

    def __init__(self, host: str, source: Source) -> None:
        self._host = host
        self._source = source
        self._is_inside = is_loopback(host) if source != "foreign" else is_plainly_loopback(host)

    def admit(self, host: str, port: int | None) -> list[str]:
        """Return the addresses of a host, in the order in which they are to be tried.

        Raises:
            CannotRunError: One of them is not asked.
            OSError, UnicodeError: The name cannot be resolved.
        """
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(one[4][0]) for one in found))
        is_named = host == self._host
        if is_named and self._source == "typed":
            self._is_inside = self._is_inside or any(map(is_loopback, addresses))
            return addresses
        may_be_this_machine = self._is_inside or (is_named and self._source == "own")
        for address in addresses:
            fault = explain_address(address, may_be_this_machine=may_be_this_machine)
            if fault is not None:
                raise CannotRunError(
                    f"refused address {address}, {fault}",
                    where=host,
                    advice="use an address that other machines can reach",
                )
        self._is_inside = self._is_inside or (is_named and any(map(is_loopback, addresses)))
        return addresses


class _Adapter(HTTPAdapter):
    """Has what goes to no proxy pass a door."""

    def __init__(self, door: _Door) -> None:
        self._door = door
        super().__init__()

    def init_poolmanager(self, *words: Any, **settings: Any) -> None:
        """Make the pools of connections, of our own kind."""
        super().init_poolmanager(*words, **settings)
        door = self._door

        class Judged(HTTPConnection):
            def _new_conn(self) -> socket.socket:
                return _connect(self, super()._new_conn, door)

        class JudgedTls(HTTPSConnection):
            def _new_conn(self) -> socket.socket:
                return _connect(self, super()._new_conn, door)

        class Pool(HTTPConnectionPool):
            ConnectionCls = Judged

        class PoolTls(HTTPSConnectionPool):
            ConnectionCls = JudgedTls

        self.poolmanager.pool_classes_by_scheme = {"http": Pool, "https": PoolTls}


def _connect(
    connection: HTTPConnection, connect: Callable[[], socket.socket], door: _Door
) -> socket.socket:
    """Connect to an address that was judged, while all else goes by the name, as TLS does."""
    name = connection._dns_host
    try:
        addresses = door.admit(name, connection.port)
    except (OSError, UnicodeError) as error:
        raise NewConnectionError(connection, f"{name} cannot be resolved: {error}") from None
    fault: HTTPError = NewConnectionError(connection, f"{name} has no address")
    try:
        for address in addresses:
            connection._dns_host = address
            try:
                return connect()
            except HTTPError as error:
                fault = error
    finally:
        connection._dns_host = name
    raise fault
