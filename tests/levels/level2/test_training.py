"""Trainings: what they reach, what they are held to, and which faults that shows."""

from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks
from capsule.levels.catalog import training
from capsule.levels.data import generators, samplers
from capsule.levels.data.predictions import Evaluation
from capsule.levels.frameworks import FrameworkError
from capsule.levels.level2 import TargetError, samples
from capsule.levels.networks import build
from capsule.levels.report import DivergedError
from tests.support.compiler import needs_compiler
from tests.support.jobs import needs_torch
from tests.support.trainings import SGD, SMALL, measure, numpy_alone


def test_a_training_reports_what_is_due(glyphs: Path) -> None:
    values = measure(numpy_alone(), glyphs, epochs=4)
    due = training.metrics("accuracy", has_target=False, stops=False)
    assert set(values) == {facts.name for facts in due}
    per_epoch = (
        *("train_loss", "loss", "accuracy", "epoch_time", "training_throughput"),
        *("evaluation_time", "batch_latency", "data_bytes_per_second", "data_share"),
    )
    assert {len(values[name]) for name in per_epoch} == {4}
    assert values["parameters"] == (len_parameters(),)
    assert values["final_accuracy"] == pytest.approx((sum(values["accuracy"][1:]) / 3,))
    assert values["best_accuracy"] == (max(values["accuracy"]),)
    assert all(0 < share < 1 for share in values["data_share"])
    assert values["train_loss"][-1] < values["train_loss"][0]
    assert values["training_throughput"] == pytest.approx(
        [80 / seconds for seconds in values["epoch_time"]]
    )


def len_parameters() -> int:
    graph = build("lenet", {"batch": 1, "side": 12, "classes": 3})
    return sum(int(numpy.prod(graph.parameters[name].shape)) for name in graph.trainable)


def test_it_learns(glyphs: Path) -> None:
    values = measure(numpy_alone(), glyphs, epochs=10)
    assert values["best_accuracy"][0] > 0.6  # a third is chance
    assert max(values["trajectory_error"]) < 1e-4


@needs_torch
@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_the_same_seed_gives_the_same_curves(glyphs: Path, framework: str) -> None:
    curves = ("train_loss", "loss", "accuracy", "trajectory_error")
    once, again, other = (
        measure(frameworks.load(framework, "cpu", 1, "strict"), glyphs, seed)
        for seed in (17, 17, 18)
    )
    assert [once[name] for name in curves] == [again[name] for name in curves]
    assert not any(once[name] == other[name] for name in ("train_loss", "loss"))


@needs_torch
@pytest.mark.parametrize("name", sorted(training.OPTIMIZERS))
def test_torch_and_numpy_go_the_same_way(glyphs: Path, name: str) -> None:
    # each move of L-BFGS multiplies rounding
    few = {"iterations": 3} if name == "lbfgs" else {}
    optimizer = {"name": name, "lr": 0.01, **few}
    torch, reference = (
        measure(frameworks.load(framework, "cpu", 1, "default"), glyphs, optimizer=optimizer)
        for framework in ("torch", "numpy")
    )
    # at this rate RMSProp's steps are so large that differences of rounding grow
    close = 1e-2 if name == "rmsprop" else 1e-4
    for curve in ("train_loss", "loss"):
        assert torch[curve] == pytest.approx(reference[curve], rel=close)
    for values in (torch, reference):
        assert max(values["trajectory_error"]) < (1e-2 if name == "lbfgs" else 1e-3)
        assert max(values["exact_trajectory_error"]) < 1e-9
        assert values["evaluation_error"][0] < 1e-9


@needs_compiler
@needs_torch
# torch's own compiler uses what torch calls deprecated
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_compiled_training_goes_that_way_too(glyphs: Path) -> None:
    # the batch that is held to the reference, so that one shape is compiled
    compiled, plain = (
        measure(frameworks.load(name, "cpu", 1, "default"), glyphs, epochs=1, batch=4)
        for name in ("torch-compile", "torch")
    )
    assert compiled["train_loss"] == pytest.approx(plain["train_loss"], rel=1e-3)
    assert max(compiled["trajectory_error"]) < 1e-4


