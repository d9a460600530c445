"""What a search of thousands of trainings costs beyond them, and how soon it is taken up again.

    python benchmarks/harness/sweep.py [--trials N] [--seconds S] [--framework NAME] [--kill SHARE]

`capsule run` searches the learning rate of LeNet in N trials of about S seconds each on the host,
all of one seed in one process start. It is killed with all its processes when so large a share of
the trials has ended, and `capsule run --resume` ends it. Ours is the wall time of both commands,
from their start until the capsule is sealed, less what the trials took by themselves, and less
interpreter and framework for each process start, timed beside it. Opened is how long the second
command takes until the next trial's process is started. Ends with 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from capsule import api
from capsule.errors import ExecutionError

LIMIT_PERCENT = 5.0
LIMIT_OPEN_SECONDS = 2.0
STUDIES = 5
_POLL_SECONDS = 0.01


def write(folder: Path, trials: int, epochs: int, framework: str) -> Path:
    """A manifest that searches in so many trials."""
    document = {
        "name": "sweep",
        "title": "A search of thousands of trials",
        "authors": [{"name": "A. Author"}],
        "license": "CC0-1.0",
        "seeds": [1],
        "resources": {"cpus_per_rank": 1},
        "datasets": {"glyphs": {"generator": "glyphs", "samples": 200, "test_samples": 40}},
        "benchmarks": [
            {
                "id": "lenet",
                "level": 2,
                "network": "lenet",
                "datasets": ["glyphs"],
                "frameworks": [framework],
                "batch": 20,
                "epochs": epochs,
                "optimizer": {"name": "sgd", "lr": 0.1},
                "search": {
                    "method": "halton",
                    "metric": "final_accuracy",
                    "points": trials // STUDIES,
                    "studies": STUDIES,
                    "space": {
                        "lr": {"from": 0.001, "to": 0.3, "scale": "log"},
                        "momentum": {"from": 0, "to": 0.95},
                    },
                },
            }
        ],
        "claims": [
            {"metric": "lenet/search/*/score", "type": "threshold", "at_least": 0.1},
        ],
    }
    path = folder / f"sweep-{trials}-{epochs}.json"
    path.write_text(json.dumps(document))
    return path


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """`capsule run` in a session of its own, so that all of it can be killed."""
    with (folder / "talk.txt").open("ab") as talk:
        return subprocess.Popen(
            [sys.executable, "-m", "capsule", "run", *arguments],
            cwd=folder,
            stdout=talk,
            stderr=talk,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "CAPSULE_CACHE": str(folder / "cache")},
            start_new_session=True,
        )


def run(folder: Path, manifest: Path, kill: int) -> tuple[float, float, Path]:
    """Seconds of both commands, seconds until the second goes on, and the capsule.

    Args:
        folder: Where it runs.
        manifest: What runs.
        kill: After how many trials it is killed, 0 for never.
    """
    work, capsule = folder / "work.run", folder / "sweep.capsule.zip"
    began = time.perf_counter()
    first = start(
        folder, str(manifest), "--runtime", "host", "--work", str(work), "-o", str(capsule)
    )
    if not kill:
        check(first.wait(), folder, capsule)
        return time.perf_counter() - began, 0.0, capsule
    while count_ended(work) < kill:
        if first.poll() is not None:
            check(first.returncode or 1, folder, capsule)
        time.sleep(1)
    end_all(first.pid)
    seconds, began = time.perf_counter() - began, time.perf_counter()
    second = start(folder, "--resume", str(work), "-o", str(capsule))
    following = work / "starts" / f"{1 + len(journals(work)):04}" / "out"
    while not following.exists() and second.poll() is None:
        time.sleep(_POLL_SECONDS)
    opened = time.perf_counter() - began
    check(second.wait(), folder, capsule)
    return seconds + time.perf_counter() - began, opened, capsule


def journals(work: Path) -> list[Path]:
    """Those of all process starts of a run."""
    return list(work.glob("starts/*/out/journal.jsonl"))


def count_ended(work: Path) -> int:
    """How many trials have ended by the journals of a run."""
    return sum(one.read_bytes().count(b'"event":"end"') for one in journals(work))


def end_all(leader: int) -> None:
    """Kill a command, and what it started in sessions of their own."""
    children = [
        int(pid)
        for task in Path(f"/proc/{leader}/task").glob("*/children")
        for pid in task.read_text().split()
    ]
    for pid in (leader, *children):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(leader, 0)


def check(status: int, folder: Path, capsule: Path) -> None:
    """Stop where a command did not end well; trials that diverge are outcomes, and sealed."""
    if status and not (status == ExecutionError.exit_code and capsule.exists()):
        sys.exit((folder / "talk.txt").read_text()[-3000:])


def import_seconds(framework: str) -> float:
    """Of an interpreter with the framework, the median of some."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import numpy, {framework}"], check=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def trials_of(capsule: Path) -> tuple[list[float], float, int]:
    """Seconds of every trial that ended, those of their epochs together, and process starts."""
    with api.open(capsule) as sealed:
        record = sealed.record
    ended = [one.seconds for one in record.attempts if one.outcome != "interrupted"]
    epochs = sum(sum(line.values) for line in record.samples if line.metric.endswith("/epoch_time"))
    return (
        [seconds or 0.0 for seconds in ended],
        epochs,
        len({(a.group, a.started) for a in record.attempts}),
    )


def find_epochs(folder: Path, seconds: float, framework: str) -> int:
    """With how many epochs a trial takes about so long."""
    times = []
    for epochs in (2, 12):
        below = folder / f"pilot-{epochs}"
        below.mkdir()
        *_, capsule = run(below, write(below, 5, epochs, framework), 0)
        times.append(statistics.median(trials_of(capsule)[0]))
    slope = (times[1] - times[0]) / 10
    return max(1, round((seconds - times[0]) / slope) + 2)


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--framework", default="torch")
    parser.add_argument("--kill", type=float, default=0.9)
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="capsule-") as name:
        folder = Path(name)
        epochs = find_epochs(folder, arguments.seconds, arguments.framework)
        manifest = write(folder, arguments.trials, epochs, arguments.framework)
        wall, opened, capsule = run(folder, manifest, int(arguments.kill * arguments.trials))
        seconds, in_epochs, starts = trials_of(capsule)
    imports = starts * import_seconds(arguments.framework)
    ours = wall - sum(seconds) - imports
    percent = 100 * ours / sum(seconds)
    print(
        f"{len(seconds)} trials of {statistics.median(seconds):.2f} s ({epochs} epochs) in"
        f" {starts} process starts, {arguments.framework}"
    )
    print(f"wall time      {wall:.1f} s")
    print(f"trials         {sum(seconds):.1f} s, {in_epochs:.1f} of them epochs")
    print(f"imports        {imports:.1f} s")
    print(f"ours           {ours:.1f} s, {percent:.1f} % (limit {LIMIT_PERCENT:g})")
    print(f"opened again   {opened:.2f} s (limit {LIMIT_OPEN_SECONDS:g})")
    return int(percent > LIMIT_PERCENT or opened > LIMIT_OPEN_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
