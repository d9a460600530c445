"""Fetch capsules into the cache, named by id."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from capsule import archive, offline, places
from capsule import site as sites
from capsule.errors import CannotRunError, ExecutionError, UsageError
from capsule.fetching import locations
from capsule.fetching.locations import Artifact, Deposit, Location, Web

_ENDING = ".capsule.zip"

Hear = Callable[[str, int, "int | None"], None]
"""Receiver of download progress: source, bytes so far, and total bytes or None."""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A capsule in the cache.

    Attributes:
        path: File of the capsule.
        id: Id of the capsule, 64 hex digits.
        name: Source of the capsule, without login and query; `name` and `id` together fetch the
            same capsule again.
    """

    path: Path
    id: str
    name: str

    def discard(self) -> None:
        """Delete a damaged copy from the cache; the next `fetch` downloads the capsule again."""
        with suppress(OSError):
            self.path.unlink()


def fetch(text: str, expected: str | None = None, hear: Hear = lambda *_: None) -> Fetched:
    """Download a capsule into the cache, unless the cache has one with this id.

    Args:
        text: `https://...`, `oci://HOST/NAME[:TAG][@sha256:...]`, or a DOI of Zenodo.
        expected: Required id, or at least its first 12 digits.
        hear: Receiver of download progress.

    Raises:
        UsageError: The text is not such a location, or is a plain `http://` address without
            `expected`.
        DamagedError: The file is not a capsule, is too large, or has another id.
        CannotRunError: The capsule cannot be fetched.
        ExecutionError: The capsule cannot be written to the cache.
    """
    location = locations.parse(text)
    folder = sites.cache_folder(sites.load()) / "capsules"
    if expected is not None and (kept := _look_up(folder, expected)):
        return Fetched(path=kept, id=kept.name.removesuffix(_ENDING), name=location.name)
    if expected is None and offline.is_on():
        raise CannotRunError(
            "--offline forbids fetching this capsule, and only --id finds a capsule in the cache",
            where=location.name,
            advice="give the capsule's id with --id",
        )
    offline.require_network("this capsule", where=location.name)
    if expected is None and isinstance(location, Web) and location.is_open:
        raise UsageError(
            "plain HTTP cannot authenticate the capsule: anybody on the network path could replace"
            " the file",
            where=location.name,
            advice="give the capsule's id with --id, or use https://",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExecutionError(
            f"cannot create the cache folder: {error.strerror}",
            where=str(folder),
            advice="set CAPSULE_CACHE to another folder",
        ) from None
    with places.scratch(folder) as scratch:
        draft = scratch / f"a{_ENDING}"
        _save(location, draft, hear)
        name = archive.identify(draft, expected, where=location.name)
        kept = draft.replace(folder / f"{name}{_ENDING}")
    return Fetched(path=kept, id=name, name=location.name)


def _look_up(folder: Path, expected: str) -> Path | None:
    """Return the capsule in the cache whose id begins with `expected`, if it is the only one."""
    kept = [path for path in folder.glob(f"{expected}*{_ENDING}") if path.is_file()]
    return kept[0] if len(kept) == 1 else None


def _save(location: Location, target: Path, hear: Hear) -> None:
    # only who fetches pays for importing what speaks HTTP
    from capsule.fetching import download, registries, web, zenodo

    heard = partial(hear, location.name)
    match location:
        case Web():
            with web.Conversation(location) as conversation:
                source = download.Source(open=partial(conversation.open, location.url))
                download.save(source, target, location.name, heard)
        case Deposit():
            with web.Conversation(location.api) as conversation:
                source = zenodo.find(conversation, location)
                download.save(source, target, location.name, heard)
        case Artifact():
            with registries.converse(location) as transfer:
                source = registries.find(transfer, location)
                download.save(source, target, location.name, heard)
