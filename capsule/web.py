"""What every conversation over HTTP has in common, whoever holds it."""

from __future__ import annotations

from http.client import HTTPException

import requests
from requests import PreparedRequest, Response
from urllib3.exceptions import HTTPError

from capsule import __version__

FAULTS = (requests.RequestException, HTTPError, HTTPException, OSError)
"""Whatever may go wrong on the way: `requests` wraps only a part of it."""


class Session(requests.Session):
    """Follows no redirect, and sends no login but what it is told to.

    Args:
        is_local: The server is on this machine's loopback, which no proxy can reach.
    """

    def __init__(self, *, is_local: bool) -> None:
        super().__init__()
        self.headers["Accept-Encoding"] = "identity"  # digests are of the bytes as they are
        self.headers["User-Agent"] = f"capsule-hpc/{__version__}"
        # requests would send what ~/.netrc has for the host
        self.auth = _no_login
        self.trust_env = not is_local

    def get_redirect_target(self, resp: Response) -> None:
        """None, so that redirects are left to us: the bodies of theirs are read without a limit."""


def explain(error: BaseException) -> str:
    """The innermost cause: requests wraps the one useful sentence three times."""
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
