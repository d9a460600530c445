"""Trainings: optimizers and schedules with their numbers, and metrics.

Whoever reads operators and networks does not import this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Callable, Literal, NamedTuple

from .frameworks import FRAMEWORKS
from .metrics import MetricFacts

Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Number:
    """A number that an optimizer or a schedule takes.

    Attributes:
        name: As a manifest writes it, and a case that varies it.
        default: None where a recipe has to say it.
        least: Smallest value.
        most: Largest value, None where there is no limit.
        whole: True if it has no fraction.
    """

    name: str
    default: float | None = None
    least: float = 0.0
    most: float | None = None
    whole: bool = False


RATE = Number("lr", least=2.0**-60)
_MOMENTUM = Number("momentum", 0.0, 0.0, 1.0)
_DECAY = Number("weight_decay", 0.0)
_BETAS = (Number("beta1", 0.9, 0.0, 1 - 2.0**-24), Number("beta2", 0.999, 0.0, 1 - 2.0**-24))


def _switch(name: str, default: int) -> Number:
    return Number(name, default, 0, 1, whole=True)


_LAMB = (
    *(RATE, *_BETAS, Number("epsilon", 1e-6, 2.0**-100), Number("weight_decay", 0.01)),
    _switch("bias_correction", 1),
)

OPTIMIZERS: dict[str, tuple[Number, ...]] = {
    "sgd": (RATE, _MOMENTUM, _switch("nesterov", 0), _DECAY),
    "adam": (RATE, *_BETAS, Number("epsilon", 1e-8, 2.0**-100), _DECAY),
    "adamw": (RATE, *_BETAS, Number("epsilon", 1e-8, 2.0**-100), Number("weight_decay", 0.01)),
    "adagrad": (RATE, Number("epsilon", 1e-10, 2.0**-100), _DECAY),
    "rmsprop": (
        *(RATE, Number("alpha", 0.99, 0.0, 1.0), Number("epsilon", 1e-8, 2.0**-100)),
        *(_MOMENTUM, _DECAY),
    ),
    "lamb": _LAMB,
    "lamb-nvidia": (*_LAMB, Number("max_norm", 1.0, 2.0**-100)),
    "accelegrad": (RATE, Number("bound", 1.0, 2.0**-100)),
    "lbfgs": (
        *(RATE, Number("iterations", 20, 1, 10_000, whole=True)),
        *(Number("history", 100, 1, 10_000, whole=True), _switch("strong_wolfe", 0)),
        *(Number("tolerance_gradient", 1e-7), Number("tolerance_change", 1e-9)),
    ),
}
"""Optimizers, with the formulas of `levels.optimizers`; `nesterov`, `bias_correction` and
`strong_wolfe` are 0 or 1."""

_WARMUP = Number("warmup_epochs", 0.0)
_END = Number("end", 0.0)

SCHEDULES: dict[str, tuple[Number, ...]] = {
    "constant": (_WARMUP,),
    "step": (_WARMUP, Number("every", None, 1, None, whole=True), Number("factor", 0.1, 0.0, 1.0)),
    "multistep": (_WARMUP, Number("factor", 0.1, 0.0, 1.0)),
    "cosine": (_WARMUP, _END),
    "polynomial": (_WARMUP, _END, Number("power", 1.0)),
}
"""Learning rate at each step, see `schedules`; `multistep` has milestones, too."""

QUALITY = {
    "lenet": "accuracy",
    "alexnet": "accuracy",
    "resnet9": "accuracy",
    "resnet18": "accuracy",
    "resnet44": "accuracy",
    "resnet50": "accuracy",
    "unet": "accuracy",
    "transformer": "accuracy",
    "cosmoflow": "mean_absolute_error",
    "deepcam": "mean_iou",
    "multilabel": "mean_average_precision",
    "hepcnn": "auc",
    "cosmogan": "spectrum_distance",
}
"""Quality on data that the network was not trained on, by network."""

_CHOICES: dict[str, Callable[[Mapping[str, int]], int]] = {
    "cosmoflow": lambda _: 4,
    "cosmogan": lambda sizes: sizes["side"] // 2,
    "multilabel": lambda sizes: sizes["classes"],
    "deepcam": lambda sizes: sizes["height"] * sizes["width"],
    "transformer": lambda sizes: sizes["length"],
    "unet": lambda sizes: sizes["side"] ** 2,
}

CLASSIFIES = ("accuracy", "mean_iou")
"""Qualities of networks that choose classes."""

GENERATES = ("spectrum_distance",)
"""Qualities of networks that generate samples and train against a judging network: the losses of
one network grow as the other one learns."""

GROWN = 2.0
"""Factor over the untrained loss at which a training counts as diverged."""

SAMPLERS: dict[str, str | None] = {
    "shuffled": None,
    "ordered": None,
    "bucketed": "length",
    "weighted": "weight",
}
"""Samplers, that is orders in which samples are taken (see `levels.data.samplers`), with the file
NAME.npy beside the data that a sampler needs, one number for each training sample."""

PICTURES = ("lenet", "alexnet", "resnet9", "resnet18", "resnet44", "resnet50", "multilabel")
"""Networks whose pictures may be augmented: labels stay correct if one is moved, mirrored or
partly covered."""


class Augmentation(NamedTuple):
    """Augmentation of each picture of a training, applied in this order; by default none.

    Attributes:
        crop: Zeros that are put on each of its four sides, before a window of its own size is cut
            out anywhere (He et al. 2016, section 4.2).
        flip: True if every second one, at random, is mirrored left to right.
        cutout: Side of a square of zeros, whose centre lies anywhere in it and which may reach out
            of it (DeVries and Taylor 2017).
    """

    crop: int = 0
    flip: bool = False
    cutout: int = 0


NO_AUGMENTATION = Augmentation()

MOST_PIXELS = 65536
"""Largest side of a crop or cutout."""


class Tuning(NamedTuple):
    """Choices of a training that change its speed, and its results by rounding alone.

    Attributes:
        channels_last: True if the channels of a pixel are neighbours in memory.
        fused: True if one kernel of torch takes the optimizer's step for many parameters.
        compile_mode: Key of `COMPILE_MODES`; empty for the mode that torch takes by itself.
        cuda_graphs: True if a CUDA graph replays the passes of a micro-batch.
    """

    channels_last: bool = False
    fused: bool = False
    compile_mode: str = ""
    cuda_graphs: bool = False


NO_TUNING = Tuning()

FUSED = ("sgd", "adam", "adamw")
"""Optimizers of which torch has fused kernels on every device."""

COMPILE_MODES = {"max-autotune-no-cudagraphs": False, "max-autotune": True, "reduce-overhead": True}
"""Modes of `torch.compile`; True for those that replay CUDA graphs."""

MOST_WORKERS = 64
"""Threads that gather minibatches ahead of the steps."""

LAST = 3
"""Evaluations of which `final_...` is the mean, or as many as there are."""

ORDERED_EPOCHS = 2
"""Epochs of which the order of samples is told, or as many as there are."""

JUDGED_STEPS = 3
"""Steps that are held to the reference."""

SHARES = {"node_error_ratio": "bound_share", "element_error_ratio": "bound_share"}
"""Metric that gives the size of the bound, by the metric that the bound judges."""

MOST_SHARE = 0.1
"""Above it a bound confirms nothing."""

EXACT = "float64"
"""Dtype in which they are taken besides the trial's own: there rounding hides no wrong step."""

