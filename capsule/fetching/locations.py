"""Read where a capsule is published; what is shown of it holds no login."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from capsule.addresses import is_loopback
from capsule.errors import UsageError
from capsule.fetching import DOI
from capsule.image.reference import Reference
from capsule.image.reference import parse as parse_reference

_DEPOSIT = re.compile(r"(?P<prefix>10\.(?:5281|5072))/zenodo\.(?P<record>[1-9]\d{0,17})")
# what papers print of a DOI, and the page that it leads to
_DOI_PAGES = ("https://doi.org/", "https://dx.doi.org/", "https://www.doi.org/")
_RECORD_PAGE = re.compile(r"https://zenodo\.org/records?/(?P<record>[1-9]\d{0,17})/?")
_ZENODO = {"10.5281": "https://zenodo.org", "10.5072": "https://sandbox.zenodo.org"}
_FORMS = (
    "give a path, https://HOST/PATH, oci://HOST/NAME:TAG@sha256:DIGEST, or a DOI of Zenodo,"
    " 10.5281/zenodo.NUMBER"
)


@dataclass(frozen=True, kw_only=True)
class Web:
    """A file on a server.

    Attributes:
        url: Its address, without login and fragment.
        login: `user:password`, None where none was named.
    """

    url: str
    login: str | None = None

    @property
    def name(self) -> str:
        """Return the address as it is shown: a query may hold a key."""
        return self.url.partition("?")[0]

    @property
    def is_open(self) -> bool:
        """Return whether somebody on the way could read and change what is sent."""
        return self.url.startswith("http:") and not self.is_loopback

    @property
    def is_loopback(self) -> bool:
        """Return whether the server runs on this machine."""
        from urllib.parse import urlsplit

        return is_loopback(urlsplit(self.url).hostname or "")


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """An artifact of one blob in a registry."""

    reference: Reference

    @property
    def name(self) -> str:
        """Return the location as it was given, in full."""
        return f"oci://{str(self.reference).partition('://')[2]}"


@dataclass(frozen=True, kw_only=True)
class Deposit:
    """A record of Zenodo, or of another server that talks as it does.

    Attributes:
        doi: `10.5281/zenodo.NUMBER`.
        record: The number.
        api: Where records are asked for.
    """

    doi: str
    record: str
    api: Web

    @property
    def name(self) -> str:
        """Return the location as it was given."""
        return f"doi:{self.doi}"


Location = Web | Artifact | Deposit


def parse(text: str) -> Location:
    """Read what `is_remote` takes for no path.

    Raises:
        UsageError: It is not in one of the forms.
    """
    for page in _DOI_PAGES:
        if text.startswith(page):
            return _deposit(text.removeprefix(page))
    if page_match := _RECORD_PAGE.fullmatch(text):
        return _deposit(f"10.5281/zenodo.{page_match['record']}")
    if text.startswith(("http://", "https://")):
        return _web(text)
    if text.startswith("oci://"):
        return _artifact(text)
    if text.startswith("doi:") or DOI.fullmatch(text):
        return _deposit(text.removeprefix("doi:"))
    scheme = text.partition("://")[0]
    advice = {
        "docker": "for a capsule in a registry, write oci://HOST/NAME:TAG",
        "file": "write the path without file://",
    }.get(scheme, _FORMS)
    raise UsageError(f"cannot fetch a capsule by {scheme}://", advice=advice)


def _web(text: str) -> Web:
    from urllib.parse import unquote, urlsplit, urlunsplit

    # a password has no place in a message, so that none shows what was typed
    fault = UsageError(
        "the address is invalid (hidden, because it may contain a password)",
        advice="write https://HOST[:PORT]/PATH",
    )
    if not text.isprintable() or any(map(str.isspace, text)) or "\\" in text:
        raise fault
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
        if not host or port == 0:
            raise fault
        user = None if parts.username is None else unquote(parts.username)
        login = None if user is None else f"{user}:{unquote(parts.password or '')}"
        if login is not None and not login.isprintable():
            raise fault
        place = parts.netloc.rpartition("@")[2]
        url = urlunsplit((parts.scheme, place, parts.path or "/", parts.query, ""))
    except ValueError:
        raise fault from None
    web = Web(url=url, login=login)
    if web.is_open and login is not None:
        raise UsageError(
            "plain HTTP would send the login unencrypted",
            where=web.name,
            advice="use https://",
        )
    return web


def _artifact(text: str) -> Artifact:
    try:
        return Artifact(reference=parse_reference(f"docker{text.removeprefix('oci')}"))
    except UsageError as error:
        raise UsageError(
            error.what.replace("docker://", "oci://")
            .replace("an image", "a capsule")
            .replace("image", "capsule"),
            advice="write oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]",
        ) from None


def _deposit(text: str) -> Deposit:
    doi = text.lower()
    match = _DEPOSIT.fullmatch(doi)
    if match is None:
        raise UsageError(
            f"not a DOI of Zenodo (10.5281/zenodo.NUMBER): {text!r}",
            advice="for a capsule published elsewhere, give the address of its file",
        )
    server = os.environ.get("CAPSULE_ZENODO") or _ZENODO[match["prefix"]]
    api = _web(f"{server}/api/records/{match['record']}")
    return Deposit(doi=doi, record=match["record"], api=api)
