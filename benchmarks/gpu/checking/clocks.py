"""Times of operators in capsule, beside events, graph replay and the profiler."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .part import Json, Part, Settings, describe, median, table
from .program import Program, read_failures, read_medians

_SAMPLES = 15
_MANY = 100
_IN_GRAPH = 10
_SETTLE_S = 0.1
_LONG_KERNEL_US = 50
_TOLERANCE = 0.03
_METRICS = ("forward_time", "machine_flops_per_second", "machine_bytes_per_second")
_ON_CUDA = ("event", "events over many", "cold", "graph", "kernels")
Case = tuple[str, str, str, dict[str, int]]
"""Id, operator, element type, sizes."""


def run(part: Part) -> None:
    """Time each case by torch's own means, then by capsule."""
    import torch

    program, settings = Program(part.settings), part.settings
    cases = _choose(settings)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with part.step("times in microseconds") as found:
        room = torch.empty(256 << 20, dtype=torch.int8, device=settings.device)
        ends = time.monotonic() + part.left_s() * 0.35
        for name, operator, dtype, sizes in cases:
            if time.monotonic() > ends:
                found["unfinished"] = True
                break
            with torch.no_grad():
                call = _make_call(torch, operator, dtype, sizes, settings.device)
                found[name] = _time(torch, call, settings.cuda, room)
            part.save()
        del room
    with part.step("capsule") as found:
        # references on the host may take long: a deadline costs the long ones alone
        long = [one for one in cases if one[0].endswith(("-1024", "-large"))]
        short = [one for one in cases if one not in long]
        for name, some, share in (("clocks-short", short, 0.5), ("clocks-long", long, 0.9)):
            if some:
                _run(part, program, found, name, some, part.left_s() * share)
    _compare(part.steps)


def _run(
    part: Part, program: Program, found: Json, name: str, cases: list[Case], limit_s: float
) -> None:
    benchmarks: list[Json] = [
        {
            "id": case,
            "level": 0,
            "operator": operator,
            "dtype": dtype,
            "cases": [sizes],
            "frameworks": ["torch"],
            "repetitions": 20,
        }
        for case, operator, dtype, sizes in cases
    ]
    cpus = max(1, part.settings.cores - 2)
    outcome, sealed = program.run(program.write(name, benchmarks, cpus=cpus), limit_s)
    found[name] = outcome
    if sealed is None:
        return
    outcome["failed"] = read_failures(sealed)
    times = part.steps["times in microseconds"]
    for case, medians in read_medians(sealed, _METRICS).items():
        one = times.setdefault(case, {})
        assert isinstance(one, dict)
        one["capsule"] = medians["forward_time"] * 1e6
    part.save()


def _compare(steps: dict[str, Json]) -> None:
    """Add the ratio of capsule's time to the kernels', None where one of them is missing."""
    for one in steps["times in microseconds"].values():
        if not isinstance(one, dict):
            continue
        ours, kernels = one.get("capsule"), one.get("kernels")
        one.update(dict.fromkeys(("capsule over kernels", "as stated")))
        if isinstance(ours, float) and isinstance(kernels, float) and kernels:
            one["capsule over kernels"] = ours / kernels
            one["as stated"] = kernels < _LONG_KERNEL_US or abs(ours / kernels - 1) < _TOLERANCE


