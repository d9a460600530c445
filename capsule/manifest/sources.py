"""Sources of a command's metrics, apart from capsule's own protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from capsule.manifest.problems import Problems
from capsule.patterns import PatternError, compile_pattern

Occurrence = Literal["last", "only", "all"]
OUT = "out/"
"""Prefix of the name of a text that is a file in the trial's output folder."""
SCALARS = "/scalars.tfevents"
"""Suffix of the name of a text that holds scalars of event files."""


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """A regular expression that is held against each line.

    Attributes:
        text: Name of the text: `stdout`, `stderr`, or `out/` and a path below the out folder.
        pattern: In the syntax of RE2, and `{number}`; its group `value`, or the only one, holds
            the number.
        occurrence: Which of the lines that it fits count.
        unit: Of the metric, which may stand behind the number; `1` for none.
    """

    text: str
    pattern: str
    occurrence: Occurrence = "last"
    unit: str = "1"


@dataclass(frozen=True, kw_only=True)
class Pointer:
    """A place in a JSON document: a number, or a list of them.

    Attributes:
        text: As of `Pattern`.
        pointer: JSON pointer (RFC 6901).
    """

    text: str
    pointer: str


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table with a header.

    Attributes:
        text: As of `Pattern`.
        column: Its name in the header.
        step: Name of the column that says where on its way each value was taken; None for the
            last value alone.
        unit: As of `Pattern`.
    """

    text: str
    column: str
    step: str | None = None
    unit: str = "1"


@dataclass(frozen=True, kw_only=True)
class LogKey:
    """The lines of MLPerf's logging that have one key.

    Attributes:
        text: As of `Pattern`.
        key: Such as `eval_accuracy`.
    """

    text: str
    key: str


@dataclass(frozen=True, kw_only=True)
class EventTag:
    """A tag of TensorFlow's event files.

    Attributes:
        text: `out/`, the path of a file or folder below the out folder, and `SCALARS`.
        tag: Such as `train/loss`.
        is_curve: True if each of its numbers counts, with its step, or the last.
    """

    text: str
    tag: str
    is_curve: bool = False


Source = Pattern | Pointer | Column | LogKey | EventTag


def read(raw: Mapping[str, Any], per: str = "call", unit: str = "1") -> Source:
    """Return the source that a metric's `from` describes.

    Args:
        raw: It, which fits the schema.
        per: What several values of the metric are.
        unit: Of the metric.
    """
    text = OUT + raw["file"] if "file" in raw else raw.get("stream", "stdout")
    if "pattern" in raw:
        occurrence = raw.get("occurrence", "last")
        return Pattern(text=text, pattern=raw["pattern"], occurrence=occurrence, unit=unit)
    if "json" in raw:
        return Pointer(text=text, pointer=raw["json"])
    if "csv" in raw:
        return Column(text=text, column=raw["csv"], step=raw.get("step"), unit=unit)
    if "mllog" in raw:
        return LogKey(text=text, key=raw["mllog"])
    return EventTag(text=text + SCALARS, tag=raw["tensorboard"], is_curve=per == "step")


def check(metrics: Mapping[str, Any], here: str, problems: Problems) -> None:
    """Note what a schema cannot say of sources.

    Args:
        metrics: The metrics of a command, which fit the schema.
        here: Their JSON pointer.
        problems: Collects what is wrong.
    """
    for name, metric in metrics.items():
        if "aggregate" in metric and metric.get("per") == "trial":
            message = "the metric is declared per trial, so it has one value: remove aggregate"
            problems.add(f"{here}/{name}/aggregate", message)
        if "from" not in metric:
            continue
        source = read(metric["from"], metric.get("per", "call"))
        place = f"{here}/{name}/from"
        if isinstance(source, Pattern):
            _check_pattern(source, f"{place}/pattern", problems)
        wrong = problems.below(place)
        if not wrong and metric.get("per") == "step" and not gives_steps(source):
            problems.add(place, _without_steps(source))
        elif not wrong and "aggregate" in metric and (reason := _single(source)):
            problems.add(
                f"{here}/{name}/aggregate",
                f"aggregate needs several values: {reason}, or remove aggregate",
            )


def gives_steps(source: Source) -> bool:
    """Return whether its values may have steps, as those of a curve have."""
    match source:
        case Pattern():
            return source.occurrence == "all" and "step" in compile_pattern(source.pattern).names
        case Column():
            return source.step is not None
        case LogKey():
            return True
        case EventTag():
            return source.is_curve
        case Pointer():
            return False


def _single(source: Source) -> str:
    """Return why a source gives one value alone, and what would give several; empty where it does
    not.
    """
    match source:
        case Pattern() if source.occurrence != "all":
            return 'set "occurrence": "all" to read every line'
        case Column() if source.step is None:
            return 'set "step", the name of a column, to read every row'
        case EventTag() if not source.is_curve:
            return 'set "per": "step" to read every step'
        case _:
            return ""


def _check_pattern(source: Pattern, here: str, problems: Problems) -> None:
    try:
        pattern = compile_pattern(source.pattern)
    except PatternError as error:
        problems.add(here, f"invalid pattern: {error}")
        return
    unknown = sorted(pattern.names.keys() - {"value", "step"})
    if unknown:
        problems.add(here, f"unknown group {unknown[0]!r}: the groups are value and step")
    elif "value" not in pattern.names and pattern.groups != 1:
        problems.add(
            here,
            f"has {pattern.groups} groups, expected one for the number: write the group of the"
            " number as (?P<value>...), and the others as (?:...)"
            if pattern.groups
            else "has no group for the number: write {number} where the number stands",
        )
    elif "step" in pattern.names and "value" not in pattern.names:
        problems.add(here, "has a group for the step, but none for the number: add (?P<value>...)")
    elif "step" in pattern.names and source.occurrence != "all":
        problems.add(here, 'has a group (?P<step>...): add "occurrence": "all"')


def _without_steps(source: Source) -> str:
    match source:
        case Pattern():
            return 'a metric per step needs "occurrence": "all" and a group (?P<step>...)'
        case Column():
            return 'a metric per step needs "step", the name of the column with the steps'
        case _:
            return 'declared per step, but a JSON document has no steps: remove "per", or use a log'
