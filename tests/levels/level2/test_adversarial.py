"""Two networks in training against each other, of which the one makes maps for the other."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks, networks, run
from capsule.levels.catalog import optimizers, training
from capsule.levels.data import generators, predictions
from capsule.levels.frameworks.numpy.training import NumpyTrainer
from capsule.levels.graphs import reference, statistics, values
from capsule.levels.journal import Samples
from capsule.levels.report import Report
from tests.support import trainings
from tests.support.jobs import needs_torch

SMALL = {"side": 16, "width": 2, "layers": 2, "latent": 3}
MAPS = {"samples": 20, "test_samples": 7, "side": 16}
ADAM: dict[str, Any] = {"name": "adam", "lr": 0.01, "beta1": 0.5}
NUMBERS = training.complete(training.OPTIMIZERS["adam"], ADAM)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("maps")
    generators.write(generators.generate("mass-maps", MAPS), made)
    return made


def train(
    folder: Path, kept: Path | None = None, seed: int = 17, framework: str = "numpy", **recipe: Any
) -> dict[str, Any]:
    whole = {"batch": 6, "epochs": 2, "optimizer": ADAM, **recipe}
    wanted = trainings.trial(framework, folder, seed, network="cosmogan", **whole)
    wanted = replace(wanted, parameters=SMALL)
    lines: list[Samples] = []
    loaded = frameworks.load(framework, "cpu", 1, "default")
    run.load_level(2)(wanted, loaded, Report(lines.append, folder=kept))
    told: dict[str, Any] = {}
    for line in lines:
        told.setdefault(line.metric, []).extend(line.values)
    return told


def test_the_spectra_of_its_maps_give_the_distance_again(folder: Path, tmp_path: Path) -> None:
    reported = train(folder, tmp_path)
    path = tmp_path / predictions.path("benchmark", "default")
    array = predictions.decode(path.read_bytes())
    assert array.shape == (3, 7, training.choices("cosmogan", SMALL))
    distances = reported["spectrum_distance"]
    assert predictions.qualities("spectrum_distance", array) == distances
    assert reported["final_spectrum_distance"] == [sum(distances) / 2]
    assert reported["best_spectrum_distance"] == [min(distances)]
    assert max(reported["exact_trajectory_error"]) < 1e-9
    assert reported["evaluation_error"][0] < 1e-9
    assert reported["node_error_ratio"][0] < 1
    assert reported["bound_share"][0] < training.MOST_SHARE
    # what is due is of the test maps, whatever the seed of the noise
    again = train(folder, tmp_path / "again", seed=18)
    kept = tmp_path / "again" / predictions.path("benchmark", "default")
    other = predictions.decode(kept.read_bytes())
    assert (array[0] == other[0]).all()
    assert (array[1:] != other[1:]).all(axis=(1, 2)).all()
    assert reported["test_fingerprint"] == again["test_fingerprint"]


def test_its_noise_follows_from_seed_and_step(folder: Path) -> None:
    graph = networks.build("cosmogan", {**SMALL, "batch": 6})
    (latent,) = values.noise(graph, 17, 4).values()
    assert latent.shape == (6, 3)
    assert (latent == values.noise(graph, 17, 4)["latent"]).all()
    for other in (values.noise(graph, 18, 4), values.noise(graph, 17, 5)):
        assert (latent != other["latent"]).any(axis=1).all()
    wide = networks.build("cosmogan", {**SMALL, "batch": 500})
    drawn = values.noise(wide, 17, 4)["latent"]
    assert abs(drawn.mean()) < 0.1
    assert abs(drawn.std() - 1) < 0.05
    one, again = train(folder), train(folder)
    for curve in ("train_loss", "loss", "spectrum_distance"):
        assert one[curve] == again[curve]


def test_an_evaluation_has_noise_of_its_own_in_batches_of_any_size() -> None:
    parts = [
        values.evaluation_noise(networks.build("cosmogan", {**SMALL, "batch": batch}), 17, first)
        for batch, first in ((4, 0), (3, 4))
    ]
    joined = numpy.concatenate([one["latent"] for one in parts])
    whole = networks.build("cosmogan", {**SMALL, "batch": 7})
    assert (joined == values.evaluation_noise(whole, 17, 0)["latent"]).all()
    assert (joined != values.noise(whole, 17, 0)["latent"]).any()
    assert values.evaluation_noise(networks.build("lenet", {"batch": 1}), 17, 0) == {}


def test_each_network_is_moved_by_its_own_loss_alone() -> None:
    """One without the other's, by what differences of the loss find."""
    graph = networks.build("cosmogan", {**SMALL, "batch": 4})
    made = {**values.inputs(graph, "float64", 3), **values.parameters(graph, "float64", 3)}
    arrays = {name: array.astype("float64") for name, array in made.items()}
    nodes = [node for node in graph.training if node.operator == "sigmoid_cross_entropy"]
    assert len(nodes) == 3
    losses = {node.name: replace(graph, loss=node.name) for node in nodes}
    results = reference.evaluate(graph.training, arrays)
    together = reference.differentiate(graph, arrays, results)
    alone = [
        reference.differentiate(one, arrays, reference.evaluate(one.training, arrays))
        for one in losses.values()
    ]
    for name, gradient in together.items():
        real, fake, fooled = (one[name] for one in alone)
        if name.startswith("discriminator"):
            assert not fooled.any()
            assert real.any()
            assert fake.any()
        else:
            assert not real.any()
            assert not fake.any()
            assert fooled.any()
        numpy.testing.assert_allclose(gradient, real + fake + fooled, rtol=1e-12, atol=1e-15)


