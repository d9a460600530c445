"""Trainings on a device that computes meanwhile: clocks, waits and values, under virtual time."""

from collections.abc import Iterator
from dataclasses import replace
from importlib import util
from pathlib import Path
from typing import Any

import numpy
import pytest

from capsule.levels import frameworks, level2, run
from capsule.levels.catalog import training
from capsule.levels.data import generators, predictions
from capsule.levels.frameworks import Framework
from capsule.levels.instruments import doubles
from capsule.levels.journal import Samples
from capsule.levels.level2 import account, results
from capsule.levels.level2.prepared import Prepared
from capsule.levels.report import Report
from tests.support import trainings

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

GATHER, LAUNCH, COPY, COMPUTE = 0.008, 0.0005, 0.001, 0.010
"""Seconds of the host for a minibatch and a step, of the device for an array and a step."""

ARRAYS = 2
"""Copied for a minibatch."""

STEPS = 120
BATCH = 2
SIZES = {"side": 12, "classes": 3}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from capsule.levels.frameworks.torch.training import TorchTrainer
    from tests.support import virtual_device

    with virtual_device.install(monkeypatch, COPY) as device:
        right_step, right_gather = TorchTrainer.step, Prepared.gather

        def step(trainer: TorchTrainer, inputs: Any, rate: float) -> Any:
            loss = right_step(trainer, inputs, rate)
            device.clock.spend(LAUNCH)
            device.present.launch(COMPUTE)
            device.log.append("step")
            return loss

        def gather(trial: Prepared, epoch: int, number: int, indices: Any) -> dict[str, Any]:
            made = right_gather(trial, epoch, number, indices)
            device.clock.spend(GATHER)
            return made

        monkeypatch.setattr(TorchTrainer, "step", step)
        monkeypatch.setattr(Prepared, "gather", gather)
        # a reference on the device rounds in another way than one in the host's memory
        monkeypatch.setattr(doubles, "choose", lambda *_: doubles.keep)
        yield device


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    counts = {"samples": STEPS * BATCH, "test_samples": 25}
    generators.write(generators.generate("glyphs", {**SIZES, **counts}), folder)
    return folder


def on(device: str) -> Framework:
    return frameworks.load("torch", device, 1, "default")


def train(
    folder: Path,
    framework: Framework,
    device: str = "cuda",
    kept: Path | None = None,
    **recipe: Any,
) -> dict[str, Any]:
    """Return the reports of a training; files that it keeps lie in a folder."""
    how = {"batch": BATCH, "epochs": 1, "optimizer": {"name": "sgd", "lr": 0.005}, **recipe}
    trial = trainings.trial("torch", folder, 17, **how)
    trial = replace(trial, context=replace(trial.context, device=device))
    lines: list[Samples] = []
    run.load_level(2)(trial, framework, Report(lines.append, folder=kept))
    values: dict[str, Any] = {}
    for line in lines:
        values[line.metric] = values.get(line.metric, ()) + line.values
    return values


def due_share(workers: int) -> float:
    """The share that the host waits, by hand: when it asks for a minibatch, and when that is there.

    A step is launched, then the next minibatch is asked for; after some steps the host looks at a
    loss, which waits for the device.
    """
    host = waited = computed = copied = 0.0
    free, made = [0.0] * workers, list[float]()

    def ask(step: int) -> None:
        nonlocal host, waited, copied
        asked = host
        while workers and len(made) < min(STEPS, step + 1 + 2 * workers):
            worker = free.index(min(free))
            free[worker] = max(free[worker], host) + GATHER
            made.append(free[worker])
        host = max(host, made[step]) if workers else host + GATHER
        waited += host - asked
        copied = max(host, copied) + ARRAYS * COPY

    ask(0)
    for step in range(STEPS):
        host += LAUNCH
        computed = max(computed, copied, host) + COMPUTE
        if step + 1 < STEPS:
            ask(step + 1)
        if step % account.WATCHED == account.WATCHED - 1:
            host = max(host, computed)
    return waited / max(host, computed)


def find_waits(log: list[str]) -> list[str]:
    """Return the waits for the device between the first and the last step of the epoch."""
    places = [place for place, name in enumerate(log) if name == "step"][-STEPS:]
    return [name for name in log[places[0] : places[-1]] if name != "step"]


