"""Fixtures that many modules use, and what holds for every session of tests."""

import os
import signal
import types
from pathlib import Path

import hypothesis
import pytest

from tests.support import session as sessions
from tests.support.command import User

_SESSION = pytest.StashKey[sessions.Session]()
_LEFT = pytest.StashKey[list[str]]()

# No deadlines, not even for making examples: a busy machine is slow. Examples are drawn anew here,
# so that more and more are seen; in CI the same every time, so that a failure is the change's own.
hypothesis.settings.register_profile(
    "capsule",
    deadline=None,
    derandomize="CI" in os.environ,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("capsule")

# Whoever is started by a shell's `&` or by nohup ignores SIGINT, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _terminate(_number: int, _frame: types.FrameType | None) -> None:
    raise KeyboardInterrupt


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin the session, in the process that hands out tests and not in its workers."""
    if hasattr(config, "workerinput"):
        return
    signal.signal(signal.SIGTERM, _terminate)
    session = sessions.begin()
    config.stash[_SESSION] = session
    os.environ["TMPDIR"] = str(session.temporary)
    if config.option.basetemp is None:
        config.option.basetemp = session.folder / "pytest"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Once all workers are gone: nothing may be left of what they started."""
    if (begun := session.config.stash.get(_SESSION, None)) is None:
        return
    left = begun.end(passed=exitstatus == pytest.ExitCode.OK)
    session.config.stash[_LEFT] = left
    if left and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Name what was left."""
    for words in config.stash.get(_LEFT, []):
        terminalreporter.write_line(f"LEFT RUNNING by the tests, and ended now: {words}", red=True)


@pytest.fixture
def author(tmp_path: Path) -> User:
    """Somebody who publishes numbers."""
    return User.make(tmp_path)


@pytest.fixture
def stranger(tmp_path: Path) -> User:
    """Somebody else, with a home of their own, who checks them."""
    return User.make(tmp_path, "stranger")
