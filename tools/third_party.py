"""The programs of manifests/third-party: fetch them, and build the images that they run in.

    python tools/third_party.py fetch [NAME ...]
    python tools/third_party.py image small|torch [--base IMAGE] [--registry HOST:PORT]

`fetch` brings them into manifests/third-party/sources, where the manifests look for them. `image`
builds what they run in, and prints the reference that `--image` takes.
"""

import argparse
import os

import third_party_sources as sources

BASES = {"small": "CAPSULE_TEST_BASE_IMAGE", "torch": "CAPSULE_TEST_IMAGE"}
"""The variable of `tests/engines env` that names the image below each."""


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
    words = parser.parse_args()
    if words.verb == "fetch":
        for name in words.names or sources.read():
            print(sources.fetch(sources.read()[name]))
    else:
        base = words.base or os.environ.get(BASES[words.kind])
        if base is None:
            parser.error("name --base, or build the images of the tests: tests/engines images")
        name = sources.build_image(words.kind, base.removeprefix("docker://"))
        print(sources.push_image(name, words.registry))


if __name__ == "__main__":
    main()