MIXED = "bfloat16-mixed"
"""Dtype of a training with parameters and optimizer in float32, and products of matrices and
convolutions computed from copies in bfloat16."""

TRAINERS = tuple(name for name, facts in FRAMEWORKS.items() if facts.trains)
"""Frameworks that train."""

BY_FORMULA = ("trajectory_error", "exact_trajectory_error")
"""Metrics that are there where an optimizer has a formula."""

BY_FORMULA_OF_MODULES = ("update_error",)
"""Likewise of a user's module."""

_CHECKS = (
    MetricFacts("trajectory_error", "1", "lower", "portable", 0.0, "step"),
    MetricFacts("exact_trajectory_error", "1", "lower", "portable", 0.0, "step"),
    MetricFacts("evaluation_error", "1", "lower", "portable", 0.0, "trial"),
    MetricFacts("network_fingerprint", "1", "none", "portable", 1.0, "trial"),
)
_BOUNDED = (
    MetricFacts("node_error_ratio", "1", "lower", "portable", 0.0, "trial"),
    MetricFacts("bound_share", "1", "lower", "portable", 0.0, "trial"),
)
_MODULE_CHECKS = (
    MetricFacts("update_error", "1", "lower", "portable", 0.0, "step"),
    MetricFacts("initial_fingerprint", "1", "none", "portable", 1.0, "trial"),
)


