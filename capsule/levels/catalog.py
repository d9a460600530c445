"""What can be measured, told to the host and to the image in the same words.

Plain data of the standard library alone, so that a manifest is read without numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

FRAMEWORKS = ("torch", "numpy")
DTYPES = ("float64", "float32")


@dataclass(frozen=True)
class MetricFacts:
    """What one number of an operator means.

    Attributes:
        name: Last segment of the metric path.
        unit: UCUM-like, `1` for a pure number.
        direction: Which way is better.
        kind: `portable` numbers should agree between machines, `machine` ones belong to one.
        resolution: Smallest step the number can make, in its unit; 0 when it has none.
    """

    name: str
    unit: str
    direction: Literal["lower", "higher", "none"]
    kind: Literal["portable", "machine"]
    resolution: float


@dataclass(frozen=True)
class Operator:
    """A Level 0 subject.

    Attributes:
        name: As a manifest's `operator` names it.
        level: Deep500 level.
        parameters: Names of its sizes, each a whole number of at least 1, in case-name order.
        cases: Named sweeps: set name -> (case name, parameters) in the order that they run.
        metrics: Every metric that one of its trials yields.
        frameworks: Who can run it.
        dtypes: Element types of its tensors.
    """

    name: str
    level: int
    parameters: tuple[str, ...]
    cases: Mapping[str, tuple[tuple[str, Mapping[str, int]], ...]]
    metrics: tuple[MetricFacts, ...]
    frameworks: tuple[str, ...] = FRAMEWORKS
    dtypes: tuple[str, ...] = DTYPES


FORWARD_METRICS = (
    MetricFacts("forward_time", "s", "lower", "machine", 1e-9),
    MetricFacts("l1_error", "1", "lower", "portable", 0.0),
    MetricFacts("l2_error", "1", "lower", "portable", 0.0),
    MetricFacts("max_error", "1", "lower", "portable", 0.0),
    MetricFacts("l2_error_ratio", "1", "lower", "portable", 0.0),
)


def case_name(operator: str, parameters: Mapping[str, object]) -> str:
    """The metric-path segment of one case: each parameter's name and value, in catalogue order.

    Args:
        operator: Key of `OPERATORS`.
        parameters: A whole number of at least 1 for each of the operator's parameters.

    Raises:
        KeyError: There is no such operator.
        ValueError: A parameter is missing, unknown to the operator, or not such a number.

    >>> case_name("gemm", {"k": 32, "m": 64, "n": 16})
    'm64n16k32'
    """
    names = OPERATORS[operator].parameters
    if set(parameters) != set(names):
        found = ", ".join(parameters) or "none"
        raise ValueError(f"{operator} takes the parameters {', '.join(names)}; found {found}")
    for name, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} of {operator} is {value!r}, not a whole number >= 1")
    return _joined(names, parameters)


def _joined(names: tuple[str, ...], parameters: Mapping[str, object]) -> str:
    return "".join(f"{name}{parameters[name]}" for name in names)


def _operator(
    name: str, parameters: tuple[str, ...], **sets: tuple[tuple[int, ...], ...]
) -> Operator:
    cases: dict[str, tuple[tuple[str, Mapping[str, int]], ...]] = {}
    for set_name, points in sets.items():
        written = [dict(zip(parameters, sizes)) for sizes in points]
        cases[set_name] = tuple((_joined(parameters, each), each) for each in written)
    return Operator(name, 0, parameters, cases, FORWARD_METRICS)


OPERATORS: dict[str, Operator] = {
    each.name: each
    for each in (
        _operator("gemm", ("m", "n", "k"), quick=((64, 64, 64), (256, 256, 256), (512, 128, 1024))),
        _operator("relu", ("n",), quick=((1_000,), (100_000,), (1_000_000,))),
        _operator("softmax", ("rows", "columns"), quick=((1, 1_000), (64, 1_000), (16, 32_000))),
    )
}
