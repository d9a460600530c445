"""The table of all cases: expected, seen, MiB, seconds; ends with 1 unless all is as expected."""

from __future__ import annotations

import argparse
import sys

from tests.hostile.areas import CASES
from tests.hostile.case import observe


def main() -> int:
    """Observe, print; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("word", nargs="?", default="", help="only cases whose name holds it")
    parser.add_argument("--no-engines", action="store_true", help="only cases that need no engine")
    arguments = parser.parse_args()
    faults = 0
    print("| case | expected | seen | MiB | seconds |\n| --- | --- | --- | ---: | ---: |")
    for case in CASES:
        if arguments.word not in case.name or (case.engine and arguments.no_engines):
            continue
        seen = observe(case)
        fault = seen.fault(case)
        faults += fault is not None
        print(
            f"| {case.name} | {case.status}: {case.says} | {fault or 'as expected'}"
            f" | {seen.mib:.0f} | {seen.seconds:.1f} |",
            flush=True,
        )
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
