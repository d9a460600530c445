"""Error bounds of all operators and element types, and planted losses of precision."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import environment, planted
from .part import Json, Part, Settings, UnavailableError
from .program import Program, find_alarms, read_attempts, read_failures, read_ratios

_FEW = ("gemm", "conv2d", "layer_norm", "attention", "scatter_add", "int8_matmul", "fp8_matmul")
_DRY = ("layer_norm",)
_WITHOUT_TF32 = ("rfft", "int8_matmul", "fp8_matmul")

_ROUNDING = """
import json, torch
found = {}
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
# between the TF32 numbers 1 and 1 + 2**-10, nearer to the upper one
x = 1 + 2.0**-11 + 2.0**-12
for n in (16, 256, 4096):
    a, b = torch.zeros((n, 16), device="cuda"), torch.zeros((16, n), device="cuda")
    a[:, 0], b[0] = x, 1
    found[f"cublas {n}"] = sorted(set((a @ b).flatten().tolist()))[:3]
image = torch.zeros((8, 16, 16, 16), device="cuda"); image[:, 0] = x
weight = torch.zeros((32, 16, 1, 1), device="cuda"); weight[:, 0] = 1
found["cudnn"] = sorted(set(torch.nn.functional.conv2d(image, weight).flatten().tolist()))[:3]
found["if cut off"], found["if rounded to nearest"], found["if float32"] = 1.0, 1 + 2.0**-10, x
print(json.dumps(found))
"""


def run(part: Part) -> None:
    """Run all operators, and one product under each planted fault."""
    program, settings = Program(part.settings), part.settings
    listed = _list_operators(settings)
    pieces = {"dry": 1, "quick": 6, "whole": 10}[settings.mode]

    def run_piece(number: int) -> tuple[Json, Path | None]:
        path = program.write(f"bounds-{number}", listed[number::pieces])
        return program.run(path, part.left_s() * 0.7)

    def run_fault(fault: str) -> tuple[str, Json | None]:
        # the first two need no tensor cores, and show on every machine that planting works
        if not settings.cuda and fault not in planted.FAULTS[:2]:
            return fault, None
        return fault, _plant(program, fault, part.left_s() * 0.9)

    with ThreadPoolExecutor(1 if settings.is_dry else max(2, settings.cores - 2)) as pool:
        waiting = [pool.submit(run_piece, number) for number in range(pieces)]
        with part.step("planted faults") as found:
            for fault, outcome in pool.map(run_fault, planted.FAULTS):
                found[fault] = outcome
                part.save()
        with part.step("all operators") as found:
            alarms: Json = {}
            failed: Json = {}
            worst: dict[str, float] = {}
            runs: list[Json] = []
            trials = 0
            found.update(alarms=alarms, failed=failed, worst=worst, runs=runs)
            for future in waiting:
                outcome, sealed = future.result()
                runs.append(outcome)
                if sealed is None:
                    continue
                ratios = read_ratios(sealed)
                trials += len(read_attempts(sealed))
                found["trials"] = trials
                alarms.update(find_alarms(ratios))
                failed.update(read_failures(sealed))
                for key, ratio in ratios.items():
                    dtype = key.partition("/")[0].rpartition("-")[2]
                    worst[dtype] = max(worst.get(dtype, 0.0), ratio)
                part.save()
    with part.step("rounding of TF32 operands") as found:
        if not settings.cuda:
            raise UnavailableError("no CUDA device")
        found.update(program.python("-c", _ROUNDING, limit_s=part.left_s(40)).read_json())


def _list_operators(settings: Settings) -> list[Json]:
    """Return a benchmark of each operator and element type that torch has."""
    source = Path(settings.checkout) / "manifests/level0.json"
    listed = [
        (one["operator"], one["dtype"], one.get("cases", "quick"))
        for one in json.loads(source.read_text())["benchmarks"]
        if "torch" in one["frameworks"] and isinstance(one.get("operator"), str)
    ]
    if settings.cuda:
        listed += [
            (name, "tf32", cases)
            for name, dtype, cases in listed
            if dtype == "float32" and name not in _WITHOUT_TF32
        ]
    wanted = {"dry": _DRY, "quick": _FEW}.get(settings.mode)
    return [
        {
            "id": f"{name}-{dtype}",
            "level": 0,
            "operator": name,
            "dtype": dtype,
            "cases": cases,
            "frameworks": ["torch"],
            "repetitions": 3,
            "warmup": 1,
        }
        for name, dtype, cases in listed
        if wanted is None or (name in wanted and dtype not in ("float64", "float16"))
    ]


def _plant(program: Program, fault: str, limit_s: float) -> Json:
    """Run a product of matrices under a torch with a planted fault."""
    dry = program.settings.is_dry
    dtype, k = {
        "operands cut to bfloat16": ("float32", 256),
        "sums of 16-bit parts": ("bfloat16", 256 if dry else 4_096),
        "tf32 in float32": ("float32", 1_024),
        "bf16 reductions": ("bfloat16", 65_536),
        "fp16 reductions": ("float16", 65_536),
        "fp16 accumulation": ("float16", 4_096),
    }[fault]
    name = f"fault-{fault.replace(' ', '-')}"
    folder = program.work / f"{name}-environment"
    packages = environment.make(folder)
    shutil.copy(str(planted.__file__), packages / "capsule_planted.py")
    line = f"import capsule_planted; capsule_planted.plant({fault!r})\n"
    (packages / "01-planted.pth").write_text(line)
    manifest = program.write(
        name,
        [
            {
                "id": "gemm",
                "level": 0,
                "operator": "gemm",
                "dtype": dtype,
                "cases": [{"m": 64, "n": 64, "k": k}],
                "frameworks": ["torch"],
                "repetitions": 3,
                "warmup": 1,
            }
        ],
    )
    env = {"CAPSULE_PYTHON": str(folder / "bin/python3")}
    outcome, sealed = program.run(manifest, limit_s, env=env)
    if sealed is not None:
        ratios = read_ratios(sealed)
        outcome["largest_ratio"] = max(ratios.values(), default=None)
        outcome["caught"] = bool(find_alarms(ratios))
        outcome["failed"] = read_failures(sealed)
    return outcome


def summarize(steps: dict[str, Json]) -> list[str]:
    """Return a line for right operators, and one for each planted fault."""
    found = steps.get("all operators", {})
    alarms, failed, worst = (found.get(name) or {} for name in ("alarms", "failed", "worst"))
    assert isinstance(alarms, dict) and isinstance(failed, dict) and isinstance(worst, dict)
    lines = [
        f"{found.get('trials', 0)} trials of right operators: {len(alarms)} false alarms,"
        f" {len(failed)} failed; largest error over bound:"
        f" {', '.join(f'{dtype} {ratio:.2g}' for dtype, ratio in sorted(worst.items()))}"
    ]
    for fault, one in steps.get("planted faults", {}).items():
        if isinstance(one, dict) and "caught" in one:
            ratio = one["largest_ratio"]
            word = "caught" if one["caught"] else "not caught"
            lines.append(f"{fault}: {word}, error over bound {ratio:.3g}")
    return lines
