"""Facts about an image, derived from its own documents and checked against each other.

Fetching an image and reading a capsule use the same code, so a record cannot name one image, pin
another and describe a third.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from capsule.digest import Digest, expect
from capsule.errors import DamagedError
from capsule.image import Image, Layer
from capsule.image.documents import Config, Index, Manifest
from capsule.image.reference import owner_of, parse

_SIF = "sif:"
_LAYOUTS = ("oci:", "oci-archive:", "docker-archive:")
_PLATFORM = re.compile(r"linux/[a-z0-9]{1,20}")
_TAR_LAYER = "application/vnd.oci.image.layer.v1.tar"


def make(
    reference: str, *, index: Index | None, manifest: Manifest, config: Config, where: str
) -> Image:
    """Return an image of a registry or a layout: each document names the next by its digest.

    Args:
        reference: As the user wrote it.
        index: What stands behind the reference, None when that is the manifest itself.
        manifest: Manifest of the platform.
        config: The configuration.
        where: The image, for messages.

    Raises:
        DamagedError: A link of the chain from the reference to the layers does not hold.
        UsageError: Not a reference.
    """
    pinned = None
    if not reference.startswith(_LAYOUTS):
        named = parse(reference)
        pinned = named.pin(manifest.digest)
        if named.digest is not None:
            top = index or manifest
            kind = "index" if index else "manifest"
            expect(top.digest, named.digest, what=f"the image's {kind}", where=where)
    if index is not None:
        _check_offer(index, manifest, config, where)
    expect(config.digest, manifest.config, what="the image's configuration", where=where)
    if len(manifest.blobs) != len(config.diff_ids):
        raise DamagedError(
            f"the image manifest lists {len(manifest.blobs)} layers, expected"
            f" {len(config.diff_ids)} as in the image configuration",
            where=where,
        )
    return Image(
        reference=reference,
        pinned=pinned,
        index_digest=index.digest if index else None,
        manifest_digest=manifest.digest,
        platform="/".join(config.platform),
        config_digest=config.digest,
        layers=tuple(
            Layer(
                digest=blob.digest,
                size_bytes=blob.size_bytes,
                media_type=blob.media_type,
                diff_id=diff_id,
            )
            for blob, diff_id in zip(manifest.blobs, config.diff_ids, strict=True)
        ),
        index=index.body if index else None,
        manifest=manifest.body,
        config=config.body,
    )


def make_local(reference: str, *, config: Config, sizes: Sequence[int], where: str) -> Image:
    """Return an image without a manifest, built here or saved by Docker: its configuration is its
    name.

    Args:
        reference: `build FOLDER`, `docker-daemon:NAME`, `containers-storage:NAME`, or
            `docker-archive:NAME`.
        config: The configuration.
        sizes: Bytes of each layer's tar, which is blob and content in one.
        where: The image, for messages.

    Raises:
        DamagedError: It is called by a reference to a registry, or a layer's size is missing.
    """
    if owner_of(reference) is None and not reference.startswith(_LAYOUTS[-1]):
        raise DamagedError(
            f"the image manifest is missing, but the reference {reference!r} requires it (only"
            " build, docker-daemon:, containers-storage: and docker-archive: images have no"
            " manifest)",
            where=where,
        )
    if len(sizes) != len(config.diff_ids):
        raise DamagedError(
            f"the image has {len(sizes)} layers, expected {len(config.diff_ids)} as in the image"
            " configuration",
            where=where,
        )
    return Image(
        reference=reference,
        pinned=None,
        index_digest=None,
        manifest_digest=None,
        platform="/".join(config.platform),
        config_digest=config.digest,
        layers=tuple(
            Layer(digest=diff_id, size_bytes=size, media_type=_TAR_LAYER, diff_id=diff_id)
            for size, diff_id in zip(sizes, config.diff_ids, strict=True)
        ),
        index=None,
        manifest=None,
        config=config.body,
    )


def make_sif(reference: str, *, platform: str, tree: Digest | None, where: str) -> Image:
    """Return an image that is known by its root file system's tree alone: a SIF holds nothing else.

    Raises:
        DamagedError: It is called something else, or has no such digest.
    """
    if not reference.startswith(_SIF):
        raise DamagedError(
            f"the image configuration is missing, but the reference {reference!r} requires it (only"
            " sif: images have no configuration)",
            where=where,
        )
    if not _PLATFORM.fullmatch(platform):
        raise DamagedError(
            f"the SIF's platform is {platform[:40]!r}, expected linux/ARCHITECTURE", where=where
        )
    if tree is None:
        raise DamagedError("the record of the SIF lacks the digest of its file tree", where=where)
    return Image(
        reference=reference,
        pinned=None,
        index_digest=None,
        manifest_digest=None,
        platform=platform,
        config_digest=None,
        layers=(),
        manifest=None,
        config=None,
        tree_digest=tree,
    )


def _check_offer(index: Index, manifest: Manifest, config: Config, where: str) -> None:
    """Check that the index offers this manifest for its configuration's platform."""
    platforms = [offer.platform for offer in index.offers if offer.digest == manifest.digest]
    if not platforms:
        raise DamagedError(
            f"the image index {index.digest} does not list the image manifest {manifest.digest}",
            where=where,
        )
    if config.platform[:2] not in [platform[:2] for platform in platforms]:
        raise DamagedError(
            "the image index lists the image manifest for"
            f" {' and '.join(map('/'.join, platforms))}, but the image configuration is for"
            f" {'/'.join(config.platform)}",
            where=where,
        )
