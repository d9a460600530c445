"""What is believed to be one's own."""

import os
from pathlib import Path

import pytest

from capsule.trust import ledger

ID = "a" * 64


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the ledger will lie."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "capsule"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder that was begun."""
    folder = tmp_path / "a.run"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    ledger.begin(folder, folder / "run.json")
    return folder


def test_what_was_added_is_ones_own_and_nobody_else_may_write_it(state: Path) -> None:
    assert not ledger.holds(ID)
    before = os.umask(0)
    try:
        assert ledger.add(ID) is None
    finally:
        os.umask(before)
    assert ledger.holds(ID)
    assert not ledger.holds("b" * 64)
    assert ledger.fault() is None
    modes = [path.stat().st_mode & 0o777 for path in (state, state / "sealed.txt")]
    assert modes == [0o700, 0o600]


@pytest.mark.parametrize("name", [".", "sealed.txt"])
@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_what_others_can_write_is_not_believed(state: Path, name: str, mode: int) -> None:
    ledger.add(ID)
    (state / name).chmod(mode)
    assert not ledger.holds(ID)
    assert "writable by other users" in str(ledger.fault())
    assert "writable by other users" in str(ledger.add("b" * 64))
    assert not ledger.holds("b" * 64)


def test_another_users_ledger_is_not_believed(state: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("giving a file away needs root")
    ledger.add(ID)
    os.chown(state / "sealed.txt", 12345, 12345)
    assert not ledger.holds(ID)


def test_a_run_folder_is_ones_own_where_it_was_begun(run: Path) -> None:
    assert ledger.has_begun(run)
    assert not ledger.has_begun(run.rename(run.with_name("b.run")))


def test_a_run_folder_that_now_asks_for_something_else_is_not_ones_own(run: Path) -> None:
    (run / "run.json").write_text('{"runtime": "host"}')
    assert not ledger.has_begun(run)


def test_where_nothing_can_be_noted_a_run_begins_all_the_same(
    run: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    ledger.begin(run, run / "run.json")
    assert not ledger.has_begun(run)


def test_a_run_folder_that_is_gone_was_not_begun(tmp_path: Path, run: Path) -> None:
    assert not ledger.has_begun(tmp_path / "none")
    (run / "run.json").unlink()
    assert not ledger.has_begun(run)


def test_no_file_is_left_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for n in range(3):
        assert ledger.add(f"{n}" * 64) is None
        assert ledger.holds(f"{n}" * 64)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
