"""What a framework must offer to be measured."""

from __future__ import annotations

from typing import Any, Callable, Protocol


class FrameworkError(Exception):
    """A framework, or the device asked of it, is not there."""


class Framework(Protocol):
    """Tensors in and out, waiting, seeding, and the state that results depend on.

    Attributes:
        name: As in the catalogue.
        synchronize: Waits until the device is idle; None where calls return when they are done.
    """

    name: str
    synchronize: Callable[[], None] | None

    def from_numpy(self, array: Any) -> Any:
        """A tensor on the job's device with the values and dtype of a numpy array."""

    def to_numpy(self, tensor: Any) -> Any:
        """A numpy array with the values and dtype of a tensor."""

    def seed(self, seed: int) -> None:
        """Seed every generator that the framework's operations draw from, 32 bits."""

    def settings(self) -> dict[str, Any]:
        """What is in effect now and can change a result or a time, as JSON values.

        A setting that cannot be read is null, and `missing` gives the reason by its name.
        """
