"""Run elementwise operators of torch by each of its kernels: how near do they come to their bounds?

python benchmarks/kernels.py
python benchmarks/kernels.py --operators gelu --dtypes float32 --capabilities avx2
python benchmarks/kernels.py --pinned       the trials that came nearest, and no others

Kernels differ by the instructions that ATen and oneDNN use, chosen when a process starts; by
whether ATen calls oneDNN; and by the number of threads, as a vector's last elements may take
another path than the others. Prints the largest ratio of each row, and ends with 1 if one is beyond
its limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

OPERATORS = ("relu", "leaky_relu", "sigmoid", "tanh", "gelu", "dropout", "add", "sum")
DTYPES = ("float64", "float32", "bfloat16", "float16")
CAPABILITIES: Mapping[str, Mapping[str, str]] = {
    "default": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "avx512": {"ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "DEFAULT"},
}
"""Environment in which ATen and oneDNN behave as on a CPU without newer instructions."""

LARGEST = 100_000
"""Most elements of a case that is run."""

METRICS = (
    *("l2_error_ratio", "element_error_ratio"),
    *("grad_l2_error_ratio", "grad_element_error_ratio"),
)

LIMIT = 0.5
ROUNDED_ONCE = frozenset(("leaky_relu", "sigmoid", "tanh", "gelu", "dropout", "add", "sum"))
"""Operators whose 16-bit results, each rounded once and correctly, may take the whole bound of
their L2 norm: a rounding is off by up to u |y|, and beside that the bound has next to nothing."""

PINNED: tuple[str, ...] = (
    *("gelu/float32/1/21", "gelu/float32/1/23", "gelu/float32/1/27"),
    *("sigmoid/float16/1/31", "add/bfloat16/0/31"),
)
"""Trials that came nearest to their bounds: operator, dtype, case and seed."""


@dataclass(frozen=True)
class Row:
    """The largest ratio of some trials.

    Attributes:
        operator: Name of an operator.
        dtype: Its element type.
        case: Which of the operator's quick cases.
        metric: One of `METRICS`.
        onednn: Whether ATen could call oneDNN.
        threads: Number of threads.
        ratio: The largest.
        seed: Of the trial that had it.
    """

    operator: str
    dtype: str
    case: int
    metric: str
    onednn: bool
    threads: int
    ratio: float
    seed: int

    @property
    def limit(self) -> float:
        """The most that the ratio of a right kernel may be."""
        half = self.dtype in ("bfloat16", "float16")
        return 1.0 if half and "l2" in self.metric and self.operator in ROUNDED_ONCE else LIMIT


def main() -> int:
    """See the module."""
    arguments = _parse()
    if arguments.capability:
        for row in measure(_trials(arguments)):
            print(json.dumps(asdict(row)))
        return 0
    beyond = 0
    for name in arguments.capabilities:
        rows = list(_start(name))
        if not rows:
            print(f"{name}: this CPU has no such instructions")
        for row in rows:
            is_beyond = not row.ratio <= row.limit
            beyond += is_beyond
            where = f"{row.operator} (case {row.case}) in {row.dtype}, {row.metric}"
            how = f"oneDNN {'on' if row.onednn else 'off'}, threads {row.threads}"
            told = "BEYOND " if is_beyond else ""
            print(f"{told}{name}: {where}, {how}: {row.ratio:.3f} at seed {row.seed}", flush=True)
    return 1 if beyond else 0


def _start(name: str) -> Iterator[Row]:
    """Yield the rows of a process that has no other instructions."""
    command = [sys.executable, __file__, *sys.argv[1:], "--capability", name]
    environment = {**os.environ, **CAPABILITIES[name]}
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    for line in ended.stdout.splitlines():
        yield Row(**json.loads(line))


Trial = tuple[str, str, int, int]
"""Operator, dtype, case, seed."""


def _trials(arguments: argparse.Namespace) -> Iterator[Trial]:
    import torch

    from capsule.levels import catalog

    if torch.backends.cpu.get_cpu_capability().lower() != arguments.capability:
        return
    if arguments.pinned:
        for row in PINNED:
            operator, dtype, case, seed = row.split("/")
            yield operator, dtype, int(case), int(seed)
        return
    for operator in arguments.operators:
        cases = [sizes for _, sizes in catalog.OPERATORS[operator].cases["quick"]]
        for dtype in arguments.dtypes:
            for case, sizes in enumerate(cases):
                if sizes.get("n", 0) <= LARGEST:
                    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
                        yield operator, dtype, case, seed


def measure(chosen: Iterable[Trial]) -> Iterable[Row]:
    """Return the largest ratio of each metric of each case, over its seeds, by each kernel."""
    import torch
    from planting import trials

    framework = trials.prepare(derivatives=False)
    worst: dict[tuple[object, ...], Row] = {}
    for operator, dtype, case, seed in chosen:
        for onednn in (True, False):
            for threads in (1, 2):
                torch.set_num_threads(threads)
                torch.backends.mkldnn.set_flags(onednn)
                values = trials.measure(framework, operator, case, dtype, seed, None)
                for metric in METRICS:
                    ratio = float("inf") if values is None else values[metric]
                    key = operator, dtype, case, metric, onednn, threads
                    if key not in worst or not ratio <= worst[key].ratio:
                        worst[key] = Row(*key, ratio, seed)
        trials.KEPT.clear()
    return worst.values()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=200, help="seeds of each case (default: 200)")
    parser.add_argument("--seed", type=int, default=17, help="the first of these seeds")
    for name, known in (
        ("operators", OPERATORS),
        ("dtypes", DTYPES),
        ("capabilities", tuple(CAPABILITIES)),
    ):
        parser.add_argument(
            f"--{name}", type=lambda words: words.split(","), default=list(known), help="names"
        )
    parser.add_argument("--pinned", action="store_true", help="the trials of PINNED alone")
    parser.add_argument("--capability", choices=CAPABILITIES, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
