"""What an image is, whatever engine runs it: references, digests, building."""

from __future__ import annotations

from dataclasses import dataclass

from capsule.digest import Digest


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer: the blob's digest and size, and the digest of the tar inside it."""

    digest: Digest
    size_bytes: int
    media_type: str
    diff_id: Digest


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image pinned by digests that we computed over bytes that we fetched.

    Attributes:
        reference: As the user wrote it.
        pinned: `HOST/NAME@sha256:...` to fetch exactly this image, None when no registry has it.
        index_digest: Digest of the multi-platform index it was chosen from, if any.
        manifest_digest: Digest of the platform manifest's raw bytes, None for a local build.
        platform: `os/architecture[/variant]`.
        config_digest: Digest of the configuration's raw bytes.
        layers: In order, lowest first.
        manifest: Raw bytes of the platform manifest, None for a local build.
        config: Raw bytes of the configuration.
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
