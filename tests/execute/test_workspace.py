"""The folder of a run under way."""

import json
import subprocess
import sys

import pytest

from capsule.errors import CannotRunError, UsageError
from capsule.execute.workspace import Workspace
from capsule.record import Attempt


def attempt(trial: str, outcome: str = "completed") -> Attempt:
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


def test_what_was_logged_is_there_for_the_next_process(tmp_path):
    first = Workspace.create(tmp_path / "a.run", {"plan": "sha256:1"})
    start = first.begin("g", ("t1", "t2"), 0, "2026-01-01T00:00:00+00:00")
    first.end(start, (attempt("t1"), attempt("t2", "failed")))
    first.begin("h", ("t3",), 0, "2026-01-01T00:00:01+00:00")

    second = Workspace.open(tmp_path / "a.run")
    assert second.header["plan"] == "sha256:1"
    assert [each.ended for each in second.begun()] == [True, False]
    assert [(number, each.trial) for number, each in second.attempts()] == [(1, "t1"), (1, "t2")]


def test_a_line_that_a_killed_process_left_torn_is_dropped(tmp_path):
    workspace = Workspace.create(tmp_path / "a.run", {})
    start = workspace.begin("g", ("t1",), 0, "now")
    log = workspace.folder / "attempts.jsonl"
    log.write_bytes(log.read_bytes() + b'{"end": 1, "attem')
    assert not workspace.begun()[0].ended
    workspace.end(start, (attempt("t1"),))
    assert [each.trial for _, each in workspace.attempts()] == ["t1"]
    assert all(json.loads(line) for line in log.read_text().splitlines())


def test_an_existing_folder_is_not_written_over(tmp_path):
    Workspace.create(tmp_path / "a.run", {})
    with pytest.raises(UsageError, match="--resume"):
        Workspace.create(tmp_path / "a.run", {})


@pytest.mark.parametrize("text", [None, '{"format": "capsule-run/9"}'])
def test_another_folder_is_not_taken_for_a_run(tmp_path, text):
    if text:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(UsageError):
        Workspace.open(tmp_path)


def test_only_one_process_works_on_a_run(tmp_path):
    workspace = Workspace.create(tmp_path / "a.run", {})
    code = (
        "import sys, pathlib\n"
        "from capsule.errors import CannotRunError\n"
        "from capsule.execute.workspace import Workspace\n"
        "try:\n"
        "    with Workspace.open(pathlib.Path(sys.argv[1])).locked(): print('got it')\n"
        "except CannotRunError as error: print(error)\n"
    )
    argv = [sys.executable, "-c", code, str(workspace.folder)]
    with workspace.locked():
        assert (
            "another process"
            in subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        )
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "got it\n"
    with workspace.locked(), pytest.raises(CannotRunError), workspace.locked():
        pass


def test_a_node_is_kept_once(tmp_path):
    workspace = Workspace.create(tmp_path / "a.run", {})
    one = {"identity": {"host": "x"}, "class": {"cores": 2}, "state": {"load": 1}, "missing": {}}
    assert workspace.add_node(one) == 0
    assert workspace.add_node({**one, "state": {"load": 2}}) == 0
    assert workspace.add_node({**one, "identity": {"host": "y"}}) == 1
    assert len(workspace.nodes()) == 2