@needs_torch
@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("optimizer", [SGD, {"name": "lbfgs", "lr": 0.1, "iterations": 2}])
def test_micro_batches_are_trained_as_their_batch(
    glyphs: Path, framework: str, optimizer: dict[str, Any]
) -> None:
    loaded = frameworks.load(framework, "cpu", 1, "default")
    whole = measure(loaded, glyphs, optimizer=optimizer)
    for count in (2, 20):
        parts = measure(loaded, glyphs, optimizer=optimizer, accumulate=count)
        for curve in ("train_loss", "loss"):
            assert parts[curve] == pytest.approx(whole[curve], rel=1e-4)
        # a step of the optimizer is one of the schedule, however many micro-batches it has
        for same in ("learning_rate", "order_fingerprint", "training_samples"):
            assert parts[same] == whole[same]
        assert max(parts["exact_trajectory_error"]) < 1e-9


@needs_torch
def test_statistics_are_those_of_micro_batches(tmp_path: Path) -> None:
    generators.write(generators.generate("glyphs", {**SMALL, "channels": 3}), tmp_path)
    recipe: dict[str, Any] = {"network": "resnet44", "epochs": 1, "batch": 90, "accumulate": 9}
    values = measure(frameworks.load("torch", "cpu", 1, "default"), tmp_path, **recipe)
    assert max(values["exact_trajectory_error"]) < 1e-9
    assert values["evaluation_error"][0] < 1e-9


MIXED = "bfloat16-mixed"


@needs_torch
@pytest.mark.parametrize("name", ["sgd", "adamw", "lamb"])
def test_mixed_precision_goes_that_way_as_far_as_its_products_do(glyphs: Path, name: str) -> None:
    loaded = frameworks.load("torch", "cpu", 1, "default")
    recipe: dict[str, Any] = {"optimizer": {"name": name, "lr": 0.01}}
    mixed, plain = (measure(loaded, glyphs, dtype=one, **recipe) for one in (MIXED, "float32"))
    assert not {"node_error_ratio", "bound_share"} & set(mixed)
    assert mixed["train_loss"] != plain["train_loss"]
    assert mixed["train_loss"] == pytest.approx(plain["train_loss"], rel=0.02)
    # of products with 8 bits
    assert 1e-3 < mixed["trajectory_error"][0] < 0.1
    assert max(mixed["exact_trajectory_error"]) < 1e-9
    assert mixed["evaluation_error"][0] < 1e-9


