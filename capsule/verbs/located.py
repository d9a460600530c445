"""CAPSULE arguments: a path, URL, oci:// reference or DOI, resolved to a local file."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from capsule.digest import parse_id
from capsule.errors import DamagedError, UntrustedError, UsageError
from capsule.fetching import is_remote

if TYPE_CHECKING:
    from capsule.console import Console

HELP = "capsule file or folder, https://..., oci://HOST/NAME:TAG, or Zenodo DOI"


class Located(NamedTuple):
    """A capsule on this machine.

    Attributes:
        path: Its local path.
        name: Its name for further command lines.
        id: The expected id, or its first digits; None for any.
    """

    path: Path
    name: str | Path
    id: str | None


def add_id(parser: ArgumentParser, whose: str) -> None:
    """Add `--id`."""
    parser.add_argument(
        "--id",
        type=_id,
        metavar="ID",
        help=f"expected id of {whose}, as the paper prints it: 64 hex digits, or at least the first"
        " 12. Checked before anything else is read",
    )


@contextmanager
def locate(text: str, expected: str | None, console: Console) -> Iterator[Located]:
    """Fetch a capsule to this machine if needed; discard a fetched copy that is damaged.

    Args:
        text: The CAPSULE argument.
        expected: The value of `--id`.
        console: Shows the progress of a download.

    Raises:
        CapsuleError: As for `store.fetch`.
    """
    if not is_remote(text):
        yield Located(path=Path(text), name=Path(text), id=expected)
        return
    from capsule.fetching import store

    fetched = store.fetch(text, expected, console.hear_download())
    try:
        yield Located(path=fetched.path, name=fetched.name, id=fetched.id)
    except DamagedError as error:
        is_ours = (error.where or "").startswith(str(fetched.path))
        if is_ours and not isinstance(error, UntrustedError):
            fetched.discard()
        raise


def _id(text: str) -> str:
    try:
        return parse_id(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error.what}: {error.advice}") from None
