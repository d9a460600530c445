"""Samples per second of trainings in capsule, beside the same loops written by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from . import clocks, manifests
from .part import Json, Part, Settings, describe, median, table
from .program import Program, read_failures, read_medians

_ROUNDS = 3
_ENOUGH = 0.97
_SHARE_TOLERANCE = 0.05
_MARGIN_S = 2.0
_PLAIN, _MIXED = "\nMIXED = False\n", "\nMIXED = True\n"
_METRICS = ("training_throughput", "data_share", "batch_latency", "peak_memory_bytes")


@dataclass(frozen=True)
class Case:
    """A training.

    Attributes:
        network: Stem of a file in `nets`.
        batch: Samples of a step.
        steps: Steps of an epoch.
        dtypes: `float32`, `tf32` or `mixed`, which is autocast to bfloat16 in the module.
    """

    network: str
    batch: int
    steps: int
    dtypes: tuple[str, ...]

    @property
    def samples(self) -> int:
        return self.batch * self.steps


def run(part: Part) -> None:
    """Train each network by capsule and by hand."""
    settings = part.settings
    cases = _choose(settings)
    for place, case in enumerate(cases):
        share_s = part.left_s() / (len(cases) - place)
        ends = time.monotonic() + share_s
        data = _write_data(settings, case)
        ours = _train_by_capsule(part, case, data, share_s * 0.65)
        for turn, dtype in enumerate(case.dtypes):
            with part.step(f"{case.network} {dtype}") as found:
                found["capsule"] = ours.get(f"{case.network}-{dtype}")
                now = time.monotonic()
                until = now + max(_MARGIN_S, (ends - now) / (len(case.dtypes) - turn))
                hand = _Loops(settings, case, dtype, data).measure(until)
                found.update(hand)
                _compare(found, settings.cuda)


def _choose(settings: Settings) -> list[Case]:
    if settings.is_dry:
        return [Case("lenet", 20, 3, ("float32",))]
    if settings.mode == "quick":
        return [Case("resnet9", 512, 4, ("mixed",))]
    return [
        Case("resnet9", 512, 8, ("mixed",)),
        Case("resnet50", 128, 6, ("tf32", "mixed")),
        Case("cosmoflow", 8, 8, ("tf32", "mixed")),
        Case("gpt", 8, 8, ("mixed",)),
    ]


def _write_net(settings: Settings, case: Case, dtype: str) -> Path:
    """Write the module, in autocast where it is to be mixed."""
    text = (Path(__file__).parent / "nets" / f"{case.network}.py").read_text()
    if dtype == "mixed":
        assert _PLAIN in text, case.network
        text = text.replace(_PLAIN, _MIXED)
    folder = Path(settings.work) / "nets"
    folder.mkdir(exist_ok=True)
    path = folder / f"{case.network}_{dtype}.py"
    path.write_text(text)
    return path


def _load(path: Path) -> ModuleType:
    module = ModuleType(path.stem)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    return module


def _write_data(settings: Settings, case: Case) -> Path:
    """Write random arrays in the shapes that the module states, as files of a dataset."""
    import numpy

    random = numpy.random.default_rng(0)
    inputs = _load(_write_net(settings, case, case.dtypes[0])).inputs
    folder = Path(settings.work) / f"data-{case.network}"
    folder.mkdir(exist_ok=True)
    for prefix, count in (("", case.samples), ("test_", case.batch)):
        for name, sample in inputs.items():
            if isinstance(sample, dict):
                shape = (count, *sample.get("shape", ()))
                array = random.integers(0, sample["below"], shape)
            else:
                array = random.standard_normal((count, *sample), numpy.float32)
            numpy.save(folder / f"{prefix}{name}.npy", array)
    return folder


def _train_by_capsule(
    part: Part, case: Case, data: Path, limit_s: float
) -> dict[str, dict[str, float]]:
    """Return the metrics of each element type's training."""
    program = Program(part.settings)
    benchmarks: list[Json] = []
    for dtype in case.dtypes:
        path = _write_net(part.settings, case, dtype)
        benchmarks += [
            {**one, "id": f"{case.network}-{dtype}"}
            for one in manifests.make_trainings(
                *(case.network, {"module": f"nets/{path.name}"}),
                ("float32" if dtype == "mixed" else dtype,),
                batch=case.batch,
                epochs=2 if part.settings.mode != "whole" else 3,
                optimizer={"name": "sgd", "lr": 0.01, "momentum": 0.9},
                inputs=["nets"],
            )
        ]
    with part.step(f"capsule {case.network}") as found:
        manifest = program.write(
            f"train-{case.network}",
            benchmarks,
            datasets={"data": {"path": data.name, "embed": False}},
            cpus=max(1, part.settings.cores - 2),
        )
        outcome, sealed = program.run(manifest, limit_s)
        found["run"] = outcome
        if sealed is not None:
            outcome["failed"] = read_failures(sealed)
            return read_medians(sealed, _METRICS)
    return {}


