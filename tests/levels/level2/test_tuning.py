"""Layouts and kernels that a recipe chooses: the same training within rounding, or a refusal."""

from importlib import util
from pathlib import Path
from typing import Any

import pytest

from capsule.levels import frameworks, job, networks
from capsule.levels.catalog import training
from capsule.levels.data import generators
from capsule.levels.graphs import values
from tests.support import trainings
from tests.support.trainings import SGD, SMALL, numpy_alone

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

BOTH = {"channels_last": True, "fused": True}
ADAMW = {"name": "adamw", "lr": 0.001}
PICTURES = (
    *("resnet9", {"side": 12, "width": 2, "classes": 3}),
    *("glyphs", {**SMALL, "samples": 24, "channels": 3}),
)
VOLUMES = (
    *("cosmoflow", {"side": 8, "width": 2}),
    *("universe", {"samples": 24, "test_samples": 5, "side": 8}),
)
Data = tuple[str, dict[str, int], str, dict[str, int]]


def train(folder: Path, data: Data, **recipe: Any) -> trainings.Values:
    network, sizes, generator, numbers = data
    if not folder.exists():
        folder.mkdir()
        generators.write(generators.generate(generator, numbers), folder)
    how = {"network": network, "parameters": sizes, "batch": 8, "epochs": 2, **recipe}
    return trainings.measure(frameworks.load("torch", "cpu", 1, "strict"), folder, **how)


@pytest.mark.parametrize("optimizer", [SGD, {"name": "adam", "lr": 0.001}, ADAMW])
@pytest.mark.parametrize("data", [PICTURES, VOLUMES], ids=["pictures", "volumes"])
def test_a_tuned_training_is_the_same_within_rounding(
    tmp_path: Path, data: Data, optimizer: dict[str, Any]
) -> None:
    how: dict[str, Any] = {"optimizer": optimizer, "accumulate": 2}
    plain = train(tmp_path / "data", data, **how)
    for tuning in (BOTH, {"channels_last": True}, {"fused": True}):
        tuned = train(tmp_path / "data", data, tuning=tuning, **how)
        for curve in ("train_loss", "loss"):
            assert tuned[curve] == pytest.approx(plain[curve], rel=1e-3)
        assert max(tuned["exact_trajectory_error"]) < 1e-9
        assert tuned["evaluation_error"][0] < 1e-9
        assert tuned["node_error_ratio"][0] < 1
        for same in ("network_fingerprint", "order_fingerprint", "learning_rate", "parameters"):
            assert tuned[same] == plain[same]


def make(
    optimizer: str, tuning: training.Tuning, data: Data = PICTURES, dtype: str = "float32"
) -> tuple[Any, dict[str, Any]]:
    """A trainer of torch, and inputs of a step."""
    from capsule.levels.frameworks.base import tune

    framework = frameworks.load("torch", "cpu", 1, "strict")
    network, sizes, generator, numbers = data
    graph = networks.build(network, {**sizes, "batch": 4})
    tensors = {
        name: framework.from_numpy(array, dtype)
        for name, array in values.parameters(graph, dtype, 17).items()
    }
    complete = training.complete(training.OPTIMIZERS[optimizer], {"lr": 0.01})
    assert framework.networks is not None
    assert framework.networks.trainer is not None
    trainer = framework.networks.trainer(graph, tensors, optimizer, complete)
    tune(trainer, tuning, "torch")
    made = generators.generate(generator, {**numbers, "samples": 4, "test_samples": 1})
    inputs = {
        name: framework.from_numpy(array, dtype)
        for name, array in made.items()
        if name in graph.inputs
    }
    return trainer, inputs


