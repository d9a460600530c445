"""A framework's facts stand in one place, and all else follows from them."""

import ast
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pytest

import capsule
from capsule.levels import catalog, probe

CAPSULE = Path(capsule.__file__).parent
FOLDERS = CAPSULE / "levels" / "frameworks"


def test_every_framework_has_its_folder_and_every_folder_its_framework() -> None:
    folders = {path.parent.name for path in FOLDERS.glob("*/__init__.py")}
    assert folders == {facts.module for facts in catalog.FRAMEWORKS.values()}


@pytest.mark.parametrize("name", catalog.FRAMEWORKS)
def test_what_a_framework_says_of_itself_fits_the_catalogue(name: str) -> None:
    facts = catalog.FRAMEWORKS[name]
    assert set(facts.dtypes) | set(facts.cuda or ()) <= set(catalog.DTYPES)
    assert set(facts.inexact) <= set(facts.dtypes)
    named = {operator for operators in facts.inexact.values() for operator in operators}
    assert named | set(facts.lacks) <= set(catalog.SUBJECTS)
    assert "version" in facts.build


@pytest.mark.parametrize("name", catalog.FRAMEWORKS)
def test_an_inventory_has_the_build_of_what_is_installed(name: str) -> None:
    facts = catalog.FRAMEWORKS[name]
    inventory: dict[str, Any] = probe.inventory({name})
    if util.find_spec(facts.package) is None:
        assert name not in inventory["frameworks"]
        return
    assert list(inventory["frameworks"]) == [name]
    assert set(inventory["frameworks"][name]) == set(facts.build)
    # a module may say what it was built for behind a +, where its distribution does not
    stated = inventory["frameworks"][name]["version"]
    installed = inventory["distributions"][facts.package]
    assert installed in (stated, stated.partition("+")[0])


def test_what_cannot_be_read_of_a_build_is_null_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    facts = catalog.FrameworkFacts(
        package="numpy",
        module="numpy",
        dtypes=(),
        build={
            "version": "numpy.__version__",
            "typo": "numpy.verson",
            "nothing": "numpy.newaxis",
            "absent": "no_such_package.version",
        },
    )
    monkeypatch.setitem(catalog.FRAMEWORKS, "odd", facts)
    inventory: dict[str, Any] = probe.inventory({"odd"})
    unread = ("typo", "nothing", "absent")
    assert [inventory["frameworks"]["odd"][field] for field in unread] == [None] * 3
    reasons = [inventory["missing"][f"frameworks.odd.{field}"] for field in unread]
    assert reasons[0].startswith("AttributeError: module 'numpy' has no attribute 'verson'")
    assert reasons[1] == (
        "LookupError: numpy.newaxis is None: this numpy was built without numpy.newaxis"
    )
    assert reasons[2] == "ModuleNotFoundError: No module named 'no_such_package'"
    assert inventory["frameworks"]["odd"]["version"]


def collections(tree: ast.AST) -> Iterator[set[Any]]:
    """Words of each list, tuple, set and dictionary that is written out."""
    for node in ast.walk(tree):
        parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        yield {part.value for part in parts if isinstance(part, ast.Constant)}


def test_no_other_module_lists_frameworks() -> None:
    names = set(catalog.FRAMEWORKS)
    listing = sorted(
        str(path.relative_to(CAPSULE))
        for path in CAPSULE.rglob("*.py")
        if any(len(words & names) > 1 for words in collections(ast.parse(path.read_text())))
    )
    # what seeds a library has to know how, and stands alone where it does; a world is made by
    # libraries that need not be frameworks
    assert listing == [
        "execute/sightings.py",
        "levels/catalog/frameworks.py",
        "levels/seeding/sitecustomize.py",
    ]