class _Loops:
    """Loops by hand over the module and the arrays that capsule trains."""

    def __init__(self, settings: Settings, case: Case, dtype: str, data: Path) -> None:
        import numpy
        import torch

        self._torch, self._case, self._settings = torch, case, settings
        self._module = _load(_write_net(settings, case, dtype))
        names = list(self._module.inputs)
        self._due = "label" if "label" in names else "target"
        self._arrays = {name: numpy.load(data / f"{name}.npy") for name in names}
        self._order = numpy.random.default_rng(1).permutation(case.samples)
        self._gathered_s = 0.0
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        if not settings.cuda:
            torch.set_num_threads(1)

    def measure(self, until: float) -> Json:
        """Return samples per second of each loop, and shares of the plain one's time."""
        ahead = self._place_ahead
        variants: dict[str, tuple[Any, ...]] = {
            "plain": (self._place, False, False),
            "ahead": (ahead, False, False),
            "ahead, channels last": (ahead, True, False),
            "ahead, channels last, fused": (ahead, True, True),
        }
        ready: dict[str, Callable[[], None]] = {}
        found: Json = {}
        for name, how in variants.items():
            if time.monotonic() > until or (how[0] == ahead and not self._settings.cuda):
                continue
            train = self._build(*how)
            try:
                train()
                self._wait()
            except RuntimeError as error:
                found["error"] = f"{name}: {describe(error)}"
                continue
            ready[name] = train
        rates: dict[str, list[float]] = {name: [] for name in variants}
        shares: list[float] = []
        # in turn, so that all see the same clocks
        for _ in range(_ROUNDS):
            for name, train in ready.items():
                if time.monotonic() > until and rates[name]:
                    continue
                self._gathered_s, began = 0.0, time.perf_counter()
                train()
                self._wait()
                took = time.perf_counter() - began
                rates[name].append(self._case.samples / took)
                if name == "plain":
                    shares.append(self._gathered_s / took)
        found["by hand"] = {name: median(values) for name, values in rates.items()}
        found["gathering"] = median(shares)
        found["kernels_s"] = found["profiled_s"] = None
        if self._settings.cuda and "plain" in ready and time.monotonic() < until:
            began = time.perf_counter()
            found["kernels_s"] = clocks.profile(self._torch, ready["plain"], 1)
            found["profiled_s"] = time.perf_counter() - began
        return found

    def _wait(self) -> None:
        if self._settings.cuda:
            self._torch.cuda.synchronize()

    def _build(self, place: Any, channels_last: bool, fused: bool) -> Callable[[], None]:
        torch = self._torch
        torch.manual_seed(1)
        network = self._module.network().to(self._settings.device)
        axes = max(array.ndim for array in self._arrays.values())
        layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
        layout = layouts.get(axes) if channels_last else None
        if layout is not None:
            network = network.to(memory_format=layout)
        more = {"fused": True} if fused else {}
        optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9, **more)
        functional = torch.nn.functional
        lose = functional.cross_entropy if self._due == "label" else functional.mse_loss

        def train() -> None:
            for tensors in place():
                due = tensors.pop(self._due)
                (x,) = tensors.values()
                if layout is not None:
                    x = x.to(memory_format=layout)
                optimizer.zero_grad(set_to_none=True)
                lose(network(x), due).backward()
                optimizer.step()

        return train

    def _gather(self) -> Iterator[dict[str, Any]]:
        batch = self._case.batch
        for step in range(self._case.steps):
            began = time.perf_counter()
            indices = self._order[step * batch : (step + 1) * batch]
            taken = {name: array[indices] for name, array in self._arrays.items()}
            self._gathered_s += time.perf_counter() - began
            yield taken

    def _place(self) -> Iterator[dict[str, Any]]:
        for arrays in self._gather():
            yield {
                name: self._torch.from_numpy(array).to(self._settings.device)
                for name, array in arrays.items()
            }

    def _place_ahead(self) -> Iterator[dict[str, Any]]:
        torch = self._torch
        side = torch.cuda.Stream()
        pending = None
        for arrays in self._gather():
            pinned = {name: torch.from_numpy(array).pin_memory() for name, array in arrays.items()}
            with torch.cuda.stream(side):
                placed = {name: one.to("cuda", non_blocking=True) for name, one in pinned.items()}
                event = side.record_event()
            if pending is not None:
                yield self._take(*pending)
            pending = placed, event
        if pending is not None:
            yield self._take(*pending)

    def _take(self, placed: dict[str, Any], event: Any) -> dict[str, Any]:
        current = self._torch.cuda.current_stream()
        current.wait_event(event)
        for one in placed.values():
            one.record_stream(current)
        return placed


def _compare(found: Json, cuda: bool) -> None:
    """Judge capsule's rate and its share of the data; None where no device makes it comparable."""
    found.update(dict.fromkeys(("capsule over best", "as fast", "share as stated")))
    ours, hand, gathering = found["capsule"], found["by hand"], found["gathering"]
    if not cuda or not isinstance(ours, dict) or not isinstance(hand, dict):
        return
    best = max((rate for rate in hand.values() if rate is not None), default=None)
    if best is not None:
        found["capsule over best"] = ours["training_throughput"] / best
        found["as fast"] = ours["training_throughput"] >= _ENOUGH * best
    if isinstance(gathering, float):
        found["share as stated"] = abs(ours["data_share"] - gathering) <= _SHARE_TOLERANCE


def summarize(steps: dict[str, Json]) -> list[str]:
    """Return the rates as a table."""
    rows: list[list[object]] = []
    for name, one in steps.items():
        ours, hand = one.get("capsule"), one.get("by hand")
        if isinstance(ours, dict) and isinstance(hand, dict):
            best = max((rate for rate in hand.values() if rate is not None), default=None)
            rows.append(
                [
                    *(name, ours["training_throughput"], hand.get("plain"), best),
                    *(one.get("capsule over best"), ours["data_share"], one["gathering"]),
                ]
            )
    header = ["training", "capsule", "same loop by hand", "best by hand", "capsule / best"]
    return table([*header, "data_share", "gathering by hand"], rows)
