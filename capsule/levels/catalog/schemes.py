"""How ranks train one network together: schemes with their numbers, and what trials of them yield.

allreduce           gradients of all ranks are averaged, and every rank takes the same step
parameter-server    rank 0 averages gradients, takes the step alone, and hands out parameters
model-averaging     every rank takes a step of its own, and then parameters are averaged
local-sgd           likewise after so many steps (`period`; Stich 2019)
neighbour-averaging likewise, each with the two neighbours of a ring alone (Lian et al. 2017)

Whatever is averaged is weighed by the samples of each rank, but for neighbours, who count alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from .metrics import MetricFacts
from .training import OPTIMIZERS, Number


@dataclass(frozen=True)
class Scheme:
    """How ranks train together.

    Attributes:
        numbers: What it takes.
        consistent: Whether its steps are those of one process with the whole batch, so that
            parameters are equal on all ranks.
    """

    numbers: tuple[Number, ...]
    consistent: bool


SCHEMES: dict[str, Scheme] = {
    "allreduce": Scheme((), consistent=True),
    "parameter-server": Scheme((), consistent=True),
    "model-averaging": Scheme((), consistent=False),
    "local-sgd": Scheme((Number("period", least=1, whole=True),), consistent=False),
    "neighbour-averaging": Scheme((), consistent=False),
}

_COMMON = (
    MetricFacts("world_size", "1", "none", "portable", 1.0, "trial"),
    MetricFacts("bytes_sent", "By", "none", "portable", 1.0, "call"),
    MetricFacts("bytes_received", "By", "none", "portable", 1.0, "call"),
    MetricFacts("messages", "1", "none", "portable", 1.0, "call"),
    MetricFacts("communication_time", "s", "lower", "machine", 1e-9, "call"),
    MetricFacts("step_time", "s", "lower", "machine", 1e-9, "call"),
)
_CONSISTENT = (
    MetricFacts("reference_error_ratio", "1", "lower", "portable", 0.0, "trial"),
    MetricFacts("rank_difference", "1", "lower", "portable", 0.0, "step"),
)
_OTHERS = (MetricFacts("consensus_distance", "1", "lower", "portable", 0.0, "step"),)


def metrics(name: str) -> tuple[MetricFacts, ...]:
    """What each rank of a trial yields beside the metrics of `training.metrics`.

    Bytes, messages and times have a value for each step, and `rank_difference` or
    `consensus_distance` one for each epoch.

    Args:
        name: Key of `SCHEMES`.
    """
    return (*_COMMON, *(_CONSISTENT if SCHEMES[name].consistent else _OTHERS))


def refusal(
    framework: str, device: str, optimizer: str, dtype: str, *, is_module: bool = False
) -> str | None:
    """Why a training cannot be one of several ranks; None where it can.

    Args:
        framework: Its name.
        device: `cpu` or `cuda`.
        optimizer: Key of `training.OPTIMIZERS`, or anything else for a user's.
        dtype: Word of `DTYPES`, or `training.MIXED`.
        is_module: Whether a user's module is trained.
    """
    if framework != "torch" or device != "cpu":
        return f"ranks train together in torch on cpu, not in {framework} on {device}"
    if is_module:
        return "ranks train networks of the catalogue together, not a torch.nn.Module"
    if optimizer not in OPTIMIZERS or optimizer == "lbfgs":
        able = ", ".join(name for name in OPTIMIZERS if name != "lbfgs")
        return f"ranks do not train together with {optimizer}; there are {able}"
    if dtype not in ("float32", "float64"):
        return f"ranks train together in float32 or float64, not in {dtype}"
    return None
