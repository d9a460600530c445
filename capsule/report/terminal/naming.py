"""Short names of metrics: the segments that all paths of a screen begin with are left out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile


class ShortNames:
    """Metric paths without their common beginning, which a screen prints once.

    >>> names = ShortNames(["moons/default/command/loss", "moons/default/command/accuracy"])
    >>> names.prefix, names.shorten("moons/default/command/loss")
    ('moons/default/command/', 'loss')

    Args:
        paths: All that the screen names.

    Attributes:
        prefix: What they have in common, in whole segments, with its last slash; may be empty.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        parents = [path.split("/")[:-1] for path in paths]
        levels = zip(*parents, strict=False)
        shared = takewhile(lambda level: len(set(level)) == 1, levels)
        self.prefix = "".join(f"{level[0]}/" for level in shared)

    def shorten(self, path: str) -> str:
        """Return a path without the prefix."""
        return path.removeprefix(self.prefix)
