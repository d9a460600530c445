"""How ranks train one network together: schemes with their numbers, and what trials of them yield.

allreduce           gradients of all ranks are averaged, and every rank takes the same step
parameter-server    rank 0 averages gradients, takes the step alone, and hands out parameters
model-averaging     every rank takes a step of its own, and then parameters are averaged
local-sgd           likewise after so many steps (`period`; Stich 2019)
neighbour-averaging likewise, each with the two neighbours of a ring alone (Lian et al. 2017)

Whatever is averaged is weighed by the samples of each rank, but for neighbours, who count alike.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    MetricFacts("world_size", "1", "none", "portable", 1.0, "rank"),
    MetricFacts("bytes_sent", "By", "none", "portable", 1.0, "rank"),
    MetricFacts("bytes_received", "By", "none", "portable", 1.0, "rank"),
    MetricFacts("messages", "1", "none", "portable", 1.0, "rank"),
    MetricFacts("communication_time", "s", "lower", "machine", 1e-9, "rank"),
    MetricFacts("step_time", "s", "lower", "machine", 1e-9, "rank"),
)
_CONSISTENT = (
    MetricFacts("reference_error_ratio", "1", "lower", "portable", 0.0, "trial"),
    MetricFacts("rank_difference", "1", "lower", "portable", 0.0, "step"),
)
_OTHERS = (MetricFacts("consensus_distance", "1", "lower", "portable", 0.0, "step"),)


def metrics(name: str) -> tuple[MetricFacts, ...]:
    """What a trial yields beside the metrics of `training.metrics`, each rank what is `rank`'s.

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


TRAFFIC = ("bytes_sent", "bytes_received", "messages")
"""Metrics that `traffic` gives."""


def traffic(
    name: str, numbers: Mapping[str, float], rank: int, ranks: int, size: int, step: int
) -> tuple[int, int, int]:
    """What one rank exchanges in a step by the definition of its scheme, as `communicators` counts.

    Args:
        name: Key of `SCHEMES`.
        numbers: All that it takes.
        rank: From 0.
        ranks: How many there are.
        size: Bytes of all trained parameters.
        step: From 1.

    Returns:
        Bytes sent, bytes received, messages.

    >>> traffic("parameter-server", {}, 0, 4, 100, 1)
    (100, 300, 2)
    >>> traffic("neighbour-averaging", {}, 3, 4, 100, 1)
    (200, 200, 2)
    """
    if ranks == 1 or step % int(numbers.get("period", 1)):
        return 0, 0, 0
    if name == "parameter-server":
        return (size, size * (ranks - 1), 2) if rank == 0 else (size, size, 2)
    if name == "neighbour-averaging":
        peers = min(2, ranks - 1)
        return size * peers, size * peers, peers
    return size, size, 1
