"""Download the wheels that a machine without network lacks, for `check.py --wheels`.

    python benchmarks/gpu/wheels.py .gpu/wheels --python 3.12 --without torch,numpy,jinja2

The folder gets capsule's dependencies for CPython on Linux x86-64, without the named packages: the
machine has them already.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# pip compares tags exactly: a wheel for an older glibc is found under its own tag only
_GLIBC = ("2_28", "2_27", "2_24", "2_17", "2_12", "2_5")


def main() -> None:
    """Resolve the dependencies, then download all that are not left out."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="version of CPython there")
    parser.add_argument("--without", default="", help="packages that the machine has")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    without = {_normalize(name) for name in options.without.split(",")}
    resolved = _resolve(options.python)
    pins = [pin for pin in resolved if _normalize(pin.split("==")[0]) not in without]
    _run_pip("download", "--no-deps", *_tags(options.python), "-d", str(options.folder), *pins)
    print(*pins, sep="\n")


def _resolve(python: str) -> list[str]:
    """Return name and version of every package that capsule needs, without installing one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        _run_pip(
            *("install", "--dry-run", "--ignore-installed", "--target", f"{folder}/none"),
            *("--report", str(report), *_tags(python), *project["dependencies"]),
        )
        found = json.loads(report.read_text())["install"]
    return [f"{one['metadata']['name']}=={one['metadata']['version']}" for one in found]


def _tags(python: str) -> list[str]:
    abi = f"cp{python.replace('.', '')}"
    words = ["--only-binary=:all:", "--python-version", python, "--implementation", "cp"]
    for name in (abi, "abi3", "none"):
        words += ["--abi", name]
    for version in _GLIBC:
        words += ["--platform", f"manylinux_{version}_x86_64"]
    for name in ("manylinux2014", "manylinux2010", "manylinux1"):
        words += ["--platform", f"{name}_x86_64"]
    return words


def _run_pip(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", words[0], "--quiet", *words[1:]], check=True)


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
