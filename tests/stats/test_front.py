"""The front of the statistics: cheap to import, whole when used, and typed as it runs."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from capsule import stats
from tests.support.capsules import seal

HEAVY = ("numpy", "scipy", "rich", "spython", "requests")
ROOMS = ("archive", "diff", "image", "inventory", "lint", "report", "runtimes", "stats", "verdict")


def heavy_modules_after(statement: str, *arguments: str) -> list[str]:
    """The packages of HEAVY that are loaded once a fresh interpreter has run a statement."""
    program = (
        f"import contextlib, io, json, sys\nHEAVY = {HEAVY!r}\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    {statement}\n"
        "print(json.dumps([name for name in HEAVY if name in sys.modules]))"
    )
    argv = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(argv, capture_output=True, text=True, check=True)
    names: list[str] = json.loads(ended.stdout)
    return names


@pytest.mark.parametrize("room", ROOMS)
def test_importing_a_room_imports_nothing_heavy(room: str) -> None:
    assert heavy_modules_after(f"import capsule.{room}") == []


def test_a_check_reckons_with_nothing_heavy(tmp_path: Path) -> None:
    capsule = seal(tmp_path)
    statement = "from capsule import cli; assert cli.main(['check', sys.argv[1]]) == 0"
    assert heavy_modules_after(statement, str(capsule)) == []


def run(program: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_scipy_drags_in_no_compiler_no_test_framework_and_no_wrappers() -> None:
    run(
        "import numpy, sys; there = set(sys.modules)\n"
        "from capsule.stats import special\n"
        "new = set(sys.modules) - there\n"
        "assert 'scipy.special._ufuncs' in new and 'scipy.special' not in new\n"
        "assert not new & {'numpy.f2py', 'numpy.testing', 'numpy.ma', 'numpy.random'}, new"
    )


@pytest.mark.parametrize("before", ["", "import numpy.ma, numpy.random", "import scipy.stats"])
def test_scipy_is_whole_afterwards_and_its_functions_are_these(before: str) -> None:
    """Whatever was imported earlier."""
    run(
        f"{before}\n"
        "from capsule.stats import special\n"
        "import scipy.special\n"
        "assert scipy.special.erf(0) == 0\n"
        "for name in special.__all__:\n"
        "    assert getattr(special, name) is getattr(scipy.special, name)\n"
        "import scipy.stats; scipy.stats.norm.rvs(random_state=1)\n"
    )


def test_a_scipy_that_has_its_functions_elsewhere_is_imported_whole() -> None:
    run(
        "import importlib, sys\n"
        "load = importlib.import_module\n"
        "def refuse(name):\n"
        "    if name.endswith('._ufuncs'): raise ImportError(name)\n"
        "    return load(name)\n"
        "importlib.import_module = refuse\n"
        "from capsule.stats import special\n"
        "assert special.ndtr is sys.modules['scipy.special'].ndtr\n"
    )


def test_every_name_of_the_front_leads_to_its_module() -> None:
    for name in stats.__all__:
        assert getattr(stats, name) is not None
    unknown = "interquartile"
    with pytest.raises(AttributeError, match=unknown):
        getattr(stats, unknown)
    with pytest.raises(ImportError, match=unknown):
        exec(f"from capsule.stats import {unknown}")


def test_what_mypy_sees_is_what_runs() -> None:
    """The names under TYPE_CHECKING stand in the modules that they are fetched from."""
    tree = ast.parse(Path(stats.__file__).read_text())
    homes = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module is not None
        if node.module.startswith("capsule.stats.")
        for alias in node.names
    }
    assert sorted(homes) == sorted(stats.__all__)
    for name, module in homes.items():
        assert getattr(stats, name) is getattr(sys.modules[module], name)
