"""Run the command as a user does, in a process of its own, with a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from tests.support import forking
from tests.support.patience import PATIENCE_SECONDS

Document = dict[str, Any]
"""A JSON object."""


@dataclass(frozen=True, kw_only=True)
class User:
    """Somebody who runs capsule: a home, a folder to work in, and perhaps another account."""

    home: Path
    folder: Path
    python: str = sys.executable
    account: str | None = None
    patience_seconds: float = PATIENCE_SECONDS

    @classmethod
    def make(cls, base: Path, name: str = "author") -> User:
        """A newcomer: nothing in the home, nothing in the folder."""
        home, folder = base / f"{name}-home", base / name
        home.mkdir()
        folder.mkdir()
        return cls(home=home, folder=folder)

    @property
    def talk(self) -> Path:
        """What the last started command said."""
        return self.folder / "talk.txt"

    def environment(self) -> dict[str, str]:
        """The caller's variables, but for those that say where a user keeps things."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        return {**kept, "HOME": str(self.home), "NO_COLOR": "1", "COLUMNS": "100"}

    def argv(self, *arguments: str | Path) -> list[str]:
        """The command with its arguments."""
        return [self.python, "-m", "capsule", *map(str, arguments)]

    def run(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end: forked where that is as good as a start, see `forking`."""
        environment = {**self.environment(), **variables}
        if self.account is None and self.python == sys.executable:
            with forking.take(environment) as server:
                if server is not None:
                    return self._fork(server, arguments, environment)
        return subprocess.run(
            self.argv(*arguments),
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=self.patience_seconds,
            check=False,
            user=self.account,
            group=self.account,
            extra_groups=[] if self.account else None,
        )

    def _fork(
        self,
        server: forking.Server,
        arguments: Sequence[str | Path],
        environment: Mapping[str, str],
    ) -> subprocess.CompletedProcess[str]:
        argv = self.argv(*arguments)
        with TemporaryFile() as out, TemporaryFile() as err:
            pid = server.start(
                arguments,
                folder=self.folder,
                environment=environment,
                out=out.fileno(),
                err=err.fileno(),
            )
            if (ended := server.wait(self.patience_seconds)) is None:
                os.kill(pid, signal.SIGKILL)
                server.wait(PATIENCE_SECONDS)
            texts = [_read_text(file) for file in (out, err)]
        if ended is None:
            raise subprocess.TimeoutExpired(argv, self.patience_seconds, *texts)
        return subprocess.CompletedProcess(argv, ended.status, *texts)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """Start it and go on; what it says is kept in `talk`."""
        with self.talk.open("w") as talk:
            return subprocess.Popen(
                self.argv(*arguments),
                cwd=self.folder,
                env=self.environment(),
                stdout=talk,
                stderr=talk,
                stdin=subprocess.DEVNULL,
                text=True,
            )

    def json(self, *arguments: str | Path, code: int = 0) -> Document:
        """Run it with --json, and read what it prints."""
        ended = self.run(*arguments, "--json")
        assert ended.returncode == code, ended.stdout + ended.stderr
        document: Document = json.loads(ended.stdout)
        return document


def _read_text(file: IO[bytes]) -> str:
    """All that was written to a file, as `subprocess` reads a pipe in text mode."""
    file.seek(0)
    with TextIOWrapper(file) as text:
        return text.read()


def write_manifest(folder: Path, **changes: object) -> Path:
    """A manifest of one command benchmark; `changes` replace whole fields."""
    manifest: Document = {
        "name": "tiny",
        "title": "A command that reports one number",
        "authors": [{"name": "A. Author"}],
        "license": "CC0-1.0",
        "seeds": [1, 2, 3, 4, 5],
        "benchmarks": [
            {
                "id": "tiny",
                "command": ["python3", "tiny.py"],
                "inputs": ["tiny.py"],
                "metrics": {"loss": {"direction": "lower"}},
            }
        ],
        "claims": [
            {
                "metric": "tiny/default/command/loss",
                "type": "equivalence",
                "margin": {"absolute": 0.5},
            }
        ],
        **changes,
    }
    path = folder / "tiny.json"
    path.write_text(json.dumps({key: value for key, value in manifest.items() if value}))
    return path


REPORT = """
import json, os, random
seed = int(os.environ["CAPSULE_SEED"])
def report(metric, value):
    with open(os.environ["CAPSULE_RESULTS"], "a") as results:
        results.write(json.dumps({"metric": metric, "value": value}) + "\\n")
"""

NOISY = REPORT + 'report("loss", 1 + random.Random(seed).uniform(-0.01, 0.01))\n'


def write_script(folder: Path, text: str = NOISY) -> Path:
    """The script that the manifest's command runs."""
    path = folder / "tiny.py"
    path.write_text(text)
    return path
