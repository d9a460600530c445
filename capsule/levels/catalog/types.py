"""The types of what can be measured: operators and networks, with sizes, options and cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .metrics import MetricFacts

DTYPES = ("float64", "float32", "tf32", "bfloat16", "float16")

CONDITIONS = ("fresh", "cold")
"""Conditions of timed calls: other values before each, caches emptied before each."""

Point = Mapping[str, int]
"""The sizes of a case, and those of its options that it names."""


@dataclass(frozen=True)
class Option:
    """A parameter that a case may leave out.

    Attributes:
        name: As a case writes it.
        default: Its value where a case does not name it; such a value is not in the case's name.
        least: Smallest value.
        most: Largest value, None where there is no limit.
    """

    name: str
    default: int
    least: int = 0
    most: int | None = 1


@dataclass(frozen=True)
class Subject:
    """Subject of a benchmark of Level 0 or 1: an `Operator` or a `Network`.

    Attributes:
        name: As a manifest's `operator` or `network` names it.
        module: Module of `levels.operators` or `levels.networks` that defines it.
        parameters: Names of its sizes, each a whole number of at least 1, in case-name order.
        options: Further whole numbers, with defaults, in case-name order after the sizes.
        cases: Named sweeps: set name -> (case name, parameters) in the order that they run.
        metrics: What its trials yield with a framework that differentiates, on any device;
            `catalog.due` says which a given trial does.
        frameworks: Who can run it.
        dtypes: Element types of its tensors.
    """

    name: str
    module: str
    parameters: tuple[str, ...]
    options: tuple[Option, ...]
    cases: Mapping[str, tuple[tuple[str, Point], ...]]
    metrics: tuple[MetricFacts, ...]
    frameworks: tuple[str, ...]
    dtypes: tuple[str, ...] = DTYPES

    def complete(self, point: Mapping[str, object]) -> dict[str, int]:
        """Return every parameter and option of a case, options that it leaves out with their
        defaults.

        Args:
            point: A whole number of at least 1 for each of `parameters`, and any of `options`.

        Raises:
            ValueError: A parameter is missing, unknown to the subject, or not such a number.
        """
        known = {name: Option(name, 1, 1, None) for name in self.parameters}
        known.update((option.name, option) for option in self.options)
        if not set(self.parameters) <= set(point) <= set(known):
            optional = ", ".join(option.name for option in self.options)
            also = f" and allows {optional}" if optional else ""
            raise ValueError(
                f"{self.name} needs the parameters {', '.join(self.parameters)}{also};"
                f" found {', '.join(point) or 'none'}"
            )
        whole: dict[str, int] = {}
        for name, option in known.items():
            value = point.get(name, option.default)
            if (
                isinstance(value, bool)
                or not isinstance(value, int)
                or not _is_within(value, option)
            ):
                top = "" if option.most is None else f" and <= {option.most}"
                raise ValueError(
                    f"{name} of {self.name} is {value!r}, expected a whole number >="
                    f" {option.least}{top}"
                )
            whole[name] = value
        return whole

    def name_case(self, point: Mapping[str, object]) -> str:
        """Return the metric-path segment of one case: each parameter's name and value, in their
        order.

        Options follow where they differ from their default.

        Raises:
            ValueError: See `complete`.
        """
        return name_point(self.parameters, self.options, self.complete(point))


@dataclass(frozen=True)
class Operator(Subject):
    """A subject of Level 0."""


@dataclass(frozen=True)
class Network(Subject):
    """A subject of Level 1."""


def name_point(parameters: Iterable[str], options: Iterable[Option], point: Point) -> str:
    """`Subject.name_case` of a subject yet to be made, for a point that fits it.

    >>> name_point(("m", "n"), (Option("ta", 0), Option("tb", 0)), {"n": 2, "m": 1, "tb": 1})
    'm1n2tb1'
    """
    defaults = {option.name: option.default for option in options}
    return "".join(
        f"{name}{point[name]}"
        for name in (*parameters, *defaults)
        if name in point and point[name] != defaults.get(name)
    )


def _is_within(value: int, option: Option) -> bool:
    return option.least <= value and (option.most is None or value <= option.most)
