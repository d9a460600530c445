"""Notation for the operators of Level 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .frameworks import FRAMEWORKS
from .metrics import OPERATOR_METRICS
from .types import DTYPES, Operator, Option, Point, name_point


def make_operator(
    name: str,
    parameters: str,
    options: Iterable[Option] = (),
    *,
    module: str | None = None,
    computes: bool = True,
    dtypes: tuple[str, ...] = DTYPES,
    **sets: Iterable[Point | tuple[int, ...]],
) -> Operator:
    """Return an entry of the catalogue.

    Args:
        name: Name of the operator.
        parameters: Names of its sizes, with spaces between.
        options: That a case may leave out.
        module: Module of `levels.operators`, where it is not called as the operator.
        computes: True if it has FLOPs.
        dtypes: Element types of its tensors.
        sets: Cases by the name of their set, each a point or the sizes in their order.
    """
    sizes, chosen = tuple(parameters.split()), tuple(options)
    return Operator(
        name=name,
        module=module or name,
        parameters=sizes,
        options=chosen,
        cases={
            set_name.replace("_", "-"): _name_points(sizes, chosen, points)
            for set_name, points in sets.items()
        },
        metrics=tuple(metric for metric in OPERATOR_METRICS if computes or metric.needs != "flops"),
        frameworks=tuple(
            framework for framework, facts in FRAMEWORKS.items() if name not in facts.lacks
        ),
        dtypes=dtypes,
    )


def _name_points(
    sizes: tuple[str, ...],
    options: tuple[Option, ...],
    points: Iterable[Point | tuple[int, ...]],
) -> tuple[tuple[str, Point], ...]:
    """Return points with their case names; the second of two equal ones ends in `.2`."""
    cases: dict[str, Point] = {}
    for written in points:
        point = dict(written) if isinstance(written, Mapping) else dict(zip(sizes, written))
        name = name_point(sizes, options, point)
        cases[name if name not in cases else f"{name}.2"] = point
    return tuple(cases.items())


def make_points(names: str, rows: Iterable[tuple[int, ...]], **fixed: int) -> list[Point]:
    """Return a point for each row of sizes, whose names stand with spaces between, beside fixed
    ones.
    """
    return [{**dict(zip(names.split(), row)), **fixed} for row in rows]
