"""Schemes by which ranks train one network together, with their numbers and metrics.

Every rank knows the gradients g of its own samples, and w, its share of the samples of a batch.

allreduce           gradients of all ranks are averaged, and every rank takes the same step
bucketed            likewise, in buckets of `bucket_bytes` bytes, each as soon as `backward` has
                    filled it (Li et al. 2020)
sharded             likewise, but each rank keeps and moves its part of the parameters alone, and
                    gets those of the others for a step (Rajbhandari et al. 2020)
top-k               likewise of the `density` largest parts of the gradients alone; what a rank
                    leaves out it adds to its gradients of the next step (Stich et al. 2018)
quantized           likewise of gradients in 8 bits, whose rounding is added to those of the next
                    step (Seide et al. 2014, Karimireddy et al. 2019)
parameter-server    rank 0 averages gradients, takes the step alone, and hands out parameters
asynchronous-parameter-server
                    rank 0 takes a step by w g of a rank as soon as they arrive, and hands it the
                    parameters after that (Dean et al. 2012)
stale-synchronous   likewise, but a rank waits for them until it is at most `staleness` steps ahead
                    of the slowest (Ho et al. 2013)
model-averaging     every rank takes a step of its own, and then parameters are averaged
local-sgd           likewise after so many steps (`period`; Stich 2019)
neighbour-averaging likewise, each with the two neighbours of a ring alone (Lian et al. 2017)
spatial             every rank has all samples of a batch, and of each a slab of its rows: see
                    `slabs`. Gradients of what slabs share are added up
pipelined           every rank has a stage of the network, with its parameters, and hands what it
                    makes of each micro-batch to the next: see `stages` (Huang et al. 2019)

independent         every rank trains a network of its own on all data, under a seed of its own: so
                    many instances at once (MLPerf HPC's throughput)

Whatever is averaged is weighed by the samples of each rank, but for neighbours, who count alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from . import splitting
from .metrics import MetricFacts
from .training import OPTIMIZERS, Number


@dataclass(frozen=True)
class Scheme:
    """Scheme by which ranks train together.

    Attributes:
        numbers: What it takes.
        consistent: True if parameters are equal on all ranks after each step.
        exact: True if its steps are those of one process with the whole batch.
        asynchronous: True if a rank may be ahead of another one.
        independent: True if ranks train without each other.
        splits_network: True if ranks share the network, each with all samples of a batch.
    """

    numbers: tuple[Number, ...] = ()
    consistent: bool = False
    exact: bool = False
    asynchronous: bool = False
    independent: bool = False
    splits_network: bool = False


SCHEMES: dict[str, Scheme] = {
    "allreduce": Scheme(consistent=True, exact=True),
    "bucketed": Scheme((Number("bucket_bytes", least=8, whole=True),), consistent=True, exact=True),
    "sharded": Scheme(consistent=True, exact=True),
    "top-k": Scheme((Number("density", least=2.0**-60, most=1.0),), consistent=True),
    "quantized": Scheme(consistent=True),
    "parameter-server": Scheme(consistent=True, exact=True),
    "asynchronous-parameter-server": Scheme(asynchronous=True),
    "stale-synchronous": Scheme((Number("staleness", whole=True),), asynchronous=True),
    "model-averaging": Scheme(),
    "local-sgd": Scheme((Number("period", least=1, whole=True),)),
    "neighbour-averaging": Scheme(),
    "spatial": Scheme(consistent=True, exact=True, splits_network=True),
    "pipelined": Scheme(consistent=True, exact=True, splits_network=True),
    "independent": Scheme(independent=True),
}

_COMMON = (
    MetricFacts("world_size", "1", "none", "portable", 1.0, "rank"),
    MetricFacts("bytes_sent", "By", "none", "portable", 1.0, "rank"),
    MetricFacts("bytes_received", "By", "none", "portable", 1.0, "rank"),
    MetricFacts("messages", "1", "none", "portable", 1.0, "rank"),
    MetricFacts("state_bytes", "By", "lower", "portable", 1.0, "rank"),
    MetricFacts("communication_time", "s", "lower", "machine", 1e-9, "rank"),
    MetricFacts("wait_time", "s", "lower", "machine", 1e-9, "rank"),
    MetricFacts("step_time", "s", "lower", "machine", 1e-9, "rank"),
    MetricFacts("threads_per_core", "1", "lower", "machine", 0.0, "rank"),
    MetricFacts("straggler", "1", "none", "machine", 1.0, "step"),
    MetricFacts("load_imbalance", "1", "lower", "machine", 0.0, "step"),
    MetricFacts("reference_error_ratio", "1", "lower", "portable", 0.0, "trial"),
)
_INSTANCES = (
    MetricFacts("world_size", "1", "none", "portable", 1.0, "rank"),
    MetricFacts("instance_reached", "1", "none", "portable", 1.0, "rank"),
    MetricFacts("instance_quality", "1", "none", "portable", 0.0, "rank"),
    MetricFacts("instance_epochs", "1", "none", "portable", 1.0, "rank"),
    MetricFacts("instance_time", "s", "lower", "machine", 1e-9, "rank"),
    MetricFacts("instances", "1", "higher", "portable", 1.0, "trial"),
    MetricFacts("time_to_train_all", "s", "lower", "machine", 1e-9, "trial"),
    MetricFacts("instance_throughput", "1/s", "higher", "machine", 0.0, "trial"),
)
_DIFFERENCE = MetricFacts("rank_difference", "1", "lower", "portable", 0.0, "step")
_DISTANCE = MetricFacts("consensus_distance", "1", "lower", "portable", 0.0, "step")
_STALENESS = MetricFacts("staleness", "1", "lower", "machine", 1.0, "step")


def metrics(name: str) -> tuple[MetricFacts, ...]:
    """Return the metrics of a trial beside those of `training.metrics`; `rank` marks each rank's.

    Bytes, messages and times have a value for each step. `communication_time` is while something
    was under way, `wait_time` while the rank did nothing else. `state_bytes` has one for the trial:
    parameters, gradients, and what optimizer and scheme keep, as the rank has them between steps.
    The others have one for each epoch:
    `straggler` is the rank that waited least, from 0, for it is the one that others wait for;
    `load_imbalance` how much longer than the mean the busiest rank did not wait, in parts of it;
    `staleness` how many steps a rank was ahead of the slowest at most. `threads_per_core` has one
    for the trial: where it is above 1 the rank shares cores, with whatever other ranks.

    Independent ranks have other metrics: of each whether it reached its target (1 or 0), what its
    quality was at its end, after how many epochs and how long, from when all began;
    `time_to_train_all` is that of the last one that reached its target, `instances` says how many
    did, and `instance_throughput` how many of them a second.

    Args:
        name: Key of `SCHEMES`.
    """
    scheme = SCHEMES[name]
    if scheme.independent:
        return _INSTANCES
    own = _DIFFERENCE if scheme.consistent else _DISTANCE
    return (*_COMMON, own, *((_STALENESS,) if scheme.asynchronous else ()))


def refusal(framework: str, optimizer: str, dtype: str, *, is_module: bool = False) -> str | None:
    """Return why a training cannot be one of several ranks; None where it can.

    Args:
        framework: Its name.
        optimizer: Key of `training.OPTIMIZERS`, or anything else for a user's.
        dtype: Word of `DTYPES`, or `training.MIXED`.
        is_module: True if a user's module is trained.
    """
    if framework != "torch":
        return f"ranks train together in torch, not in {framework}"
    if is_module:
        return "ranks cannot train a torch.nn.Module together; use a network of the catalogue"
    if optimizer not in OPTIMIZERS or optimizer == "lbfgs":
        able = ", ".join(name for name in OPTIMIZERS if name != "lbfgs")
        return f"ranks cannot train together with {optimizer}; use one of {able}"
    if dtype not in ("float32", "float64"):
        return f"ranks train together in float32 or float64, not in {dtype}"
    return None


OVER = ("mpi",)
"""Carrier of a scheme's exchanges where torch's process group has none: MPI, by mpi4py."""


def refuse_device(name: str, device: str) -> str | None:
    """Return why the ranks of a scheme cannot train on a device; None where they can.

    Args:
        name: Key of `SCHEMES`.
        device: `cpu` or `cuda`.

    >>> refuse_device("allreduce", "cuda"), refuse_device("spatial", "cpu")
    (None, None)
    """
    if device == "cpu":
        return None
    if SCHEMES[name].asynchronous:
        return (
            f"{name} ranks train on cpu only, because the server exchanges in several threads at"
            " once, which NCCL does not allow; use a synchronous scheme, such as parameter-server"
        )
    if SCHEMES[name].splits_network:
        return f"{name} ranks train on cpu only; use another scheme, such as allreduce"
    return None


def refuse_over(name: str, device: str) -> str | None:
    """Return why a scheme's exchanges are carried by nothing else; None where they can be.

    Args:
        name: Key of `SCHEMES`.
        device: `cpu` or `cuda`.
    """
    if SCHEMES[name].independent:
        return f'{name} ranks exchange nothing: leave out "over"'
    if name == "sharded" or SCHEMES[name].splits_network:
        return f'{name} ranks exchange only through torch\'s process group: leave out "over"'
    if device != "cpu":
        return f'scheme {name} exchanges over MPI on cpu only, not on {device}: leave out "over"'
    return None


def refuse_optimizer(name: str, optimizer: str) -> str | None:
    """Return why a scheme cannot train by an optimizer of `refusal`; None where it can.

    Args:
        name: Key of `SCHEMES`.
        optimizer: Key of `training.OPTIMIZERS`.
    """
    has_part = name in ("sharded", "pipelined")
    if has_part and optimizer in OPTIMIZERS and optimizer not in ELEMENTWISE:
        return (
            f"{optimizer} needs norms of whole parameters, and a {name} rank holds only a part of"
            f" the parameters; use one of {', '.join(ELEMENTWISE)}"
        )
    return None


def refuse_checkpoints(name: str) -> str | None:
    """Return why a scheme cannot go on from a checkpoint; None where it can.

    Args:
        name: Key of `SCHEMES`.
    """
    if SCHEMES[name].asynchronous:
        return f"the server of {name} keeps no checkpoint: leave out checkpoint_epochs"
    if SCHEMES[name].independent:
        return f"{name} ranks have no common epoch to resume from: leave out checkpoint_epochs"
    return None


NORMALIZING = frozenset(
    ("resnet9", "resnet18", "resnet44", "resnet50", "multilabel", "deepcam", "cosmogan")
)
"""Networks that normalize by batch."""


def refuse_shares(
    name: str, network: str, batch: int, ranks: int, accumulate: int, group: int | None
) -> str | None:
    """Return why ranks cannot share the batches of a training; None where they can.

    What they compute must not depend on how many they are.

    Args:
        name: Key of `SCHEMES`.
        network: Its name.
        batch: Samples of a step, of all ranks together.
        ranks: Number of ranks.
        accumulate: Micro-batches of a step on each rank.
        group: Samples that are normalized together; None where nothing says it.

    >>> refuse_shares("allreduce", "deepcam", 12, 4, 1, 2)
    'a batch of 12 has 6 groups of 2 samples, which 4 ranks cannot share evenly'
    """
    if SCHEMES[name].independent:
        if group is not None:
            return f"{name} ranks share no batch: leave out batch_norm_group"
        ranks = 1
    if SCHEMES[name].splits_network:
        if network in NORMALIZING:
            return (
                f"{name} ranks cannot train {network}, because {network} has batch normalization;"
                " use another scheme, such as allreduce"
            )
        ranks = 1
    if batch < ranks:
        return f"a batch of {batch} is too small for {ranks} ranks: each needs at least 1 sample"
    if group is None:
        if network in NORMALIZING and ranks > 1:
            return (
                f"{network} has batch normalization, whose result would depend on the number of"
                " ranks: set batch_norm_group, the number of samples normalized together"
            )
        if accumulate > 1 and batch % (ranks * accumulate):
            return (
                f"a batch of {batch} is not a multiple of {ranks * accumulate}: {ranks} ranks times"
                f" accumulate {accumulate}"
            )
        return None
    if network not in NORMALIZING:
        return f"{network} has no batch normalization: leave out batch_norm_group"
    if accumulate > 1:
        return (
            f"accumulate is {accumulate}, but with batch_norm_group each group is a separate"
            " micro-batch: leave out accumulate"
        )
    if batch % group:
        return f"a batch of {batch} is not a multiple of batch_norm_group {group}"
    if batch // group % ranks:
        return (
            f"a batch of {batch} has {batch // group} groups of {group} samples, which {ranks}"
            " ranks cannot share evenly"
        )
    return None


ELEMENTWISE = ("sgd", "adam", "adamw", "adagrad", "rmsprop")
"""Optimizers of `training.OPTIMIZERS` that update each number of a parameter by itself."""

TRAFFIC = ("bytes_sent", "bytes_received", "messages")
"""Metrics that `traffic` gives."""

OF_STEPS = frozenset((*TRAFFIC, "communication_time", "wait_time", "step_time"))
"""Metrics of each rank with a value for each step."""


def traffic(
    name: str,
    numbers: Mapping[str, float],
    rank: int,
    ranks: int,
    elements: int,
    item: int,
    step: int,
    work: splitting.Work | None = None,
) -> tuple[int, int, int]:
    """Return the traffic of one rank in a step of its scheme, as `communicators` counts.

    Of an asynchronous scheme rank 0 counts with a step what others exchange with it in that step of
    theirs, whenever that is.

    Args:
        name: Key of `SCHEMES`.
        numbers: All that it takes.
        rank: From 0.
        ranks: Number of ranks.
        elements: Number of elements of all trained parameters.
        item: Bytes of each.
        step: From 1.
        work: Work per step of a scheme that splits the network.

    Returns:
        Bytes sent, bytes received, messages.

    >>> traffic("parameter-server", {}, 0, 4, 100, 4, 1)
    (400, 1200, 2)
    >>> traffic("bucketed", {"bucket_bytes": 128}, 0, 4, 100, 4, 1)
    (400, 400, 4)
    >>> traffic("sharded", {}, 3, 4, 101, 4, 1)
    (520, 416, 2)
    >>> traffic("top-k", {"density": 0.1}, 3, 4, 100, 4, 1)
    (80, 240, 2)
    >>> traffic("quantized", {}, 3, 4, 100, 4, 1)
    (104, 312, 2)
    """
    size, others = elements * item, ranks - 1
    if SCHEMES[name].independent or not others or step % int(numbers.get("period", 1)):
        return 0, 0, 0
    if SCHEMES[name].splits_network:
        return splitting.traffic(name, work, rank, ranks, elements, item)
    if name == "parameter-server":
        return (size, size * others, 2) if rank == 0 else (size, size, 2)
    if SCHEMES[name].asynchronous:
        served = 1 if rank else others
        return size * served, size * served, 2 * served
    if name == "neighbour-averaging":
        peers = min(2, others)
        return size * peers, size * peers, peers
    if name == "top-k":
        chosen = count_largest(elements, numbers["density"]) * (item + INDEX_BYTES)
        return chosen, chosen * others, 2
    if name == "quantized":
        return elements + item, (elements + item) * others, 2
    if name == "sharded":
        part = count_in_part(elements, ranks) * item
        return part * (1 + ranks), part * ranks, 2
    if name == "bucketed":
        return size, size, -(-elements // count_in_bucket(numbers["bucket_bytes"], item))
    return size, size, 1


def instance_seed(seed: int, rank: int) -> int:
    """Return the seed of an independent rank: another one for each, and for the first the trial's
    own.

    >>> instance_seed(17, 0), instance_seed(17, 1)
    (17, 2654435786)
    """
    return (seed + rank * _ODD) % 2**32


# 2**32 over the golden ratio: as it is odd, no two ranks have one seed
_ODD = 2654435769

INDEX_BYTES = 4
"""Bytes of the index of a number among all trained parameters."""


def count_largest(elements: int, density: float) -> int:
    """Return the number of gradient values that `top-k` sends."""
    return max(1, int(elements * density))


def count_in_part(elements: int, ranks: int) -> int:
    """Return the size of each rank's part in `sharded`, padding included."""
    return -(-elements // ranks)


def count_in_bucket(size: float, item: int) -> int:
    """Return the number of values in a full bucket, by their size in bytes."""
    return max(1, int(size) // item)
