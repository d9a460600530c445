"""Keep the documents of images by their digests, for machines that reach no registry.

Each lies in the cache under the SHA-256 of its bytes and is believed for those alone, so that the
cache may be anybody's. What a tag meant when its image was staged is believed of this user's own
folder alone: `~/.local/state/capsule/tags/` has a file for each reference.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from capsule import site as sites
from capsule.digest import Digest, of_bytes
from capsule.errors import CannotRunError, UsageError
from capsule.places import weak_spot

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
            f"cannot write the image's documents to the cache: {error.strerror}",
            where=str(folder),
            advice="free some space, or set CAPSULE_CACHE to another folder",
        ) from None


def note_tag(reference: str, digest: Digest) -> None:
    """Remember what a tag means now.

    Args:
        reference: With a tag and no digest, in full.
        digest: Digest of the index or manifest that it names.

    Raises:
        CannotRunError: It cannot be kept, or others could change it.
    """
    path = _tag_file(reference)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(f".{secrets.token_hex(8)}")
        partial.write_text(digest.hex)
        partial.replace(path)
    except OSError as error:
        raise CannotRunError(
            f"cannot write the digest of the tag {reference}: {error.strerror}",
            where=str(path.parent),
            advice="make the folder writable, or free some space",
        ) from None


def read_tag(reference: str) -> Digest | None:
    """Return the digest that a tag had when its image was staged here, or None."""
    path = _tag_file(reference)
    with suppress(OSError, UsageError):
        if weak_spot(path) is None:
            return Digest.parse(f"sha256:{path.read_text(errors='replace')[:65]}")
    return None


def _tag_file(reference: str) -> Path:
    return sites.state_folder() / "tags" / of_bytes(reference.encode()).hex


def read(digest: Digest, cache: Path) -> bytes | None:
    """Return the document of a digest; None where it is not kept, or what lies there is another
    one.
    """
    path = cache / _FOLDER / digest.hex
    with suppress(OSError):
        # others may have put anything there
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as stream:  # noqa: PTH123 - has a handle
            body = stream.read(_MOST_BYTES + 1)
        return body if of_bytes(body) == digest else None
    return None
