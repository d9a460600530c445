"""Train right modules of users under many seeds: none of them may break a bound.

python benchmarks/modules.py
python benchmarks/modules.py --seeds 20 --dtypes float32 --modules lstm,gelu
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from planting import trials
from planting.own import MODULES

from capsule.levels import frameworks
from capsule.levels.frameworks.base import Framework

DTYPES = ("bfloat16", "float16")
BATCH = 16
RATIOS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check", "node_error_ratio")


def main() -> int:
    """See the module."""
    arguments = _parse()
    framework = frameworks.load("torch", "cpu", 1, "default")
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    alarms, count = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.modules:
            for dtype in arguments.dtypes:
                for seed in seeds:
                    count += 1
                    broken = list(judge(framework, Path(folder), name, dtype, seed))
                    alarms += bool(broken)
                    if broken:
                        print(f"ALARM: a right {name} in {dtype}, {seed}: {', '.join(broken)}")
    print(f"{count} trials of right modules, {alarms} beyond a bound")
    return 1 if alarms else 0


def judge(framework: Framework, folder: Path, name: str, dtype: str, seed: int) -> Iterator[str]:
    """Yield each bound that a trial breaks, with its ratio."""
    source = folder / "net.py"
    source.write_text(MODULES[name], encoding="utf-8")
    entry = {
        "level": 1,
        "network": "net.py",
        "source": str(source),
        "dtype": dtype,
        "parameters": {"batch": BATCH},
        "repetitions": 1,
    }
    values = trials.run_entry(framework, entry, seed)
    if values is None:
        yield "failed"
        return
    for metric in RATIOS:
        # written so that a NaN is broken too
        if not values[metric] <= 1:
            yield f"{metric} {values[metric]:.3g}"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=5, help="seeds of each module (default: 5)")
    parser.add_argument("--seed", type=int, default=1000, help="the first of these seeds")
    parser.add_argument("--modules", type=lambda words: words.split(","), default=list(MODULES))
    parser.add_argument("--dtypes", type=lambda words: words.split(","), default=list(DTYPES))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
