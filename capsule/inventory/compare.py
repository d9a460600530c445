"""Differences between two machines, informational: none is called a cause."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from capsule import schema
from capsule.jsons import Json

Difference = tuple[str, Json, Json]


def differences(a: Mapping[str, Json], b: Mapping[str, Json]) -> list[Difference]:
    """Return every fact of class and state in which two nodes differ.

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
    return [
        difference
        for section in ("class", "state")
        for difference in _compare(_lasting(a, section), _lasting(b, section), f"/{section}")
    ]


def outliers(nodes: Sequence[Mapping[str, Json]]) -> list[tuple[int, list[Difference]]]:
    """Return the nodes that are not as most of them are, which ran together.

    Args:
        nodes: As `capsule.inventory.node` returns them.

    Returns:
        (place among the nodes, its differences: JSON pointer, value of most, its own value).

    >>> small, large = ({"class": {"cpu": {"cores": cores}}} for cores in (8, 64))
    >>> outliers([large, small, large])
    [(1, [('/class/cpu/cores', 64, 8)])]
    """
    kinds = [json.dumps([_lasting(node, "class"), _lasting(node, "state")]) for node in nodes]
    usual = nodes[kinds.index(Counter(kinds).most_common(1)[0][0])]
    compared = ((place, differences(usual, node)) for place, node in enumerate(nodes))
    return [(place, different) for place, different in compared if different]


def _lasting(node: Mapping[str, Json], section: str) -> Json:
    facts = node.get(section)
    if not isinstance(facts, Mapping):
        return {}
    return {name: value for name, value in facts.items() if name != "momentary"}


def _compare(a: Json, b: Json, pointer: str) -> Iterator[Difference]:
    if a == b or (not a and not b and {type(a), type(b)} <= {list, dict, type(None)}):
        return
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for name in [*a, *(name for name in b if name not in a)]:
            yield from _compare(a.get(name), b.get(name), f"{pointer}{schema.pointer(name)}")
    elif isinstance(a, list) and isinstance(b, list):
        if all(isinstance(item, str) for item in (*a, *b)):
            only_a, only_b = sorted(set(a) - set(b)), sorted(set(b) - set(a))
            if only_a or only_b:
                yield pointer, only_a, only_b
            return
        for index in range(max(len(a), len(b))):
            items = [side[index] if index < len(side) else None for side in (a, b)]
            yield from _compare(items[0], items[1], f"{pointer}/{index}")
    else:
        yield pointer, a, b
