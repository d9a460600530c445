"""Where an address leads: to this machine, to what only its provider serves, or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own loopback.

    >>> is_loopback("[::1]"), is_loopback("127.1"), is_loopback("127.0.0.1.example.org")
    (True, True, False)
    """
    if host.lower().removesuffix(".") == "localhost":
        return True
    address = _parse(host)
    return address is not None and address.is_loopback


def is_link_local(host: str) -> bool:
    """Whether it is served by a machine's own provider, such as a cloud's keys.

    >>> is_link_local("169.254.169.254"), is_link_local("2852039166"), is_link_local("[fe80::1]")
    (True, True, True)
    """
    address = _parse(host)
    return address is not None and address.is_link_local


def split(url: str) -> SplitResult:
    """The parts of an address that somebody else wrote, its host the one that would be asked.

    Raises:
        ValueError: It is none, or a client takes another part of it for the host.
    """
    # urlsplit reads on, and HTTP clients end the host there as browsers do
    if "\\" in url:
        raise ValueError("a backslash in an address")
    return urlsplit(url)


def explain_refusal(url: str, target: str) -> str | None:
    """Why a server may not send on from one address to another, or None: it may.

    Never from HTTPS to HTTP, to another protocol, inwards to this machine, or to link-local ones.

    >>> explain_refusal("http://a.example/x", "https://b.example/")
    >>> explain_refusal("https://a.example/x", "http://a.example/x")
    'which is not https'
    """
    try:
        here, there = urlsplit(url), split(target)
        host, origin = there.hostname, here.hostname or ""
        _ = there.port
    except ValueError:
        return "which cannot be read"
    if there.scheme != "https" and (there.scheme, here.scheme) != ("http", "http"):
        return "which is not https"
    if not host or not target.isprintable():
        return "which cannot be read"
    if is_link_local(host):
        return "which only this machine's own provider serves"
    address = _parse(host)
    # what is bound to no address answers at all of this machine's
    inwards = is_loopback(host) or (address is not None and address.is_unspecified)
    return "which is this machine itself" if inwards and not is_loopback(origin) else None


def _parse(host: str) -> IPv4Address | IPv6Address | None:
    """The address that a host is written as, of which resolvers know more forms than one."""
    host = host.strip("[]").partition("%")[0]
    if not (host[:1].isdigit() or ":" in host):
        return None
    # most hosts are names, and a reader of capsules is not kept waiting
    import ipaddress
    import socket

    try:
        if ":" not in host:
            return ipaddress.IPv4Address(socket.inet_aton(host))
        address = ipaddress.IPv6Address(host)
    except (OSError, ValueError):
        return None
    return address.ipv4_mapped or address
