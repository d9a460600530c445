"""Send odd inputs to every door for so long; ends with 1 when one ended by anything but our errors.

What came through is kept below tests/data/fuzz: mend it, and commit it as a seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from tests.fuzz import campaign
from tests.fuzz.doors import DOORS


def main() -> int:
    """Send, print one line a fault; the exit status."""
    names = [door.name for door in DOORS]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for all doors together")
    parser.add_argument("--seed", type=int, default=None, help="makes the same inputs again")
    parser.add_argument("--door", choices=names, help="this one alone")
    arguments = parser.parse_args()
    doors = [door for door in DOORS if arguments.door in (None, door.name)]
    seed = time.time_ns() % 2**32 if arguments.seed is None else arguments.seed
    seconds = 60 * arguments.minutes / len(doors)
    print(f"seed {seed}")
    faults: set[str] = set()
    for door in doors:
        count = 0
        for fault in campaign.run(
            door, Random(f"{seed} {door.name}"), enough=campaign.until(seconds)
        ):
            count += 1
            if fault is not None and fault.where not in faults:
                faults.add(fault.where)
                path = fault.keep(campaign.KEPT)
                print(f"{door.name}: {fault.where}, kept as {path.name}\n{fault.trace}", flush=True)
        print(f"{door.name}: {count} inputs", flush=True)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
