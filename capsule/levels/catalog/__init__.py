"""Catalogue of everything that can be measured, shared by host and image.

It is plain data and needs only the standard library, so that manifests are read without numpy:

    types           operators and networks: sizes, options, cases
    metrics         meaning of their metrics
    frameworks      abilities of each framework
    operators       operators of Level 0 with their sets of cases; `deepbench` has published ones
    networks        networks of Level 1
    users           operators and networks of users' files
"""

from __future__ import annotations

from .frameworks import FRAMEWORKS, FrameworkFacts
from .metrics import NETWORK_METRICS, OPERATOR_METRICS, ROOFLINE_METRICS, MetricFacts
from .networks import NETWORKS
from .operators import OPERATORS
from .types import CONDITIONS, DTYPES, Network, Operator, Option, Subject

__all__ = [
    "CONDITIONS",
    "DTYPES",
    "FRAMEWORKS",
    "NETWORKS",
    "NETWORK_METRICS",
    "OPERATORS",
    "OPERATOR_METRICS",
    "ROOFLINE_METRICS",
    "SUBJECTS",
    "FrameworkFacts",
    "MetricFacts",
    "Network",
    "Operator",
    "Option",
    "Subject",
    "due",
    "hindrance",
    "refusal",
    "refuse_device",
    "reports_memory",
]

SUBJECTS: dict[str, Subject] = {**OPERATORS, **NETWORKS}
"""Operators and networks, whose names differ."""


def due(subject: Subject, framework: str, device: str) -> tuple[MetricFacts, ...]:
    """Return the metrics that a completed trial reports, no more and no fewer.

    Args:
        subject: What it can never yield is not among its metrics.
        framework: Key of `FRAMEWORKS`.
        device: `cpu` or `cuda`.

    >>> [metric.name for metric in due(OPERATORS["gemm"], "numpy", "cpu")][-1]
    'grad_element_error_ratio'
    """
    facts = FRAMEWORKS[framework]
    lacks = {
        *(() if facts.differentiates else ("gradient",)),
        *(() if facts.differentiates and facts.nodes else ("nodes",)),
        *(() if reports_memory(framework, device) else ("memory",)),
    }
    return tuple(
        metric
        for metric in subject.metrics
        if metric.needs not in lacks and metric.device in (None, device)
    )


def reports_memory(framework: str, device: str) -> bool:
    """Return whether the memory that a trial needs can be seen; a CUDA device keeps count of its
    own.

    >>> reports_memory("torch", "cpu"), reports_memory("tensorflow", "cpu")
    (True, False)
    """
    return device == "cuda" or not FRAMEWORKS[framework].keeps_memory


def refuse_device(framework: str, device: str) -> str | None:
    """Return why a framework cannot run on a device, None if it can or is unknown.

    >>> refuse_device("jax", "cuda"), refuse_device("torch", "cuda")
    ("jax has no device 'cuda': capsule runs jax on CPUs only", None)
    """
    if device != "cuda" or framework not in FRAMEWORKS or FRAMEWORKS[framework].cuda is not None:
        return None
    return f"{framework} has no device 'cuda': capsule runs {framework} on CPUs only"


def hindrance(subject: Subject, framework: str, conditions: tuple[str, ...]) -> str | None:
    """Return why calls cannot be timed under some of `CONDITIONS`; None where they can.

    >>> hindrance(OPERATORS["gemm"], "tensorflow", ("fresh",))
    'tensorflow cannot overwrite its tensors, which "fresh" requires: leave "fresh" out'
    """
    if conditions and subject.module == "module":
        out = " and ".join(f'"{one}"' for one in conditions)
        return (
            f"{subject.name} is a torch.nn.Module, which capsule times with unchanged values and"
            f" warm caches: leave {out} out"
        )
    if "fresh" not in conditions:
        return None
    if isinstance(subject, Operator) and OPERATORS.get(subject.name) != subject:
        return (
            f"{subject.name} is an operator of a file, which may cache results of its operands:"
            ' leave "fresh" out'
        )
    if not FRAMEWORKS[framework].fills:
        return (
            f'{framework} cannot overwrite its tensors, which "fresh" requires: leave "fresh" out'
        )
    return None


def refusal(subject: Subject, framework: str, dtype: str, device: str) -> str | None:
    """Return why a framework cannot run an operator or network with these elements; None where it
    can.

    >>> refusal(OPERATORS["gemm"], "numpy", "float16", "cpu")
    'numpy does not support float16 on cpu; use float64 or float32'
    """
    facts, name = FRAMEWORKS[framework], subject.name
    if isinstance(subject, Network) and not facts.networks:
        return f"{framework} runs single operators only, not networks such as {name}"
    # what a user's file calls by a name of the catalogue is something else
    listed = SUBJECTS.get(name) == subject
    if listed and dtype not in subject.dtypes:
        return f"{name} does not support {dtype}; use {' or '.join(subject.dtypes)}"
    if listed and name in facts.lacks:
        return f"{framework} has no operator {name}: {facts.lacks[name]}"
    if framework not in subject.frameworks:
        return f"{name} has no function for {framework}; use {' or '.join(subject.frameworks)}"
    if reason := refuse_device(framework, device):
        return reason
    known = facts.dtypes + ((facts.cuda or ()) if device == "cuda" else ())
    if dtype not in known:
        return f"{framework} does not support {dtype} on {device}; use {' or '.join(known)}"
    if listed and name in facts.inexact.get(dtype, ()):
        exact = [one for one in known if name not in facts.inexact.get(one, ())]
        able = " or ".join(one for one in exact if one in subject.dtypes)
        return f"{framework} does not compute {name} with the precision of {dtype}; use {able}"
    return None
