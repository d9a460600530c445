"""What is struck, what must hold afterwards, and what did not."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from capsule import archive, process
from capsule.errors import CapsuleError
from tests.journeys.test_resume import attempts_in
from tests.kills.victim import Ending, Strike, fill_disk, kill, perform
from tests.support.command import Document, User, write_manifest

SCRIPT = 'printf \'{"metric": "loss", "value": 1}\\n{"metric": "time", "value": 1.%s}\\n\''
SCRIPT += ' "$CAPSULE_SEED" > "$CAPSULE_RESULTS"\n'
BENCHMARK = {
    "id": "tiny",
    "command": ["sh", "tiny.sh"],
    "inputs": ["tiny.sh"],
    "metrics": {
        "loss": {"direction": "lower"},
        "time": {"direction": "lower", "kind": "machine", "unit": "s"},
    },
}
CLAIM = {"metric": "tiny/default/command/loss", "type": "bound", "at_most": 1}
ORIGINAL = "original.zip"


@dataclass(frozen=True, kw_only=True)
class Journey:
    """A command that leaves capsules, and the way on when it is cut off.

    Attributes:
        name: What it is called in the table.
        words: The command.
        resume: The way on, but for the folder, which is its last word.
        capsules: How many it leaves.
        statuses: With which it may end.
        lead: At which part of its calls a first process of it was killed beforehand, 0 for none.
    """

    name: str
    words: tuple[str, ...]
    resume: tuple[str, ...]
    capsules: int = 1
    statuses: tuple[int, ...] = (0,)
    lead: float = 0.0


RUN = ("run", "tiny.json", "--runtime", "host")
VERIFY = ("verify", ORIGINAL, "--runtime", "host", "--runs", "2")
JOURNEYS = (
    Journey(name="run", words=RUN, resume=("run", "--resume")),
    Journey(name="run --resume", words=RUN, resume=("run", "--resume"), lead=0.6),
    Journey(name="verify", words=VERIFY, resume=("verify", ORIGINAL, "--resume")),
    Journey(
        name="pair",
        words=("pair", "tiny.json", "--runtime-a", "host", "--runtime-b", "host"),
        resume=("pair", "--resume"),
        capsules=2,
        statuses=(0, 1, 3),  # two rounds decide nothing
    ),
)


@dataclass
class Tally:
    """What a journey came to.

    Attributes:
        points: How often it was struck.
        faults: What must not be, by its kind.
        lines: Each fault with what was tried.
    """

    points: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)


class Template:
    """A user who has sealed one capsule; a copy of theirs is struck each time."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._copies = 0
        base.mkdir(exist_ok=True)
        self._user = User.make(base, "template")
        (self._user.folder / "tiny.sh").write_text(SCRIPT)
        python = self._user.home / "bin" / "python3"
        python.parent.mkdir()
        python.write_text("#!/bin/sh\nexit 1\n")
        python.chmod(0o755)
        write_manifest(self._user.folder, seeds=[1, 2], benchmarks=[BENCHMARK], claims=[CLAIM])
        ended = perform(self._user, [*RUN, "--output", ORIGINAL])
        assert ended.status == 0, ended.output

    def copy(self) -> User:
        """The same user in another place."""
        self._copies += 1
        base = self._base / str(self._copies)
        home = shutil.copytree(self._user.home, base / "home")
        return User(home=home, folder=shutil.copytree(self._user.folder, base / "folder"))


class Struck:
    """One journey of one user, struck as often as one likes, and brought to its end."""

    def __init__(self, journey: Journey, user: User, tally: Tally) -> None:
        self._journey = journey
        self._user = user
        self._tally = tally
        self._before = {path.name for path in user.folder.iterdir()}
        self._finished: set[tuple[str, int, str]] = set()
        self._ids: dict[str, str] = {}
        self._labels: set[str] = set()
        self._tried = [journey.name]

    def strike(self, at: int, strike: Strike = kill) -> Ending:
        """Begin or go on, up to call number `at`; then everything finished must still be there."""
        ended = perform(self._user, self._words(), at, strike)
        self._tried.append(f"{strike.__name__} at {at}: {ended.status}")
        self._look()
        if strike is fill_disk and ended.status not in (*self._journey.statuses, 5, 6):
            self._fault("crashes", ended.output[-600:])
        return ended

    def is_done(self) -> bool:
        """Whether nothing is left to go on with."""
        return not self._folders() and len(self._new_capsules()) == self._journey.capsules

    def finish(self) -> None:
        """Go on to the end, and hold what is left against what must be."""
        self._tally.points += 1
        if not self.is_done():
            ended = perform(self._user, self._words())
            if ended.status not in self._journey.statuses:
                self._fault("cannot go on", ended.output[-600:])
                return
        self._look()
        capsules = self._new_capsules()
        if len(capsules) != self._journey.capsules or self._folders():
            self._fault("second capsules", f"{sorted(map(str, capsules))}")
        attempts = {_key(one) for path in capsules for one in attempts_in(path)}
        if lost := self._finished - attempts:
            self._fault("trials lost", f"{sorted(lost)}")
        for label in self._labels:
            if left := process.find_marked(label):
                self._fault("left running", f"{left}")
        self._check_litter(capsules)
        shutil.rmtree(self._user.folder.parent)

    def _words(self) -> Sequence[str | Path]:
        folders = self._folders()
        return (*self._journey.resume, folders[0].name) if folders else self._journey.words

    def _folders(self) -> list[Path]:
        return [*self._user.folder.glob("*.run"), *self._user.folder.glob("*.pair")]

    def _new_capsules(self) -> list[Path]:
        return [path for path in self._user.folder.glob("*.zip") if path.name not in self._before]

    def _look(self) -> None:
        """Remember what is finished, and that a capsule keeps its id."""
        for log in self._user.folder.glob("**/attempts.jsonl"):
            for line in log.read_bytes().split(b"\n")[:-1]:
                self._finished |= set(map(_key, json.loads(line).get("attempts", [])))
        for header in self._user.folder.glob("**/run.json"):
            uuid = json.loads(header.read_bytes())["setup"]["uuid"]
            self._labels.add(f"{uuid}.{header.parent.stat().st_ino}")
        for path in self._new_capsules():
            try:
                with archive.read(path) as capsule:
                    uuid, name = capsule.record.uuid, capsule.id
            except CapsuleError as error:
                self._fault("half capsules", str(error))
                continue
            if self._ids.setdefault(uuid, name) != name:
                self._fault("second ids", f"{name[:8]}, not {self._ids[uuid][:8]}")

    def _check_litter(self, capsules: Sequence[Path]) -> None:
        """A command may be killed while it clears away; the next one that starts does it then."""
        if self._litter(capsules):
            again = [*RUN, "--work", "next.run", "--output", "next.zip"]
            ended = perform(self._user, again)
            (self._user.folder / "next.zip").unlink()
            if ended.status != 0 or self._litter(capsules):
                self._fault("litter", f"{sorted(self._litter(capsules))}")

    def _litter(self, capsules: Sequence[Path]) -> set[str]:
        names = {path.name for path in self._user.folder.iterdir()}
        return names - self._before - {path.name for path in capsules} - {self._user.talk.name}

    def _fault(self, kind: str, words: str) -> None:
        self._tally.faults[kind] += 1
        self._tally.lines.append(f"{kind}: {'; '.join(self._tried)}: {words}")


def _key(attempt: Document) -> tuple[str, int, str]:
    return attempt["trial"], attempt["attempt"], attempt["outcome"]
