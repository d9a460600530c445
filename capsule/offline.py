"""Connect to nothing: where `--offline` was said, whatever would be fetched is an error instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from capsule.errors import CannotRunError

_IS_OFFLINE = ContextVar("capsule-offline", default=False)


@contextmanager
def enforce(offline: bool) -> Iterator[None]:
    """Hold for as long as it lasts, in this thread; inside of itself it is never undone."""
    token = _IS_OFFLINE.set(offline or _IS_OFFLINE.get())
    try:
        yield
    finally:
        _IS_OFFLINE.reset(token)


def is_on() -> bool:
    """Return whether nothing may be connected to."""
    return _IS_OFFLINE.get()


def require_network(what: str, *, where: str) -> None:
    """Stop where something would be fetched, and nothing may be.

    Args:
        what: Is missing here, as the subject of a sentence.
        where: Its name.

    Raises:
        CannotRunError: Says how it gets here.
    """
    if is_on():
        raise CannotRunError(
            f"{what} is missing on this machine, and --offline forbids fetching it",
            where=where,
            advice="on a machine with network and the same cache and home, first run"
            " `capsule stage` with this manifest or capsule",
        )
