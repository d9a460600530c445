"""Whether an engine's copy of an image is the image that was pinned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capsule.errors import DamagedError
from capsule.image import Image


def check(inspection: Mapping[str, Any], image: Image) -> None:
    """Hold what the daemon says of its copy against the digests that we computed.

    Args:
        inspection: Its answer: `Id`, `RepoDigests`, `RootFS`.
        image: The image that was asked for.

    Raises:
        DamagedError: It is another image; says in what.
    """
    names = {str(name).rpartition("@")[2] for name in inspection.get("RepoDigests") or ()}
    own = str(inspection["Id"])
    layers = [str(layer.diff_id) for layer in image.layers]
    expected = {
        str(digest)
        for digest in (image.config_digest, image.manifest_digest, image.index_digest)
        if digest is not None
    }
    # the classic store calls an image by its configuration, containerd's by its manifest
    if own not in expected:
        fault = f"its id is {own}, expected {image.config_digest}"
    elif image.pinned and str(image.manifest_digest) not in {*names, own}:
        fault = f"it knows it as {', '.join(sorted(names))}, expected {image.manifest_digest}"
    elif list(inspection["RootFS"].get("Layers") or ()) != layers:
        fault = "its layers are not those of the configuration"
    else:
        return
    raise DamagedError(f"Docker has another image: {fault}", where=image.reference)
