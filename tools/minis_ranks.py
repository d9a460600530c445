"""Minis that ranks share: in which shapes and by which launchers they are verified."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "manifests" / "minis-ranks"


@dataclass(frozen=True)
class Way:
    """One way to start ranks.

    Attributes:
        launcher: As a site file names it.
        nodes: How many.
        ranks: On each of them.
    """

    launcher: str
    nodes: int = 1
    ranks: int = 1

    @property
    def words(self) -> tuple[str, ...]:
        """What `capsule verify` is told of the shape."""
        shape = {"nodes": self.nodes, "ranks_per_node": self.ranks}
        return tuple(
            word
            for name, number in shape.items()
            for word in ("--set", f"/resources/{name}={number}")
        )

    @property
    def before(self) -> tuple[str, ...]:
        """The command that it is run by."""
        if self.launcher != "srun":
            return ()
        shape = f"--nodes={self.nodes}", f"--ntasks-per-node={self.ranks}"
        return ("salloc", "--quiet", *shape)


WAYS = {
    "mpirun": Way("mpirun", ranks=2),
    "srun": Way("srun", nodes=2, ranks=2),
    "alone": Way("local"),
}
"""By key. What is verified is sealed by four ranks that the local launcher starts."""


def names() -> list[str]:
    """Of the minis."""
    return [path.stem for path in sorted(FOLDER.glob("*.json"))]
