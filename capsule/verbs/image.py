"""`capsule image`: digests of an image reference, and images saved to files."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.errors import UsageError
from capsule.sizes import size
from capsule.verbs import verb
from capsule.verbs.verb import Family, Verb

if TYPE_CHECKING:
    from capsule.console import Console
    from capsule.image import Image, Layer


@dataclass(frozen=True, kw_only=True)
class ResolveArguments:
    """Arguments of `image resolve`."""

    reference: str
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class SaveArguments:
    """Arguments of `image save`."""

    image: str
    file: Path
    json: bool = False


def _add_resolve(parser: ArgumentParser) -> None:
    parser.add_argument(
        "reference",
        metavar="REF",
        help="docker://HOST/NAME:TAG, or a file (SIF, OCI layout, docker save)",
    )
    verb.add_json(parser)


def _resolve(arguments: ResolveArguments, console: Console) -> int:
    from capsule import image as images
    from capsule import site
    from capsule.image.mirrors import Access
    from capsule.manifest import ImageSpec
    from capsule.runtimes import local

    access = Access(mirrors=site.load().mirrors)
    spec = ImageSpec(reference=arguments.reference)
    image = images.resolve(spec, folder=None, access=access, engines=local.find)
    return _print(image, arguments.json, console)


def _add_save(parser: ArgumentParser) -> None:
    parser.add_argument(
        "image", metavar="REF|CAPSULE", help="image, or capsule whose image to save"
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="OCI archive to write")
    verb.add_json(parser)


def _save(arguments: SaveArguments, console: Console) -> int:
    from capsule.image import save
    from capsule.runtimes import local

    image = _find_image(arguments.image)

    def watch(layer: Layer) -> None:
        console.say(f"copying layer {layer.digest}, {size(layer.size_bytes)}")

    manifest_digest = save.save(image, arguments.file, watch, local.save)
    facts = {
        "file": str(arguments.file),
        "manifest_digest": str(manifest_digest),
        "config_digest": str(image.config_digest),
    }
    if arguments.json:
        console.document(facts)
    else:
        for name, value in facts.items():
            console.data(f"{name}: {value}")
        console.say(
            f"to use the image: --image {arguments.file}, or docker load -i {arguments.file}"
        )
    return 0


def _find_image(word: str) -> Image:
    """Return the image of a reference, or of a capsule on this machine."""
    from capsule import image as images
    from capsule import reading
    from capsule.runtimes import local

    path = Path(word)
    if "://" in word or not path.exists():
        return images.resolve(None, folder=None, override=word, engines=local.find)
    with reading.read(path) as capsule:
        recorded = capsule.record.image
    if recorded is None:
        raise UsageError(
            "this capsule ran on the host, without an image",
            where=word,
            advice="name a capsule of a run in a container, or docker://HOST/NAME:TAG",
        )
    return recorded


def _print(image: Image, as_json: bool, console: Console) -> int:
    facts = {
        "reference": image.reference,
        "pinned": image.pinned,
        "manifest_digest": str(image.manifest_digest) if image.manifest_digest else None,
        "config_digest": str(image.config_digest) if image.config_digest else None,
        "tree_digest": str(image.tree_digest) if image.tree_digest else None,
        "platform": image.platform,
    }
    if as_json:
        console.document(facts)
        return 0
    for name, value in facts.items():
        if value:
            console.data(f"{name}: {value}")
    return 0


IMAGE = Family(
    name="image",
    examples=("capsule image resolve docker://registry.example/torch:1.0",),
    verbs=(
        Verb(
            name="resolve",
            purpose="print the digests of an image",
            examples=("capsule image resolve docker://registry.example/torch:1.0",),
            one="reference",
            add=_add_resolve,
            act=verb.door(ResolveArguments, _resolve),
        ),
        Verb(
            name="save",
            purpose="write an image to one file, for machines that cannot fetch it",
            examples=(
                "capsule image save docker://registry.example/torch:1.0 torch.oci.tar",
                "capsule image save a.capsule.zip torch.oci.tar",
            ),
            add=_add_save,
            act=verb.door(SaveArguments, _save),
        ),
    ),
)
