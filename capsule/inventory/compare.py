"""What differs between two machines: facts for the reader of a verdict, never called its cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capsule import schema

Difference = tuple[str, Any, Any]


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """Every fact of class and state in which two nodes differ.

    Identity is never compared, nor `/state/momentary`, which differs between two looks at one
    machine. A value that only one node has stands beside None; the node's `missing` says whether
    it is absent there or could not be read. Lists of words are compared as sets, and each side
    shows the words that only it has.

    Args:
        a: A node, as `capsule.inventory.node` returns it.
        b: Another one.

    Returns:
        (JSON pointer, value in `a`, value in `b`), in the order of `a`'s fields, class first.

    >>> differences({"class": {"cpu": {"cores": 8}}}, {"class": {"cpu": {"cores": 64}}})
    [('/class/cpu/cores', 8, 64)]
    """
    found: list[Difference] = []
    for section in ("class", "state"):
        pair = [
            {name: value for name, value in node.get(section, {}).items() if name != "momentary"}
            for node in (a, b)
        ]
        _compare(pair[0], pair[1], f"/{section}", found)
    return found


def _compare(a: Any, b: Any, pointer: str, found: list[Difference]) -> None:
    if a == b or (not a and not b and {type(a), type(b)} <= {list, dict, type(None)}):
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for name in [*a, *(name for name in b if name not in a)]:
            _compare(a.get(name), b.get(name), f"{pointer}{schema.pointer(name)}", found)
    elif _words(a) and _words(b):
        only_a, only_b = sorted(set(a) - set(b)), sorted(set(b) - set(a))
        if only_a or only_b:
            found.append((pointer, only_a, only_b))
    elif isinstance(a, list) and isinstance(b, list):
        for index in range(max(len(a), len(b))):
            items = [side[index] if index < len(side) else None for side in (a, b)]
            _compare(items[0], items[1], f"{pointer}/{index}", found)
    else:
        found.append((pointer, a, b))


def _words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
