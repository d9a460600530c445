"""Fixtures that many modules use, and what holds for every session of tests."""

import gc
import os
import re
import signal
import types
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from tests.support import engines, forking, interpreters, long_run
from tests.support import session as sessions
from tests.support.command import User
from tests.support.properties import LONG, scaled
from tests.support.worlds import BARE

_SESSION = pytest.StashKey[sessions.Session]()
_LEFT = pytest.StashKey[list[str]]()

_TESTS = Path(__file__).parent
_SECONDS = "capsule/seconds"
"""Key in pytest's cache: how long each test took when it last ran."""

# No deadlines, not even for making examples: a busy machine is slow. Examples are the same every
# time, so that a failure is the change's own; a long run draws them anew, and twenty times as many.
hypothesis.settings.register_profile(
    "capsule",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    LONG,
    hypothesis.settings.get_profile("capsule"),
    derandomize=False,
    max_examples=scaled(2000),
)
hypothesis.settings.load_profile("capsule")

# A process that a shell's `&` starts ignores SIGINT, one that nohup starts SIGHUP, and so would all
# that tests start: those that wait for such a signal to end a workload would wait for its own end.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _terminate(_number: int, _frame: types.FrameType | None) -> None:
    raise KeyboardInterrupt


# folders that a quick session does not even collect, of whole commands and frameworks, and the
# marks of what it leaves out of the rest
_NOT_QUICK = frozenset(
    (
        *("benchmarks", "fuzz", "hostile", "journeys", "kills", "launch", "long"),
        *(f"levels/{name}" for name in ("frameworks", "level1", "level2", "level3", "networks")),
        "levels/operators",
    )
)
_NOT_QUICK_MARKS = ("engines", "torch", "packages", "tensorflow", "slow")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `tests/run --long` and `tests/run --quick` say."""
    parser.addoption("--long", action="store_true", help="the long tests, and those alone")
    parser.addoption("--quick", action="store_true", help="no engine, network or framework")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out whole folders of a quick session: None says what it would be without this."""
    if not config.option.quick or not collection_path.is_relative_to(_TESTS):
        return None
    return str(collection_path.relative_to(_TESTS)) in _NOT_QUICK or None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long are the tests that are marked so, and every property, of which more is tried then.

    A file is one worker's. Those with tests of engines come last, for their images may still be
    built; else the longest come first, so that what is left at the end is short.
    """

    def wanted(item: pytest.Item) -> bool:
        if config.option.long:
            return any(item.get_closest_marker(name) for name in ("long", "hypothesis"))
        left_out = ("long", *(_NOT_QUICK_MARKS if config.option.quick else ()))
        return not any(map(item.get_closest_marker, left_out))

    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    kept = [item for item in items if wanted(item)]
    late = {item.path for item in kept if _needs_engines(item)}
    last = config.cache.get(_SECONDS, {}) if getattr(config, "cache", None) else {}
    seconds = defaultdict[Path, float](float)
    for item in kept:
        seconds[item.path] += last.get(item.nodeid, _estimate_seconds(item))
    items[:] = sorted(kept, key=lambda item: (item.path in late, -seconds[item.path]))


class _Clock:
    """Keeps how long each test took, for the order of the next session."""

    def __init__(self, cache: pytest.Cache) -> None:
        self._cache = cache
        self._seconds = defaultdict[str, float](float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count set up and end of a test, too."""
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Keep what is known of tests that did not run."""
        rounded = {test: round(seconds, 2) for test, seconds in self._seconds.items()}
        self._cache.set(_SECONDS, {**self._cache.get(_SECONDS, {}), **rounded})


def _needs_engines(item: pytest.Item) -> bool:
    return item.get_closest_marker("engines") is not None


def _estimate_seconds(item: pytest.Item) -> float:
    """Guess how long a test takes that never ran here."""
    if _needs_engines(item):
        return 10
    return 2 if "journeys" in item.path.parts else 0.2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Commands of benchmarks find packages where a test says that it needs them.

    Tests of engines start commands and fork none. And whoever collects garbage, as each trial does,
    does not look through all tests for it.
    """
    before = os.environ["PATH"]
    if any(map(item.get_closest_marker, ("torch", "packages"))):
        os.environ["PATH"] = interpreters.with_packages()
    gc.freeze()
    try:
        with forking.real_starts(_needs_engines(item)):
            return (yield)
    finally:
        gc.unfreeze()
        os.environ["PATH"] = before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have tests of engines wait for their images, which `tests/run` builds beside the others."""
    if _needs_engines(item) and (fault := engines.await_images()):
        (pytest.fail if os.environ.get("CI") else pytest.skip)(fault)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a property's report how many examples it held for."""
    report = yield
    if report.when == "call" and (statistics := getattr(item, "hypothesis_statistics", None)):
        tried = sum(map(int, re.findall(r"(\d+) passing", statistics)))
        covers = f"properties of {item.path.relative_to(item.config.rootpath)}"
        report.user_properties += [(long_run.COVERS, covers), (long_run.COUNT, tried)]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Begin the session, in the process that hands out tests and not in its workers."""
    if config.option.long:
        hypothesis.settings.load_profile(LONG)
    if hasattr(config, "workerinput"):
        return
    if config.option.long:
        config.pluginmanager.register(long_run.Table())
    signal.signal(signal.SIGTERM, _terminate)
    session = sessions.begin()
    config.stash[_SESSION] = session
    os.environ["TMPDIR"] = str(session.temporary)
    interpreters.put_bare_python_first(session.folder / "python")
    # else every start of the command compiles all of it
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if config.option.basetemp is None:
        config.option.basetemp = session.folder / "pytest"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep how long tests take, in the process that hands them out."""
    config = session.config
    if config.pluginmanager.hasplugin("cacheprovider") and not hasattr(config, "workerinput"):
        assert config.cache
        config.pluginmanager.register(_Clock(config.cache))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Once all workers are gone: nothing may be left of what they started."""
    forking.stop()
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
def bare_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A python3 without packages comes first: ranks meet by sockets, with no torch to import."""
    monkeypatch.setenv("PATH", f"{BARE}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def author(tmp_path: Path) -> User:
    """Somebody who publishes numbers."""
    return User.make(tmp_path)


@pytest.fixture
def stranger(tmp_path: Path) -> User:
    """Somebody else, with a home of their own, who checks them."""
    return User.make(tmp_path, "stranger")
