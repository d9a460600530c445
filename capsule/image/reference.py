"""Read image references: `docker://HOST[:PORT]/NAME[:TAG][@sha256:...]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from capsule.addresses import is_loopback
from capsule.digest import Digest
from capsule.errors import UsageError
from capsule.manifest.retired import advise_build

_SCHEME = "docker://"
_HUB = "docker.io"
_HUB_ENDPOINT = "https://registry-1.docker.io"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(
    rf"(?P<host>{_LABEL}(?:\.{_LABEL})*|\[[0-9A-Fa-f:.]{{2,45}}\])(?::(?P<port>\d{{1,5}}))?"
)
_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_MAX_NAME = 255
# transports as skopeo has them; an image that capsule 0.3.0 or earlier built is `build FOLDER`
_OWNERS = {"build ": "Docker", "docker-daemon:": "Docker", "containers-storage:": "Podman"}
_FORM = "write docker://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]"
_PINNED = "docker://HOST/NAME@sha256:DIGEST"
_SIF = (".sif", ".simg")
_FILES = ("sif", "docker-archive", "oci-archive", "oci", "dir", "file")
_FILE_ADVICE = (
    "to run an image in a file, write sif:FILE, oci:FOLDER, oci-archive:FILE or"
    f" docker-archive:FILE; to name an image in a registry, write {_PINNED}"
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """Reference of an image in a registry.

    Attributes:
        registry: `HOST[:PORT]`; `docker.io` when the reference named none.
        repository: The name inside the registry.
        tag: None when only a digest was given; `latest` when nothing was.
        digest: Digest of the manifest or index; None when only a tag is known.
    """

    registry: str
    repository: str
    tag: str | None
    digest: Digest | None

    @property
    def endpoint(self) -> str:
        """Return the address of the registry's API: plain HTTP on this machine's loopback, nowhere
        else.
        """
        if self.registry == _HUB:
            return _HUB_ENDPOINT
        return f"{'http' if self.is_loopback else 'https'}://{self.registry}"

    @property
    def is_loopback(self) -> bool:
        """Return whether the registry runs on this machine: `localhost`, 127.0.0.0/8 or ::1."""
        return is_loopback(
            self.registry.rpartition(":")[0] if _has_port(self.registry) else self.registry
        )

    @property
    def is_official(self) -> bool:
        """Return whether it lies in the part of Docker's own registry that has no owner's name."""
        return self.registry == _HUB and self.repository.startswith("library/")

    @property
    def tag_or_digest(self) -> str:
        """Return the digest, or else the tag, to request from the registry."""
        return str(self.digest) if self.digest else str(self.tag)

    def pin(self, digest: Digest) -> str:
        """`HOST/NAME@sha256:...`, which names the same bytes for ever."""
        return f"{self.registry}/{self.repository}@{digest}"

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{_SCHEME}{self.registry}/{self.repository}{tag}{digest}"


def parse(text: str, *, where: str | None = None) -> Reference:
    """Read a reference and fill in what Docker fills in: `docker.io`, `library/`, `latest`.

    Args:
        text: The reference.
        where: Where it was written, for the message.

    Raises:
        UsageError: It is not in that form; says which part.

    >>> str(parse("docker://debian:12"))
    'docker://docker.io/library/debian:12'
    >>> parse("docker://localhost:5000/a/b").endpoint
    'http://localhost:5000'
    """
    if not text.startswith(_SCHEME):
        raise UsageError(
            f"expected an image reference, found {text!r}", where=where, advice=_advise(text)
        )
    rest, at, digest_text = text.removeprefix(_SCHEME).partition("@")
    digest = Digest.parse(digest_text, where=where) if at else None
    registry, path = _split_registry(rest)
    name, colon, tag = path.partition(":")
    if registry == _HUB and "/" not in name:
        name = f"library/{name}"
    _check(text, registry, name, tag if colon else None, where)
    return Reference(
        registry=registry,
        repository=name,
        tag=tag if colon else (None if digest else "latest"),
        digest=digest,
    )


def _advise(text: str) -> str:
    """Return advice for a text that is no image reference."""
    scheme = re.match(r"[a-z][a-z+.-]*(?=:)", text)
    if (scheme and scheme[0] in _FILES) or (scheme is None and text.lower().endswith(_SIF)):
        return _FILE_ADVICE
    if "://" in text:
        return f"capsule supports only registries of Docker and OCI; {_FORM}"
    if text.startswith(("/", "./", "../", "~")):
        return f"build the image first: {advise_build(text)}"
    try:
        parse(f"{_SCHEME}{text}")
    except UsageError:
        return _FORM
    return f"did you mean {_SCHEME}{text}?"


def owner_of(reference: str) -> str | None:
    """Return the engine that alone has an image of this reference, None for an image of a registry.

    >>> owner_of("docker-daemon:torch:2"), owner_of("build images/torch")
    ('Docker', 'Docker')
    """
    return next((title for start, title in _OWNERS.items() if reference.startswith(start)), None)


def _split_registry(rest: str) -> tuple[str, str]:
    # the rule of every engine: a first segment is a host if it cannot be a user's name
    first, slash, path = rest.partition("/")
    if not slash or not ("." in first or ":" in first or first == "localhost"):
        return _HUB, rest
    if first in (_HUB, "index.docker.io", "registry-1.docker.io"):
        return _HUB, path
    return first, path


def _check(text: str, registry: str, name: str, tag: str | None, where: str | None) -> None:
    host = _HOST.fullmatch(registry)
    port = int(host["port"] or 1) if host else 0
    if not 1 <= port <= 65535 or (registry.startswith("[") and not _is_ipv6(registry)):
        fault = f"expected a host with an optional port, found {registry!r}"
    elif not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        fault = f"expected a name of lower-case words joined by / . _ -, found {name!r}"
    elif tag is not None and not _TAG.fullmatch(tag):
        fault = f"expected a tag of up to 128 letters, digits, . _ -, found {tag!r}"
    else:
        return
    raise UsageError(f"image reference {text!r}: {fault}", where=where, advice=_FORM)


def _is_ipv6(registry: str) -> bool:
    import ipaddress

    try:
        ipaddress.IPv6Address(registry[1 : registry.index("]")])
    except ValueError:
        return False
    return True


def _has_port(registry: str) -> bool:
    return ":" in registry.rpartition("]")[2]
