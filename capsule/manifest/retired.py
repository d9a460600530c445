"""Fields that a manifest had in earlier versions, and what takes their place."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath
from typing import Any

from capsule.manifest.problems import Problems, quote

_DEFINITION = ".def"


def advise_build(recipe: str) -> str:
    """Return the command that builds an image, and the reference that names it.

    Args:
        recipe: A folder with a Dockerfile, or an Apptainer definition.

    >>> advise_build("images/own.def")
    'run `apptainer build own.sif images/own.def`, and refer to the image as own.sif'
    """
    name, word = _image_name(recipe), shlex.quote(recipe)
    if recipe.endswith(_DEFINITION):
        return f"run `apptainer build {name}.sif {word}`, and refer to the image as {name}.sif"
    return (
        f"run `docker build -t {name} {word}`, and refer to the image as docker-daemon:{name}; to"
        f" publish the image, run `docker build -t HOST/{name}:1 {word} && docker push"
        f" HOST/{name}:1`, and refer to the image as docker://HOST/{name}:1"
    )


def replace_build(raw: Any, problems: Problems, *, is_sealed: bool) -> Any:
    """Return the manifest with the reference of a built image in place of `image.build`.

    Args:
        raw: The manifest.
        problems: Where the field is noted as wrong.
        is_sealed: True if the runs were made already, by a version that had the field.
    """
    image = raw.get("image") if isinstance(raw, dict) else None
    if not (isinstance(image, dict) and isinstance(recipe := image.get("build"), str)):
        return raw
    if not is_sealed:
        problems.add(
            "/image/build",
            f"building {quote(recipe)} is no longer supported: {advise_build(recipe)}",
        )
    return {**raw, "image": {"reference": f"docker-daemon:{_image_name(recipe)}"}}


def _image_name(recipe: str) -> str:
    name = PurePath(recipe).name.removesuffix(_DEFINITION)
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "image"
