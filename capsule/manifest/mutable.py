"""Mutable fields of a manifest (`verify --set`), and the reasons why others are fixed.

A recipe has two parts (Deep500, IPDPS 2019): fixed, what a competitor may not change, and mutable.
Its author names the mutable one, or the rules of a competition by which the recipe goes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from capsule.manifest import closed
from capsule.manifest.model import Scalar
from capsule.manifest.problems import quote

Raw = Mapping[str, Any]
RECIPE = ("batch", "epochs", "optimizer", "schedule", "workers", "augmentation")
"""Fields of a training that may be mutable."""

_NUMBERED = ("optimizer", "schedule", "augmentation")
"""Mutable fields with values of their own."""

_SPEED = ("workers",)
"""Mutable fields that cannot change a result."""

_NEVER = {
    "dtype": "the precision of matrix products is part of the measurement",
    "network": "another network is another experiment",
    "datasets": "other data is another experiment",
    "target": "the claim is about the target",
    "cases": "the cases are compared with each other",
}
_PLACE = 2
_INSIDE = 3


def put(raw: Raw, changed: Mapping[str, Scalar]) -> tuple[Raw, Mapping[str, str]]:
    """Return the manifest with the values that whoever verifies has set, and why some cannot be.

    Args:
        raw: A manifest that fits the schema.
        changed: JSON pointer to value.

    Returns:
        A copy, and by pointer the reason why a value is fixed, or is what stands there.
    """
    reasons = {place: reason for place in changed if (reason := _refuse(raw, place)) is not None}
    for place, value in changed.items():
        if place not in reasons:
            raw, before = _replace(raw, place.split("/")[1:], value)
            if before == value and isinstance(before, bool) == isinstance(value, bool):
                reasons[place] = f"it already is {quote(value)}"
    return raw, reasons


def of_benchmark(changed: Mapping[str, Scalar], index: int) -> list[str]:
    """Return pointers of what was changed of a manifest's `index`-th benchmark."""
    return [place for place in changed if place.startswith(f"/benchmarks/{index}/")]


def changes_results(place: str) -> bool:
    """Return whether what was changed of a benchmark is more than how fast it is."""
    return place.split("/")[_INSIDE] not in _SPEED


def of_resources(changed: Mapping[str, Scalar]) -> list[str]:
    """Return pointers of what was changed of the resources."""
    return [place for place in changed if place.startswith("/resources/")]


def _refuse(raw: Raw, place: str) -> str | None:
    """Return why a value is fixed, None where it may be changed."""
    mutable = raw.get("mutable", [])
    parts = place.split("/")[1:]
    if parts[:1] == ["resources"]:
        if len(parts) != _PLACE:
            return "not a field of the resources: write for example /resources/cpus_per_rank"
        if "resources" not in mutable:
            return _lack(mutable, "resources")
        if parts[1] == "gpus_per_rank":
            return "it is fixed: choose the device with --device cpu or --device cuda"
        return None
    if parts[:1] != ["benchmarks"]:
        return f"it is fixed: {_list(mutable)}"
    return _refuse_of_benchmark(raw["benchmarks"], parts, mutable)


def _refuse_of_benchmark(entries: list[Any], parts: list[str], mutable: list[str]) -> str | None:
    if len(parts) <= _PLACE or not parts[1].isdecimal() or int(parts[1]) >= len(entries):
        return "not a field of a benchmark: write for example /benchmarks/0/batch"
    entry, field = entries[int(parts[1])], parts[_PLACE]
    if field in _NEVER:
        return f"it is fixed: {_NEVER[field]}"
    if field not in RECIPE or entry.get("level") not in closed.TRAININGS:
        return f"it is fixed: only these fields of a training can be mutable: {', '.join(RECIPE)}"
    if (len(parts) > _INSIDE) != (field in _NUMBERED) or len(parts) > _INSIDE + 1:
        return "expected one number: write for example /benchmarks/0/optimizer/lr"
    if parts[_PLACE:] == ["optimizer", "file"] or (
        parts[_PLACE:] == ["optimizer", "name"] and "file" in entry["optimizer"]
    ):
        return "it is fixed: the optimizer's file is part of the measurement"
    if rules := entry.get("rules"):
        if (reason := closed.refuse(rules, entry, parts[_PLACE:])) is not None:
            return reason
    elif field not in mutable:
        return _lack(mutable, field)
    if _varies(entry.get("cases"), parts[-1]):
        return "it has several values: the cases vary it"
    return None


def _lack(mutable: list[str], field: str) -> str:
    return f"it is fixed: the author did not declare {field} mutable; {_list(mutable)}"


def _list(mutable: list[str]) -> str:
    return f"mutable fields: {', '.join(map(str, mutable)) or 'none'}"


def _varies(cases: Any, name: str) -> bool:
    if name == "name":
        return False
    return name in cases if isinstance(cases, dict) else any(name in one for one in cases or ())


def _replace(raw: Any, parts: list[str], value: Scalar) -> tuple[Any, Any]:
    """Return a copy of the document with one value replaced, and what stood there, None for
    nothing.
    """
    name, *rest = parts
    if not rest:
        return {**raw, name: value}, raw.get(name)
    if isinstance(raw, list):
        place = int(name)
        entry, before = _replace(raw[place], rest, value)
        return [*raw[:place], entry, *raw[place + 1 :]], before
    inner, before = _replace(raw.get(name, {}), rest, value)
    return {**raw, name: inner}, before


def parse(words: str) -> tuple[str, Scalar]:
    """FIELD=VALUE as it is typed: JSON pointer, and number, truth value or text.

    Raises:
        ValueError: It has no such form.

    >>> parse("benchmarks/0/optimizer/lr=1e-3")
    ('/benchmarks/0/optimizer/lr', 0.001)
    """
    field, equals, text = words.partition("=")
    if not equals or not field.strip("/") or not text:
        raise ValueError(f"{words!r} is not FIELD=VALUE, for example /benchmarks/0/batch=64")
    try:
        value = json.loads(text, parse_constant=str)
    except ValueError:
        value = text
    if not isinstance(value, (str, int, float)):
        raise ValueError(f"found {text!r}, expected a number, true, false or a text")
    return "/" + field.lstrip("/"), value
