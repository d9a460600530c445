"""Recipes with an optimizer of a user's file: what is read of it, and what each mistake is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from capsule import manifest, plan
from capsule.errors import ManifestError, UsageError
from capsule.manifest import Manifest, Recipe
from capsule.manifest.kinds import OwnOptimizer
from tests.manifest.test_recipes import ENTRY, WHOLE

FILE = """
numbers = {"momentum": 0.9, "beta1": 1}
slots = 1
def torch(parameters, numbers): ...
def formula(step, state, parameter, gradient): ...
"""
WITHOUT = FILE.partition("slots")[0] + "def torch(parameters, numbers): ...\n"
OWN = {
    **ENTRY,
    "inputs": ["own"],
    "optimizer": {"file": "own/mine.py", "lr": 0.1, "beta1": -3},
}


def read(
    folder: Path | None, text: str | None = FILE, claims: tuple[Any, ...] = (), **fields: Any
) -> Manifest:
    if folder is not None and text is not None:
        (folder / "own").mkdir(exist_ok=True)
        (folder / "own" / "mine.py").write_text(text)
    return manifest.read(source(claims, **fields), where="manifest.json", folder=folder)


def source(claims: tuple[Any, ...] = (), **fields: Any) -> bytes:
    entry = {name: value for name, value in {**OWN, **fields}.items() if value is not None}
    whole = {**WHOLE, "mutable": ["optimizer"], "benchmarks": [entry], "claims": list(claims)}
    return json.dumps(whole).encode()


def recipe(made: Manifest) -> Recipe:
    subject = made.benchmarks[0].subject
    assert isinstance(subject, Recipe)
    return subject


def test_it_is_read_without_being_run_and_stands_in_the_plan(tmp_path: Path) -> None:
    made = read(tmp_path, FILE + "\nraise RuntimeError('I run')\n")
    subject = recipe(made)
    assert subject.own_optimizer == OwnOptimizer("own/mine.py", {"momentum": 0.9, "beta1": 1}, True)
    assert subject.source is None
    settings = subject.settings["default"]
    assert settings.optimizer == "own/mine.py"
    assert settings.numbers == {"lr": 0.1, "momentum": 0.9, "beta1": -3}
    (planned,) = plan.subjects_to_json(made)
    assert planned["optimizer"] == {"numbers": {"momentum": 0.9, "beta1": 1}, "formula": True}
    assert planned["recipes"]["default"]["optimizer"] == {
        "file": "own/mine.py",
        "lr": 0.1,
        "momentum": 0.9,
        "beta1": -3,
    }
    # whoever reads a capsule has the plan, and executes and looks up nothing
    again = manifest.read(source(), where="m", folder=None, subjects=[planned])
    assert again.benchmarks == made.benchmarks


def test_without_a_formula_no_metric_says_how_right_a_step_is(tmp_path: Path) -> None:
    made = read(tmp_path, WITHOUT, frameworks=["torch"])
    names = {metric.name for metric in made.benchmarks[0].metrics}
    assert names.isdisjoint({"trajectory_error", "exact_trajectory_error"})
    assert {"evaluation_error", "node_error_ratio"} <= names
    assert {"trajectory_error", "exact_trajectory_error"} <= {
        metric.name for metric in read(tmp_path).benchmarks[0].metrics
    }


@pytest.mark.parametrize("metric", ["trajectory_error", "exact_trajectory_error"])
def test_a_claim_on_one_is_refused_with_the_reason(tmp_path: Path, metric: str) -> None:
    claim = {"metric": f"digits/*/torch/{metric}", "type": "bound", "at_most": 1}
    read(tmp_path, claims=(claim,))
    with pytest.raises(ManifestError, match=r"own/mine.py defines no formula") as caught:
        read(tmp_path, WITHOUT, (claim,), frameworks=["torch"])
    assert "/claims/0/metric" in str(caught.value)


def test_its_numbers_are_searched_and_varied(tmp_path: Path) -> None:
    space = {"momentum": {"from": 0, "to": 0.95}, "beta1": [1, 2, 3], "lr": [0.1, 0.2]}
    search = {"method": "random", "metric": "final_accuracy", "points": 2, "space": space}
    made = read(tmp_path, search=search)
    numbers = [settings.numbers for settings in recipe(made).settings.values()]
    assert len(numbers) == 10
    assert all(0 <= one["momentum"] <= 0.95 and one["beta1"] in (1, 2, 3) for one in numbers)
    varied = recipe(read(tmp_path, cases={"momentum": [0.1, 0.2]})).settings
    assert [one.numbers["momentum"] for one in varied.values()] == [0.1, 0.2]


MISTAKES: list[tuple[str, dict[str, Any], str, str]] = [
    (
        FILE.replace("def torch", "def tensorflow"),
        {},
        "/file",
        "line 1: the top level defines no torch",
    ),
    (FILE.replace("numbers =", "numbres ="), {}, "/file", "defines no numbers"),
    ("numbers = {\n", {}, "/file", "line 1: not Python"),
    (FILE.replace("0.9", "float('nan')"), {}, "/file", "line 2: numbers is not a literal"),
    (FILE.replace("0.9", "1e999"), {}, "/file", "expected a dictionary of names"),
    (FILE.replace("0.9", "10**400"), {}, "/file", "line 2: numbers is not a literal"),
    (FILE.replace("0.9", "1" + "0" * 400), {}, "/file", "finite numbers"),
    (FILE.replace("0.9", "True"), {}, "/file", "expected a dictionary of names"),
    (FILE.replace("beta1", "lr"), {}, "/file", "numbers has lr, the name of a field of recipes"),
    (FILE.replace("beta1", "end"), {}, "/file", "numbers has end, the name of a field of recipes"),
    (FILE.replace("beta1", "workers"), {}, "/file", "numbers has workers"),
    (FILE.replace("beta1", "side"), {}, "/file", "numbers has side, an option of the network"),
    (FILE.replace("beta1", "beta-1"), {}, "/file", "expected a dictionary of names"),
    (FILE.replace("slots = 1", "slots = -1"), {}, "/file", "line 3: slots is -1"),
    (
        FILE.replace("def formula", "def f"),
        {},
        "/file",
        "line 3: slots is 1, but the file defines no formula",
    ),
    (WITHOUT, {}, "/frameworks/1", "numpy trains by an optimizer's formula"),
    (
        FILE,
        {"frameworks": ["tensorflow"]},
        "/frameworks/0",
        "tensorflow cannot train with an optimizer",
    ),
    (FILE, {"frameworks": ["toch"]}, "/frameworks/0", "did you mean 'torch'"),
    (FILE, {"inputs": ["own/mine.py"], "rules": "mlperf-hpc-closed"}, "/rules", "no rules"),
    (FILE, {"inputs": None}, "/file", "is outside this benchmark's inputs"),
    (FILE, {"cases": {"beta2": [0.1]}}, "/cases/beta2", "did you mean 'beta1'"),
    (FILE, {"batch": 20, "accumulate": 3}, "", "accumulate 3 does not divide batch 20"),
]
RECIPES: list[tuple[dict[str, Any], str, str]] = [
    ({"file": "own/mine.py", "lr": 0.1, "momentun": 0.5}, "/momentun", "did you mean 'momentum'"),
    ({"file": "own/mine.py", "lr": 0}, "", "lr is 0"),
    ({"file": "own/mine.py"}, "", "'lr' is missing"),
    ({"file": "own/mine.py", "name": "sgd", "lr": 0.1}, "", "exactly one of name and file"),
    ({"lr": 0.1}, "", "exactly one of name and file"),
    ({"file": "own/none.py", "lr": 0.1}, "/file", "does not exist"),
    ({"file": "../mine.py", "lr": 0.1}, "/file", "outside of the manifest's folder"),
    ({"file": "own/mine.py", "lr": 0.1, "momentum": "much"}, "/momentum", "much"),
    ({"file": 3, "lr": 0.1}, "/file", "3"),
]


@pytest.mark.parametrize(("text", "fields", "where", "message"), MISTAKES)
def test_a_mistake_is_told_with_its_place(
    tmp_path: Path, text: str, fields: dict[str, Any], where: str, message: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read(tmp_path, text, **fields)
    assert message in str(caught.value)
    assert where in str(caught.value)


@pytest.mark.parametrize(("optimizer", "where", "message"), RECIPES)
def test_so_is_one_in_the_recipe(
    tmp_path: Path, optimizer: dict[str, Any], where: str, message: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read(tmp_path, optimizer=optimizer)
    assert message in str(caught.value)
    assert f"/benchmarks/0/optimizer{where}" in str(caught.value) or "lr is" in message


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"optimizer": None}, "the plan takes the optimizer"),
        ({"optimizer": {"numbers": {}, "formula": True}}, "does not accept"),
        ({"optimizer": {"numbers": {"lr": 1}, "formula": True}}, "numbers has lr"),
        (
            {"optimizer": {"numbers": {"momentum": 0.5, "beta1": 1}, "formula": True}},
            "the plan's training of the case default differs",
        ),
    ],
)
def test_a_plan_of_another_optimizer_is_refused(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    (planned,) = plan.subjects_to_json(read(tmp_path))
    with pytest.raises(ManifestError, match=message):
        manifest.read(source(), where="m", folder=None, subjects=[{**planned, **changed}])


def test_its_numbers_can_be_set_and_its_file_cannot(tmp_path: Path) -> None:
    made = read(tmp_path)
    subjects = plan.subjects_to_json(made)
    changed = manifest.change(made, {"/benchmarks/0/optimizer/momentum": 0.5}, subjects)
    assert recipe(changed).settings["default"].numbers["momentum"] == 0.5
    for field in ("file", "name"):
        with pytest.raises(UsageError, match="optimizer's file is part of the measurement"):
            manifest.change(made, {f"/benchmarks/0/optimizer/{field}": "sgd"}, subjects)
    with pytest.raises(ManifestError, match="does not accept"):
        manifest.change(made, {"/benchmarks/0/optimizer/beta2": 0.5}, subjects)
