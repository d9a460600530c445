"""Dropout: masks of our own streams, the same everywhere, and which faults of it are seen."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks, level2, networks
from capsule.levels.data import generators
from capsule.levels.frameworks import Framework
from capsule.levels.frameworks.numpy.networks import NumpyNetworks
from capsule.levels.frameworks.numpy.training import NumpyTrainer
from capsule.levels.graphs import statistics, values
from capsule.levels.journal import Samples
from capsule.levels.report import Report
from tests.support import trainings, trials
from tests.support.jobs import needs_torch

SIZES = {"side": 8, "width": 2, "dropout": 50}


@pytest.fixture(scope="module")
def universe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("universe")
    generators.write(
        generators.generate("universe", {"samples": 12, "test_samples": 5, "side": 8}), folder
    )
    return folder


def measure(framework: Framework, folder: Path, **sizes: int) -> dict[str, list[float]]:
    recipe: dict[str, Any] = {"batch": 5, "epochs": 2, "optimizer": {"name": "adam", "lr": 0.001}}
    wanted = trainings.trial(framework.name, folder, 17, network="cosmoflow", **recipe)
    lines: list[Samples] = []
    report = Report(lines.append)
    level2.measure(replace(wanted, parameters={**SIZES, **sizes}), framework, report)
    reported: dict[str, list[float]] = {}
    for line in lines:
        reported.setdefault(line.metric, []).extend(line.values)
    return reported


def alone(name: str = "numpy") -> Framework:
    return frameworks.load(name, "cpu", 1, "strict")


def masks(seed: int = 17, step: int = 0, **sizes: int) -> dict[str, Any]:
    graph = networks.build("cosmoflow", {"batch": 50, **SIZES, **sizes})
    return values.noise(graph, seed, step)


def test_a_mask_follows_from_seed_step_and_name_alone() -> None:
    one, again = masks(), masks()
    assert list(one) == ["dropout1.mask", "dropout2.mask"]
    assert all((one[name] == again[name]).all() for name in one)
    # the first elements never change with a version, a machine or numpy
    assert one["dropout1.mask"][0, :16].tolist() == FIRST
    wide, narrow = one["dropout1.mask"][:, :64], one["dropout2.mask"]
    assert (wide != narrow).any()
    for other in (masks(seed=18), masks(step=1)):
        assert all((one[name] != other[name]).any() for name in one)


FIRST = [1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("percent", [1, 10, 50, 99])
def test_so_many_of_a_hundred_are_zeros(percent: int) -> None:
    mask = masks(dropout=percent)["dropout1.mask"]
    assert set(numpy.unique(mask).tolist()) == {0.0, 1.0}
    deviation = (percent * (100 - percent) / mask.size) ** 0.5
    assert abs(100 * (1 - mask.mean()) - percent) < 4 * deviation


@needs_torch
def test_every_framework_goes_the_way_of_the_reference(universe: Path) -> None:
    torch, plain = measure(alone("torch"), universe), measure(alone(), universe)
    assert torch["train_loss"] == pytest.approx(plain["train_loss"], rel=1e-5)
    for reported in (torch, plain):
        assert max(reported["trajectory_error"]) < 1e-4
        assert max(reported["exact_trajectory_error"]) < 1e-9
        assert reported["evaluation_error"][0] < 1e-9
    without = measure(alone(), universe, dropout=0)
    assert without["train_loss"] != plain["train_loss"]


@needs_torch
@pytest.mark.parametrize("name", ["cosmoflow", "transformer"])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_networks_with_it_hold_their_bounds(name: str, framework: str) -> None:
    small = {"transformer": {"layers": 1, "width": 8, "heads": 2, "length": 4, "vocabulary": 9}}
    sizes = {"batch": 3, "dropout": 30, **small.get(name, {"side": 8, "width": 2})}
    reported = trials.measure(alone(framework), network=name, parameters=sizes)
    for metric in ("l2_error_ratio", "grad_l2_error_ratio"):
        assert reported[metric].values[0] < 1


def test_evaluation_and_inference_are_those_without_it() -> None:
    for name, sizes in (("cosmoflow", SIZES), ("transformer", {"dropout": 10})):
        with_it = networks.build(name, {"batch": 2, **sizes})
        without = networks.build(name, {"batch": 2, **sizes, "dropout": 0})
        assert with_it.noise
        assert not without.noise
        assert "dropout" not in {node.operator for node in with_it.inference}
        judged = statistics.evaluation(with_it)
        assert "dropout" not in {node.operator for node in judged.training}
        operators = [[node.operator for node in one.inference] for one in (with_it, without)]
        assert operators[0] == operators[1]
        parameters = values.parameters(without, "float32", 3)
        same = values.parameters(with_it, "float32", 3)
        assert all((parameters[one] == same[one]).all() for one in parameters)


@pytest.mark.parametrize("percent", [-1, 100])
def test_a_dropout_that_leaves_nothing_is_refused(percent: int) -> None:
    with pytest.raises(ValueError, match="dropout of cosmoflow is"):
        networks.build("cosmoflow", {"batch": 2, "dropout": percent})


def with_trainer(trainer: type[NumpyTrainer]) -> NumpyNetworks:
    native = NumpyNetworks()
    native.trainer = trainer  # type: ignore[method-assign]
    return native


class Broken(NumpyTrainer):
    """A trainer that treats masks in a way of its own."""

    change: Callable[[dict[str, Any]], dict[str, Any]]

    def step(self, inputs: Any, rate: float) -> Any:
        return super().step({**inputs, **type(self).change(dict(inputs))}, rate)


def keep_the_first() -> Callable[[dict[str, Any]], dict[str, Any]]:
    kept: dict[tuple[Any, ...], Any] = {}

    def change(inputs: dict[str, Any]) -> dict[str, Any]:
        return {
            name: kept.setdefault((name, array.shape, str(array.dtype)), array)
            for name, array in inputs.items()
            if name.endswith(".mask")
        }

    return change


def leave_out_the_scale(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: array / 2 for name, array in inputs.items() if name.endswith(".mask")}


@pytest.mark.parametrize(
    "change", [keep_the_first(), leave_out_the_scale], ids=["the same mask each step", "no scale"]
)
def test_a_mask_that_is_treated_otherwise_leaves_the_reference(
    universe: Path, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    class Planted(Broken):
        pass

    Planted.change = staticmethod(change)
    framework = alone()

    framework.networks = with_trainer(Planted)  # type: ignore[misc]
    assert max(measure(framework, universe)["exact_trajectory_error"]) > 0.01


def test_dropout_in_an_evaluation_is_seen(universe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Dropping(NumpyTrainer):
        def evaluate(self, graph: Any, inputs: Any) -> Any:
            batch = len(inputs["volume"])
            trained = networks.build("cosmoflow", {"batch": batch, **SIZES})
            nodes = {node.name: node for node in trained.training}
            last = next(one for one in graph.outputs)
            outputs = (last.removesuffix(".inference"),)
            drawn = values.noise(trained, 17, 0)
            judged = replace(trained, nodes=tuple(nodes.values()), outputs=outputs)
            return super().evaluate(judged, {**inputs, **drawn})

    framework = alone()

    framework.networks = with_trainer(Dropping)  # type: ignore[misc]
    assert measure(framework, universe)["evaluation_error"][0] > 0.01
