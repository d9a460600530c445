"""Faults of trainings, and what notices each; run, it prints docs/evidence/training-faults.md.

Every one is planted in the program, which trains a small network with it beside one without. What
can notice it are the checks that a training's claims are made on, and where none does, the verdict
on its quality after several seeds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy

from capsule.levels import frameworks, level2
from capsule.levels.data import generators
from capsule.levels.report import DivergedError
from capsule.manifest.model import Margin
from tests.support import plants
from tests.support.judging import judge, metric
from tests.support.trainings import SGD, SMALL, Values, measure

LIMITS = {
    "trajectory_error": 0.1,
    "exact_trajectory_error": 1e-6,
    "node_error_ratio": 1.0,
    "evaluation_error": 1e-6,
}
"""Above them the claims of the shipped manifests are broken."""


DIVERGED = "diverged"
"""Why a trial failed."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        name: For people.
        kind: Of what: `optimizer`, `schedule`, `data`, `evaluation` or `operator`.
        plant: See `plants.Plant`.
        recipe: In which it shows.
        framework: That it is planted in.
    """

    name: str
    kind: str
    plant: plants.Plant
    recipe: Mapping[str, Any] = field(default_factory=dict)
    framework: str = "numpy"


_RIGHT: dict[tuple[str, str, str], Values] = {}
"""What is measured without a fault, by framework, recipe and data."""


def notice(fault: Fault, folder: Path, seed: int = 17) -> list[str]:
    """What notices a fault: checks, by the names of their metrics, or the verdict on its quality.

    Args:
        fault: Which.
        folder: With the data that `write` makes.
        seed: Of the training.
    """
    with fault.plant():
        wrong = _measure(fault, folder, seed)
    key = fault.framework, repr(fault.recipe), str(folder)
    if key not in _RIGHT:
        _RIGHT[key] = _measure(fault, folder, seed)
        assert not list(_broken(_RIGHT[key], _RIGHT[key])), "a right training is not right"
    right = _RIGHT[key]
    return list(_broken(right, wrong)) or list(_judge(fault, folder))


def _measure(fault: Fault, folder: Path, seed: int, **recipe: Any) -> Values:
    chosen: dict[str, Any] = {"epochs": 2, **fault.recipe, **recipe}
    framework = frameworks.load(fault.framework, "cpu", 1, "default")
    data = folder / ("colored" if "network" in chosen else "plain")
    values: Values = {}
    try:
        measure(framework, data, seed, into=values, **chosen)
    except DivergedError:
        values[DIVERGED] = (1.0,)
    return values


def _judge(fault: Fault, folder: Path) -> Iterator[str]:
    """The claim on quality, by three seeds and three others, with a tenth for a margin."""
    there = [_quality(fault, folder, seed) for seed in (1, 2, 3)]
    with fault.plant():
        here = [_quality(fault, folder, seed) for seed in (4, 5, 6)]
    original, rerun = metric(there), metric(here, first_seed=4)
    word = judge(original, rerun, type="equivalence", margin=Margin(absolute=0.1)).word
    if word == "DIFFERENT":
        yield "final_accuracy"


def _quality(fault: Fault, folder: Path, seed: int) -> float:
    return _measure(fault, folder, seed, epochs=8)["final_accuracy"][0]


def _broken(right: Values, wrong: Values) -> Iterator[str]:
    for name, most in LIMITS.items():
        if not max(wrong[name]) <= most:
            yield name
    # what seed and recipe give is as good as what a right program tells: the reader makes it again
    for name in ("order_fingerprint", "test_fingerprint", "learning_rate"):
        if wrong.get(name, right[name]) != right[name]:
            yield name
    if DIVERGED in wrong:
        yield DIVERGED


def write(folder: Path) -> Path:
    """The data of all faults."""
    for name, channels in (("plain", 1), ("colored", 3)):
        (folder / name).mkdir()
        generators.write(
            generators.generate("glyphs", {**SMALL, "channels": channels}), folder / name
        )
    return folder


ADAM = {"optimizer": {"name": "adam", "lr": 0.01}}
ROOT = {"optimizer": {"name": "adam", "lr": 0.01, "epsilon": 1e-3}}
DECAYING = {"optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 5.0}}
WARM = {"optimizer": SGD, "schedule": {"name": "cosine", "warmup_epochs": 1}}
LAMB = {"optimizer": {"name": "lamb", "lr": 0.01}}
NVIDIA = {"optimizer": {"name": "lamb-nvidia", "lr": 0.01}}
ACCELEGRAD = {"optimizer": {"name": "accelegrad", "lr": 0.1, "bound": 0.01}}
LBFGS = {"optimizer": {"name": "lbfgs", "lr": 0.1, "iterations": 3}}
PARTS = {"optimizer": SGD, "accumulate": 2}
RESNET: dict[str, Any] = {
    "network": "resnet44",
    "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9},
    "epochs": 1,
}

FAULTS = (
    Fault("learning rate x 3", "optimizer", plants.scale_rate(3)),
    Fault("learning rate x 0.8", "optimizer", plants.scale_rate(0.8)),
    Fault("learning rate x 0.999", "optimizer", plants.scale_rate(0.999)),
    Fault("learning rate negative", "optimizer", plants.scale_rate(-1)),
    Fault("gradient not zeroed", "optimizer", plants.change_gradients(plants.add_up)),
    Fault("gradient of the step before", "optimizer", plants.change_gradients(plants.delay)),
    Fault("gradient clipped unasked", "optimizer", plants.change_gradients(plants.clip)),
    Fault("momentum of one step", "optimizer", plants.change_formula(plants.forget)),
    Fault("momentum buffer shared", "optimizer", plants.change_formula(plants.share_state())),
    Fault("Nesterov unasked", "optimizer", plants.change_formula(plants.set_number(nesterov=1))),
    Fault(
        "Adam without bias correction",
        "optimizer",
        plants.change_formula(plants.leave_uncorrected),
        ADAM,
    ),
    Fault(
        "Adam's epsilon in the root", "optimizer", plants.change_formula(plants.root_epsilon), ROOT
    ),
    Fault(
        "Adam's beta1 0.95", "optimizer", plants.change_formula(plants.set_number(beta1=0.95)), ADAM
    ),
    Fault(
        "weight decay coupled", "optimizer", plants.change_formula(plants.couple_decay), DECAYING
    ),
    Fault(
        "weight decay left out",
        "optimizer",
        plants.change_formula(plants.set_number(weight_decay=0.0)),
        DECAYING,
    ),
    Fault("last parameter frozen", "optimizer", plants.train_with(plants.Frozen)),
    Fault("parameters kept in 16 bits", "optimizer", plants.train_with(plants.HalfPrecision)),
    Fault("trust ratio left out", "optimizer", plants.change_formula(plants.trust_all), LAMB),
    Fault(
        "trust ratio of NVIDIA's left out",
        "optimizer",
        plants.change_formula(plants.trust_all),
        NVIDIA,
    ),
    Fault("AcceleGrad reset", "optimizer", plants.change_formula(plants.forget), ACCELEGRAD),
    Fault("history of the wrong sign", "optimizer", plants.train_with(plants.HistoryTurned), LBFGS),
    Fault("micro-batches added up", "optimizer", plants.train_with(plants.Summed), PARTS),
    Fault("first micro-batch alone", "optimizer", plants.train_with(plants.FirstPart), PARTS),
    Fault("schedule an epoch early", "schedule", plants.early_schedule, WARM),
    Fault("schedule left out", "schedule", plants.train_with(plants.NoSchedule), WARM),
    Fault("schedule an epoch late", "schedule", plants.train_with(plants.Late), WARM),
    Fault("last batch dropped", "data", plants.order(lambda right, *every: right(*every)[:-20])),
    Fault("a batch taken twice", "data", plants.order(plants.twice)),
    Fault("shuffling left out", "data", plants.order(lambda _, count, *rest: numpy.arange(count))),
    Fault(
        "one order for all epochs",
        "data",
        plants.order(lambda right, count, seed, _: right(count, seed, 0)),
    ),
    Fault("labels shuffled", "data", plants.shuffle_labels),
    Fault("statistics frozen", "evaluation", plants.train_with(plants.FrozenStatistics), RESNET),
    Fault(
        "evaluation in training mode", "evaluation", plants.train_with(plants.TrainingMode), RESNET
    ),
    Fault(
        "evaluation on training data",
        "evaluation",
        lambda: plants.change_trial("_evaluate", lambda trial: {"test": trial.train}),
    ),
    Fault(
        "last samples not judged",
        "evaluation",
        lambda: mock.patch.object(level2, "batches", plants.leave_rest),
    ),
    Fault(
        "relu leaks 0.00001",
        "operator",
        plants.operate("relu", lambda torch: lambda x: torch.nn.functional.leaky_relu(x, 1e-5)),
        RESNET,
        "torch",
    ),
    Fault(
        "epsilon 0.00002 for 0.00001",
        "operator",
        plants.operate("batch_norm", plants.normalize),
        RESNET,
        "torch",
    ),
    Fault(
        "labels smoothed",
        "operator",
        plants.operate("softmax_cross_entropy", plants.smooth),
        {},
        "torch",
    ),
    Fault(
        "losses added up",
        "operator",
        plants.operate("softmax_cross_entropy", plants.add_up_losses),
        {},
        "torch",
    ),
)


_HEAD = """# Faults of a training

Which faults of a training were planted, and which check noticed each? One command plants all
faults, on the CPU, and writes this page; tests plant each fault again:

    python -m tests.support.training_faults > docs/evidence/training-faults.md

With each fault the program trains a small network for about 1 s. Each check is named by its
metric:

- `trajectory_error`, `exact_trajectory_error`, `node_error_ratio`, `evaluation_error`: claims of
  type `bound`.
- `test_fingerprint`: the data that the network is evaluated on.
- `order_fingerprint`: the order of samples, which `check` recomputes from the seed.
- `learning_rate`: the rates, which `check` recomputes from the recipe.
- `final_accuracy`: an `equivalence` under six seeds, if no other check notices the fault.
- `diverged`: the trial fails, because its loss diverges.

| fault | of | in | noticed by |
| --- | --- | --- | --- |"""


def main() -> None:
    """Plant each, and print what noticed it."""
    print(_HEAD)
    with tempfile.TemporaryDirectory() as scratch:
        folder = write(Path(scratch))
        for fault in FAULTS:
            noticed = ", ".join(f"`{name}`" for name in notice(fault, folder)) or "nothing"
            print(f"| {fault.name} | {fault.kind} | {fault.framework} | {noticed} |", flush=True)


if __name__ == "__main__":
    main()
