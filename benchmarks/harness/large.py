"""Processor time and memory of `capsule check` on honest large capsules.

    python benchmarks/harness/large.py [NAME ...]

Each is sealed first, which takes longer than to read it. Prints the file's size, the processor
seconds of `check`, their limit (5 s a 100 MB) and its memory at most.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[2]))

from capsule import archive
from capsule.record import File
from tests.support import bulk
from tests.support.records import make_files

SECONDS, SECONDS_PER_BYTE = 5.0, 5.0 / 100e6
# benchmarks, metrics of each (0: operators of a thousand cases), seeds, values a series, log files
SHAPES = {
    "100000 trials": (100, 1, 1000, 1, 0),
    "100000 trials with logs": (100, 1, 1000, 1, 100_000),
    "100000 trials with 250000 files": (100, 1, 1000, 1, 249_950),
    "42000 metrics": (5, 0, 2, 1, 0),
    "33300 lines of 30": (1, 333, 100, 30, 0),
    "a million samples in 100 lines": (1, 20, 5, 10_000, 0),
    "16 million samples in 100 lines": (1, 20, 5, 160_000, 0),
}


def make(shape: tuple[int, int, int, int, int], target: Path) -> None:
    """Seal a capsule of this shape."""
    benchmarks, metrics, seeds, length, logs = shape
    document = bulk.manifest_document(metrics=metrics, seeds=seeds)
    (first,) = document["benchmarks"]
    if not metrics:
        sizes = {"m": list(range(1, 1001)), "n": [1], "k": [1]}
        first = {"level": 0, "operator": "gemm", "frameworks": ["numpy"], "cases": sizes}
    named = {f"m{n:03d}": {"direction": "lower"} for n in range(metrics)}
    own = {"metrics": named} if metrics else {}
    document["benchmarks"] = [{**first, **own, "id": f"b{n:03d}"} for n in range(benchmarks)]
    document["claims"] = [{"metric": "*/*/*/*", "type": "equivalence"}]
    made = bulk.make(bulk.read_manifest(document), bulk.normal(length, 1))
    files = [File(path=f"logs/{n:06d}-stdout.txt", source=b"step 1\n") for n in range(logs)]
    archive.write(made, [*make_files(), *files], target)


def check(path: Path) -> tuple[float, float]:
    """Processor seconds, and MiB at most, of checking a capsule."""
    process = subprocess.Popen(
        [sys.executable, "-m", "capsule", "check", path], stdout=subprocess.DEVNULL
    )
    peak = 0
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, int(status.partition("VmHWM:")[2].split()[0]))
        except (OSError, IndexError):
            pass
        time.sleep(0.01)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit status {process.returncode}: {path}")
    return usage.ru_utime + usage.ru_stime, peak / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SHAPE", help="; ".join(SHAPES))
    slow = False
    names = parser.parse_args().names or list(SHAPES)
    if unknown := [name for name in names if name not in SHAPES]:
        parser.error(f"no such shape: {unknown[0]}")
    for name in names:
        with TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
            path = Path(folder) / "a.capsule.zip"
            if os.fork() == 0:  # what makes it takes more memory than what reads it
                make(SHAPES[name], path)
                os._exit(0)
            os.wait()
            size = path.stat().st_size
            seconds, mib = check(path)
        limit = SECONDS + SECONDS_PER_BYTE * size
        print(f"{name:32} {size / 1e6:7.1f} MB {seconds:6.1f} s of {limit:5.1f} {mib:6.0f} MiB")
        sys.stdout.flush()
        slow = slow or seconds > limit
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
