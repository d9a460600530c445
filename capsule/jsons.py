"""JSON values as types: what stands in documents between the rooms, and is read at the doors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

# sequences and mappings rather than lists and dictionaries: a list of numbers is JSON too
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
JsonObject: TypeAlias = Mapping[str, Json]