FAULTS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "the generator's loss moves the discriminator": ("detach", lambda torch, x: torch.clone(x)),
    "a slope of 0.01": (
        "leaky_relu",
        lambda torch, x: torch.nn.functional.leaky_relu(x, 0.01),
    ),
    "smaller maps": ("tanh", lambda torch, x: 0.99 * torch.tanh(x)),
}


@needs_torch
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_framework_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    import torch

    from capsule.levels.frameworks.torch.networks import OPERATIONS

    operator, wrong = FAULTS[fault]
    right = train(folder, framework="torch", epochs=1)
    assert max(right["exact_trajectory_error"]) < 1e-9
    monkeypatch.setitem(OPERATIONS, operator, lambda _, x: (partial(wrong, torch), (x,)))
    reported = train(folder, framework="torch", epochs=1)
    assert max(reported["exact_trajectory_error"]) > 1e-4


def test_statistics_of_real_and_generated_maps_are_kept_apart() -> None:
    graph = networks.build("cosmogan", {**SMALL, "batch": 6})
    kept = statistics.find(graph)
    # two layers of the generator are normalized, and one of the discriminator for each kind of map
    assert len(kept) == 2 + 3
    assert len({name for one in kept for name in one.names}) == 2 * len(kept)
    trainer = NumpyTrainer(graph, values.parameters(graph, "float32", 1), "adam", NUMBERS)
    maps = numpy.full((6, 1, 16, 16), 0.5, "float32")
    trainer.step({**values.inputs(graph, "float32", 1), "map": maps}, 0.01)
    after = trainer.parameters()
    real, generated, again = (after[one.mean] for one in kept[2:])
    assert (real != generated).all()
    numpy.testing.assert_array_equal(generated, again)


def test_a_loss_that_grows_is_no_divergence() -> None:
    assert training.diverges(3, 9, 9.0, 2.0)
    assert not training.diverges(3, 9, 9.0, 2.0, "spectrum_distance")
    for lost in (float("nan"), float("inf")):
        assert training.diverges(3, 9, lost, 2.0, "spectrum_distance")


@pytest.mark.parametrize("name", optimizers.TOGETHER)
def test_an_optimizer_of_all_parameters_together_is_refused(folder: Path, name: str) -> None:
    assert optimizers.mismatch("accuracy", name) is None
    with pytest.raises(ValueError, match=f"^{name} cannot train two networks against each other"):
        train(folder, optimizer={"name": name, "lr": 0.01})


def test_micro_batches_take_their_parts_of_the_noise(folder: Path) -> None:
    reported = train(folder, batch=6, accumulate=2, epochs=1)
    assert max(reported["exact_trajectory_error"]) < 1e-9


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"side": 20, "layers": 3}, "side of cosmogan is 20, expected a multiple of 8"),
        ({"side": 3}, "side of cosmogan is 3, expected a whole number >= 4"),
        ({"layers": 0}, "layers of cosmogan is 0"),
    ],
)
def test_sides_that_cannot_be_halved_are_refused(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        networks.build("cosmogan", {"batch": 1, **sizes})


def test_maps_of_another_side_are_refused(folder: Path) -> None:
    wanted = trainings.trial("numpy", folder, 17, network="cosmogan", batch=6, optimizer=ADAM)
    wanted = replace(wanted, parameters={**SMALL, "side": 32})
    with pytest.raises(ValueError, match=r"map is float32 \(20, 1, 16, 16\); cosmogan expects"):
        run.load_level(2)(wanted, trainings.numpy_alone(), Report(lambda _: None))
