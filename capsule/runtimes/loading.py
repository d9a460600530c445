"""Hand an engine that keeps images itself one that lies in a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from capsule import places
from capsule.errors import CannotRunError
from capsule.image import Image
from capsule.runtimes import local


def require_loadable(image: Image) -> None:
    """Stop at an image that only Apptainer starts.

    Raises:
        CannotRunError: It is a SIF.
    """
    if image.config_digest is None:
        raise CannotRunError(
            "the image is a SIF, which only Apptainer starts",
            where=image.reference,
            advice="use --runtime apptainer, or --image with an OCI layout or archive of the same"
            " image",
        )


def names(image: Image) -> list[str]:
    """Return a daemon's names of an image without a registry: the classic store by configuration,
    containerd's by its manifest.
    """
    digests = (image.config_digest, image.manifest_digest)
    return [str(digest) for digest in digests if digest is not None]


@contextmanager
def archive(image: Image) -> Iterator[Path]:
    """Write an archive like `docker save`'s for the duration of the block, without a registry.

    Raises:
        CannotRunError: It is in no file that is named, and in no engine of this machine.
        DamagedError: The file is no longer the one that was read.
    """
    if image.is_elsewhere:
        raise image.missing()
    if image.file is None:
        with local.save(image.identity.digest) as path:
            yield path
        return
    from capsule.image import handing

    with places.scratch() as work:
        path = work / "image.tar"
        with path.open("wb") as stream:
            for piece in handing.stream(image):
                stream.write(piece)
        yield path
