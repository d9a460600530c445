"""Every example that a docstring of the package shows runs, and prints what it shows."""

import ast
import doctest
import importlib
from pathlib import Path
from types import ModuleType

import pytest

import capsule

ROOT = Path(capsule.__file__).parent
FRAMEWORKS = ("torch", "tensorflow", "onnx", "onnxruntime")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def shown_examples(path: Path) -> int:
    """How many examples a file shows, in whichever docstring: nothing that runs can hide one."""
    source = path.read_text()
    if ">>>" not in source:
        return 0
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented)]
    return sum(len(doctest.DocTestParser().get_examples(text)) for text in texts if text)


SHOWN = {module_name(path): shown_examples(path) for path in sorted(ROOT.rglob("*.py"))}


def load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in FRAMEWORKS:
            pytest.skip(f"{name} needs {error.name}, which is not installed here")
        raise


def test_the_whole_package_is_walked() -> None:
    assert {"capsule.cli", "capsule.levels.run", "capsule.stats.series"} <= SHOWN.keys()
    assert sum(SHOWN.values()) > 90


@pytest.mark.parametrize("name", [name for name, count in SHOWN.items() if count])
def test_documented_examples_hold(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # an example that writes must not write here
    failed, tried = doctest.testmod(load(name))
    assert not failed
    assert tried == SHOWN[name]
