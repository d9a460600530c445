"""Hand an engine that keeps images itself one that lies in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from capsule.errors import CannotRunError
from capsule.image import Image


def require_loadable(image: Image) -> None:
    """Stop at an image that only Apptainer starts.

    Raises:
        CannotRunError: It is a SIF.
    """
    if image.config_digest is None:
        raise CannotRunError(
            "the image is a SIF, which only Apptainer starts",
            where=image.reference,
            advice="--runtime apptainer; or --image with an OCI layout or an archive of it, which"
            " has the same tree digest",
        )


def names(image: Image) -> list[str]:
    """What an engine calls an image: as it was fetched, or without a registry by its configuration,
    as Docker's classic store and Podman do, or by its manifest, as containerd's store does.
    """
    if image.pinned is not None:
        return [image.pinned]
    digests = (image.config_digest, image.manifest_digest)
    return [str(digest) for digest in digests if digest is not None]


@contextmanager
def write_archive(image: Image) -> Iterator[Path]:
    """What `load` reads, of an image in a layout or an archive, while the block runs.

    Raises:
        DamagedError: The file is no longer the one that was read.
        OSError: It cannot be written.
    """
    from capsule.image import handing

    with tempfile.TemporaryDirectory(prefix="capsule-image-") as work:
        path = Path(work) / "image.tar"
        with path.open("wb") as target:
            for piece in handing.stream(image):
                target.write(piece)
        yield path
