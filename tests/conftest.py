"""Fixtures that many modules use."""

from pathlib import Path

import pytest

from tests.support.command import User


@pytest.fixture
def author(tmp_path: Path) -> User:
    """Somebody who publishes numbers."""
    return User.make(tmp_path)


@pytest.fixture
def stranger(tmp_path: Path) -> User:
    """Somebody else, with a home of their own, who checks them."""
    return User.make(tmp_path, "stranger")
