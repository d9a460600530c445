"""The ids of the capsules that this user sealed: the only ones that run here unasked."""

from __future__ import annotations

import os
from pathlib import Path

from capsule.errors import ExecutionError


def path() -> Path:
    """Where the ledger lies: below XDG_STATE_HOME, else `~/.local/state`."""
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "capsule" / "sealed.txt"


def add(capsule_id: str) -> None:
    """Remember a capsule as this user's own.

    Raises:
        ExecutionError: The ledger cannot be written.
    """
    if holds(capsule_id):
        return
    ledger = path()
    try:
        ledger.parent.mkdir(parents=True, exist_ok=True)
        # one short append is atomic: two runs may seal at once
        with ledger.open("a") as stream:
            stream.write(f"{capsule_id}\n")
    except OSError as error:
        raise ExecutionError(
            f"the capsule is sealed, but cannot be noted as yours: {error.strerror}",
            where=str(ledger),
            advice="verify it with --trust",
        ) from None


def holds(capsule_id: str) -> bool:
    """Whether this user sealed the capsule."""
    try:
        return capsule_id in path().read_text().split()
    except OSError:
        return False
