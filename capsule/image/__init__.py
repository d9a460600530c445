"""References and digests of images, whatever engine runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from capsule.digest import Digest
from capsule.errors import CannotRunError, UsageError, add_advice
from capsule.manifest import ImageSpec

if TYPE_CHECKING:
    from capsule.image.mirrors import Access
IDENTITIES = {"manifest": "manifest", "config": "configuration", "tree": "root file system's tree"}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer: the blob's digest and size, and the digest of the tar inside it."""

    digest: Digest
    size_bytes: int
    media_type: str
    diff_id: Digest


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Digest that identifies an image.

    Attributes:
        kind: Whose digest it is: of the platform manifest that the registry served, of the
            configuration, or of the root file system's tree.
        digest: The digest.
    """

    kind: Literal["manifest", "config", "tree"]
    digest: Digest

    def __str__(self) -> str:
        return f"{IDENTITIES[self.kind]} {self.digest}"


Form = Literal["sif", "oci", "oci-archive", "docker-archive"]


class ImageFile(NamedTuple):
    """A file or folder of this machine that holds an image.

    Attributes:
        form: A SIF, an OCI layout folder, such a layout in a tar, or what `docker save` writes.
        path: Where it lies.
        digest: SHA-256 of a SIF's bytes, None for the others, which are known by their blobs.
        state: What changes with a SIF's bytes: device, inode, size and times in nanoseconds.
    """

    form: Form
    path: Path
    digest: Digest | None = None
    state: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return the image's name in a capsule, without its place on this machine."""
        return f"{self.form}:{self.path.name}"


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image pinned by digests that capsule computed over the bytes it read.

    Attributes:
        reference: As the user wrote it; `FORM:NAME` for a file or folder of this machine.
        pinned: `HOST/NAME@sha256:...` to fetch exactly this image, None when no registry has it.
        index_digest: Digest of the multi-platform index it was chosen from, if any.
        manifest_digest: Digest of the platform manifest's raw bytes, None where there is none.
        platform: `os/architecture[/variant]`.
        config_digest: Digest of the configuration's raw bytes, None for a SIF, which has none.
        layers: In order, lowest first.
        manifest: Raw bytes of the platform manifest, None where there is none.
        config: Raw bytes of the configuration, None for a SIF.
        index: Raw bytes of the index, None where the reference named the manifest itself.
        tree_digest: Digest of the root file system's tree, None where nobody took it.
        file: Where it lies on this machine, None for one that an engine has or can fetch.
    """

    reference: str
    pinned: str | None
    index_digest: Digest | None
    manifest_digest: Digest | None
    platform: str
    config_digest: Digest | None
    layers: tuple[Layer, ...]
    manifest: bytes | None
    config: bytes | None
    index: bytes | None = None
    tree_digest: Digest | None = None
    file: ImageFile | None = field(default=None, compare=False)

    @property
    def is_elsewhere(self) -> bool:
        """Return whether it came from a file that is not named now, and that no registry has."""
        from capsule.image.reference import owner_of

        return self.pinned is None and self.file is None and owner_of(self.reference) is None

    def missing(self) -> CannotRunError:
        """Return the error where nobody named the file, and no engine has the image either."""
        return CannotRunError(
            f"the image file is missing on this machine; expected {self.identity}",
            where=self.reference,
            advice="name a file with this image: --image FILE (SIF, OCI layout, docker save);"
            " to resume a run, restore the file at its path",
        )

    @property
    def identity(self) -> Identity:
        """Return the strongest that there is."""
        if self.manifest_digest is not None:
            return Identity(kind="manifest", digest=self.manifest_digest)
        if self.config_digest is not None:
            return Identity(kind="config", digest=self.config_digest)
        # facts.make_sif takes no image without one
        assert self.tree_digest is not None
        return Identity(kind="tree", digest=self.tree_digest)


def resolve(
    spec: ImageSpec | None,
    *,
    folder: Path | None,
    override: str | None = None,
    access: Access | None = None,
    engines: Callable[[str, str | None], Image | None] | None = None,
) -> Image:
    """Pin the manifest's image, or the image named instead.

    Args:
        spec: The manifest's `image`.
        folder: Where the manifest's relative paths start.
        override: Reference given on the command line, its path relative to the current folder.
        access: How registries are reached; None for directly.
        engines: Returns the image that an engine here has, by a reference and where that stands, or
            None for a reference to something else; None for no such images.

    Raises:
        UsageError: Not a reference, or there is neither an image nor an override.
        DamagedError: Bytes that are not those of a digest, or an archive that contradicts itself.
        CannotRunError: The registry, the image or its engine is missing here.
    """
    written = override or (spec.reference if spec else None)
    if written is None:
        raise UsageError(
            "expected an image in the manifest or with --image, found none",
            where="/image",
            advice='add "image": {"reference": "docker://HOST/NAME:TAG"} to the manifest, or give'
            " --image docker://HOST/NAME:TAG",
        )
    # reading a capsule needs what an image is, but no registries
    from capsule.image import files, mirrors, reference, registry

    where = None if override else "/image/reference"
    if engines is not None and (image := engines(written, where)) is not None:
        return image
    file = files.locate(written, None if override else folder)
    if file is not None:
        with add_advice("build or save the image again, or name another image file"):
            return files.read(file)
    parsed = reference.parse(written, where=where)
    with add_advice("try again; if the error returns, push the image again, or name another image"):
        return registry.resolve(parsed, written=written, access=access or mirrors.Access())
