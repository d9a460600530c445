"""Equal bits, the communicator of ranks, and other frameworks on the device."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import manifests
from .part import Json, Part
from .program import Program, read_failures, read_samples

_BACKWARD = """
import json, sys, torch
import torch.nn.functional as F
device, times, found = sys.argv[1], int(sys.argv[2]), {}
generator = torch.Generator("cpu").manual_seed(1)
def draw(*shape): return torch.randn(shape, generator=generator).to(device).requires_grad_()
def whole(*shape, below): return torch.randint(0, below, shape, generator=generator).to(device)
index, tokens = whole(4096, 64, below=64), whole(8192, below=50)
x2, x3, w3, words = draw(4096, 64), draw(2, 8, 16, 16, 16), draw(8, 8, 3, 3, 3), draw(50, 64)
zeros = torch.zeros(4096, 64, device=device)
cases = {
    "max_pool3d": (lambda: F.max_pool3d(x3, 3, 2, 1), [x3]),
    "scatter_add": (lambda: zeros.scatter_add(1, index, x2), [x2]),
    "embedding": (lambda: F.embedding(tokens, words), [words]),
    "conv3d": (lambda: F.conv3d(x3, w3, padding=1), [x3, w3]),
}
for name, (run, operands) in cases.items():
    first, equal = None, 0
    for _ in range(times):
        y = run()
        values = [y.detach(), *torch.autograd.grad(y.square().sum(), operands)]
        first = first or values
        equal += all(map(torch.equal, first, values))
    found[name] = f"{equal} of {times} calls give equal bits"
print(json.dumps(found))
"""

_COMMUNICATOR = """
import json, os, sys, tempfile, torch
import torch.distributed as dist
from capsule.levels import communicators
device, found = sys.argv[1], {}
store = os.path.join(tempfile.mkdtemp(), "store")
backend = "nccl" if device == "cuda" else "gloo"
dist.init_process_group(backend, init_method="file://" + store, rank=0, world_size=1)
x, y = torch.arange(8.0, device=device), torch.zeros(8, device=device)
one = communicators.Communicator()
calls = {
    "all_reduce": lambda: one.all_reduce(x), "gather": lambda: one.gather(x),
    "join": lambda: one.join(y, x), "scatter": lambda: one.scatter(y, x),
    "reduce": lambda: one.reduce(x), "broadcast": lambda: one.broadcast(x),
}
for name, run in calls.items():
    try:
        run()
        if device == "cuda": torch.cuda.synchronize()
        found[name] = "ran"
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"[:160]
print(json.dumps(found), flush=True)
os._exit(0)
"""

_CURVES = ("train_loss", "loss", "accuracy")


def run(part: Part) -> None:
    """Run all of it at once: nothing here is timed."""
    program, settings = Program(part.settings), part.settings
    times = 5 if settings.is_dry else 50

    def start(*words: object) -> Json:
        return program.python("-c", *words, limit_s=part.left_s(150)).read_json()

    made = manifests.write_all(program)
    names = ("lenet", "transformer") if settings.mode == "whole" else ("lenet",)
    with ThreadPoolExecutor(1 if settings.is_dry else 6) as pool:
        waiting = {
            "backward": pool.submit(start, _BACKWARD, settings.device, times),
            "communicator": pool.submit(start, _COMMUNICATOR, settings.device),
            **{
                f"strict {name}": pool.submit(_train_twice, program, part, name, made[name])
                for name in names
            },
        }
        for name, future in waiting.items():
            with part.step(name) as found:
                found.update(future.result())


def _train_twice(program: Program, part: Part, name: str, manifest: Path) -> Json:
    """Train in two processes under strict determinism, and compare every bit of the curves."""
    document = json.loads(manifest.read_text())
    document.pop("claims", None)
    document |= {"name": f"strict-{name}", "determinism": "strict", "seeds": [17]}
    document["benchmarks"] = document["benchmarks"][:1]
    path = program.work / f"strict-{name}.json"
    path.write_text(json.dumps(document))
    found: Json = {}
    curves = []
    for turn in ("first", "second"):
        outcome, sealed = program.run(path, part.left_s(300), name=f"strict-{name}-{turn}")
        found[turn] = outcome
        if sealed is None:
            return found
        outcome["failed"] = read_failures(sealed)
        samples = read_samples(sealed)
        curves.append({path: samples[path] for path in samples if path.endswith(_CURVES)})
    found["equal bits"] = bool(curves[0]) and curves[0] == curves[1]
    return found


def summarize(steps: dict[str, Json]) -> list[str]:
    """Return a line a step."""
    lines = []
    for name, one in steps.items():
        facts = {key: value for key, value in one.items() if isinstance(value, (str, bool))}
        facts.pop("trace", None)
        lines.append(f"{name}: {', '.join(f'{key} {value}' for key, value in facts.items())}")
    return lines