@needs_torch
def test_parameters_without_float32_beside_them_are_seen(
    glyphs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from capsule.levels.frameworks.torch.training import TorchTrainer

    right = TorchTrainer.step

    def step(trainer: TorchTrainer, *arguments: Any) -> Any:
        loss = right(trainer, *arguments)
        with torch.no_grad():
            for leaf in trainer.parameters().values():
                leaf.copy_(leaf.bfloat16())
        return loss

    monkeypatch.setattr(TorchTrainer, "step", step)
    values = measure(frameworks.load("torch", "cpu", 1, "default"), glyphs, dtype=MIXED, epochs=1)
    assert values["trajectory_error"][0] > 0.1


def test_mixed_precision_is_refused_where_there_is_none(glyphs: Path) -> None:
    with pytest.raises(ValueError, match="numpy does not train in bfloat16-mixed"):
        measure(numpy_alone(), glyphs, dtype=MIXED)


def test_a_batch_without_equal_parts_is_refused(glyphs: Path) -> None:
    with pytest.raises(ValueError, match="a batch of 20 is not a multiple of accumulate 3"):
        measure(numpy_alone(), glyphs, accumulate=3)


def test_the_target_is_when_it_was_first_reached(glyphs: Path) -> None:
    whole = measure(numpy_alone(), glyphs, epochs=5, target={"value": 0.6, "stop": False})
    first = next(n for n, value in enumerate(whole["accuracy"], 1) if value >= 0.6)
    assert whole["epochs_to_target"] == (first,)
    assert whole["samples_to_target"] == (80 * first,)
    assert whole["time_to_target"] == pytest.approx((sum(whole["epoch_time"][:first]),))
    assert len(whole["accuracy"]) == 5
    short = measure(numpy_alone(), glyphs, epochs=5, target={"value": 0.6, "stop": True})
    assert short["accuracy"] == whole["accuracy"][:first]
    assert not {"final_accuracy", "best_accuracy"} & set(short)


def test_a_target_that_is_not_reached_fails_the_trial(glyphs: Path) -> None:
    with pytest.raises(TargetError, match=r"accuracy 1\.5 was not reached in 2 epochs; the best"):
        measure(numpy_alone(), glyphs, target={"value": 1.5, "stop": False})


def test_clocks_with_and_without_evaluation_and_the_way_of_the_data(glyphs: Path) -> None:
    values = measure(numpy_alone(), glyphs, epochs=3, target={"value": 0.0, "stop": False})
    seconds, pauses = values["epoch_time"], values["evaluation_time"]
    assert values["train_time"] == pytest.approx((sum(seconds),))
    assert values["total_time"] == pytest.approx((sum(seconds) + sum(pauses),))
    assert values["time_to_target"] == seconds[:1]
    assert values["total_time_to_target"] == pytest.approx((seconds[0] + pauses[0],))
    shares = zip(values["data_share"], seconds, strict=True)
    waits = [share * second / 4 for share, second in shares]
    assert values["batch_latency"] == pytest.approx(waits)
    size = 20 * (12 * 12 * 4 + 8)  # of a batch
    assert values["data_bytes_per_second"] == pytest.approx([size / wait for wait in waits])


def test_classes_are_counted_as_they_were_taken(glyphs: Path) -> None:
    values = measure(numpy_alone(), glyphs, epochs=1)
    labels = numpy.load(glyphs / "label.npy")[samplers.shuffle(90, 17, 0)[:80]]
    due = numpy.bincount(labels, minlength=3)
    assert values["class_counts"] == tuple(due)
    assert values["largest_class_share"] == (due.max() / 80,)


@needs_torch
def test_memory_is_that_of_the_training(glyphs: Path) -> None:
    torch = frameworks.load("torch", "cpu", 1, "default")
    values = measure(torch, glyphs, epochs=1)
    assert 0 <= values["peak_memory_bytes"][0] < 2**30


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide:RuntimeWarning")
def test_a_loss_that_is_not_finite_ends_the_training_at_once(glyphs: Path) -> None:
    values: dict[str, tuple[float, ...]] = {}
    with pytest.raises(DivergedError, match=r"the loss rose to (nan|inf) in epoch 1, from 1"):
        measure(numpy_alone(), glyphs, optimizer={"name": "sgd", "lr": 1e38}, into=values)
    assert not numpy.isfinite(values["train_loss"]).any()
    assert "loss" not in values


def test_a_loss_that_has_grown_ends_the_training_with_its_curves(glyphs: Path) -> None:
    values: dict[str, tuple[float, ...]] = {}
    with pytest.raises(
        DivergedError, match=r"the loss rose to [0-9.]+ in epoch 2, from 1\.[0-9]+ "
    ):
        measure(
            numpy_alone(),
            glyphs,
            optimizer={"name": "sgd", "lr": 30.0},
            epochs=9,
            into=values,
        )
    assert len(values["train_loss"]) == 2
    assert len(values["accuracy"]) == len(values["epoch_time"]) == 1
    assert values["train_loss"][1] > training.GROWN * values["untrained_loss"][0]


def test_a_loss_that_falls_slowly_or_not_is_no_divergence(glyphs: Path) -> None:
    values = measure(numpy_alone(), glyphs, epochs=3, optimizer={"name": "sgd", "lr": 1e-9})
    assert len(values["train_loss"]) == 3


def test_a_batch_beyond_the_data_is_refused(glyphs: Path) -> None:
    with pytest.raises(ValueError, match="a batch of 91 exceeds the 90 training samples"):
        measure(numpy_alone(), glyphs, batch=91)
    values = measure(numpy_alone(), glyphs, batch=90, epochs=1)
    assert len(values["train_loss"]) == 1


@pytest.mark.parametrize("framework", ["onnxruntime"])
def test_what_does_not_train_says_so(glyphs: Path, framework: str) -> None:
    alone = numpy_alone()
    alone.name = framework
    with pytest.raises(ValueError, match=f"{framework} does not train"):
        measure(alone, glyphs)


def test_a_framework_without_a_trainer_says_so(glyphs: Path) -> None:
    alone = numpy_alone()

    class Networks:
        trainer = None

    alone.networks = Networks()  # type: ignore[assignment]
    with pytest.raises(FrameworkError, match="numpy does not train"):
        measure(alone, glyphs)


def test_every_epoch_has_an_order_of_its_own_and_every_seed() -> None:
    orders = [
        tuple(samplers.shuffle(50, seed, epoch).tolist()) for seed in (1, 2) for epoch in (0, 1)
    ]
    assert len(set(orders)) == 4
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert samplers.shuffle(1, 3, 0).tolist() == [0]


def test_samples_of_several_rows_stay_together(tmp_path: Path) -> None:
    graph = build("transformer", {"batch": 1, "length": 4, "vocabulary": 30, "width": 8})
    tokens = numpy.arange(24) % 30
    generators.write(
        {
            "token": tokens,
            "label": (tokens + 1) % 30,
            "test_token": tokens[:8],
            "test_label": tokens[:8],
        },
        tmp_path,
    )
    train, test = samples.read(tmp_path, graph)
    assert (train.count, test.count) == (6, 2)
    taken = train.take(numpy.array([5, 0]))
    assert taken["token"].tolist() == [20, 21, 22, 23, 0, 1, 2, 3]
    assert taken["label"].tolist() == [21, 22, 23, 24, 1, 2, 3, 4]


IMAGE = numpy.zeros((2, 1, 12, 12), "float32")
LABEL = numpy.zeros(2, "int64")
RIGHT = {"image": IMAGE, "label": LABEL, "test_image": IMAGE, "test_label": LABEL}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"test_image": None},
            r"lacks test_image\.npy; found",
        ),
        ({"image": IMAGE.astype("int64")}, r"image is int64 \(2, 1, 12, 12\); lenet expects"),
        ({"image": IMAGE[:, 0]}, r"image is float32 \(2, 12, 12\).*of shape \(N, 1, 12, 12\)"),
        ({"label": LABEL.astype("float32")}, "label is float32.*expects whole numbers"),
        ({"label": LABEL + 3}, "label contains numbers from 3 to 3, expected 0 to 2"),
        ({"test_label": LABEL - 1}, "test_label contains numbers from -1 to -1, expected 0 to 2"),
        ({"label": LABEL[:1]}, "training arrays need equal numbers .* found image 2, label 1"),
        (
            {"test_label": LABEL[:0], "test_image": IMAGE[:0]},
            "test arrays need equal numbers .* at least 1",
        ),
    ],
)
def test_a_dataset_of_something_else_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    arrays = {name: array for name, array in {**RIGHT, **changes}.items() if array is not None}
    generators.write(arrays, tmp_path)
    graph = build("lenet", {"batch": 1, "side": 12, "classes": 3})
    with pytest.raises(ValueError, match=message):
        samples.read(tmp_path, graph)


