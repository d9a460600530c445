"""Documents with one long list, held against their schemas an item at a time, in little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from capsule import schema
from capsule.archive import flat


def faults(value: Any, name: str, lists: Sequence[str]) -> Iterator[str]:
    """Yield violations of a document's schema, as sentences that begin with a JSON pointer.

    Args:
        value: The document.
        name: Schema name, for example `record-1`.
        lists: Field with the long list, then the field of each item with another one; only the
            first of their items are held against the whole schema, and all by the flat check.
    """
    whole = schema.validate(_cut(value, lists), name)
    yield from (f"{pointer or '/'}: {message[:300]}" for pointer, message in whole)
    if whole:
        return
    stated = schema.load(name)
    check = flat.checker(stated["properties"][lists[0]]["items"], stated.get("definitions"))
    for place, item in enumerate(value[lists[0]]):
        if fault := check(item):
            yield f"{schema.pointer(lists[0], place)}: {fault}"


def _cut(value: Any, lists: Sequence[str]) -> Any:
    """Return the same, if it has such lists, with the first of their items alone."""
    if not lists or not isinstance(value, dict) or not isinstance(value.get(lists[0]), list):
        return value
    return {**value, lists[0]: [_cut(item, lists[1:]) for item in value[lists[0]][:1]]}
