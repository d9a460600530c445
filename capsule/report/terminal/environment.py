"""Differences between the environments of two sides, the likeliest cause first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from capsule import plain
from capsule.diff import Differences
from capsule.diff.changes import SAME_IMAGE
from capsule.diff.facts import Fact
from capsule.report.terminal.prose import wrap
from capsule.software import PACKAGES

_NAMED = 3
_LONGEST_VALUE = 24
_INDENT = "    "
# software that changes results or times, the likeliest first; others are named after these
_CAUSES = (
    *PACKAGES,
    *("cuda", "nvidia", "driver", "cudnn", "nccl"),
    *("python", "scipy", "mkl", "openblas", "onnx", "cupy", "triton", "numba", "scikit-learn"),
    *("pandas", "platform", "cpu", "gpus", "memory"),
)
_TOPICS = {
    "image": "image",
    "software": "software",
    "runtime": "engine",
    "node class": "machine",
    "node state": "machine settings",
    "environment": "environment variables",
    "levels": "measuring code",
}


def word_environment(differences: Differences) -> str:
    """Return what differs in one sentence: named where it may be the cause, else counted."""
    topics: dict[str, list[Fact]] = {topic: [] for topic in _TOPICS}
    for fact in differences.facts:
        if fact.topic != "image" or differences.image not in SAME_IMAGE:
            topics.setdefault(fact.topic, []).append(fact)
    parts = list(filter(None, (_word_topic(topic, facts) for topic, facts in topics.items())))
    return f"{'; '.join(parts)} (--full)" if parts else "no difference recorded"


def _word_topic(topic: str, facts: Sequence[Fact]) -> str:
    """Return a topic with the first of its differences; empty without any."""
    if not facts:
        return ""
    name = _TOPICS.get(topic, topic)
    if topic == "image":
        return "another image"
    if topic not in ("software", "node class"):
        return f"{name} ({len(facts)})"
    changes = list(dict.fromkeys(map(_word_change, sorted(facts, key=_rank))))
    more = f", {len(changes) - _NAMED} more" if len(changes) > _NAMED else ""
    return f"{name}: {', '.join(changes[:_NAMED])}{more}"


def _word_change(fact: Fact) -> str:
    there, here = (_cut("none" if value is None else str(value)) for value in _values(fact))
    return f"{_name(fact)} {there} -> {here}"


def _values(fact: Fact) -> tuple[object, object]:
    return fact.original, fact.rerun


def _cut(value: str) -> str:
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 3]}..."


def _name(fact: Fact) -> str:
    """Return the package or the part that a fact is about."""
    parts = [part.replace("~1", "/") for part in fact.pointer.strip("/").split("/")]
    if "distributions" in parts:
        return parts[-1]
    if "python" in parts[:-1] and parts[-1] == "version":
        return "python"
    parts = [part for part in parts if not part.isdigit()]
    return " ".join(parts[-2:])


def _rank(fact: Fact) -> tuple[bool, int, str]:
    """Return where a difference stands: by the likeliest cause that it names."""
    name = _name(fact).lower()
    # of a machine any word may name it; of a package its beginning does
    words = [name] if fact.topic == "software" else name.split()
    places = [
        place
        for place, cause in enumerate(_CAUSES)
        if cause in words or (cause != "python" and any(one.startswith(cause) for one in words))
    ]
    # how a framework was built says less than which one it is
    is_detail = fact.topic == "software" and "distributions" not in fact.pointer
    return is_detail and name != "python", min(places, default=len(_CAUSES)), name


def list_facts(differences: Differences, width: int) -> Iterator[str]:
    """Yield every difference as lines, by topic, the likeliest cause first.

    Args:
        differences: Of the two sides.
        width: Columns of the terminal.
    """
    topics: dict[str, list[Fact]] = {topic: [] for topic in _TOPICS}
    for fact in differences.facts:
        topics.setdefault(fact.topic, []).append(fact)
    for topic, facts in topics.items():
        if facts:
            yield f"{_TOPICS.get(topic, topic)} ({len(facts)})"
        for fact in sorted(facts, key=_rank):
            there, here = ("none" if value is None else value for value in _values(fact))
            line = plain.clean(f"{fact.pointer.removeprefix('/')}: {there} -> {here}")
            yield from (f"{_INDENT}{part}" for part in wrap(line, width - len(_INDENT)))
