"""Software of an image, seen from inside."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Callable

# not through `catalog` itself, which is not there where commands alone are measured
from .catalog.frameworks import FRAMEWORKS

_VARIABLE = re.compile(
    "(ATEN|BLIS|CUBLAS|CUDA|CUDNN|DNNL|GOMP|JAX|KMP|MALLOC|MKL|MPICH|NCCL|NPY|NVIDIA|OMP|OMPI"
    "|ONEDNN|OPENBLAS|ORT|PMI|PMIX|PYTORCH|TORCH|UCX|XLA)_.*"
    "|TF_(CUDNN|DETERMINISTIC|ENABLE|FORCE|GPU|NUM|XLA)_.*"
    "|GLIBC_TUNABLES|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONHASHSEED|PYTHONPATH"
)


def main() -> int:
    """Print the inventory as one JSON object; the exit status."""
    sys.stdout.write(json.dumps(inventory(), sort_keys=True) + "\n")
    return 0


def inventory(frameworks: Iterable[str] = FRAMEWORKS) -> dict[str, object]:
    """Return the software of this image as JSON values.

    Args:
        frameworks: Whose build settings to read, which means to import them; one that is not
            installed is left out.

    Returns:
        `python`, `platform`, `distributions` (name to version), `frameworks` (name to build
        settings), `variables` (those of the environment that can change a result), and `missing`:
        for each field that is null because it could not be read, its dotted name and the reason.
    """
    missing: dict[str, str] = {}
    return {
        "python": _read("python", _PYTHON, missing),
        "platform": _read("platform", _PLATFORM, missing),
        "distributions": _distributions(),
        "frameworks": {
            name: _read(
                f"frameworks.{name}",
                {key: partial(_build, path) for key, path in FRAMEWORKS[name].build.items()},
                missing,
            )
            for name in sorted(frameworks)
            if name in FRAMEWORKS and util.find_spec(FRAMEWORKS[name].package) is not None
        },
        "variables": {
            name: value for name, value in sorted(os.environ.items()) if _VARIABLE.fullmatch(name)
        },
        "missing": missing,
    }


def _read(
    where: str, fields: Mapping[str, Callable[[], object]], missing: dict[str, str]
) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, read in fields.items():
        try:
            values[name] = read()
        except Exception as error:
            values[name] = None
            missing[f"{where}.{name}"] = f"{type(error).__name__}: {error}"
    return values


def _distributions() -> dict[str, str]:
    versions: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        # the first on the path is the one that is imported; a damaged one has no name
        if name and name not in versions:
            versions[name] = distribution.version
    return dict(sorted(versions.items()))


def _os_release() -> str:
    words = shlex.split(Path("/etc/os-release").read_text(encoding="utf-8"), comments=True)
    return dict(word.split("=", 1) for word in words)["PRETTY_NAME"]


def _numpy_build() -> object:
    import numpy

    if tuple(int(part) for part in numpy.__version__.split(".")[:2]) >= (1, 25):
        return numpy.show_config(mode="dicts")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        numpy.show_config()
    return {"text": printed.getvalue()}


def _build(path: str) -> object:
    """Return the value at a path of `FrameworkFacts.build`; raises if built without it."""
    if path == "numpy.show_config":
        return _numpy_build()
    package, *names = path.split(".")
    value: object = import_module(package)
    for name in names:
        value = getattr(value, name)
    value = value() if callable(value) else value
    if value is None:
        raise LookupError(f"{path} is None: this {package} was built without {path}")
    return dict(value) if isinstance(value, Mapping) else value


_PYTHON: dict[str, Callable[[], object]] = {
    "version": platform.python_version,
    "implementation": platform.python_implementation,
    "compiler": platform.python_compiler,
    "build": lambda: list(platform.python_build()),
    "executable": lambda: sys.executable,
}

_PLATFORM: dict[str, Callable[[], object]] = {
    "machine": platform.machine,
    "libc": lambda: " ".join(platform.libc_ver()),
    "distribution": _os_release,
}
