"""The lines of an image's README that build it where nothing but wheels can be fetched."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.documented import ROOT

_LINES = re.compile(r"^    (python3\.11 -m pip .+|docker build .+ --network none .+)$", re.M)
_TAG = re.compile(r"-t \S+")
_BASE = re.compile(r"BASE=\S+")


def build(image: str, copy: Path, *, base: str, name: str) -> None:
    """Run them, in a copy of the image's folder.

    Args:
        image: Name of its folder, below `images`.
        copy: Where the copy is made.
        base: The image that takes the place of the base in the line.
        name: What takes the place of the name in the line.
    """
    folder = ROOT / "images" / image
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.whl"))
    fetch, make = _LINES.findall((folder / "README.md").read_text())
    make = _BASE.sub(f"BASE={base}", _TAG.sub(f"--rm --force-rm -t {name}", make))
    for line in (fetch.replace("python3.11", sys.executable), make):
        words = shlex.split(line.replace(f"images/{image}", str(copy)))
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
