"""Check that an engine's copy of an image is the pinned image."""

from __future__ import annotations

from itertools import zip_longest

from capsule.errors import DamagedError
from capsule.image import Image
from capsule.runtimes.answers import ImageFacts


def check(facts: ImageFacts, image: Image, title: str) -> None:
    """Hold what an engine says of its copy against the digests that we computed.

    Args:
        facts: What it says.
        image: The image that was asked for.
        title: Name of the engine.

    Raises:
        DamagedError: It is another image; says in what.
    """
    own = str(facts.identity)
    layers = tuple(str(layer.diff_id) for layer in image.layers)
    expected = {
        str(digest)
        for digest in (image.config_digest, image.manifest_digest, image.index_digest)
        if digest is not None
    }
    # the classic store calls an image by its configuration, containerd's by its manifest
    if own not in expected:
        fault = f"its id is {own}, expected {image.config_digest}"
    elif image.pinned and str(image.manifest_digest) not in {*facts.digests, own}:
        names = ", ".join(sorted(facts.digests))
        fault = f"its digests are {names}, expected {image.manifest_digest}"
    elif facts.layers != layers:
        pairs = enumerate(zip_longest(facts.layers, layers, fillvalue="none"), 1)
        number, (found, due) = next(one for one in pairs if one[1][0] != one[1][1])
        fault = f"its layer {number} is {found}, expected {due}"
    else:
        return
    raise DamagedError(
        f"{title} has another image under this name: {fault}",
        where=image.reference,
        advice=f"remove that image: {title.lower()} image rm {own}",
    )
