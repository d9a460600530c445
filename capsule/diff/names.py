"""Names of the two sides of a comparison, in sentences and above columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Names:
    """An original and its re-run, unless stated otherwise.

    Attributes:
        there: The first side.
        here: The second.
        heads: Both, above a column.
        runs: Both, after the number of runs that failed.
    """

    there: str = "the original"
    here: str = "the re-run"
    heads: tuple[str, str] = ("original", "re-run")
    runs: tuple[str, str] = ("original runs", "re-runs")

    @classmethod
    def of_variants(cls, there: str, here: str) -> Names:
        """Two variants of which neither is the other's original."""
        both = (there, here)
        return cls(
            there=there,
            here=here,
            heads=both,
            runs=(f"runs of {there}", f"of {here}"),
        )


ROLES = Names()
