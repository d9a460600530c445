"""The binary version of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features
from Tiny Images", 2009): records of one length, the bytes of the labels and then those of the
picture, its red, green and blue planes of 32 rows of 32 pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .files import FormatError

CLASSES = {"cifar10": (10,), "cifar100": (20, 100)}
"""Number of classes of each byte of labels; CIFAR-100 has a coarse and a fine one."""
SIDE = 32
_IMAGE_BYTES = 3 * SIDE * SIDE


def read(path: Path, classes: Sequence[int]) -> tuple[Any, Any]:
    """Return the pictures of a file, which is mapped.

    Args:
        path: Path of the file.
        classes: For each byte of labels, a value of `CLASSES`.

    Returns:
        Images, uint8 (samples, 3, 32, 32), and labels, uint8 (samples, len(classes)).

    Raises:
        FormatError: It holds no whole records, or a label that is none.
        OSError: It cannot be read.
    """
    import numpy

    if not path.is_file():
        raise FormatError(path, "is missing, or not a file")
    size, length = path.stat().st_size, len(classes) + _IMAGE_BYTES
    if not size or size % length:
        raise FormatError(
            path,
            f"has {size} bytes, expected a positive multiple of {length} bytes, the size of a"
            " sample",
        )
    table = numpy.memmap(path, numpy.uint8, "r").reshape(-1, length)
    labels, images = numpy.array(table[:, : len(classes)]), table[:, len(classes) :]
    for index, count in enumerate(classes):
        most = int(labels[:, index].max())
        if most >= count:
            raise FormatError(path, f"has the label {most}, expected labels below {count}")
    return images.reshape(-1, 3, SIDE, SIDE), labels


def write(images: Any, labels: Any, path: Path) -> None:
    """Write what `read` reads.

    Args:
        images: uint8 (samples, 3, 32, 32).
        labels: uint8 (samples, bytes of labels).
        path: Path of the file.

    Raises:
        OSError: It cannot be written.
    """
    import numpy

    table = numpy.concatenate([labels, images.reshape(len(images), _IMAGE_BYTES)], axis=1)
    path.write_bytes(table.tobytes())
