"""The main job: run, check and verify capsules of all levels on the device."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import manifests
from .part import Json, Part, describe
from .program import (
    Program,
    find_alarms,
    read_attempts,
    read_failures,
    read_medians,
    read_member,
    read_ratios,
)

_TIMES = (
    *("epoch_time", "data_share", "batch_latency", "training_throughput"),
    *("framework_overhead", "peak_memory_bytes", "energy", "step_time"),
)
_KEPT = ("operators", "lenet", "transformer", "command")
_MAX_KEPT_BYTES = 4 << 20


def run(part: Part) -> None:
    """Run the manifests, keep a few capsules beside the results, and verify that of LeNet."""
    program = Program(part.settings)
    made = manifests.write_all(program)
    width = 1 if part.settings.is_dry else max(2, min(len(made), part.settings.cores // 2))
    sealed: dict[str, Path] = {}

    def run_one(name: str) -> tuple[str, Json, Path | None]:
        # checks and verifications need a third of the time
        outcome, capsule = program.run(made[name], part.left_s() * (0.9 if width == 1 else 0.6))
        if capsule is not None:
            try:
                outcome.update(_describe(program, capsule, part.left_s(60)))
            except Exception as error:  # the other capsules count too
                outcome["error"] = describe(error)
        return name, outcome, capsule

    with part.step("runs") as found, ThreadPoolExecutor(width) as pool:
        for name, outcome, capsule in pool.map(run_one, made):
            found[name] = outcome
            if capsule is not None:
                sealed[name] = capsule
            part.save()
    for name in _KEPT:
        if name in sealed and sealed[name].stat().st_size < _MAX_KEPT_BYTES:
            target = Path(part.settings.out) / f"{name}-{part.settings.device}.capsule.zip"
            shutil.copy(sealed[name], target)
    with part.step("verify") as found:
        if "lenet" not in sealed:
            found["error"] = "no capsule of lenet was sealed"
            return
        tries: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
            "here": ((), {}),
            "on cpu": (("--device", "cpu"), {}),
            "no device visible": ((), {"CUDA_VISIBLE_DEVICES": ""}),
        }
        found.update(dict.fromkeys(tries))
        if not part.settings.cuda:
            # the original's device is the CPU
            tries = {"here": tries["here"]}

        def verify(name: str) -> tuple[str, Json]:
            words, env = tries[name]
            stem = f"verify-{name.replace(' ', '-')}"
            called = program(
                *("verify", sealed["lenet"], "--runtime", "host", "--trust", "--allow-host"),
                *("--runs", 2, *words, "--output", program.work / f"{stem}.zip"),
                *("--work", program.work / f"{stem}.run"),
                limit_s=part.left_s(240),
                env=env,
            )
            said = [line.strip() for line in called.out.splitlines() if line.strip()]
            return name, {**called.outcome, "said": said[:4]}

        with ThreadPoolExecutor(1 if width == 1 else len(tries)) as pool:
            for name, outcome in pool.map(verify, tries):
                found[name] = outcome
                part.save()


def _describe(program: Program, sealed: Path, limit_s: float) -> Json:
    """Return what a capsule shows of right results, times and settings."""
    checked = program("check", sealed, limit_s=limit_s)
    ratios = read_ratios(sealed)
    found: Json = {
        "check": checked.code,
        "trials": len(read_attempts(sealed)),
        "failed": read_failures(sealed),
        "alarms": find_alarms(ratios),
        "largest_ratio": max(ratios.values(), default=None),
        "medians": read_medians(sealed, _TIMES),
    }
    effective = json.loads(read_member(sealed, "environment.json"))["environment"]["effective"]
    found["device"] = {
        name: one.get("settings", {}).get("device_name") for name, one in effective.items()
    }
    return found


def summarize(steps: dict[str, Json]) -> list[str]:
    """Return a line for all runs, and one for each verification."""
    runs = {name: one for name, one in steps.get("runs", {}).items() if isinstance(one, dict)}
    good = [name for name, one in runs.items() if one.get("exit") == 0 and not one.get("failed")]
    lines = [f"{len(good)} of {len(runs)} manifests ran, sealed and checked without a failed trial"]
    for name, one in steps.get("verify", {}).items():
        if isinstance(one, dict):
            said = one.get("said")
            first = said[0] if isinstance(said, list) and said else ""
            lines.append(f"verified {name}: exit {one['exit']}: {first}")
    return lines
