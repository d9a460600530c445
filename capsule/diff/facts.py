"""Differences between two capsules beside their numbers; no cause is implied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from capsule import inventory, summary
from capsule.digest import canonical_json
from capsule.jsons import Json
from capsule.record import Record

Topic = Literal[
    "image",
    "runtime",
    "node class",
    "node state",
    "software",
    "environment",
    "levels",
    "manifest",
    "plan",
    "dataset",
]
_ORDER = {topic: place for place, topic in enumerate(get_args(Topic))}
Leaf = str | int | float | bool | None

_NEVER_THE_SAME = (
    *("/empty_call_ns", "/empty_range_ns"),
    *("/variables/PYTHONHASHSEED", "/variables/CAPSULE_RUN"),
)
"""Ends of pointers to what each process measures of itself, or is given as its seed and name."""

_BREATHES = "/total_bytes"
"""End of pointers to the memory that a kernel manages, of which a hypervisor lends and takes."""
_BREATH = 0.05


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One thing that is not the same on both sides; None where a side has no such thing.

    Attributes:
        pointer: JSON pointer into the record's document of that topic.
    """

    topic: Topic
    pointer: str
    original: Leaf
    rerun: Leaf


def between(original: Record, rerun: Record) -> tuple[Fact, ...]:
    """Everything that differs and matters, by topic in the order of `Topic`, then by pointer.

    Left out is what must differ (times, seeds, ids, the number of runs), and memory that differs by
    no more than one machine's own does from day to day.
    """
    topics: Sequence[tuple[Topic, Json, Json]] = (
        ("image", _image(original), _image(rerun)),
        ("runtime", _runtime(original), _runtime(rerun)),
        ("software", original.software, rerun.software),
        ("environment", original.environment, rerun.environment),
        ("levels", original.levels, rerun.levels),
        ("manifest", *_manifests(original, rerun)),
        ("plan", _plan(original), _plan(rerun)),
        ("dataset", _datasets(original), _datasets(rerun)),
    )
    facts = [
        fact
        for topic, a, b in topics
        for fact in _between(topic, a, b)
        if not fact.pointer.endswith(_NEVER_THE_SAME)
    ]
    facts += (fact for fact in _between_nodes(original, rerun) if not _is_breath(fact))
    return tuple(sorted(facts, key=lambda fact: (_ORDER[fact.topic], fact.pointer)))


def _between(topic: Topic, a: Json, b: Json) -> Iterator[Fact]:
    there, here = dict(_leaves(a)), dict(_leaves(b))
    for pointer in sorted(there.keys() | here.keys()):
        x, y = there.get(pointer), here.get(pointer)
        if x != y or type(x) is not type(y):
            yield Fact(topic=topic, pointer=pointer, original=x, rerun=y)


def _between_nodes(original: Record, rerun: Record) -> Iterator[Fact]:
    there, here = summary.own_nodes(original), summary.own_nodes(rerun)
    if len(there) != len(here):
        yield Fact(topic="node class", pointer="/count", original=len(there), rerun=len(here))
    for index, (a, b) in enumerate(zip(there, here, strict=False)):
        for pointer, x, y in inventory.differences(a, b):
            _, section, rest = pointer.split("/", 2)
            yield Fact(
                topic="node class" if section == "class" else "node state",
                pointer=f"/{index}/{rest}",
                original=_leaf(x),
                rerun=_leaf(y),
            )


def _is_breath(fact: Fact) -> bool:
    """Return whether two sizes of a node's memory differ only by its hypervisor's share."""
    a, b = fact.original, fact.rerun
    if not fact.pointer.endswith(_BREATHES) or not (isinstance(a, int) and isinstance(b, int)):
        return False
    return abs(a - b) <= _BREATH * max(a, b)


def _leaf(value: Json) -> Leaf:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return canonical_json(value).decode()


def _leaves(value: Json, pointer: str = "") -> Iterator[tuple[str, Leaf]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            escaped = str(key).replace("~", "~0").replace("/", "~1")
            yield from _leaves(inner, f"{pointer}/{escaped}")
    elif isinstance(value, str | int | float | bool | None):
        yield pointer, value
    else:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{pointer}/{index}")


def _image(record: Record) -> Json:
    if record.image is None:
        return {}
    image = record.image
    return {
        "manifest_digest": str(image.manifest_digest) if image.manifest_digest else None,
        "config_digest": str(image.config_digest) if image.config_digest else None,
        "platform": image.platform,
        "layers": {str(index): str(layer.diff_id) for index, layer in enumerate(image.layers)},
    }


def _runtime(record: Record) -> Json:
    return {
        "runtime": record.runtime,
        "contained": record.contained,
        "image": dict(record.image_observations),
    }


def _manifests(original: Record, rerun: Record) -> tuple[Json, Json]:
    if original.manifest.source == rerun.manifest.source:
        return {}, {}
    return json.loads(original.manifest.source), json.loads(rerun.manifest.source)


def _plan(record: Record) -> Json:
    """Return the planned benchmarks, cases and frameworks, without seeds."""
    return {
        trial["id"].rsplit("/", 1)[0]: "planned"
        for group in record.plan["groups"]
        for trial in group["trials"]
    }


def _datasets(record: Record) -> Json:
    return {dataset.name: dataset.digest for dataset in record.datasets}