def complete(numbers: tuple[Number, ...], values: Mapping[str, object]) -> dict[str, float]:
    """Return every number of an optimizer or a schedule, those that are left out with their
    defaults.

    Args:
        numbers: What it takes.
        values: Any of them; further keys are not looked at.

    Raises:
        ValueError: One is missing, is no number, or out of its range; begins with its name.

    >>> complete(SCHEDULES["step"], {"every": 30})
    {'warmup_epochs': 0.0, 'every': 30, 'factor': 0.1}
    """
    whole: dict[str, float] = {}
    for number in numbers:
        value = values.get(number.name, number.default)
        if value is None:
            raise ValueError(f"{number.name} is missing")
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not number.least <= value < math.inf
            or (number.most is not None and value > number.most)
            or (number.whole and value != int(value))
        ):
            kind = "a whole number" if number.whole else "a number"
            top = "" if number.most is None else f" and <= {number.most:g}"
            raise ValueError(
                f"{number.name} is {value!r}, expected {kind} >= {number.least:g}{top}"
            )
        whole[number.name] = int(value) if number.whole else value
    return whole


def read_milestones(schedule: str, value: object) -> tuple[int, ...]:
    """Return the milestones of a schedule, epochs after each of which a factor is due.

    Args:
        schedule: Key of `SCHEDULES`.
        value: A list of them; None where there is none.

    Raises:
        ValueError: The schedule has none, or these are none; begins with `milestones`.

    >>> read_milestones("multistep", [30, 60])
    (30, 60)
    """
    if schedule != "multistep":
        if value is not None:
            raise ValueError(
                f"milestones is set, but schedule {schedule} has no milestones: leave milestones"
                " out, or use multistep"
            )
        return ()
    if value is None:
        raise ValueError(
            "milestones is missing: list the epochs after which multistep applies its factor, such"
            " as [30, 60]"
        )
    numbers = [
        int(one)
        for one in (value if isinstance(value, list) else ())
        if isinstance(one, (int, float)) and not isinstance(one, bool) and one >= 1 and one % 1 == 0
    ]
    if not numbers or numbers != value or any(a >= b for a, b in zip(numbers, numbers[1:])):
        raise ValueError(f"milestones is {value!r}, expected increasing whole numbers >= 1")
    return tuple(numbers)


def is_error(quality: str) -> bool:
    """Return whether less of a quality is better."""
    return quality in ("mean_absolute_error", "spectrum_distance")


def diverges(epoch: int, epochs: int, loss: float, untrained: float, quality: str = "") -> bool:
    """Return whether a training has left the way: its loss is not finite, or `GROWN` times the
    first one.

    The first of several epochs may lose that much on its way down, and only has to be finite.

    Args:
        epoch: From 1.
        epochs: Number of epochs of the whole training.
        loss: Mean loss of the epoch's steps.
        untrained: Loss of the first step, before any parameter has moved.
        quality: Name of the metric; with one of `GENERATES` losses only have to be finite.

    >>> [diverges(1, 5, 9.0, 2.3), diverges(2, 5, 9.0, 2.3), diverges(1, 5, math.nan, 2.3)]
    [False, True, True]
    """
    if not math.isfinite(loss):
        return True
    if quality in GENERATES:
        return False
    return min(2, epochs) <= epoch and 0 < GROWN * untrained < loss


