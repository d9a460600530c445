"""What can be measured, told to the host and to the image in the same words.

Plain data of the standard library alone, so that a manifest is read without numpy. Types,
frameworks and metrics stand in `catalog_types`, the operators and their sets of cases in
`catalog_operators`; both are offered here.
"""

from __future__ import annotations

from collections.abc import Mapping

from .catalog_operators import OPERATORS
from .catalog_types import (
    CUDA_METRICS,
    DTYPES,
    FORWARD_METRICS,
    FRAMEWORKS,
    FrameworkFacts,
    MetricFacts,
    Operator,
    Option,
)

__all__ = [
    "DTYPES",
    "FORWARD_METRICS",
    "FRAMEWORKS",
    "OPERATORS",
    "FrameworkFacts",
    "MetricFacts",
    "Operator",
    "Option",
    "case_name",
    "complete",
    "completed",
    "due",
    "unsupported",
]


def due(operator: Operator, framework: str, device: str) -> tuple[MetricFacts, ...]:
    """The metrics that a completed trial reports, no more and no fewer.

    Args:
        operator: The subject; what it can never yield is not among its metrics.
        framework: Key of `FRAMEWORKS`.
        device: `cpu` or `cuda`.

    >>> [each.name for each in due(OPERATORS["gemm"], "numpy", "cpu")][-1]
    'gradient_check'
    """
    differentiates = FRAMEWORKS[framework].differentiates
    found = tuple(each for each in operator.metrics if differentiates or each.needs != "gradient")
    return found + CUDA_METRICS if device == "cuda" else found


def unsupported(operator: str, framework: str, dtype: str, device: str) -> str | None:
    """Why a framework cannot run an operator with these elements there; None where it can.

    >>> unsupported("gemm", "numpy", "float16", "cpu")
    'numpy has no float16 on cpu; there are float64, float32'
    """
    facts = FRAMEWORKS[framework]
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
        operator: Key of `OPERATORS`.
        parameters: A whole number of at least 1 for each of the operator's parameters, and any of
            its options.

    Raises:
        KeyError: There is no such operator.
        ValueError: A parameter is missing, unknown to the operator, or not such a number.

    >>> complete("gemm", {"m": 2, "n": 3, "k": 4, "tb": 1})
    {'m': 2, 'n': 3, 'k': 4, 'ta': 0, 'tb': 1, 'bias': 0}
    """
    return completed(OPERATORS[operator], parameters)


def completed(subject: Operator, parameters: Mapping[str, object]) -> dict[str, int]:
    """`complete` for an operator that need not be in the catalogue."""
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
        KeyError: There is no such operator.
        ValueError: See `complete`.

    >>> case_name("gemm", {"k": 32, "m": 64, "n": 16, "ta": 1, "tb": 0})
    'm64n16k32ta1'
    """
    whole = complete(operator, parameters)
    subject = OPERATORS[operator]
    usual = {each.name: each.default for each in subject.options}
    return "".join(f"{name}{value}" for name, value in whole.items() if value != usual.get(name))
