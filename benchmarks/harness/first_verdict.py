"""From `pip install` to a verdict under Apptainer, as on a bare machine, step by step.

    python benchmarks/harness/first_verdict.py IMAGE [--before CHECKOUT] [--rounds N]

IMAGE is in a registry on loopback and has python3. Each round takes a fresh home, cache and folder:
a virtual environment, `pip install` of the checkout, `capsule run` of its quickstart in IMAGE, and
`capsule verify` of what it sealed. With --before another commit's checkout does the same by turns.

Printed are the seconds of each step, inside our commands those of each stage by itself: what pip,
Apptainer and the workload take, and what is ours. Ends with 1 where a step of ours takes more than
a tenth of the whole.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

SHARE = 0.1
HERE = Path(__file__).parents[2]
# where a stage is entered, whether it is ours, and its name; a checkout may lack some
STAGES = (
    ("capsule.runtimes.apptainer", "_make", False, "Apptainer pulls and converts the image"),
    ("capsule.runtimes.conversion", "convert", False, "Apptainer pulls and converts the image"),
    ("capsule.runtimes.apptainer", "_refused_isolation", False, "Apptainer starts a container"),
    ("capsule.runtimes.base", "Started.wait", False, "the workload in its container"),
    ("capsule.image.registry", "resolve", True, "ask the registry, hash what it serves"),
    ("capsule.runtimes.sifs", "_hash", True, "hash the SIF"),
    ("capsule.runtimes.sifs", "tree", True, "hash the tree in the SIF"),
    ("capsule.inventory", "node", True, "inventory of the machine"),
    ("capsule.session", "begin", True, "lay out the run"),
    ("capsule.session", "perform", True, "start trials and follow them"),
    ("capsule.session", "probe", True, "ask what software the image has"),
    ("capsule.session", "assemble", True, "make the record"),
    ("capsule.sealing", "seal", True, "seal"),
    ("capsule.reading", "read", True, "read a capsule"),
    ("capsule.judgement", "judge_records", True, "judge"),
)
TRACER = """
import importlib, json, sys, time
started = time.perf_counter()
stages, words, target = json.loads(sys.argv[1]), sys.argv[2:-1], sys.argv[-1]
spent, stack = {}, []

def enter(name):
    now = time.perf_counter()
    if stack:
        spent[stack[-1][0]] = spent.get(stack[-1][0], 0) + now - stack[-1][1]
    stack.append([name, now])

def leave():
    name, since = stack.pop()
    now = time.perf_counter()
    spent[name] = spent.get(name, 0) + now - since
    if stack:
        stack[-1][1] = now

def trace(function, name):
    def traced(*arguments, **named):
        enter(name)
        try:
            return function(*arguments, **named)
        finally:
            leave()
    return traced

for module, path, _, name in stages:
    try:
        holder = importlib.import_module(module)
        *outer, last = path.split(".")
        for part in outer:
            holder = getattr(holder, part)
        original = getattr(holder, last)
    except (ImportError, AttributeError):
        continue
    traced = trace(original, name)
    setattr(holder, last, traced)
    for loaded in list(sys.modules.values()):
        name_of = getattr(loaded, "__name__", "")
        if name_of.startswith("capsule") and vars(loaded).get(last) is original:
            setattr(loaded, last, traced)
from capsule.cli import main
imported = time.perf_counter()
enter("everything else")
code = main(words)
leave()
spent["start and imports"] = imported - started
with open(target, "w") as stream:
    json.dump(spent, stream)
sys.exit(code)
"""


def go(checkout: Path, image: str) -> dict[str, float]:
    """Seconds of each step, once."""
    seconds: dict[str, float] = defaultdict(float)
    with TemporaryDirectory(prefix="capsule-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment = {
            key: value
            for key, value in os.environ.items()
            if key in ("PATH", "LANG", "TMPDIR") or key.startswith(("PIP_", "SSL_", "REQUESTS_"))
        } | {"HOME": str(folder)}

        def step(label: str, *words: str | Path) -> float:
            began = time.perf_counter()
            ended = subprocess.run(
                words, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            if ended.returncode:
                raise SystemExit(f"{label}: {ended.stderr[-2000:]}")
            return time.perf_counter() - began

        python = folder / ".venv" / "bin" / "python"
        seconds["python3 -m venv"] = step("venv", sys.executable, "-m", "venv", ".venv")
        seconds["pip install"] = step("pip", python, "-m", "pip", "install", "-q", checkout)
        shutil.copytree(checkout / "manifests", folder / "manifests")
        run = ("run", "manifests/quickstart.json", "--image", image, "--runtime", "apptainer")
        for verb in (
            (*run, "--output", "a.capsule.zip"),
            ("verify", "a.capsule.zip", "--runtime", "apptainer"),
        ):
            whole = step(verb[0], python, "-c", TRACER, json.dumps(STAGES), *verb, "spent.json")
            spent = json.loads((folder / "spent.json").read_text())
            for stage, part in spent.items():
                seconds[f"{verb[0]}: {stage}"] += part
            seconds[f"{verb[0]}: the interpreter"] += whole - sum(spent.values())
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    checkouts = {"before": arguments.before} if arguments.before else {}
    checkouts["now"] = HERE
    rounds: dict[str, list[dict[str, float]]] = {side: [] for side in checkouts}
    for number in range(arguments.rounds):
        for side in sorted(checkouts, reverse=number % 2 == 1):
            rounds[side].append(go(checkouts[side], arguments.image))
    theirs = {name for _, _, ours, name in STAGES if not ours}
    steps = dict.fromkeys(step for runs in rounds.values() for run in runs for step in run)
    slow = False
    print(f"{'seconds':52}" + "".join(f"{side:>10}" for side in rounds) + "     share")
    total = {
        side: statistics.median(sum(run.values()) for run in runs) for side, runs in rounds.items()
    }
    for step in steps:
        medians = {
            side: statistics.median(run.get(step, 0.0) for run in runs)
            for side, runs in rounds.items()
        }
        share = medians["now"] / total["now"]
        ours = ":" in step and step.partition(": ")[2] not in theirs
        slow = slow or (ours and share > SHARE)
        row = "".join(f"{seconds:10.2f}" for seconds in medians.values())
        print(f"{step:52}{row}{100 * share:8.1f} %{'  ours' if ours else ''}")
    whole = "".join(f"{total[side]:10.2f}" for side in rounds)
    print(f"{'from pip install to the verdict':52}{whole}")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
