"""An environment on a machine without network: this interpreter's packages, and some wheels."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import zipfile
from pathlib import Path

from .part import call

_PACKAGES = ("site-packages", "dist-packages")


def make(folder: Path) -> Path:
    """Make a virtual environment that sees this interpreter's packages.

    `--system-site-packages` of an interpreter that itself lives in a virtual environment shows the
    packages of its base, so a `.pth` file names the folders of the interpreter.

    Returns:
        The folder for further packages.
    """
    made = call([sys.executable, "-m", "venv", "--without-pip", folder], 60)
    if made.code != 0:
        # some distributions leave the module venv out
        base = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin/python3").symlink_to(base)
        (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    variables = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=variables))
    packages.mkdir(parents=True, exist_ok=True)
    shown = [*site.getsitepackages(), *sys.path]
    shown = [one for one in dict.fromkeys(shown) if one.endswith(_PACKAGES) and Path(one).is_dir()]
    shown += [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    (packages / "zz-parent.pth").write_text("".join(f"{one}\n" for one in shown))
    return packages


def install(folder: Path, checkout: Path, wheels: Path) -> str:
    """Make an environment with wheels and the checkout; return its interpreter.

    capsule's wheels of pure Python and binary extensions hold packages only, so unpacking them is
    installing them.
    """
    packages = make(folder)
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    (packages / "00-capsule.pth").write_text(f"{checkout}\n")
    return str(folder / "bin/python3")
