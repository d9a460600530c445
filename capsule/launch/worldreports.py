"""Reports of ranks in the test before a run, parsed as untrusted input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capsule import leavings
from capsule.jsons import Json, JsonObject

_MOST_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Sum:
    """A world as a library showed it to a rank, and what came of adding up in it.

    Attributes:
        means: `gloo`, `sockets` or `mpi`.
        rank: Its number there.
        ranks: Number of ranks.
        bytes: That it added up; 0 as long as it has not.
        digest: SHA-256 of the result.
        faults: What the rank itself sees wrong in it.
    """

    means: str
    rank: int
    ranks: int
    bytes: int = 0
    digest: str = ""
    faults: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that a rank has said so far.

    Attributes:
        arrived: True if it has said who it is.
        variables: What told it so, by name; None where a variable is not set.
        host: Name of its machine.
        node: What its node is called, which is the machine's name where no scheduler has another.
        launcher: Names of variables by which MPI finds its world.
        built: What the image's mpi4py was built for: families of MPI, or a library.
        library: Version of the MPI that it loads, empty where it was not loaded.
        path: Where that is, where it is the one that a variable names, else empty.
        digest: SHA-256 of that one.
        sums: What it reached the others by, in order.
        message: Why it could not go on, empty where it could.
        done: True if it came to its end.
    """

    arrived: bool = False
    variables: Mapping[str, str | None] = field(default_factory=dict)
    host: str = ""
    node: str = ""
    launcher: tuple[str, ...] = ()
    built: tuple[str, ...] = ()
    library: str = ""
    path: str = ""
    digest: str = ""
    sums: tuple[Sum, ...] = ()
    message: str = ""
    done: bool = False


def read(path: Path) -> Report:
    """Return the report in a file; what is not whole yet, or no event, says nothing."""
    stream = leavings.open_file(path)
    if stream is None:
        return Report()
    with stream:
        lines = stream.read(_MOST_BYTES).split(b"\n")[:-1]
    facts = [fact for fact in map(_parse, lines) if fact]
    arrived = next((one for one in facts if one.get("event") == "arrived"), None)
    library = next((one for one in facts if one["event"] == "library"), {})
    binding = next((one for one in facts if one["event"] == "binding"), {})
    return Report(
        arrived=arrived is not None,
        variables=_variables((arrived or {}).get("variables")),
        host=_text((arrived or {}).get("host")),
        node=_text((arrived or {}).get("node")),
        launcher=_names((arrived or {}).get("launcher")),
        built=_names(binding.get("built")),
        library=_text(library.get("version")),
        path=_text(library.get("path")),
        digest=_text(library.get("digest")),
        sums=_sums(facts),
        message="".join(_text(one.get("message")) for one in facts if one["event"] == "failed"),
        done=any(one["event"] == "done" for one in facts),
    )


def _parse(line: bytes) -> JsonObject:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and isinstance(value.get("event"), str) else {}


def _sums(facts: list[JsonObject]) -> tuple[Sum, ...]:
    met = [one for one in facts if one["event"] == "met"]
    reduced = {_text(one.get("means")): one for one in facts if one["event"] == "reduced"}
    sums = []
    for one in met:
        means = _text(one.get("means"))
        result = reduced.get(means, {})
        faults = result.get("faults")
        sums.append(
            Sum(
                means=means,
                rank=_number(one.get("rank")),
                ranks=_number(one.get("ranks")),
                bytes=max(0, _number(result.get("bytes", 0))),
                digest=_text(result.get("digest")),
                faults=faults if isinstance(faults, dict) else {},
            )
        )
    return tuple(sums)


def _variables(value: Json) -> dict[str, str | None]:
    if not isinstance(value, dict):
        return {}
    return {name: None if one is None else _text(one) for name, one in value.items()}


def _names(value: Json) -> tuple[str, ...]:
    return tuple(map(_text, value)) if isinstance(value, list) else ()


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
