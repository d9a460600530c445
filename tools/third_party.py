"""The programs of manifests/third-party: fetch them, build their images, measure the table.

    python tools/third_party.py fetch [NAME ...]
    python tools/third_party.py image small|torch [--base IMAGE] [--registry HOST:PORT]
    python tools/third_party.py table [NAME ...]

`fetch` brings them into manifests/third-party/sources, where the manifests look for them. `image`
builds what they run in, and prints the reference that `--image` takes. `table` runs each under one
engine, verifies it under the other, and writes docs/third-party.md; it builds the images first.
"""

import argparse
import os

import third_party_sources as sources
import third_party_table as table

BASES = {"small": "capsule-test/base", "torch": "capsule-test/torch"}


def main() -> None:
    """Do what the first word says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    fetch = verbs.add_parser("fetch", help="bring programs by digest")
    fetch.add_argument("names", nargs="*", metavar="NAME")
    image = verbs.add_parser("image", help="build an image and push it")
    image.add_argument("kind", choices=sources.IMAGES)
    image.add_argument("--base", help="a Debian 12 with Python, or an image with torch")
    image.add_argument("--registry", default=os.environ.get("CAPSULE_TEST_REGISTRY"))
    measure = verbs.add_parser("table", help="run, verify, and write the page")
    measure.add_argument("names", nargs="*", metavar="NAME")
    measure.add_argument("--registry", default=os.environ.get("CAPSULE_TEST_REGISTRY"))
    words = parser.parse_args()
    if words.verb == "fetch":
        for name in words.names or sources.read():
            print(sources.fetch(sources.read()[name]))
    elif words.verb == "image":
        print(_build(words.kind, words.base or BASES[words.kind], words.registry))
    else:
        kinds = {one.image for one in sources.read().values() if one.name in words.names}
        images = {kind: _build(kind, BASES[kind], words.registry) for kind in kinds or BASES}
        table.measure_all(words.names, images)


def _build(kind: str, base: str, registry: str) -> str:
    return sources.push_image(sources.build_image(kind, base), registry)


if __name__ == "__main__":
    main()
