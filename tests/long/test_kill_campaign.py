"""Runs killed with kill -9 at random instants, again and again, until one gets through."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journeys.test_resume import attempts_in, find_leftovers, kill_tree, label_of
from tests.support.command import Document, User, write_manifest, write_script
from tests.support.engines import engine_cache, small_image
from tests.support.long_run import COUNT, COVERS
from tests.support.patience import PATIENCE_SECONDS
from tests.support.properties import scaled

pytestmark = pytest.mark.long

BATCHES = 5
RUNS = {"host": 30, "apptainer": 5, "docker": 5, "podman": 5}  # in a batch
DEATHS = 3  # of one run, at most


class Campaign:
    """One run of five trials, killed up to `DEATHS` times."""

    def __init__(self, folder: Path, engine: str) -> None:
        folder.mkdir()
        self._user = User.make(folder)
        self._engine = engine
        self._finished: set[tuple[str, int, str]] = set()
        self._labels: set[str] = set()
        write_script(self._user.folder)
        image = {"reference": small_image()} if engine != "host" else None
        self._manifest = write_manifest(self._user.folder, image=image)

    def take_seconds(self) -> float:
        """How long it takes when nobody kills it."""
        began = time.monotonic()
        self._get_through()
        self._check()
        return time.monotonic() - began

    def fight(self, seconds: float, chance: random.Random) -> int:
        """Kill it within its first so many seconds, resume it, and so on; returns its deaths."""
        deaths = 0
        for _ in range(chance.randint(1, DEATHS)):
            running = self._start()
            try:
                running.wait(chance.uniform(0, seconds))
                break
            except subprocess.TimeoutExpired:
                kill_tree(running)
                deaths += 1
            self._remember()
            if self._capsules() and not self._folders():
                break
        self._get_through()
        self._check()
        return deaths

    def _start(self) -> subprocess.Popen[str]:
        if folders := self._folders():
            return self._user.start("run", "--resume", folders[0])
        return self._user.start("run", self._manifest, "--runtime", self._engine)

    def _get_through(self) -> None:
        if self._folders() or not self._capsules():
            assert self._start().wait(PATIENCE_SECONDS) == 0, self._user.talk.read_text()

    def _folders(self) -> list[Path]:
        return list(self._user.folder.glob("*.run"))

    def _capsules(self) -> list[Path]:
        return list(self._user.folder.glob("*.capsule.zip"))

    def _remember(self) -> None:
        """What must be there at the end: every attempt that the run's folder says is over."""
        for folder in self._folders():
            self._labels.add(label_of(folder))
            log = folder / "attempts.jsonl"
            lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
            for line in lines:
                self._finished |= set(map(_key, json.loads(line).get("attempts", [])))

    def _check(self) -> None:
        (capsule,) = self._capsules()
        checked = self._user.run("check", capsule)
        assert checked.returncode == 0, checked.stderr
        attempts = attempts_in(capsule)
        completed = sorted(one["trial"] for one in attempts if one["outcome"] == "completed")
        assert completed == [f"tiny/default/command/{seed}" for seed in range(1, 6)]
        assert self._finished <= {_key(attempt) for attempt in attempts}
        names = {path.name for path in self._user.folder.iterdir()}
        # what was being written or removed when the kill came is no folder of a run and no capsule
        halves = (".capsule-partial", ".capsule.partial", ".capsule-done")
        whole = {name for name in names if not (name[0] == "." and name.endswith(halves))}
        assert whole == {"tiny.py", "tiny.json", "talk.txt", capsule.name}
        for label in self._labels:
            assert find_leftovers(label, self._engine) == []


def _key(attempt: Document) -> tuple[str, int, str]:
    return attempt["trial"], attempt["attempt"], attempt["outcome"]


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize(
    "engine",
    [
        "host",
        pytest.param("apptainer", marks=pytest.mark.engines),
        pytest.param("docker", marks=pytest.mark.engines),
        pytest.param("podman", marks=pytest.mark.engines),
    ],
)
def test_no_instant_loses_what_was_finished_or_leaves_anything(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
    engine: str,
    batch: int,
) -> None:
    if engine != "host":
        monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    seconds = Campaign(tmp_path / "undisturbed", engine).take_seconds()
    deaths = 0
    for number in range(scaled(RUNS[engine])):
        campaign = Campaign(tmp_path / str(number), engine)
        deaths += campaign.fight(seconds, random.Random(f"{engine} {batch} {number}"))
        shutil.rmtree(tmp_path / str(number))
    record_property(COVERS, f"kill -9 of a run at a random instant, and resume: {engine}")
    record_property(COUNT, deaths)