def test_overlaps_are_averaged_over_classes_and_then_over_samples() -> None:
    """Of 2 samples with 4 pixels each; the second has no pixel of class 2, and is said none."""
    labels = numpy.array([0, 0, 1, 2, 0, 0, 0, 1])
    chosen = numpy.array([0, 1, 1, 2, 0, 0, 1, 1])
    scores = numpy.eye(3, dtype="float32")[chosen]
    first, second = (1 / 2 + 1 / 2 + 1) / 3, (2 / 3 + 1 / 2 + 1) / 3
    overlap = Evaluation("mean_iou")
    overlap.add(scores, {"label": labels}, 2)
    assert overlap.value() == pytest.approx((first + second) / 2)
    apart = Evaluation("mean_iou")
    for half in (slice(0, 4), slice(4, 8)):
        apart.add(scores[half], {"label": labels[half]}, 1)
    assert apart.value() == pytest.approx(overlap.value())


def test_quality_is_counted_over_batches_of_any_size() -> None:
    scores = numpy.array([[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]], "float32")
    accuracy = Evaluation("accuracy")
    accuracy.add(scores[:2], {"label": numpy.array([1, 1])}, 2)
    accuracy.add(scores[2:], {"label": numpy.array([0])}, 1)
    assert accuracy.value() == 2 / 3  # of equal scores the first counts
    distance = Evaluation("mean_absolute_error")
    distance.add(numpy.array([[1.0, 2.0]], "float32"), {"target": numpy.array([[0.0, 4.0]])}, 1)
    distance.add(numpy.array([[1.0, 2.0]], "float32"), {"target": numpy.array([[1.0, 2.0]])}, 1)
    assert distance.value() == 0.75
