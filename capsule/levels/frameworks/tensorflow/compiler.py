"""Functions run as they are, or compiled by XLA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import tensorflow

from ..base import NativeTensor


@dataclass(frozen=True)
class Compiler:
    """Compilation of a function before the clock starts.

    Attributes:
        compiles: True if XLA compiles it.
    """

    compiles: bool

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that `prepare` takes, once or for several lists of operands."""
        if not self.compiles:
            return function
        wrapped: Callable[..., Any] = tensorflow.function(
            function, jit_compile=True, autograph=False
        )
        return wrapped

    def prepare(self, wrapped: Any, operands: tuple[NativeTensor, ...]) -> Callable[..., Any]:
        """Return the function for such operands, compiled once for all alike.

        Args:
            wrapped: By `wrap`.
            operands: What it will be called with.
        """
        prepared: Callable[..., Any] = wrapped
        if self.compiles:
            prepared = wrapped.get_concrete_function(*operands)
            prepared(*operands)  # XLA compiles at the first call
        return prepared