@pytest.mark.parametrize("data", [PICTURES, VOLUMES], ids=["pictures", "volumes"])
def test_the_channels_are_last_in_parameters_gradients_and_inputs(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from capsule.levels.frameworks.torch.training import TorchTrainer

    last = {4: torch.channels_last, 5: torch.channels_last_3d}
    seen: list[Any] = []
    right = TorchTrainer._run

    def run(trainer: Any, function: Any, taken: Any, inputs: Any) -> Any:
        seen.extend(one for one in inputs.values() if one.dim() in last)
        return right(trainer, function, taken, inputs)

    monkeypatch.setattr(TorchTrainer, "_run", run)
    for channels_last in (True, False):
        trainer, inputs = make("sgd", training.Tuning(channels_last=channels_last), data)
        seen.clear()
        trainer.step(inputs, 0.1)
        assert seen
        leaves = [leaf for leaf in trainer.parameters().values() if leaf.dim() in last]
        tensors = [*seen, *leaves, *(leaf.grad for leaf in leaves)]
        # one channel lies alike in both ways
        wide = [one for one in tensors if min(one.shape[1:3]) > 1]
        assert len(wide) > 2
        layouts = [one.is_contiguous(memory_format=last[one.dim()]) for one in wide]
        assert all(layouts) if channels_last else not any(layouts)


@pytest.mark.parametrize("optimizer", training.FUSED)
def test_the_fused_kernel_is_taken_where_it_is_chosen(
    optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    kernel = f"_fused_{optimizer}_"
    called: list[str] = []
    right = getattr(torch, kernel)

    def call(*operands: Any, **numbers: Any) -> Any:
        called.append(kernel)
        return right(*operands, **numbers)

    monkeypatch.setattr(torch, kernel, call)
    for fused in (True, False):
        called.clear()
        trainer, inputs = make(optimizer, training.Tuning(fused=fused))
        trainer.step(inputs, 0.1)
        assert bool(called) is fused


def resume(optimizer: str, tuning: training.Tuning) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters of a trainer after three steps, and of one that another took over from."""
    framework = frameworks.load("torch", "cpu", 1, "strict")
    one, inputs = make(optimizer, tuning)
    other, _ = make(optimizer, tuning)
    one.step(inputs, 0.01)
    one.step(inputs, 0.02)
    arrays = {name: framework.to_numpy(tensor).copy() for name, tensor in one.state().items()}
    other.restore({name: framework.from_numpy(array) for name, array in arrays.items()})
    for trainer in (one, other):
        trainer.step(inputs, 0.03)
        trainer.step(inputs, 0.03)
    return one.parameters(), other.parameters()


@pytest.mark.parametrize("optimizer", [*training.FUSED, "lamb", "rmsprop"])
@pytest.mark.parametrize("channels_last", [True, False])
def test_a_tuned_training_goes_on_from_a_checkpoint_bit_by_bit(
    optimizer: str, channels_last: bool
) -> None:
    fused = optimizer in training.FUSED
    whole, resumed = resume(optimizer, training.Tuning(channels_last=channels_last, fused=fused))
    assert [name for name in whole if not (whole[name] == resumed[name]).all()] == []


def test_what_an_optimizer_keeps_in_another_order_than_its_parameters_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from capsule.levels.frameworks.torch import training as trained

    # as a checkpoint has it: numbers in the order of the axes
    monkeypatch.setattr(trained, "_lay_as", lambda leaf, tensor: tensor.contiguous())
    try:
        whole, resumed = resume("adam", training.Tuning(channels_last=True, fused=True))
    except RuntimeError:
        return
    assert not all((whole[name] == resumed[name]).all() for name in whole)


def test_a_module_is_tuned_too(tmp_path: Path, glyphs: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text(
        "from torch import nn\n"
        'inputs = {"image": (1, 12, 12), "label": {"below": 3}}\n'
        'quality = "accuracy"\n'
        "def network():\n"
        "    return nn.Sequential(\n"
        "        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3),\n"
        "        nn.Flatten(), nn.Linear(256, 3),\n"
        "    )\n"
    )
    torch = frameworks.load("torch", "cpu", 1, "strict")
    how: dict[str, Any] = {"network": "net.py", "source": source, "parameters": {}, "batch": 10}
    plain = trainings.measure(torch, glyphs, **how)
    tuned = trainings.measure(torch, glyphs, **how, tuning=BOTH)
    assert max(tuned["update_error"]) < 1e-9
    assert tuned["initial_fingerprint"] == plain["initial_fingerprint"]
    for curve in ("train_loss", "loss"):
        assert tuned[curve] == pytest.approx(plain[curve], rel=1e-3)


@pytest.mark.parametrize("mode", training.COMPILE_MODES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_the_mode_of_the_compiler_is_that_of_the_recipe(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from capsule.levels.frameworks import torch_compile

    modes: list[Any] = []
    begun: list[None] = []

    def stand_in(function: Any, *, mode: Any, **_: Any) -> Any:
        modes.append(mode)
        return function

    monkeypatch.setattr(torch, "compile", stand_in)
    monkeypatch.setattr(torch.compiler, "cudagraph_mark_step_begin", lambda: begun.append(None))
    compiled = torch_compile.CompiledNetworks()
    monkeypatch.setattr(
        "capsule.levels.frameworks.torch.networks.TorchNetworks.trainer",
        lambda _, *how: compiled.trainer(*how),
    )
    trainer, inputs = make("sgd", training.Tuning(compile_mode=mode))
    assert modes == [None, mode]
    for _ in range(3):
        trainer.step(inputs, 0.1)
    # each step of those that replay graphs says that results of the last one are not needed
    assert len(begun) == (3 if training.COMPILE_MODES[mode] else 0)


@pytest.mark.parametrize(
    ("framework", "optimizer", "tuning", "message"),
    [
        ("numpy", "sgd", {"channels_last": True}, "numpy does not support channels_last; use"),
        ("numpy", "sgd", {"fused": True}, "or torch-compile, or leave fused out"),
        ("tensorflow", "sgd", {"fused": True}, "tensorflow does not support fused"),
        (
            *("torch", "sgd", {"compile_mode": "max-autotune-no-cudagraphs"}),
            "torch does not support compile_mode; use torch-compile, or leave compile_mode out",
        ),
        (
            *("torch", "lamb", {"fused": True}),
            "torch has no fused kernel for lamb; use sgd or adam or adamw, or leave fused out",
        ),
        (
            *("torch-compile", "sgd", {"compile_mode": "reduce-overhead"}),
            "reduce-overhead replays CUDA graphs, which need a GPU; use max-autotune-no-cudagraphs",
        ),
        (
            *("torch-compile", "sgd", {"cuda_graphs": True}),
            "torch-compile does not support cuda_graphs; use torch, or leave cuda_graphs out",
        ),
        (
            *("torch", "sgd", {"cuda_graphs": True}),
            "cuda_graphs needs a GPU, found device cpu: leave cuda_graphs out",
        ),
    ],
)
def test_what_cannot_be_had_is_refused(
    framework: str, optimizer: str, tuning: dict[str, Any], message: str, glyphs: Path
) -> None:
    made = training.Tuning(**tuning)
    reason = training.refuse_tuning(made, framework, "cpu", optimizer)
    assert reason is not None
    assert message in reason
    alone = numpy_alone()
    alone.name = framework
    numbers = {"name": optimizer, "lr": 0.1}
    with pytest.raises(ValueError, match=r"use |leave ") as raised:
        trainings.measure(alone, glyphs, optimizer=numbers, tuning=tuning)
    assert str(raised.value) == reason


def test_what_can_be_had_is_not() -> None:
    for name in ("torch", "torch-compile"):
        for optimizer in training.FUSED:
            for device in ("cpu", "cuda"):
                made = training.Tuning(channels_last=True, fused=True)
                assert training.refuse_tuning(made, name, device, optimizer) is None
    for mode in training.COMPILE_MODES:
        made = training.Tuning(compile_mode=mode)
        assert training.refuse_tuning(made, "torch-compile", "cuda", "lbfgs") is None
    graphs = training.Tuning(cuda_graphs=True)
    assert training.refuse_tuning(graphs, "torch", "cuda", "lamb") is None
    no = training.refuse_tuning(graphs, "torch", "cuda", "lamb", is_module=True)
    assert no == "CUDA graphs replay networks of the catalogue only: leave cuda_graphs out"
    assert training.refuse_tuning(training.NO_TUNING, "numpy", "cpu", "lbfgs") is None


def test_ranks_train_without() -> None:
    made = training.Tuning(fused=True)
    due = "ranks cannot train together with tuning: leave tuning out"
    assert training.refuse_tuning(made, "torch", "cpu", "sgd", by_ranks=True) == due
    assert training.refuse_tuning(training.NO_TUNING, "torch", "cpu", "sgd", by_ranks=True) is None


@pytest.mark.parametrize(
    ("tuning", "message"),
    [
        ({"fused": 1}, r"recipe\.tuning\.fused is 1, expected true or false"),
        ({"compile_mode": "default"}, 'recipe.tuning.compile_mode is "default", expected'),
        ([], r"recipe\.tuning is \[\], expected an object"),
    ],
)
def test_a_job_with_another_tuning_is_none(tuning: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(job.JobError, match=message):
        trainings.trial("torch", tmp_path, 17, tuning=tuning)


def test_a_job_has_the_tuning_of_its_recipe(tmp_path: Path) -> None:
    for tuning in (
        *({}, {"fused": True}, {"channels_last": True, "compile_mode": "max-autotune"}),
        *({"cuda_graphs": True}, {"cuda_graphs": False}),
    ):
        recipe = trainings.trial("torch", tmp_path, 17, tuning=tuning).recipe
        assert recipe is not None
        assert recipe.tuning == training.Tuning(**tuning)
