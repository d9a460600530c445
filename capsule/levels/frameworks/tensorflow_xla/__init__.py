"""TensorFlow with each operation compiled by XLA, and run as one function."""

from __future__ import annotations

from .. import tensorflow


def create(device: str, threads: int | None, determinism: str) -> tensorflow.TensorFlow:
    """As that of `tensorflow`.

    Raises:
        FrameworkError: See there.
    """
    return tensorflow.create(device, threads, determinism, "tensorflow-xla", compiled=True)
