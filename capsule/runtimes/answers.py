"""Strict parsers of answers of Docker-like engines about images and containers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from capsule.digest import Digest
from capsule.errors import DamagedError

_NEVER = "0001-01-01"
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """An engine's copy of an image.

    Attributes:
        identity: What the engine calls it: digest of its configuration, or of its manifest.
        digests: Digests of manifests and indexes that it was fetched by.
        layers: Digests of the layers' contents, lowest first.
    """

    identity: Digest
    digests: frozenset[str]
    layers: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ContainerFacts:
    """A container, as its engine sees it.

    Attributes:
        begun: It was started; its program may still have been missing.
        running: It has not ended.
        status: What it ended with.
        out_of_memory: The kernel ended something in it for want of memory.
        pid: Its first process, as this machine counts where the engine is on it; 0 for none.
        path: The PATH in its environment, empty where there is none.
    """

    begun: bool
    running: bool
    status: int
    out_of_memory: bool
    pid: int
    path: str


def read_image(answer: object) -> ImageFacts:
    """Read what an engine says of an image.

    Raises:
        DamagedError: It is none.
    """

    def take(entry: Any) -> ImageFacts:
        names = entry.get("RepoDigests") or ()
        return ImageFacts(
            identity=Digest.parse(f"sha256:{entry['Id'].removeprefix('sha256:')}"),
            digests=frozenset(str(name).rpartition("@")[2] for name in names),
            layers=tuple(map(str, entry["RootFS"].get("Layers") or ())),
        )

    return _take(take, answer, "image")


def read_container(answer: object) -> ContainerFacts:
    """Read what an engine says of a container.

    Raises:
        DamagedError: It is none.
    """

    def take(entry: Any) -> ContainerFacts:
        state = entry["State"]
        variables = dict(str(item).partition("=")[::2] for item in entry["Config"]["Env"] or ())
        return ContainerFacts(
            begun=not str(state["StartedAt"]).startswith(_NEVER),
            running=state["Running"] is True,
            status=int(state["ExitCode"]),
            out_of_memory=state.get("OOMKilled") is True,
            pid=int(state["Pid"]),
            path=variables.get("PATH", ""),
        )

    return _take(take, answer, "container")


def _take(take: Callable[[Any], _T], answer: object, what: str) -> _T:
    try:
        return take(answer)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(
            f"unknown format of the engine's answer about the {what}: {error}",
            advice="use another version of the engine, or another engine with --runtime",
        ) from None
