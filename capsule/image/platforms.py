"""Platform of this machine, and its match with an image."""

from __future__ import annotations

import platform

from capsule.errors import CannotRunError
from capsule.image import Image

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def this_machine() -> tuple[str, str]:
    """Return the operating system and architecture, as registries name them."""
    name = platform.machine()
    return "linux", _ARCHITECTURES.get(name, name)


def require(image: Image) -> None:
    """Stop before an engine is given an image whose programs this machine cannot execute.

    Raises:
        CannotRunError: Names both platforms.
    """
    wanted = this_machine()
    if tuple(image.platform.split("/"))[: len(wanted)] != wanted:
        raise CannotRunError(
            f"the image is for {image.platform}, but this machine is {'/'.join(wanted)}",
            where=image.reference,
            advice="use a machine of the image's platform, or name an image for this machine with"
            " --image",
        )
