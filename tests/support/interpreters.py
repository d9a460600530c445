"""Which Python the commands of benchmarks find on this machine."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path


def put_bare_python_first(folder: Path) -> None:
    """Have `python3` be one without packages, made in a folder, for this process and its children.

    Every run asks its command's Python for the versions of the frameworks that it holds, and to
    import torch for that takes longer than most tests.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    os.environ["PATH"] = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])


def with_packages() -> str:
    """A search path whose `python3` is the one that the tests run in, packages and all."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