def choices(network: str, sizes: Mapping[str, int]) -> int:
    """Return the number of judged predictions of a sample: pixels, tokens, numbers, or one class.

    Args:
        network: Key of `QUALITY`.
        sizes: All of its options.
    """
    return _CHOICES[network](sizes) if network in _CHOICES else 1


def metrics(
    name: str,
    *,
    has_target: bool,
    stops: bool,
    is_module: bool = False,
    mixed: bool = False,
    has_formula: bool = True,
    copies: bool = False,
) -> tuple[MetricFacts, ...]:
    """Return the metrics of a recipe's trial, in every framework that trains.

    Args:
        name: Name of the quality.
        has_target: True if a quality is to be reached.
        stops: True if training ends there; what it ends with is no quality of the recipe then.
        is_module: True if it is a user's module, of which there is no reference.
        mixed: True if it trains in `MIXED`, where a framework chooses the types of its operations,
            and so no node has a bound.
        has_formula: True if the optimizer has one that its steps are held to.
        copies: True if minibatches are copied to a device that computes meanwhile.
    """
    better: Literal["lower", "higher"] = "lower" if is_error(name) else "higher"
    ends = (
        MetricFacts(f"final_{name}", "1", better, "portable", 0.0, "trial"),
        MetricFacts(f"best_{name}", "1", better, "portable", 0.0, "trial"),
    )
    reached = (
        MetricFacts("epochs_to_target", "1", "lower", "portable", 1.0, "trial"),
        MetricFacts("samples_to_target", "1", "lower", "portable", 1.0, "trial"),
        MetricFacts("time_to_target", "s", "lower", "machine", 1e-9, "trial"),
        MetricFacts("total_time_to_target", "s", "lower", "machine", 1e-9, "trial"),
    )
    classes = (
        MetricFacts("class_counts", "1", "none", "portable", 1.0, "block"),
        MetricFacts("largest_class_share", "1", "none", "portable", 0.0, "trial"),
    )
    checks = _MODULE_CHECKS if is_module else _CHECKS
    lacking = () if has_formula else (*BY_FORMULA, *BY_FORMULA_OF_MODULES)
    return (
        MetricFacts("untrained_loss", "1", "none", "portable", 0.0, "trial"),
        MetricFacts("train_loss", "1", "lower", "portable", 0.0, "step"),
        MetricFacts("learning_rate", "1", "none", "portable", 0.0, "step"),
        MetricFacts("loss", "1", "lower", "portable", 0.0, "step"),
        MetricFacts(name, "1", better, "portable", 0.0, "step"),
        *(() if stops else ends),
        *(reached if has_target else ()),
        MetricFacts("epoch_time", "s", "lower", "machine", 1e-9, "call"),
        MetricFacts("training_throughput", "1/s", "higher", "machine", 0.0, "call"),
        MetricFacts("data_share", "1", "lower", "machine", 0.0, "call"),
        MetricFacts("batch_latency", "s", "lower", "machine", 1e-9, "call"),
        MetricFacts("data_bytes_per_second", "By/s", "higher", "machine", 0.0, "call"),
        *((MetricFacts("copy_time", "s", "lower", "machine", 1e-9, "call"),) if copies else ()),
        MetricFacts("evaluation_time", "s", "lower", "machine", 1e-9, "call"),
        MetricFacts("train_time", "s", "lower", "machine", 1e-9, "trial"),
        MetricFacts("total_time", "s", "lower", "machine", 1e-9, "trial"),
        MetricFacts("peak_memory_bytes", "By", "lower", "machine", 1.0, "trial", "memory"),
        *(classes if name in CLASSIFIES else ()),
        MetricFacts("parameters", "1", "none", "portable", 1.0, "trial"),
        MetricFacts("training_samples", "1", "none", "portable", 1.0, "trial"),
        MetricFacts("order_fingerprint", "1", "none", "portable", 1.0, "trial"),
        MetricFacts("test_fingerprint", "1", "none", "portable", 1.0, "trial"),
        *(one for one in checks if one.name not in lacking),
        *(() if is_module or mixed else _BOUNDED),
    )