def _choose(settings: Settings) -> list[Case]:
    def gemm(n: int, dtype: str) -> Case:
        return f"gemm-{dtype}-{n}", "gemm", dtype, {"m": n, "n": n, "k": n}

    small = {"n": 1, "c": 8, "h": 8, "w": 8, "k": 8, "r": 3, "s": 3}
    if settings.is_dry:
        return [gemm(64, "float32"), ("conv2d-float32-8", "conv2d", "float32", small)]
    quick = settings.mode == "quick"
    convolutions = (
        {"n": 4, "c": 32, "h": 14, "w": 14, "k": 32, "r": 3, "s": 3, "padding": 1},
        {"n": 2, "c": 64, "h": 28, "w": 28, "k": 64, "r": 3, "s": 3, "padding": 1},
        {"n": 2, "c": 512, "h": 7, "w": 7, "k": 512, "r": 3, "s": 3, "padding": 1},
    )
    attention = {"batch": 1, "heads": 2 if quick else 4, "length": 256, "width": 64}
    relu = {"n": 4_000_000 if quick else 20_000_000}
    return [
        *(gemm(n, "bfloat16") for n in ((256, 512) if quick else (256, 512, 1024))),
        *(gemm(n, "float32") for n in ((256,) if quick else (256, 512))),
        *(
            (f"conv2d-float16-{sizes['h']}", "conv2d", "float16", sizes)
            for sizes in convolutions[: 1 if quick else 3]
        ),
        ("relu-float32-large", "relu", "float32", relu),
        ("attention-bfloat16-large", "attention", "bfloat16", attention),
    ]


def _make_call(
    torch: Any, operator: str, dtype: str, sizes: dict[str, int], device: str
) -> Callable[[], object]:
    def draw(*names: str) -> Any:
        shape = [sizes[name] for name in names]
        return torch.randn(shape, device=device).to(getattr(torch, dtype))

    if operator == "gemm":
        a, b = draw("m", "k"), draw("k", "n")
        return lambda: torch.mm(a, b)
    if operator == "conv2d":
        x, w = draw("n", "c", "h", "w"), draw("k", "c", "r", "s")
        return lambda: torch.nn.functional.conv2d(x, w, padding=sizes.get("padding", 0))
    if operator == "relu":
        x = draw("n")
        return lambda: torch.relu(x)
    q, k, v = (draw("batch", "heads", "length", "width") for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


def _time(torch: Any, call: Callable[[], object], cuda: bool, room: Any) -> Json:
    """Return the microseconds of one call, by several clocks."""
    wait: Callable[[], None] = torch.cuda.synchronize if cuda else (lambda: None)
    ends = time.perf_counter() + (_SETTLE_S if cuda else 0.01)
    while time.perf_counter() < ends:
        call()
        wait()
    walls = []
    for _ in range(_SAMPLES):
        began = time.perf_counter()
        call()
        wait()
        walls.append((time.perf_counter() - began) * 1e6)
    found: Json = {"wall": median(walls), **dict.fromkeys(_ON_CUDA)}
    if not cuda:
        return found

    def between(times: int, run: Callable[[], object], before: Callable[[], object]) -> float:
        values = []
        for _ in range(_SAMPLES):
            before()
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            for _ in range(times):
                run()
            last.record()
            wait()
            values.append(first.elapsed_time(last) * 1e3 / times)
        return sorted(values)[len(values) // 2]

    found["event"] = between(1, call, wait)
    found["events over many"] = between(_MANY, call, wait)
    found["cold"] = between(1, call, room.zero_)
    try:
        graph = _capture(torch, call)
        found["graph"] = between(1, graph.replay, wait) / _IN_GRAPH
    except RuntimeError as error:
        found["graph"] = describe(error)
    found["kernels"] = profile(torch, call, 20) * 1e6 / 20
    return found


def _capture(torch: Any, call: Callable[[], object]) -> Any:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(_IN_GRAPH):
            call()
    graph.replay()
    return graph


def profile(torch: Any, call: Callable[[], object], times: int, copies: bool = False) -> float:
    """Return the seconds of all kernels (or of copies between memories) in `times` calls."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA]) as profiled:
        for _ in range(times):
            call()
        torch.cuda.synchronize()
    total = 0.0
    for event in profiled.key_averages():
        if ("memcpy" in event.key.lower()) == copies:
            total += getattr(event, "self_device_time_total", 0.0)
    return total / 1e6


def summarize(steps: dict[str, Json]) -> list[str]:
    """Return the times as a table."""
    columns = ("capsule", "wall", *_ON_CUDA)
    rows = [
        [name, *(one.get(column) for column in (*columns, "capsule over kernels"))]
        for name, one in steps.get("times in microseconds", {}).items()
        if isinstance(one, dict)
    ]
    return table(["case, µs", *columns, "capsule / kernels"], rows)
