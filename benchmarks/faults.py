"""Plant faults in operators and networks of torch: how many do the shipped claims catch?

python benchmarks/faults.py
python benchmarks/faults.py --operators gemm,softmax --dtypes float32,bfloat16
python benchmarks/faults.py --networks resnet44
python benchmarks/faults.py --right 27         what is right: nothing of it may break a bound
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from planting import networks, operators, right
from planting.faults import Fault
from planting.trials import Bench, Outcome

from capsule.levels import catalog

DTYPES = ("float64", "float32", "bfloat16", "float16")


def main() -> int:
    """See the module."""
    arguments = _parse()
    listed = {"operators": operators.faults(), "networks": networks.faults()}
    names = [one.name for faults in listed.values() for one in faults]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    if arguments.right:
        return _run_right(arguments)
    bench = Bench()
    begin = time.monotonic()
    for group, faults in listed.items():
        chosen = _choose(faults, arguments, group)
        if not chosen:
            continue
        results = {one.name: _plant(bench, one, arguments.dtypes) for one in chosen}
        print(f"{len(chosen)} faults in {group}, {time.monotonic() - begin:.0f} s")
        print("\n".join(table(results, arguments.dtypes)))
        if arguments.missed:
            _print_missed(results)
    for (subject, case, dtype), metrics in bench.alarms.items():
        print(f"ALARM: a right {subject} (case {case}) in {dtype}: {', '.join(metrics) or 'ratio'}")
    return 1 if bench.alarms else 0


def table(outcomes: Mapping[str, Mapping[str, Outcome]], dtypes: Iterable[str]) -> Iterable[str]:
    """Yield the rate of each dtype as a line."""
    for dtype in dtypes:
        words = [rows[dtype].word for rows in outcomes.values() if dtype in rows]
        yield f"{dtype:9} {_rate(words)}"


def _rate(words: Sequence[str]) -> str:
    caught, missed = words.count("caught"), words.count("missed")
    beside = f"{words.count('below')} within rounding, {words.count('unreached')} not reached"
    if not caught + missed:
        return f"-, {beside}"
    share = 100 * caught / (caught + missed)
    return f"{caught} of {caught + missed} ({share:.1f} %), {beside}"


def _run_right(arguments: argparse.Namespace) -> int:
    """Right trials alone."""
    wanted = []
    for names, known in (
        (arguments.operators, catalog.OPERATORS),
        (arguments.networks, networks.CASES),
    ):
        # naming some of one group leaves out the other
        unnamed = not (arguments.operators or arguments.networks)
        wanted += list(known) if names == "all" or unnamed else (names or "").split(",")
    seeds = range(arguments.seed, arguments.seed + arguments.right)
    tally = right.run(filter(None, wanted), arguments.dtypes, seeds)
    print(right.total(tally.counts))
    return 1 if any(one.beyond for one in tally.rows()) else 0


def _plant(bench: Bench, fault: Fault, dtypes: list[str]) -> dict[str, Outcome]:
    known = DTYPES
    if fault.subject in catalog.NETWORKS:
        known = catalog.NETWORKS[fault.subject].dtypes
    subject = catalog.SUBJECTS[fault.subject]
    known = tuple(
        one
        for one in known
        if (not fault.dtypes or one in fault.dtypes)
        and catalog.refusal(subject, "torch", one, "cpu") is None
    )
    return {dtype: bench.plant(fault, dtype) for dtype in dtypes if dtype in known}


def _choose(faults: list[Fault], arguments: argparse.Namespace, group: str) -> list[Fault]:
    subjects = getattr(arguments, group)
    if subjects is None:
        # naming some of one group leaves out the other
        return [] if arguments.operators or arguments.networks else faults
    return [one for one in faults if one.subject in subjects.split(",") or subjects == "all"]


def _print_missed(results: dict[str, dict[str, Outcome]]) -> None:
    for name, by_dtype in results.items():
        missed = [
            f"{dtype} ({'later calls' if one.size is None else f'{one.size:.1g}'}, {one.ratio:.1g})"
            for dtype, one in by_dtype.items()
            if one.word == "missed"
        ]
        if missed:
            print(f"  {name}: {', '.join(missed)}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--operators", help="names, or all; then no networks unless named too")
    parser.add_argument("--networks", help="names, or all; then no operators unless named too")
    parser.add_argument("--dtypes", type=lambda words: words.split(","), default=list(DTYPES))
    parser.add_argument("--right", type=int, metavar="N", help="what is right alone, N seeds")
    parser.add_argument("--seed", type=int, default=1000, help="the first of these seeds")
    parser.add_argument("--missed", action="store_true", help="name those that were missed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
