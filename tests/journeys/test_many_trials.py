"""More trials of one seed than a process start is given."""

import json

from capsule import api
from capsule.starts import MOST_TRIALS
from tests.support.command import User


def test_a_group_of_many_trials_takes_several_process_starts(author: User) -> None:
    elements = list(range(1, MOST_TRIALS + 2))
    benchmark = {
        "id": "relu",
        "level": 0,
        "operator": "relu",
        "frameworks": ["numpy"],
        "cases": {"n": elements},
        "isolation": "group",
        "repetitions": 1,
        "warmup": 0,
    }
    manifest = {
        "name": "many",
        "title": "Many sizes of one operator",
        "authors": [{"name": "Ada Author"}],
        "license": "CC0-1.0",
        "seeds": [1],
        "benchmarks": [benchmark],
    }
    path = author.folder / "many.json"
    path.write_text(json.dumps(manifest))
    shown = author.run("run", path, "--runtime", "host", "--dry-run")
    assert f"2 process starts for {len(elements)} trials" in shown.stdout, shown.stderr
    ended = author.run("run", path, "--runtime", "host", "--output", "many.zip")
    assert ended.returncode == 0, ended.stderr
    with api.open(author.folder / "many.zip") as sealed:
        attempts = sealed.record.attempts
    assert {one.outcome for one in attempts} == {"completed"}
    assert len({one.trial for one in attempts}) == len(attempts) == len(elements)
    started = [one.started for one in attempts]
    assert sorted(map(started.count, set(started))) == [1, MOST_TRIALS]
