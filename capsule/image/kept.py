"""Keep the documents of images by their digests, for machines that reach no registry.

Each lies in the cache under the SHA-256 of its bytes and is believed for those alone, so that the
cache may be anybody's.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from capsule.digest import Digest, of_bytes
from capsule.errors import CannotRunError

_FOLDER = "documents"
_MOST_BYTES = 8 << 20


def keep(documents: Iterable[bytes | None], cache: Path) -> None:
    """Keep index, manifest and configuration of an image, those that there are.

    Raises:
        CannotRunError: The cache cannot be written.
    """
    folder = cache / _FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for body in filter(None, documents):
            partial = folder / f".{secrets.token_hex(8)}"
            partial.write_bytes(body)
            partial.replace(folder / of_bytes(body).hex)
    except OSError as error:
        raise CannotRunError(
            f"the image's documents cannot be kept: {error.strerror}",
            where=str(folder),
            advice="free some space, or name another folder with CAPSULE_CACHE",
        ) from None


def read(digest: Digest, cache: Path) -> bytes | None:
    """The document of a digest; None where it is not kept, or what lies there is another one."""
    path = cache / _FOLDER / digest.hex
    with suppress(OSError):
        # others may have put anything there
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as stream:  # noqa: PTH123 - has a handle
            body = stream.read(_MOST_BYTES + 1)
        return body if of_bytes(body) == digest else None
    return None
