"""What trials of Levels 0 and 1 take beside their timed calls: to check, and to get ready.

    python benchmarks/harness/checks.py CAPSULE [BEFORE]

Prints, for each benchmark, framework by framework, the seconds of its trials beside those calls,
all cases and seeds together, and the sum of all. With BEFORE, a capsule that another version sealed
of the same manifest, these are the trials that both have, and the ratio of both sums is printed;
ends with 1 when that is above the limit.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from capsule import archive

LIMIT = 2.0
TIMED = ("forward_time", "backward_time", "inference_time", "training_time")
LAYERS = ("layer_time", "layer_backward_time")
"""The median of as many calls of each layer as are timed of the whole."""


def read(path: Path) -> dict[str, float]:
    """Seconds beside the timed calls, of each completed trial."""
    # of a program that is not this one, too
    with archive.read(path) as sealed:
        record = sealed.record
        rest = {
            one.trial: one.seconds
            for one in record.attempts
            if one.outcome == "completed" and one.seconds is not None
        }
        calls = {
            line.trial: len(line.values)
            for line in record.samples
            if line.metric.endswith("/inference_time")
        }
        for line in record.samples:
            metric = line.metric.rpartition("/")[2]
            if line.trial in rest and metric in TIMED:
                rest[line.trial] -= sum(line.values)
            elif line.trial in rest and metric in LAYERS:
                rest[line.trial] -= sum(line.values) * calls[line.trial]
    return rest


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("capsule", type=Path)
    parser.add_argument("before", type=Path, nargs="?")
    arguments = parser.parse_args()
    now = read(arguments.capsule)
    before = read(arguments.before) if arguments.before else {}
    compared = {trial: now[trial] for trial in now if not before or trial in before}
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for trial, seconds in compared.items():
        benchmark, _, framework, _ = trial.split("/")
        rows[benchmark][framework].append(seconds)
    for benchmark, by_framework in rows.items():
        cells = [f"{framework} {sum(some):.2f}" for framework, some in by_framework.items()]
        print(f"{benchmark}: {', '.join(cells)}")
    total = sum(compared.values())
    print(f"{len(compared)} trials: {total:.1f} s beside their timed calls")
    if not before:
        return 0
    earlier = sum(before[trial] for trial in compared)
    ratio = total / earlier
    print(f"before: {earlier:.1f} s, so {ratio:.2f} times that")
    return 1 if ratio > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
