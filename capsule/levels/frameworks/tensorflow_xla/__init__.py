"""TensorFlow with each operation compiled by XLA, and run as one function."""

from __future__ import annotations

from .. import tensorflow


def create(device: str, threads: int | None, determinism: str) -> tensorflow.TensorFlow:
    """Create the framework as `tensorflow` does.

    Raises:
        FrameworkError: See there.
    """
    return tensorflow.create(device, threads, determinism, "tensorflow-xla", compiled=True)
