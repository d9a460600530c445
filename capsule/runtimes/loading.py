"""Hand an engine that keeps images itself one that lies in a file."""

from __future__ import annotations

from typing import Any

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
    """What a daemon calls an image without a registry: the classic store by its configuration,
    containerd's by its manifest.
    """
    digests = (image.config_digest, image.manifest_digest)
    return [str(digest) for digest in digests if digest is not None]


def load(api: Any, image: Image) -> None:
    """Send an image of a layout or an archive to a daemon, each blob hashed on its way.

    Args:
        api: Client of the daemon; its own errors are the caller's to tell.
        image: Without a registry.

    Raises:
        CannotRunError: It is in no file that is named.
        DamagedError: The file is no longer the one that was read.
    """
    if image.is_elsewhere:
        raise image.missing()
    if image.file is None:
        raise CannotRunError(
            f"the engine no longer has the image {image.config_digest}, which was built here",
            where=image.reference,
            advice="build it again: capsule image build; push it to a registry to share it",
        )
    from capsule.image import handing

    for line in api.load_image(handing.stream(image)):
        if "error" in line:
            raise CannotRunError(
                f"the engine cannot load the image: {line['error']}", where=str(image.file.path)
            )
