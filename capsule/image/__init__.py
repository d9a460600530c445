"""What an image is, whatever engine runs it: references, digests, building."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from capsule import offline
from capsule.digest import Digest
from capsule.errors import UsageError
from capsule.manifest import ImageSpec

if TYPE_CHECKING:
    from capsule.image.mirrors import Access


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer: the blob's digest and size, and the digest of the tar inside it."""

    digest: Digest
    size_bytes: int
    media_type: str
    diff_id: Digest


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What an image is known by.

    Attributes:
        kind: Whose digest it is: of the platform manifest that the registry served, of the
            configuration, or of the root file system's tree.
        digest: The digest.
    """

    kind: Literal["manifest", "config", "tree"]
    digest: Digest


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image pinned by digests that we computed over bytes that we fetched.

    Attributes:
        reference: As the user wrote it.
        pinned: `HOST/NAME@sha256:...` to fetch exactly this image, None when no registry has it.
        index_digest: Digest of the multi-platform index it was chosen from, if any.
        manifest_digest: Digest of the platform manifest's raw bytes, None for a local image.
        platform: `os/architecture[/variant]`.
        config_digest: Digest of the configuration's raw bytes.
        layers: In order, lowest first.
        manifest: Raw bytes of the platform manifest, None for a local image.
        config: Raw bytes of the configuration.
        index: Raw bytes of the index, None where the reference named the manifest itself.
        tree_digest: Digest of the root file system's tree, None where nobody took it.
    """

    reference: str
    pinned: str | None
    index_digest: Digest | None
    manifest_digest: Digest | None
    platform: str
    config_digest: Digest
    layers: tuple[Layer, ...]
    manifest: bytes | None
    config: bytes
    index: bytes | None = None
    tree_digest: Digest | None = None

    @property
    def identity(self) -> Identity:
        """The strongest that there is."""
        if self.manifest_digest is not None:
            return Identity(kind="manifest", digest=self.manifest_digest)
        return Identity(kind="config", digest=self.config_digest)


def resolve(
    spec: ImageSpec | None,
    *,
    folder: Path | None,
    override: str | None = None,
    access: Access | None = None,
) -> Image:
    """Pin the image of a manifest, or the one that was named in its place.

    Args:
        spec: The manifest's `image`.
        folder: Where a recipe folder's relative path starts.
        override: Reference given on the command line.
        access: How registries are reached; None for directly.

    Raises:
        UsageError: Not a reference, or there is neither an image nor an override.
        DamagedError: Bytes that are not those of a digest.
        CannotRunError: The registry, the image or Docker is missing here.
        ExecutionError: The recipe's build fails.
    """
    written = override or (spec.reference if spec else None)
    if written is not None:
        # reading a capsule needs what an image is, but neither registries nor Docker
        from capsule.image import engines, mirrors, reference, registry

        where = None if override else "/image/reference"
        local = engines.locate(written, where=where)
        if local is not None:
            return engines.read(local)
        return registry.resolve(
            reference.parse(written, where=where),
            written=written,
            access=access or mirrors.Access(),
        )
    if spec is None or spec.build is None:
        raise UsageError("no image is named", where="/image", advice="name one with --image")
    offline.require_network(f"an image built of {spec.build}", where="/image/build")
    from capsule.image import build

    return build.build((folder or Path()) / spec.build)
