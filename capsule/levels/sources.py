"""Import the Python files in which users define operators and networks."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from importlib import util
from pathlib import Path
from types import ModuleType


def import_file(source: Path, names: Iterable[str]) -> ModuleType:
    """Run a user's file.

    Args:
        source: A `.py` file.
        names: What it has to define.

    Raises:
        ValueError: It is no such file, does not define all of them, or imports what is not there.
    """
    if not source.is_file():
        raise ValueError(f"no file {source}")
    # a name of its own: the file must not become `torch` or `random` for whoever imports those,
    # nor one of two files the other
    key = hashlib.sha256(os.fsencode(source.resolve())).hexdigest()[:16]
    spec = util.spec_from_file_location(f"capsule_user_{source.stem}_{key}", source)
    if spec is None or spec.loader is None:
        raise ValueError(f"the source is {source}, expected a .py file")
    module = util.module_from_spec(spec)
    # dataclasses and pickle look for a class's module there
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"{source.name} imports {error.name}, which is not installed in the benchmark's"
            f" environment: name an image that has {error.name}, in the manifest or by --image"
            " (images/models/README.md shows how to build an image from the torch image)"
        ) from error
    if missing := [name for name in names if not hasattr(module, name)]:
        raise ValueError(f"{source} does not define {', '.join(missing)}")
    return module
