"""The published schemas of flat objects, checked a hundred times faster than jsonschema does.

A capsule can hold a hundred thousand attempts and planned trials, of a quarter of a millisecond
each in jsonschema.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], str | None]

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "null": (type(None),),
    "array": (list,),
}
_NUMBERS = frozenset((int, float))
_TOLD = {"description", "title", "examples"}


def checker(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> Check:
    """Return a function that says how a parsed JSON value breaks a schema, None when it does not.

    Args:
        schema: An object's schema whose properties are plain values, lists of plain values or of
            such objects, or objects not looked into.
        definitions: What a property may refer to by `#/definitions/NAME`.

    Raises:
        ValueError: The schema uses a keyword that is not known here.
    """
    known = {"type", "required", "properties", "additionalProperties", "$schema", "$id"}
    _only(schema, known)
    fields = {
        name: _field(name, _resolve(field_schema, definitions or {}))
        for name, field_schema in schema["properties"].items()
    }
    required = frozenset(schema["required"])
    closed, known_names = schema.get("additionalProperties", True) is False, fields.keys()

    items = tuple(fields.items())

    def check(value: Any) -> str | None:
        if type(value) is not dict:
            return "not an object"
        if missing := required - value.keys():
            return f"{min(missing)} is missing"
        if closed and not value.keys() <= known_names:
            return f"unknown field {min(value.keys() - known_names)[:100]!r}"
        for name, check_field in items:
            if name in value and (fault := check_field(value[name])):
                return fault
        return None

    return check


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    reference: str | None = schema.get("$ref")
    if reference is None:
        return schema
    target: Mapping[str, Any] = definitions[reference.removeprefix("#/definitions/")]
    return target


def _field(name: str, schema: Mapping[str, Any]) -> Check:
    numbers = {"minimum", "maximum", "exclusiveMaximum", "minLength", "maxLength"}
    _only(schema, {"type", "enum", "pattern", "items", "minItems", "maxItems"} | numbers)
    items = schema.get("items")
    fewest, most = schema.get("minItems", 0), schema.get("maxItems", math.inf)
    item = None
    if items is not None:
        item = checker(items) if items["type"] == "object" else _field(name, items)
    named = schema.get("type", list(_TYPES))
    # exactly these are what JSON is parsed into: a bool is no int here
    types = frozenset(kind for type_name in _as_list(named) for kind in _TYPES[type_name])
    enum = schema.get("enum")
    pattern = re.compile(schema["pattern"]) if "pattern" in schema else None
    lowest, highest = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
    below = schema.get("exclusiveMaximum", math.inf)
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength", math.inf)

    def check(value: Any) -> str | None:
        kind = type(value)
        if kind not in types:
            return f"{name} is {str(value)[:100]!r}, expected {' or '.join(_as_list(named))}"
        if enum is not None and value not in enum:
            return f"{name} is {str(value)[:100]!r}, expected one of {enum}"
        if kind is str:
            if pattern is not None and not pattern.search(value):
                return f"{name} is {value[:100]!r}, expected the form {pattern.pattern}"
            if not shortest <= len(value) <= longest:
                return f"{name} has {len(value)} characters, expected {_span(shortest, longest)}"
        elif kind is list:
            if not fewest <= len(value) <= most:
                return f"{name} has {len(value)} items, expected {_span(fewest, most)}"
            if item is not None:
                for one in value:
                    if fault := item(one):
                        return fault
        elif kind in _NUMBERS and not (lowest <= value <= highest and value < below):
            under = "" if below == math.inf else f" and less than {below}"
            return f"{name} is {value}, expected {_span(lowest, highest)}{under}"
        return None

    return check


def _span(least: float, most: float) -> str:
    if most == math.inf:
        return "a number" if least == -math.inf else f"at least {least}"
    return f"at most {most}" if least == -math.inf else f"{least} to {most}"


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _only(schema: Mapping[str, Any], known: set[str]) -> None:
    if unknown := schema.keys() - known - _TOLD:
        raise ValueError(f"a flat schema cannot contain {sorted(unknown)}")
