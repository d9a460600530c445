"""What of the measuring code a capsule carries: enough to run, and no level that nobody runs."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import capsule.levels
from capsule import manifest, program
from capsule.levels.catalog import FRAMEWORKS

LEVELS = Path(capsule.levels.__file__).parent
MODULES = {path.relative_to(LEVELS).as_posix() for path in LEVELS.rglob("*.py")}
SUBJECTS = {
    "operator": {"level": 0, "operator": "relu", "cases": {"n": [5]}},
    "network": {"level": 1, "network": "lenet"},
    "recipe": {
        **{"level": 2, "network": "lenet", "datasets": ["digits"], "batch": 2, "epochs": 1},
        "optimizer": {"name": "sgd", "lr": 0.1},
    },
}
RUNS = {"operator": "level0", "network": "level1", "recipe": "level2"}
COMMAND = {"id": "mine", "command": ["true"], "metrics": {"loss": {"direction": "lower"}}}


def parts(folder: Path, *benchmarks: object) -> tuple[str, ...]:
    document = {
        **{"name": "parts", "title": "Parts", "authors": [{"name": "A. Author"}]},
        **{"license": "CC0-1.0", "seeds": [1, 2], "claims": []},
        "datasets": {"digits": {"generator": "glyphs", "samples": 8, "test_samples": 2}},
        "benchmarks": benchmarks,
    }
    (folder / "m.json").write_text(json.dumps(document))
    return program.parts(manifest.load(folder / "m.json"))


def carried(prefixes: tuple[str, ...]) -> set[str]:
    return {name for name in MODULES if name.startswith(prefixes)}


def file_of(module: tuple[str, ...]) -> str | None:
    path = "/".join(module)
    names = (f"{path}.py", f"{path}/__init__.py" if path else "__init__.py")
    return next((name for name in names if name in MODULES), None)


def imports(name: str) -> Iterator[str]:
    """The files of levels that one imports as soon as it is imported itself."""
    package = name.split("/")[:-1]
    for node in ast.parse((LEVELS / name).read_text()).body:
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = (*package[: len(package) - node.level + 1], *(node.module or "").split("."))
        base = tuple(filter(None, base))
        for target in (base, *((*base, alias.name) for alias in node.names)):
            if path := file_of(target):
                yield path


def closure(starts: set[str]) -> set[str]:
    names: set[str] = set()
    new = {*starts, "run.py", "probe.py", "__main__.py"}
    while new:
        names |= new
        new = {other for name in new for other in imports(name)} - names
    return names


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("kind", SUBJECTS)
def test_a_capsule_carries_all_that_its_program_imports(
    tmp_path: Path, kind: str, framework: str
) -> None:
    facts = FRAMEWORKS[framework]
    if kind != "operator" and not facts.networks:
        return
    if kind == "recipe" and not facts.trains:
        return
    names = carried(parts(tmp_path, {"id": "a", "frameworks": [framework], **SUBJECTS[kind]}))
    starts = {f"{RUNS[kind]}/__init__.py", f"frameworks/{facts.module}/__init__.py"}
    if kind == "recipe":
        starts.add(f"frameworks/{facts.module.partition('_')[0]}/training.py")
    if kind == "network" and facts.modules:
        starts |= {"frameworks/torch/inference.py", "frameworks/torch/nodes.py"}
    assert closure(starts) - names == set()


def test_and_nothing_of_other_levels_or_frameworks(tmp_path: Path) -> None:
    operators = {"id": "a", "frameworks": ["torch"], **SUBJECTS["operator"]}
    names = carried(parts(tmp_path, operators))
    tops = {name.partition("/")[0] for name in names if "/" in name}
    assert tops == {"catalog", "frameworks", "graphs", "instruments", "level0", "operators"}
    assert not [name for name in names if name.startswith(("frameworks/numpy", "graphs/onnx"))]
    networks = {"id": "b", "frameworks": ["numpy"], **SUBJECTS["network"]}
    both = carried(parts(tmp_path, operators, networks))
    assert both == names | carried(parts(tmp_path, networks))


def test_a_command_needs_the_library_of_scripts_alone(tmp_path: Path) -> None:
    names = carried(parts(tmp_path, COMMAND))
    assert {name.partition("/")[0] for name in names if "/" in name} == {
        "catalog",
        "library",
        "seeding",
    }
