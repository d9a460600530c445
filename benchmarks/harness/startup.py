"""Start-up time of `capsule --help` against an empty interpreter, interleaved in one run.

    python benchmarks/harness/startup.py [--repetitions N]

Prints both medians in milliseconds and their ratio; ends with 1 when help takes over 100 ms.
"""

import argparse
import statistics
import subprocess
import sys
import time

LIMIT_SECONDS = 0.100
COMMANDS = {"pass": ["-c", "pass"], "help": ["-m", "capsule", "--help"]}


def seconds(arguments: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=31)
    repetitions = parser.parse_args().repetitions
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(repetitions + 1):
        for name, arguments in COMMANDS.items():
            times[name].append(seconds(arguments))
    # the first round warms the page cache
    medians = {name: statistics.median(found[1:]) for name, found in times.items()}
    for name, median in medians.items():
        print(f"{name:6} {median * 1e3:7.1f} ms (median of {repetitions})")
    print(f"ratio  {medians['help'] / medians['pass']:7.2f}")
    return int(medians["help"] > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
