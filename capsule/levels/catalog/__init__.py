"""What can be measured, told to the host and to the image in the same words.

Plain data of the standard library alone, so that a manifest is read without numpy. Types,
frameworks and metrics stand in `types`, the operators and their sets of cases in
`operators`, the networks in `networks`; all are offered here.
"""

from __future__ import annotations

from collections.abc import Mapping

from .networks import NETWORKS
from .operators import OPERATORS
from .types import (
    DTYPES,
    FORWARD_METRICS,
    FRAMEWORKS,
    NETWORK_METRICS,
    FrameworkFacts,
    MetricFacts,
    Operator,
    Option,
)

__all__ = [
    "DTYPES",
    "FORWARD_METRICS",
    "FRAMEWORKS",
    "NETWORKS",
    "NETWORK_METRICS",
    "OPERATORS",
    "SUBJECTS",
    "FrameworkFacts",
    "MetricFacts",
    "Operator",
    "Option",
    "case_name",
    "complete",
    "completed",
    "due",
    "named",
    "shows_memory",
    "unsupported",
]

SUBJECTS: dict[str, Operator] = {**OPERATORS, **NETWORKS}
"""Operators and networks, whose names differ."""


def due(operator: Operator, framework: str, device: str) -> tuple[MetricFacts, ...]:
    """The metrics that a completed trial reports, no more and no fewer.

    Args:
        operator: The subject; what it can never yield is not among its metrics.
        framework: Key of `FRAMEWORKS`.
        device: `cpu` or `cuda`.

    >>> [each.name for each in due(OPERATORS["gemm"], "numpy", "cpu")][-1]
    'gradient_check'
    """
    facts = FRAMEWORKS[framework]
    lacks = {
        *(() if facts.differentiates else ("gradient",)),
        *(() if shows_memory(framework, device) else ("memory",)),
    }
    return tuple(each for each in operator.metrics if each.needs not in lacks)


def shows_memory(framework: str, device: str) -> bool:
    """Whether the memory that a trial needs can be seen; a CUDA device keeps count of its own.

    >>> shows_memory("torch", "cpu"), shows_memory("tensorflow", "cpu")
    (True, False)
    """
    return device == "cuda" or not FRAMEWORKS[framework].keeps_memory


def unsupported(operator: str, framework: str, dtype: str, device: str) -> str | None:
    """Why a framework cannot run an operator or network with these elements; None where it can.

    Of a user's one, known here by no name, it tells what the framework lacks for any.

    >>> unsupported("gemm", "numpy", "float16", "cpu")
    'numpy has no float16 on cpu; there are float64, float32'
    >>> unsupported("gemm", "torch-compile", "float32", "cpu")
    'torch-compile runs whole networks, not gemm alone'
    """
    facts = FRAMEWORKS[framework]
    subject = SUBJECTS.get(operator)
    if subject and subject.level not in facts.levels:
        return f"{framework} runs whole networks, not {operator} alone"
    if subject and dtype not in subject.dtypes:
        return f"{operator} has no {dtype}; there are {', '.join(subject.dtypes)}"
    if operator in facts.lacks:
        return f"{framework} has no operator {operator}"
    if device == "cuda" and facts.cuda is None:
        return f"{framework} has no device 'cuda'"
    known = facts.dtypes + ((facts.cuda or ()) if device == "cuda" else ())
    if dtype not in known:
        return f"{framework} has no {dtype} on {device}; there are {', '.join(known)}"
    if operator in facts.inexact.get(dtype, ()):
        return f"{framework} has no {operator} that is exact to {dtype}"
    return None


def complete(operator: str, parameters: Mapping[str, object]) -> dict[str, int]:
    """Every parameter and option of a case, options that it leaves out with their defaults.

    Args:
        operator: Key of `SUBJECTS`.
        parameters: A whole number of at least 1 for each of the subject's parameters, and any of
            its options.

    Raises:
        KeyError: There is no such subject.
        ValueError: A parameter is missing, unknown to the operator, or not such a number.

    >>> complete("gemm", {"m": 2, "n": 3, "k": 4, "tb": 1})
    {'m': 2, 'n': 3, 'k': 4, 'ta': 0, 'tb': 1, 'bias': 0}
    """
    return completed(SUBJECTS[operator], parameters)


def completed(subject: Operator, parameters: Mapping[str, object]) -> dict[str, int]:
    """`complete` for an operator or network that need not be in the catalogue."""
    operator = subject.name
    sizes = [Option(name, 1, 1, None) for name in subject.parameters]
    known = {each.name: each for each in (*sizes, *subject.options)}
    if not set(subject.parameters) <= set(parameters) <= set(known):
        found = ", ".join(parameters) or "none"
        may = ", ".join(each.name for each in subject.options)
        also = f" and may take {may}" if may else ""
        raise ValueError(
            f"{operator} takes the parameters {', '.join(subject.parameters)}{also}; found {found}"
        )
    whole: dict[str, int] = {}
    for name, option in known.items():
        value = parameters.get(name, option.default)
        if isinstance(value, bool) or not isinstance(value, int) or not _within(value, option):
            top = "" if option.most is None else f" and <= {option.most}"
            raise ValueError(
                f"{name} of {operator} is {value!r}, not a whole number >= {option.least}{top}"
            )
        whole[name] = value
    return whole


def _within(value: int, option: Option) -> bool:
    return option.least <= value and (option.most is None or value <= option.most)


def case_name(operator: str, parameters: Mapping[str, object]) -> str:
    """The metric-path segment of one case: each parameter's name and value, in catalogue order.

    Options follow where they differ from their default.

    Raises:
        KeyError: There is no such subject.
        ValueError: See `complete`.

    >>> case_name("gemm", {"k": 32, "m": 64, "n": 16, "ta": 1, "tb": 0})
    'm64n16k32ta1'
    """
    return named(SUBJECTS[operator], parameters)


def named(subject: Operator, parameters: Mapping[str, object]) -> str:
    """`case_name` for an operator or network that need not be in the catalogue."""
    whole = completed(subject, parameters)
    usual = {each.name: each.default for each in subject.options}
    return "".join(f"{name}{value}" for name, value in whole.items() if value != usual.get(name))
