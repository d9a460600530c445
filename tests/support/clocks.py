"""A machine whose clock is wrong, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from typing import Self

import pytest

from capsule import session
from capsule.execute import log, loop


@contextmanager
def moved(**by: float) -> Iterator[None]:
    """Have the clock ahead by so much, behind where it is negative.

    Args:
        by: As for `datetime.timedelta`.
    """

    class Moved(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            right = datetime.now(tz) + timedelta(**by)
            return cls.fromisoformat(right.isoformat())

    with pytest.MonkeyPatch.context() as patch:
        for module in (session, log, loop):
            patch.setattr(module, "datetime", Moved)
        yield