@pytest.mark.parametrize(("workers", "share"), [(0, 0.79), (1, 0.72), (4, 0.13)])
def test_the_wait_for_data_is_that_of_the_host_alone(
    device: Any, many: Path, workers: int, share: float
) -> None:
    seen = train(many, on("cuda"), workers=workers)
    assert due_share(workers) == pytest.approx(share, abs=0.02)
    assert seen["data_share"] == pytest.approx((due_share(workers),), abs=0.02)
    waited = seen["data_share"][0] * seen["epoch_time"][0]
    assert seen["batch_latency"] == pytest.approx((waited / STEPS,))
    size = STEPS * BATCH * (12 * 12 * 4 + 8)
    assert seen["data_bytes_per_second"] == pytest.approx((size / waited,))
    # the device computes all the time, whatever the host does
    seconds = GATHER + ARRAYS * COPY + STEPS * COMPUTE
    assert seen["epoch_time"] == pytest.approx((seconds,), rel=0.01)
    assert seen["copy_time"] == pytest.approx((ARRAYS * COPY,))


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_the_host_waits_for_the_device_once_in_so_many_steps(
    device: Any, many: Path, workers: int
) -> None:
    train(many, on("cuda"), workers=workers)
    assert find_waits(device.log) == ["cpu"] * (STEPS // account.WATCHED)
    assert len(find_waits(device.log)) <= STEPS / 50
    assert not device.races
    assert device.lent
    assert not device.unkept


def test_copies_that_wait_are_seen(device: Any, many: Path) -> None:
    framework = on("cuda")
    framework.transfer = None  # type: ignore[misc]
    seen = train(many, framework)
    assert abs(seen["data_share"][0] - due_share(0)) > 0.1
    assert len(find_waits(device.log)) >= STEPS
    assert seen["epoch_time"][0] > 1.2 * STEPS * COMPUTE
    assert "copy_time" not in seen


def test_operations_that_do_not_wait_for_their_copies_are_seen(
    device: Any, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from capsule.levels.frameworks.torch.transfer import CudaTransfer

    monkeypatch.setattr(CudaTransfer, "receive", lambda _, sent: sent.tensors)
    train(many, on("cuda"))
    assert device.races
    assert device.unkept


def test_an_evaluation_and_the_losses_of_an_epoch_are_a_copy_each(
    device: Any, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = level2._evaluate

    def evaluate(*arguments: Any) -> Any:
        device.log.append("evaluation")
        reached = right(*arguments)
        device.log.append("evaluated")
        return reached

    monkeypatch.setattr(level2, "_evaluate", evaluate)
    train(many, on("cuda"))
    last = len(device.log) - 1 - device.log[::-1].index("step")
    whole = ["step", "synchronize", "cpu", "evaluation", "cpu", "evaluated"]
    assert device.log[last : last + len(whole)] == whole


def test_it_reports_what_is_due(device: Any, many: Path) -> None:
    due = training.metrics("accuracy", has_target=False, stops=False, copies=True)
    assert set(train(many, on("cuda"))) == {facts.name for facts in due}


KINDS: dict[str, tuple[dict[str, int], str, dict[str, int]]] = {
    "lenet": (SIZES, "glyphs", SIZES),
    "cosmoflow": ({"side": 8, "width": 2, "dropout": 50}, "universe", {"side": 8}),
    "transformer": (
        {"layers": 1, "width": 8, "heads": 2, "length": 4, "vocabulary": 9, "dropout": 30},
        *("markov", {"length": 4, "vocabulary": 9}),
    ),
    "multilabel": (
        {"side": 32, "classes": 3, "width": 2, "blocks": 1},
        *("scenes", {"side": 32, "classes": 3}),
    ),
    "hepcnn": ({"side": 16, "width": 2}, "jets", {"side": 16}),
    "cosmogan": (
        {"side": 16, "width": 2, "layers": 2, "latent": 3},
        *("mass-maps", {"side": 16}),
    ),
    "deepcam": (
        {"height": 16, "width": 16, "divisor": 64, "middle": 0},
        *("storms", {"height": 16, "width": 16}),
    ),
}
"""Networks of every quality, with the generators of their data."""


def reach(network: str, folder: Path, kept: Path, device: str, **recipe: Any) -> dict[str, Any]:
    """The values that no clock is in, and the file of predictions."""
    sizes, generator, numbers = KINDS[network]
    if not folder.exists():
        folder.mkdir()
        counts = {"samples": 12, "test_samples": 9}
        generators.write(generators.generate(generator, {**numbers, **counts}), folder)
    how = {"batch": 4, "epochs": 2, "optimizer": {"name": "adam", "lr": 0.01}, **recipe}
    reported = train(folder, on(device), device, kept, network=network, parameters=sizes, **how)
    portable = training.metrics(training.QUALITY[network], has_target=False, stops=False)
    names = {facts.name for facts in portable if facts.kind == "portable"}
    values = {name: reported[name] for name in names}
    file = kept / predictions.path("benchmark", "default")
    return {**values, "predictions": file.read_bytes()}


@pytest.mark.parametrize("network", KINDS)
def test_every_value_is_that_of_copies_that_wait(
    network: str, tmp_path: Path, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = reach(network, tmp_path / "data", tmp_path / "plain", "cpu", accumulate=2)
    ahead = {"accumulate": 2, "workers": 2}
    assert reach(network, tmp_path / "data", tmp_path / "ahead", "cuda", **ahead) == due
    # each batch of an evaluation by a copy of its own
    monkeypatch.setattr(results, "MOST_BYTES", 1)
    assert reach(network, tmp_path / "data", tmp_path / "often", "cuda", **ahead) == due


@pytest.mark.parametrize("network", ["lenet", "transformer", "multilabel", "cosmogan"])
def test_every_value_of_cuda_graphs_is_that_of_passes_without(
    network: str, tmp_path: Path, device: Any
) -> None:
    due = reach(network, tmp_path / "data", tmp_path / "plain", "cpu", accumulate=2)
    graphs = {"accumulate": 2, "workers": 1, "tuning": {"cuda_graphs": True}}
    assert reach(network, tmp_path / "data", tmp_path / "graphs", "cuda", **graphs) == due
    assert "record" in device.log


def test_gradients_in_the_memory_of_a_cuda_graph_are_seen(
    tmp_path: Path, device: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from capsule.levels.frameworks.torch import training as trained

    monkeypatch.setattr(trained, "keep_gradients", lambda _: None)
    graphs = {"accumulate": 2, "tuning": {"cuda_graphs": True}}
    seen = reach("lenet", tmp_path / "data", tmp_path / "graphs", "cuda", **graphs)
    assert max(seen["exact_trajectory_error"]) > 1e-3


def test_cuda_graphs_are_recorded_before_any_thread_pins_memory(
    device: Any, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Prepared.gather

    def gather(trial: Prepared, epoch: int, number: int, indices: Any) -> dict[str, Any]:
        device.log.append("gather")
        return right(trial, epoch, number, indices)

    monkeypatch.setattr(Prepared, "gather", gather)
    train(many, on("cuda"), workers=4, tuning={"cuda_graphs": True})
    assert "record" not in device.log[device.log.index("gather") :]
    assert device.log.count("gather") == STEPS
    waits = [name for name in find_waits(device.log) if name != "gather"]
    assert waits == ["cpu"] * (STEPS // account.WATCHED)


def test_an_error_of_a_minibatch_is_raised_where_it_is_due(
    device: Any, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Prepared.gather

    def gather(trial: Prepared, epoch: int, number: int, indices: Any) -> dict[str, Any]:
        if number == 3:
            raise ValueError("the fourth")
        return right(trial, epoch, number, indices)

    monkeypatch.setattr(Prepared, "gather", gather)
    with pytest.raises(ValueError, match="the fourth"):
        train(many, on("cuda"))
    judged = training.JUDGED_STEPS
    # of those that are held to the reference each dtype has its own, and the optimizer alone
    assert device.log.count("step") == 3 * judged + 3


def test_arrays_come_back_as_they_are_by_one_copy(device: Any) -> None:
    import torch

    transfer = on("cuda").transfer
    assert transfer is not None
    way = transfer()
    arrays = [
        numpy.arange(6, dtype="float32").reshape(2, 3),
        numpy.array(1.5),
        numpy.zeros((0, 4), "float32"),
        numpy.array([1, -2, 3], "int64"),
        numpy.array([True, False]),
        numpy.arange(5, dtype="uint8"),
        numpy.arange(12, dtype="float64").reshape(3, 4).T,
    ]
    tensors = [torch.from_numpy(one).to(torch.device("cuda")) for one in arrays]
    narrow = torch.tensor([1.0, 2.5]).to(torch.device("cuda")).bfloat16()
    device.log.clear()
    read = way.read([*tensors, narrow])
    assert device.log == ["cpu"]
    for one, due in zip(read, [*arrays, numpy.array([1, 2.5], "float32")], strict=True):
        assert (one.dtype, one.shape) == (due.dtype, due.shape)
        assert (one == due).all()


@pytest.mark.parametrize("classes", [1, 3, 256, 257])
def test_classes_are_chosen_as_numpy_does(device: Any, classes: int) -> None:
    import torch

    transfer = on("cuda").transfer
    assert transfer is not None
    way = transfer()
    scores = numpy.random.default_rng(1).integers(0, 3, (50, classes, 2)).astype("float32")
    scores[:5, classes // 2] = numpy.nan
    scores[5:10] = numpy.inf
    (read,) = way.read([way.choose(torch.from_numpy(scores).to(torch.device("cuda")))])
    kind = predictions.find_class_type(classes)
    assert (read.astype(kind) == scores.argmax(axis=1)).all()
    # no class is lost on the way
    assert read.max() <= numpy.iinfo(kind).max


def test_pinned_numbers_have_the_type_of_the_training(device: Any) -> None:
    transfer = on("cuda").transfer
    assert transfer is not None
    way = transfer()
    stored = {"image": numpy.arange(6.0).reshape(2, 3), "label": numpy.array([1, 2])}
    pinned = {name: way.pin(array, "float32") for name, array in stored.items()}
    device.log.clear()
    placed = way.receive(way.send(pinned))
    assert device.log == []
    assert [str(one.dtype) for one in placed.values()] == ["torch.float32", "torch.int64"]
    for one, due in zip(way.read(list(placed.values())), stored.values(), strict=True):
        assert (one == due).all()
    assert way.measure_copies() == pytest.approx(ARRAYS * COPY)
    # counted once
    assert way.measure_copies() == pytest.approx(ARRAYS * COPY)


def test_a_cpu_copies_nothing_ahead() -> None:
    assert on("cpu").transfer is None
