"""One training step of networks at their published size: seconds, and what memory it takes.

    python benchmarks/harness/full_size.py [NAME ...] [--framework NAME] [--batch N] [--gib LIMIT]

Each network runs in a process of its own, in float32 on the CPU, at the sizes of its case `paper`
but for the batch: loss and gradients of one minibatch, three times after a first one. Printed are
parameters, the median of those three in seconds, and the peak of the process's resident memory in
GiB. Ends with 1 when one takes more memory than the limit, or fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from math import prod

from capsule.levels import catalog, frameworks, networks
from capsule.levels.frameworks.base import require
from capsule.levels.graphs import values
from capsule.levels.instruments import timing

GIB = 1 << 30
STEPS = 3
SEED = 17


def step(name: str, framework_name: str, batch: int) -> dict[str, float]:
    """Median seconds of a step, bytes at the peak and the number of parameters, of this process."""
    ((_, sizes),) = catalog.NETWORKS[name].cases["paper"]
    graph = networks.build(name, {**sizes, "batch": batch})
    framework = frameworks.load(framework_name, "cpu", os.cpu_count(), "default")
    native = require(framework.networks, framework_name, "run networks")
    train = require(native.training, framework_name, "differentiate")
    arrays = {**values.inputs(graph, "float32", SEED), **values.parameters(graph, "float32", SEED)}
    tensors = {key: framework.from_numpy(array, "float32") for key, array in arrays.items()}
    del arrays
    with framework.arithmetic("float32"):
        call, operands = train(graph, tensors)
        nanoseconds, _ = timing.measure(call, operands, STEPS + 1, framework.synchronize)
    return {
        "seconds": statistics.median(nanoseconds[1:]) / 1e9,
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "parameters": sum(prod(graph.parameters[key].shape) for key in graph.trainable),
    }


def main() -> int:
    """Measure and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=["cosmoflow"])
    parser.add_argument("--framework", default="torch", choices=catalog.FRAMEWORKS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--gib", type=float, default=24.0)
    parser.add_argument("--here", action="store_true", help="in this process, as JSON")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(catalog.NETWORKS):
        parser.error(f"no network {min(unknown)!r}; there are {', '.join(catalog.NETWORKS)}")
    if arguments.here:
        print(json.dumps(step(arguments.names[0], arguments.framework, arguments.batch)))
        return 0
    how = ["--framework", arguments.framework, "--batch", str(arguments.batch), "--here"]
    missed = False
    print(f"{'network':12} {'parameters':>12} {'seconds':>9} {'GiB':>7}   limit {arguments.gib:g}")
    for name in arguments.names:
        done = subprocess.run(
            [sys.executable, __file__, name, *how], check=False, stdout=subprocess.PIPE
        )
        if done.returncode:
            print(f"{name:12} failed")
            missed = True
            continue
        facts = json.loads(done.stdout)
        gib = facts["bytes"] / GIB
        missed = missed or gib > arguments.gib
        print(f"{name:12} {facts['parameters']:12,} {facts['seconds']:9.2f} {gib:7.2f}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
