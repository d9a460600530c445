"""What a script imports of the modules beside it, and nothing of what lies elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from capsule.manifest import siblings

FILES = {
    "train.py": "",
    "model.py": "from layers import dense\n",
    "layers.py": "import numpy\n",
    "nets/__init__.py": "from .unet import UNet\nfrom nets.parts import block\n",
    "nets/unet.py": "from . import parts\nimport helpers\n",
    "nets/parts.py": "",
    "helpers/data.py": "",
    "numbers/readme.txt": "",
    "fast.cpython-311-x86_64-linux-gnu.so": "",
    "unused.py": "",
    "loop_a.py": "import loop_b\n",
    "loop_b.py": "import loop_a\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Modules beside a script."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import os, sys\nimport numpy as np\n", []),
        ("import model", ["model.py", "layers.py"]),
        ("import model as m, layers", ["model.py", "layers.py"]),
        ("from model import *", ["model.py", "layers.py"]),
        (
            "from model import (\n    a,\n    b,\n)\nimport unused\n",
            ["unused.py", "model.py", "layers.py"],
        ),
        (
            "from model import a  # the net\nfrom unused import b\n",
            ["model.py", "unused.py", "layers.py"],
        ),
        ("def main():\n    import model\n", ["model.py", "layers.py"]),
        ("try:\n\timport model\nexcept ImportError:\n\tpass\n", ["model.py", "layers.py"]),
        ("import nets", ["nets", "helpers"]),
        ("from nets.unet import UNet", ["nets", "helpers"]),
        ("from nets import unet", ["nets", "helpers"]),
        ("import helpers.data", ["helpers"]),
        ("import numbers", []),
        ("import fast", ["fast.cpython-311-x86_64-linux-gnu.so"]),
        ("import loop_a", ["loop_a.py", "loop_b.py"]),
        ("import train", []),
        ('"""\nimport model\n"""\n', []),
        ("# import model\nprint('import model')\n", []),
        ("from .. import model", []),
        ("importmodel\nimport_model\n", []),
    ],
)
def test_what_a_script_imports_beside_it(folder: Path, text: str, found: list[str]) -> None:
    (folder / "train.py").write_text(text)
    assert siblings.find_imports("train.py", folder) == found


def test_a_script_in_a_folder_imports_from_there(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src/run.py").write_text("import util, model\n")
    (folder / "src/util.py").touch()
    assert siblings.find_imports("src/run.py", folder) == ["src/util.py"]
    assert siblings.find_module("util", folder, "src/run.py") == "src/util.py"
    assert siblings.find_module("model", folder, "src/run.py") == "model.py"
    assert siblings.find_module("nothing", folder, "src/run.py") is None


@pytest.mark.parametrize(
    "text",
    [
        "import " * 100_000,
        "from a import (" * 50_000,
        '"""' * 100_001,
        "from " + "." * 300_000 + " import a",
    ],
)
def test_a_hostile_source_takes_no_time(folder: Path, text: str) -> None:
    (folder / "train.py").write_text(text)
    assert siblings.find_imports("train.py", folder) == []


def test_a_source_that_cannot_be_read_is_none(folder: Path) -> None:
    (folder / "train.py").unlink()
    assert siblings.find_imports("train.py", folder) == []
