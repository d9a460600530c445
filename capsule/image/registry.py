"""Pin an image: fetch its documents from a registry, each by the digest that names it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from capsule import offline
from capsule.digest import Digest, expect
from capsule.errors import CannotRunError, UsageError
from capsule.image import Image, documents, facts, kept, mirrors, platforms
from capsule.image.documents import Index, Manifest
from capsule.image.mirrors import Access
from capsule.image.reference import Reference
from capsule.image.transfer import Transfer

_ACCEPT = ", ".join((*documents.MANIFESTS, *documents.INDEXES))
_MAX_MANIFEST_BYTES = 4 << 20
_MAX_CONFIG_BYTES = 8 << 20
_Chain = tuple[Index | None, Manifest, bytes]


def resolve(
    reference: Reference,
    *,
    written: str | None = None,
    platform: str | None = None,
    access: Access = Access(),
) -> Image:
    """Fetch index, manifest and configuration, and check each link of their chain.

    Layers are not fetched: the engine does that, by the digests found here. Where nothing may be
    connected to, the documents are those that were kept.

    Args:
        reference: By tag or by digest of a manifest or an index.
        written: The reference as its author wrote it, where that differs.
        platform: `os/architecture[/variant]`; this machine's by default.
        access: Mirrors, which are asked first, and the documents that were kept.

    Raises:
        DamagedError: Bytes that are not those of the digest, or contradict each other.
        CannotRunError: No registry, no such image, no permission, no such platform.
        UsageError: `platform` is not in that form.
    """
    wanted, where = _platform(platform), str(reference)
    if offline.is_on():
        index, manifest, config = _Kept(reference, access.cache).chain(wanted)
    else:
        index, manifest, config = _ask(reference, access, wanted)
    image = facts.make(
        written or where,
        index=index,
        manifest=manifest,
        config=documents.read_config(config, where=where),
        where=where,
    )
    if tuple(image.platform.split("/"))[: len(wanted)] != wanted:
        raise CannotRunError(
            f"the image is for {image.platform}, expected {'/'.join(wanted)}",
            where=where,
            advice=f"name an image for {'/'.join(wanted)}",
        )
    return image


def _ask(reference: Reference, access: Access, wanted: tuple[str, ...]) -> _Chain:
    """Ask the mirror, and the registry itself where that does not have it."""
    mirror = mirrors.find(reference, access.mirrors)
    fault = ""
    if mirror is not None:
        try:
            with Transfer(mirror) as transfer:
                return _Served(mirror, transfer).chain(wanted)
        except CannotRunError as error:
            fault = f"; the mirror {mirror.registry} failed, too: {error.what}"
    try:
        with Transfer(reference) as transfer:
            return _Served(reference, transfer).chain(wanted)
    except CannotRunError as error:
        raise CannotRunError(
            f"{error.what}{fault}", where=error.where, advice=error.advice
        ) from None


class _Source(ABC):
    """Source of an image's documents."""

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._where = str(reference)

    @abstractmethod
    def document(self, digest: Digest | None) -> Index | Manifest:
        """Return the index or manifest of a digest, None for what the reference names by a tag."""

    @abstractmethod
    def config(self, digest: Digest) -> bytes:
        """Return the configuration of a digest."""

    def chain(self, wanted: tuple[str, ...]) -> _Chain:
        """Return the documents from the reference to the configuration of the wanted platform."""
        index = None
        document = self.document(self._reference.digest)
        if isinstance(document, Index):
            index = document
            document = self.document(_choose(index, wanted, self._where))
        if isinstance(document, Index):
            raise CannotRunError(
                "the index names another index, expected an image",
                where=self._where,
                advice="name an image of that index by its digest: docker://HOST/NAME@sha256:...",
            )
        return index, document, self.config(document.config)


class _Served(_Source):
    """A registry."""

    def __init__(self, reference: Reference, transfer: Transfer) -> None:
        super().__init__(reference)
        self._transfer = transfer

    def document(self, digest: Digest | None) -> Index | Manifest:
        name = str(digest or self._reference.tag_or_digest)
        served = self._transfer.get(
            f"manifests/{name}", accept=_ACCEPT, limit_bytes=_MAX_MANIFEST_BYTES
        )
        document = documents.read(served.body, kind=served.media_type, where=self._where)
        if digest is not None:
            expect(document.digest, digest, what="the served manifest", where=self._where)
        return document

    def config(self, digest: Digest) -> bytes:
        path, limit = f"blobs/{digest}", _MAX_CONFIG_BYTES
        return self._transfer.get(path, accept="*/*", limit_bytes=limit).body


class _Kept(_Source):
    """The cache of this machine."""

    def __init__(self, reference: Reference, cache: Path | None) -> None:
        super().__init__(reference)
        self._cache = cache

    def document(self, digest: Digest | None) -> Index | Manifest:
        digest = digest or kept.read_tag(self._where)
        if digest is None:
            raise CannotRunError(
                "the tag was not staged on this machine, and --offline forbids asking its registry",
                where=self._where,
                advice="run `capsule stage` on a machine with network, or name the digest:"
                " docker://HOST/NAME@sha256:...",
            )
        return documents.read(self.config(digest), where=self._where)

    def config(self, digest: Digest) -> bytes:
        body = kept.read(digest, self._cache) if self._cache else None
        if body is None:
            offline.require_network(f"the document {digest} of this image", where=self._where)
        assert body is not None
        return body


def _platform(text: str | None) -> tuple[str, ...]:
    if text is None:
        return platforms.this_machine()
    parts = tuple(text.split("/"))
    if len(parts) not in (2, 3) or not all(parts):
        raise UsageError(
            f"expected a platform, found {text!r}",
            advice="write OS/ARCHITECTURE, such as linux/amd64",
        )
    return parts


def _choose(index: Index, wanted: tuple[str, ...], where: str) -> Digest:
    for offer in index.offers:
        if offer.platform[: len(wanted)] == wanted:
            return offer.digest
    # attestations are listed as unknown/unknown
    there = sorted({"/".join(offer.platform) for offer in index.offers} - {"", "unknown/unknown"})
    raise CannotRunError(
        f"expected an image for {'/'.join(wanted)}, the registry has"
        f" {', '.join(there[:20]) or 'none'}",
        where=where,
        advice=f"name or build an image for {'/'.join(wanted)}",
    )
