"""Kernels that a framework chose for an operator, if it can report them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Protocol, runtime_checkable

from ..operators.base import Operator


@runtime_checkable
class TellsKernels(Protocol):
    """Interface of frameworks that can report the kernel of an operator."""

    def kernels(
        self, operator: Operator, sizes: Mapping[str, int], tensors: tuple[Any, ...]
    ) -> str | None:
        """Return the kernels for these operands, forward and with gradients, by one call each.

        None for an operator of which there are no several kernels.
        """


@runtime_checkable
class RecordsKernels(Protocol):
    """Interface of frameworks that can report what a device runs."""

    def record_kernels(self, run: Callable[[], object]) -> list[str]:
        """Call a function once, and return the names of all kernels that the device ran for it.

        Empty if the names are unknown, also after an error of the call.
        """
