"""What the two sides of a comparison are called in sentences and above columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Names:
    """An original and its re-execution, unless it is said otherwise.

    Attributes:
        there: The first side.
        here: The second.
        heads: Both, above a column.
        values: Both, before a value.
        runs: Both, after the number of runs that failed.
    """

    there: str = "the original"
    here: str = "the re-execution"
    heads: tuple[str, str] = ("original", "re-run")
    values: tuple[str, str] = ("original", "here")
    runs: tuple[str, str] = ("original runs", "re-executed ones")

    @classmethod
    def of_variants(cls, there: str, here: str) -> Names:
        """Two variants of which neither is the other's original."""
        both = (there, here)
        return cls(
            there=there,
            here=here,
            heads=both,
            values=both,
            runs=(f"runs of {there}", f"of {here}"),
        )


ROLES = Names()
