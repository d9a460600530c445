"""Capsules as they are named on a command line: by a path, or by where they were published."""

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

HELP = "a capsule file or folder, https://..., oci://HOST/NAME:TAG, or a DOI of Zenodo"


class Located(NamedTuple):
    """A capsule that lies on this machine.

    Attributes:
        path: Where.
        name: How it is named on a command line that goes on with it.
        id: The id that it must have, or how that begins; None for any.
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
        help=f"the id that {whose} must have, as its paper prints it: 64 hex digits, or the first"
        " 12 or more; held against it before anything else is read",
    )


@contextmanager
def locate(text: str, expected: str | None, console: Console) -> Iterator[Located]:
    """Get a capsule onto this machine, and forget a fetched copy that turns out to be damaged.

    Args:
        text: As it was typed.
        expected: As typed with `--id`.
        console: Is told how far it is.

    Raises:
        CapsuleError: As `store.fetch` does.
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
