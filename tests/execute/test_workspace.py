"""The folder of a run under way."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import places
from capsule.errors import CannotRunError, ExecutionError, UsageError
from capsule.execute.header import Header
from capsule.execute.workspace import Workspace
from capsule.jsons import JsonObject
from capsule.origin import Verification
from capsule.plan import Group
from capsule.record import Attempt, Outcome, Setup
from tests.support.journal_events import ONE, TWO
from tests.support.records import make_image


def attempt(trial: str, outcome: Outcome = "completed") -> Attempt:
    return Attempt(
        trial=trial,
        attempt=1,
        group="g",
        seed=1,
        seed_source="manifest",
        outcome=outcome,
        started="2026-01-01T00:00:00+00:00",
        seconds=1.5,
    )


HEADER = Header(
    programs={},
    setup=Setup(
        uuid="6f1c6b52-5d1e-4a0e-9a35-0d9c5b1f3c11",
        origin=Verification(of="a" * 64, runs=3),
        started="2026-01-01T00:00:00+00:00",
        runtime="docker",
        contained=True,
        image=make_image(),
        image_observations={"version": "20"},
        variables={},
        threads=2,
        levels={"digest": None, "release": None},
        datasets=(),
        notes=(),
    ),
    folder=None,
    keep_hosts=False,
    salt="s",
    runs=3,
    plan="sha256:1",
    subjects=(),
)
FIRST = Group(id="g", framework="numpy", seed=1, trials=(ONE, TWO))
SECOND = Group(id="h", framework="numpy", seed=1, ranks=2, trials=(ONE,))


def make(folder: Path) -> Workspace:
    """The folder of a new run."""
    with Workspace.create(folder / "a.run", HEADER) as workspace:
        return workspace


def test_what_was_logged_is_there_for_the_next_process(tmp_path: Path) -> None:
    first = make(tmp_path)
    start = first.begin(FIRST, (0,), "2026-01-01T00:00:00+00:00")
    first.log.end(start.number, (attempt("t1"), attempt("t2", "interrupted")))
    first.begin(SECOND, (0, 1), "2026-01-01T00:00:01+00:00")

    second = Workspace.open(tmp_path / "a.run")
    assert second.header == HEADER
    assert second.log.starts == first.log.starts
    assert [begun.ranks for begun in second.log.starts] == [1, 2]
    assert second.log.attempts == first.log.attempts
    assert [(number, try_.trial) for number, try_ in second.log.attempts] == [(1, "t1"), (1, "t2")]
    assert [begun.group for begun in second.log.open_starts()] == ["h"]
    assert (second.log.is_settled("t1"), second.log.is_settled("t2")) == (True, False)


def test_each_rank_has_files_of_its_own_and_a_rank_alone_those_of_the_start(tmp_path: Path) -> None:
    workspace = make(tmp_path)
    alone = workspace.begin(FIRST, (0,), "now")
    assert alone.rank(0).folder == alone.folder
    both = workspace.begin(SECOND, (0, 0), "now")
    folders = [files.out for files in both.rank_files()]
    assert len(set(folders)) == 2
    assert all(folder.is_dir() for folder in folders)


def test_a_line_that_a_killed_process_left_torn_is_dropped(tmp_path: Path) -> None:
    start = make(tmp_path).begin(FIRST, (0,), "now")
    path = tmp_path / "a.run" / "attempts.jsonl"
    path.write_bytes(path.read_bytes() + b'{"end": 1, "attem')
    workspace = Workspace.open(tmp_path / "a.run")
    assert workspace.log.open_starts()
    workspace.log.end(start.number, (attempt("t1"),))
    assert [try_.trial for _, try_ in workspace.log.attempts] == ["t1"]
    assert all(json.loads(line) for line in path.read_text().splitlines())
    log = Workspace.open(tmp_path / "a.run").log
    assert [try_.trial for _, try_ in log.attempts] == ["t1"]


def test_what_another_process_logged_before_it_let_go_counts(tmp_path: Path) -> None:
    one = make(tmp_path)
    other = Workspace.open(tmp_path / "a.run")
    with one.lock():
        start = one.begin(FIRST, (0,), "now")
        one.log.end(start.number, (attempt("t1"),))
    with other.lock():
        assert other.log.is_settled("t1")
        assert other.begin(SECOND, (0, 0), "now").number == 2


@pytest.mark.parametrize(
    "line", ['{"start": 1, "group": "g", "trials": []}', '{"end": 1, "attempts": [{"trial": "t"}]}']
)
def test_a_log_of_another_layout_is_told_in_a_sentence(tmp_path: Path, line: str) -> None:
    make(tmp_path)
    (tmp_path / "a.run" / "attempts.jsonl").write_text(line + "\n")
    with pytest.raises(UsageError, match="another version of capsule"):
        Workspace.open(tmp_path / "a.run")


def test_an_existing_folder_is_not_written_over(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(UsageError, match="--resume"):
        make(tmp_path)


@pytest.mark.parametrize(
    "text", [None, '{"format": "capsule-run/9"}', '{"format": "capsule-run/1"}', "[]"]
)
def test_another_folder_is_not_taken_for_a_run(tmp_path: Path, text: str | None) -> None:
    if text:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(UsageError):
        Workspace.open(tmp_path)


def test_only_one_process_works_on_a_run(tmp_path: Path) -> None:
    workspace = make(tmp_path)
    code = (
        "import sys, pathlib\n"
        "from capsule.errors import CannotRunError\n"
        "from capsule.execute.workspace import Workspace\n"
        "try:\n"
        "    with Workspace.open(pathlib.Path(sys.argv[1])).lock(): print('got it')\n"
        "except CannotRunError as error: print(error)\n"
    )
    argv = [sys.executable, "-c", code, str(workspace.folder)]
    with workspace.lock():
        assert (
            "another process"
            in subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        )
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "got it\n"
    with workspace.lock(), pytest.raises(CannotRunError), workspace.lock():
        pass


def test_a_node_is_kept_once(tmp_path: Path) -> None:
    workspace = make(tmp_path)
    node: JsonObject = {
        "identity": {"host": "x"},
        "class": {"cores": 2},
        "state": {"load": 1},
        "missing": {},
    }
    assert workspace.add_node(node) == 0
    assert workspace.add_node({**node, "state": {"load": 2}}) == 0
    assert workspace.add_node({**node, "identity": {"host": "y"}}) == 1
    assert len(workspace.nodes()) == 2


def test_a_folder_that_was_not_filled_to_the_end_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Workspace.create(tmp_path / "a.run", HEADER):
        raise ZeroDivisionError
    with pytest.raises(UsageError, match=r"not a run folder: run\.json is missing"):
        Workspace.open(tmp_path / "a.run")


def test_a_run_that_another_process_has_sealed_meanwhile_is_gone(tmp_path: Path) -> None:
    workspace = make(tmp_path)
    places.discard(workspace.folder)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match="no longer exists"), workspace.lock():
        pass


@pytest.mark.parametrize("name", ["run.json", "attempts.jsonl", "nodes/0000.json"])
def test_a_pipe_in_a_run_folder_is_not_waited_for(tmp_path: Path, name: str) -> None:
    path = make(tmp_path).folder / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(UsageError):
        Workspace.open(tmp_path / "a.run").nodes()


def test_a_lock_that_is_a_link_does_not_touch_what_it_names(tmp_path: Path) -> None:
    workspace = make(tmp_path)
    (tmp_path / "mine").write_text("kept")
    (workspace.folder / "lock").symlink_to(tmp_path / "mine")
    with pytest.raises(ExecutionError), workspace.lock():
        pass
    assert (tmp_path / "mine").read_text() == "kept"


@pytest.mark.parametrize("uuid", ["", "../../..", "6F1C6B52-5d1e-4a0e-9a35-0d9c5b1f3c11", 7])
def test_a_run_that_no_capsule_can_be_named_by_is_refused(tmp_path: Path, uuid: object) -> None:
    path = make(tmp_path).folder / "run.json"
    header = json.loads(path.read_text())
    header["setup"]["uuid"] = uuid
    path.write_text(json.dumps(header))
    with pytest.raises(UsageError, match="another version of capsule"):
        Workspace.open(path.parent)


def test_the_same_signal_three_times_in_a_row_is_counted_across_processes(tmp_path: Path) -> None:
    def die(number: int | None) -> None:
        log = Workspace.open(tmp_path / "a.run").log
        end = replace(attempt("t1", "interrupted"), reason="killed", signal=number)
        log.end(1, (end,))

    make(tmp_path)
    counts = []
    for number in (9, 9, 15, 15, None, 15):
        die(number)
        log = Workspace.open(tmp_path / "a.run").log
        counts.append((log.deaths("t1", 9), log.deaths("t1", 15)))
    assert counts == [(1, 0), (2, 0), (0, 1), (0, 2), (0, 0), (0, 1)]