def refusal(framework: str, optimizer: str, dtype: str, *, is_module: bool = False) -> str | None:
    """Return why a framework cannot train the networks of the catalogue, or a user's module.

    None if it can. See `optimizers.mismatch`, too.

    Args:
        framework: Its name.
        optimizer: Its name.
        dtype: Word of `DTYPES`, or `MIXED`.
        is_module: True if a user's module is trained.
    """
    facts = FRAMEWORKS.get(framework)
    if is_module and facts and not facts.modules:
        able = ", ".join(name for name, one in FRAMEWORKS.items() if one.modules)
        return f"{framework} cannot train a torch.nn.Module; use {able}"
    if is_module and dtype == MIXED:
        return (
            f"capsule does not train a torch.nn.Module in {MIXED}: cast inside the module instead"
        )
    if is_module and optimizer == "lbfgs":
        return (
            "lbfgs cannot train a torch.nn.Module, because lbfgs evaluates the loss several times"
            " in a step and the module may draw other random numbers each time; use another"
            " optimizer"
        )
    if facts and framework not in TRAINERS:
        return f"{framework} does not train; use one of {', '.join(TRAINERS)}"
    if dtype == MIXED and facts and not facts.mixes:
        able = ", ".join(name for name, one in FRAMEWORKS.items() if one.mixes)
        return f"{framework} does not train in {MIXED}; use {able}"
    if optimizer == "lbfgs" and facts and not facts.reevaluates:
        able = ", ".join(name for name, one in FRAMEWORKS.items() if one.reevaluates)
        return (
            f"{framework} cannot train with lbfgs, which evaluates the loss several times in a"
            f" step; use {able}"
        )
    return None


def refuse_tuning(
    tuning: Tuning,
    framework: str,
    device: str,
    optimizer: str,
    *,
    is_module: bool = False,
    by_ranks: bool = False,
) -> str | None:
    """Return why a training cannot have a tuning, None if it can.

    Args:
        tuning: Choices of the recipe.
        framework: Its name.
        device: `cpu` or `cuda`.
        optimizer: Key of `OPTIMIZERS`, or the path of a user's file.
        is_module: True if a user's module is trained.
        by_ranks: True if several ranks train together.

    >>> refuse_tuning(Tuning(fused=True), "numpy", "cpu", "sgd")
    'numpy does not support fused; use torch or torch-compile, or leave fused out'
    """
    chosen = [name for name, value in tuning._asdict().items() if value]
    if chosen and by_ranks:
        return "ranks cannot train together with tuning: leave tuning out"
    facts = FRAMEWORKS.get(framework)
    for name in chosen:
        if facts and name not in facts.tunes:
            able = " or ".join(one for one, other in FRAMEWORKS.items() if name in other.tunes)
            return f"{framework} does not support {name}; use {able}, or leave {name} out"
    if tuning.fused and optimizer not in FUSED:
        return (
            f"torch has no fused kernel for {optimizer}; use {' or '.join(FUSED)}, or leave fused"
            " out"
        )
    if tuning.cuda_graphs and is_module:
        return "CUDA graphs replay networks of the catalogue only: leave cuda_graphs out"
    if tuning.cuda_graphs and device != "cuda":
        return f"cuda_graphs needs a GPU, found device {device}: leave cuda_graphs out"
    if COMPILE_MODES.get(tuning.compile_mode) and device != "cuda":
        able = " or ".join(name for name, graphs in COMPILE_MODES.items() if not graphs)
        return f"{tuning.compile_mode} replays CUDA graphs, which need a GPU; use {able}"
    return None
