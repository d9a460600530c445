"""Pin an image: fetch its documents from a registry, each by the digest that names it."""

from __future__ import annotations

from capsule.digest import Digest, expect
from capsule.errors import CannotRunError, UsageError
from capsule.image import Image, documents, facts, platforms
from capsule.image.documents import Index, Manifest
from capsule.image.reference import Reference
from capsule.image.transfer import Transfer

_ACCEPT = ", ".join((*documents.MANIFESTS, *documents.INDEXES))
_MAX_MANIFEST_BYTES = 4 << 20
_MAX_CONFIG_BYTES = 8 << 20


def resolve(
    reference: Reference, *, written: str | None = None, platform: str | None = None
) -> Image:
    """Fetch index, manifest and configuration, and check each link of their chain.

    Layers are not fetched: the engine does that, by the digests found here.

    Args:
        reference: By tag or by digest of a manifest or an index.
        written: The reference as its author wrote it, where that differs.
        platform: `os/architecture[/variant]`; this machine's by default.

    Raises:
        DamagedError: Bytes that are not those of the digest, or contradict each other.
        CannotRunError: No registry, no such image, no permission, no such platform.
        UsageError: `platform` is not in that form.
    """
    wanted, where = _platform(platform), str(reference)
    index = None
    with Transfer(reference) as transfer:
        document = _fetch(transfer, reference.tag_or_digest, reference.digest, where)
        if isinstance(document, Index):
            index, digest = document, _choose(document, wanted, where)
            document = _fetch(transfer, str(digest), digest, where)
        if isinstance(document, Index):
            raise CannotRunError("the index names another index, not an image", where=where)
        config_digest = document.config
        config = transfer.get(
            f"blobs/{config_digest}", accept="*/*", limit_bytes=_MAX_CONFIG_BYTES
        ).body
    image = facts.make(
        written or where,
        index=index,
        manifest=document,
        config=documents.read_config(config, where=where),
        where=where,
    )
    if tuple(image.platform.split("/"))[: len(wanted)] != wanted:
        raise CannotRunError(
            f"the image is for {image.platform}, wanted is {'/'.join(wanted)}", where=where
        )
    return image


def _fetch(transfer: Transfer, name: str, expected: Digest | None, where: str) -> Index | Manifest:
    served = transfer.get(f"manifests/{name}", accept=_ACCEPT, limit_bytes=_MAX_MANIFEST_BYTES)
    document = documents.read(served.body, kind=served.media_type, where=where)
    if expected is not None:
        expect(document.digest, expected, what="the served manifest", where=where)
    return document


def _platform(text: str | None) -> tuple[str, ...]:
    if text is None:
        return platforms.this_machine()
    parts = tuple(text.split("/"))
    if len(parts) not in (2, 3) or not all(parts):
        raise UsageError(f"not a platform: {text!r}", advice="os/architecture, as in linux/amd64")
    return parts


def _choose(index: Index, wanted: tuple[str, ...], where: str) -> Digest:
    for offer in index.offers:
        if offer.platform[: len(wanted)] == wanted:
            return offer.digest
    # attestations are listed as unknown/unknown
    there = sorted({"/".join(offer.platform) for offer in index.offers} - {"", "unknown/unknown"})
    raise CannotRunError(
        f"the image is not there for {'/'.join(wanted)}, only for"
        f" {', '.join(there[:20]) or 'nothing'}",
        where=where,
    )
