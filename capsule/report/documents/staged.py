"""Images and data that `capsule stage` fetched, as a JSON value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capsule.jsons import JsonObject

if TYPE_CHECKING:
    from capsule.staging import Staged


def staged_to_json(staged: Staged, command: str) -> JsonObject:
    """Image and data with their places, and the command that needs no network now.

    Data that the capsule carries has no place of its own.
    """
    places = {name: str(place) for name, place in staged.data.items()}
    return {
        "runtime": staged.runtime,
        "image": staged.image.pinned if staged.image else None,
        "handle": staged.handle or None,
        "data": {
            one.name: {"digest": one.digest, "path": places.get(one.name)}
            for one in staged.datasets
        },
        "cache": str(staged.cache),
        "command": command,
    }
