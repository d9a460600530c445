"""One part of the check: its deadline, its steps, and the commands that it starts."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

Json = dict[str, object]

_MAX_TEXT = 1_200
_MAX_TRACE = 700


@dataclass(frozen=True)
class Settings:
    """Facts that each part needs; they reach its process as JSON.

    Attributes:
        mode: `dry`, `quick` or `whole`.
        cuda: The parts run on a CUDA device.
        cores: CPUs that this process may use.
        work: Folder for everything temporary.
        out: Folder of the results.
        checkout: Root of capsule's repository.
        python: Interpreter under which capsule and torch can be imported.
    """

    mode: str
    cuda: bool
    cores: int
    work: str
    out: str
    checkout: str
    python: str

    @property
    def device(self) -> str:
        """Return torch's name of the device."""
        return "cuda" if self.cuda else "cpu"

    @property
    def is_dry(self) -> bool:
        return self.mode == "dry"

    def dump(self) -> str:
        return json.dumps(asdict(self))


class UnavailableError(Exception):
    """This machine, or this torch, lacks what a step needs."""


class Part:
    """Results of one part; its file is complete after each step.

    Attributes:
        settings: See there.
        found: All results, as they are written.
    """

    def __init__(self, name: str, settings: Settings, limit_s: float) -> None:
        self.settings = settings
        self._ends = time.monotonic() + limit_s
        self._path = file_of(name, settings)
        self.steps: dict[str, Json] = {}
        self.found: Json = {"status": "cut off", "steps": self.steps}
        self.save()

    def left_s(self, most_s: float = float("inf")) -> float:
        """Return the seconds until the deadline, at most `most_s`."""
        return max(0.0, min(most_s, self._ends - time.monotonic()))

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Json]:
        """Keep all that is put into the dictionary, even where the step fails."""
        result: Json = {}
        self.steps[name] = result
        began = time.monotonic()
        try:
            yield result
        except UnavailableError as error:
            result["unavailable"] = str(error)
        except Exception as error:  # one step must not cost the others
            result["error"] = describe(error)
            result["trace"] = cut(traceback.format_exc(), _MAX_TRACE)
        result["seconds"] = round(time.monotonic() - began, 2)
        self.save()

    def save(self) -> None:
        """Write the results found so far."""
        self._path.write_text(json.dumps(self.found, default=str))

    def finish(self, status: str = "done") -> None:
        """Mark the part as ended."""
        self.found["status"] = status
        self.save()


def file_of(name: str, settings: Settings) -> Path:
    """Return the file of a part's results."""
    return Path(settings.work) / f"part-{name}.json"


@dataclass(frozen=True)
class Called:
    """A command that has ended, or was stopped at its deadline (`code` is None)."""

    code: int | None
    out: str
    err: str
    seconds: float

    @property
    def outcome(self) -> Json:
        """Return what a step records of it."""
        exit_code: object = "stopped at its deadline" if self.code is None else self.code
        found: Json = {"exit": exit_code, "seconds": round(self.seconds, 2)}
        if self.code:
            found["error"] = cut(self.err or self.out)
        return found

    def read_json(self) -> Json:
        """Return the JSON object in the last line of the output, or in all of it.

        Raises:
            UnavailableError: The command failed, or printed none.
        """
        text = self.out.strip()
        for candidate in (text, text.rpartition("\n")[2]):
            with contextlib.suppress(ValueError):
                found = json.loads(candidate)
                if isinstance(found, dict):
                    return found
        raise UnavailableError(f"exit {self.code}, no JSON object: {cut(self.err or text, 400)}")


def call(
    words: Sequence[object],
    limit_s: float,
    *,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    stdin: str | None = None,
) -> Called:
    """Run a command in a process group of its own, and stop the group at the deadline."""
    began = time.monotonic()
    process = subprocess.Popen(
        [str(word) for word in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
        env=None if env is None else dict(env),
        cwd=folder,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(stdin, timeout=max(0.1, limit_s))
    except subprocess.TimeoutExpired:
        _stop(process)
        out = err = ""
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
            out, err = process.communicate(timeout=2)
        return Called(None, out, err, time.monotonic() - began)
    return Called(process.returncode, out, err, time.monotonic() - began)


def _stop(process: subprocess.Popen[str]) -> None:
    for number, wait_s in ((signal.SIGTERM, 3), (signal.SIGKILL, 2)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)


def describe(error: BaseException) -> str:
    """Return class and message of an error, cut."""
    return cut(f"{type(error).__name__}: {error}", 600)


def cut(text: str, most: int = _MAX_TEXT) -> str:
    """Return the end of a text that is too long."""
    text = text.strip()
    return text if len(text) <= most else f"... {text[-most:]}"


def median(values: Sequence[float]) -> float | None:
    """Return the median, or None of no values."""
    return statistics.median(values) if values else None


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Return a Markdown table, a line each."""
    lines = [header, ["---"] * len(header), *([_show(cell) for cell in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def _show(value: object) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
