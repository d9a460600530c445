"""Classification of addresses: this machine, its provider, or other machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

_THIS_MACHINE = "which belongs to this machine"
_PROVIDERS = (
    # metadata of AWS, Google, Scaleway and Oracle by IPv6, of Alibaba, Azure and Oracle by IPv4
    *("fd00:ec2::254", "fd20:ce::254", "fd00:42::42", "fd00:c1::a9fe:a9fe"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192"),
)
# prefixes of IPv6 behind which an address of IPv4 stands: as it is, translated (SIIT), by NAT64
_CARRIERS = ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is this machine's own loopback.

    >>> is_loopback("[::1]"), is_loopback("127.1"), is_loopback("127.0.0.1.example.org")
    (True, True, False)
    """
    if host.lower().removesuffix(".") == "localhost":
        return True
    address = _parse(host)
    return address is not None and address.is_loopback


def is_plainly_loopback(host: str) -> bool:
    """Return whether a host is plainly a name of this machine.

    >>> is_plainly_loopback("127.0.0.1"), is_plainly_loopback("2130706433")
    (True, False)
    """
    plain = host.strip("[]")
    return is_loopback(host) and (plain == "localhost" or plain == str(_parse(host)))


def explain_address(host: str, *, may_be_this_machine: bool) -> str | None:
    """Return why an address must not be contacted, as a relative clause; None if it may be.

    Args:
        host: An address in any spelling that resolvers know, or a name.
        may_be_this_machine: True to allow loopback addresses.

    >>> explain_address("169.254.169.254", may_be_this_machine=True)
    'which is a link-local or cloud metadata address'
    >>> explain_address("64:ff9b::7f00:1", may_be_this_machine=False)
    'which belongs to this machine'
    >>> explain_address("10.0.0.1", may_be_this_machine=False)
    """
    import ipaddress

    if host.lower().removesuffix(".") == "localhost":
        return None if may_be_this_machine else _THIS_MACHINE
    address = _parse(host)
    for one in _meanings(address) if address else ():
        if one.is_link_local or str(one) in _PROVIDERS:
            return "which is a link-local or cloud metadata address"
        # what is bound to no address answers at all of this machine's
        inwards = one.is_loopback or one.is_unspecified
        if inwards and not may_be_this_machine:
            return _THIS_MACHINE
        if one.is_multicast or one == ipaddress.IPv4Address("255.255.255.255"):
            return "which is a multicast or broadcast address"
    return None


def split(url: str) -> SplitResult:
    """Split an untrusted URL into its parts, with the host that a client would contact.

    Raises:
        ValueError: The text is no URL, or clients disagree about its host.
    """
    # urlsplit reads on, and HTTP clients end the host there as browsers do
    if "\\" in url:
        raise ValueError("the address contains a backslash")
    return urlsplit(url)


def explain_refusal(url: str, target: str) -> str | None:
    """Return why a redirect must be refused, as a relative clause; None if it may be followed.

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
    return explain_address(host, may_be_this_machine=is_loopback(origin))


def _parse(host: str) -> IPv4Address | IPv6Address | None:
    """Parse a host as an address, in any spelling that resolvers accept; None for a name."""
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


def _meanings(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """Yield an address, and every IPv4 address that a gateway would translate it to."""
    import ipaddress

    yield address
    if isinstance(address, ipaddress.IPv4Address):
        return
    if any(address in ipaddress.IPv6Network(prefix) for prefix in _CARRIERS):
        # of ::1 that makes 0.0.0.1, which nobody has
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.sixtofour is not None:
        yield address.sixtofour
    yield from address.teredo or ()
