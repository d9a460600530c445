"""One picture a file: PNG, JPEG and BMP by Pillow, where it is installed, and binary PGM and PPM
(netpbm.sourceforge.net, "PGM" and "PPM") by numpy alone, one byte a shade.

What a JPEG's pixels are is up to the library that unpacks it, in their last bit.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

from . import files
from .files import FormatError

OURS = (".pgm", ".ppm")
ENDINGS = (*OURS, ".png", ".jpg", ".jpeg", ".bmp")
"""Endings of names of pictures, in lower case; other files are ignored."""

_KINDS = ("PNG", "JPEG", "BMP", "PPM")
_SPACE = rb"(?:\s|#[^\n]*\n)+"
_HEADER = re.compile(
    rb"P([56])" + _SPACE + rb"([0-9]{1,9})" + _SPACE + rb"([0-9]{1,9})" + _SPACE + rb"255\s"
)
_GREY, _COLOURED = ("1", "L"), ("RGB", "P", "RGBA", "CMYK", "YCbCr")


def read(path: Path, channels: int) -> Any:
    """Return the picture of a file.

    Args:
        path: Path of the file.
        channels: 1 for shades of grey, or 3, of which a grey picture has the same three.

    Returns:
        uint8 (channels, height, width).

    Raises:
        FormatError: It is no picture, a coloured one where a grey one is due, or larger than
            `files.most_bytes`.
        ModuleNotFoundError: Pillow is needed, and not installed.
        OSError: It cannot be read.
    """
    import numpy

    data = files.read(path)
    is_ours = path.suffix.lower() in OURS
    shown = _read_netpbm(data, path) if is_ours else _unpack(data, path)
    if len(shown) not in (1, channels) or channels not in (1, 3):
        raise FormatError(path, f"has {len(shown)} channels, expected {channels}")
    return numpy.broadcast_to(shown, (channels, *shown.shape[1:]))


def _read_netpbm(data: bytes, path: Path) -> Any:
    import numpy

    match = _HEADER.match(data)
    if match is None:
        raise FormatError(
            path, f"begins with {data[:16]!r}, expected a binary PGM or PPM with 255 shades"
        )
    channels = 3 if match[1] == b"6" else 1
    width, height = int(match[2]), int(match[3])
    due = channels * width * height
    if len(data) - match.end() != due or not due:
        raise FormatError(path, f"has {len(data) - match.end()} bytes of pixels, expected {due}")
    pixels = numpy.frombuffer(data, numpy.uint8, offset=match.end())
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)


def _unpack(data: bytes, path: Path) -> Any:
    import numpy

    image = _import()
    most = files.most_bytes(len(data))
    try:
        with image.open(io.BytesIO(data), formats=_KINDS) as picture:
            width, height = picture.size
            if picture.mode not in (*_GREY, *_COLOURED):
                raise FormatError(path, f"has pixels of mode {picture.mode}, expected gray or RGB")
            channels = 1 if picture.mode in _GREY else 3
            if width * height * 4 > most:
                raise FormatError(
                    path,
                    f"claims {width} x {height} pixels, more than {files.MOST_GROWTH} times the"
                    " size of the file, the most that capsule reads",
                )
            shown = numpy.asarray(picture.convert("L" if channels == 1 else "RGB"))
    except FormatError:
        raise
    except Exception as error:  # whatever Pillow ends by on bytes that are no picture
        fault = " ".join(str(error).split()) or type(error).__name__
        raise FormatError(path, f"cannot be read as a picture: {fault}") from None
    return shown.reshape(height, width, channels).transpose(2, 0, 1)


def write(image: Any, path: Path) -> None:
    """Write a PGM or PPM, which `read` reads.

    Args:
        image: uint8 (1 or 3, height, width).
        path: Path of the file.

    Raises:
        OSError: It cannot be written.
    """
    channels, height, width = image.shape
    kind = 6 if channels == 3 else 5
    pixels = image.transpose(1, 2, 0).tobytes()
    path.write_bytes(f"P{kind}\n{width} {height}\n255\n".encode() + pixels)


def _import() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        if error.name not in ("PIL", "PIL.Image"):
            raise
        message = (
            "Pillow, which reads PNG, JPEG and BMP, is not installed: pip install pillow, or write"
            " the pictures as PPM"
        )
        raise ModuleNotFoundError(message, name="PIL") from None
    return Image
