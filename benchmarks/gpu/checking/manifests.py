"""Benchmarks that several parts of the check run, small enough for its deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .part import Json, Settings
from .program import Program

SGD: Json = {"name": "sgd", "lr": 0.05, "momentum": 0.9}

_SCHEMES: tuple[Json, ...] = (
    {"name": "allreduce"},
    {"name": "bucketed", "bucket_bytes": 65536},
    {"name": "sharded"},
    {"name": "top-k", "density": 0.05},
    {"name": "quantized"},
    {"name": "parameter-server"},
    {"name": "local-sgd", "period": 5},
    {"name": "neighbour-averaging"},
)

_SCRIPT = '''"""A training as its author wrote it, without capsule."""

import sys
import time

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(int(sys.argv[1]))
network = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
network = network.to(device)
optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
x = torch.randn(4096, 64, device=device)
y = x[:, :8].sum(1, keepdim=True)
began = time.perf_counter()
for _ in range(100):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(network(x), y)
    loss.backward()
    optimizer.step()
print(f"loss: {float(loss):.6f}")
print(f"seconds: {time.perf_counter() - began:.6f}")
'''


def choose_dtypes(settings: Settings, *, mixed: bool) -> tuple[str, ...]:
    """Return the element types that trainings (`mixed`) or operators run in."""
    if not settings.cuda:
        return ("float32",) if mixed or settings.is_dry else ("float32", "bfloat16")
    if mixed:
        return ("float32", "tf32", "bfloat16-mixed")[:: 2 if settings.mode == "quick" else 1]
    return ("float32", "tf32", "bfloat16", "float16")


def make_operators(settings: Settings) -> list[Json]:
    """Return five operators in each element type."""
    dry = settings.is_dry
    side, rows, columns = (64, 16, 64) if dry else (256, 64, 1024)
    picture = {"n": 2, "c": 8, "h": 12, "w": 12}
    cases: dict[str, Json] = {
        "gemm": {"m": side, "n": side, "k": 128},
        "conv2d": {**picture, "k": 8 if dry else 32, "r": 3, "s": 3, "padding": 1},
        "attention": {"batch": 1, "heads": 2, "length": 32 if dry else 128, "width": 32},
        "layer_norm": {"rows": rows, "columns": columns},
        "softmax": {"rows": rows, "columns": columns},
    }
    return [
        {
            "id": f"{operator}-{dtype}",
            "level": 0,
            "operator": operator,
            "dtype": dtype,
            "cases": [sizes],
            "frameworks": ["torch"],
            "repetitions": 5 if dry else 20,
        }
        for operator, sizes in list(cases.items())[: 2 if dry else None]
        for dtype in choose_dtypes(settings, mixed=False)
    ]


def make_trainings(
    name: str,
    network: object,
    dtypes: Sequence[str],
    *,
    batch: int,
    epochs: int,
    optimizer: Json = SGD,
    **more: object,
) -> list[Json]:
    """Return a training in each element type, over the dataset `data`."""
    return [
        {
            "id": f"{name}-{dtype}",
            "level": 2,
            "network": network,
            "datasets": ["data"],
            "frameworks": ["torch"],
            "batch": batch,
            "epochs": epochs,
            "optimizer": optimizer,
            "dtype": dtype,
            # one process a seed: each start of torch takes seconds
            "isolation": "group",
            **more,
        }
        for dtype in dtypes
    ]


def write_all(program: Program) -> dict[str, Path]:
    """Write the manifests of a whole run, by name."""
    settings = program.settings
    dry = settings.is_dry
    samples, epochs = (100, 1) if dry else (1_000, 1 if settings.mode == "quick" else 2)
    # one process a seed
    seeds = (17,) if dry else (17, 18)
    dtypes = choose_dtypes(settings, mixed=True)
    glyphs: Json = {"generator": "glyphs", "samples": samples, "test_samples": samples // 2}
    side = 16 if dry else 32
    universe = {"generator": "universe", "samples": 16, "test_samples": 8, "side": side}
    tokens = {"generator": "markov", "samples": samples, "test_samples": 100, "vocabulary": 12}
    (program.work / "command").mkdir(exist_ok=True)
    (program.work / "command/train.py").write_text(_SCRIPT)
    loss = {"direction": "lower", "from": {"pattern": "loss: ([0-9.]+)"}}
    pattern = {"pattern": "seconds: ([0-9.]+)"}
    seconds = {"unit": "s", "direction": "lower", "kind": "machine", "from": pattern}
    networks: list[tuple[str, Json]] = [
        ("lenet", {"batch": 4}),
        ("resnet18", {"batch": 2, "side": 33, "classes": 10}),
    ]
    made = {
        "operators": program.write(
            "operators",
            make_operators(settings),
            claims=[{"metric": "*/*/*/element_error_ratio", "type": "bound", "at_most": 1}],
        ),
        "networks": program.write(
            "networks",
            [
                {
                    "id": f"{name}-{dtype}",
                    "level": 1,
                    "network": name,
                    "dtype": dtype,
                    "cases": [sizes],
                    "frameworks": ["torch"],
                    "repetitions": 5,
                }
                for name, sizes in networks[: 1 if dry else 2]
                for dtype in choose_dtypes(settings, mixed=False)
            ],
        ),
        "lenet": program.write(
            "lenet",
            make_trainings("lenet", "lenet", dtypes, batch=20, epochs=epochs),
            seeds=seeds,
            datasets={"data": glyphs},
            claims=[
                {"metric": "*/*/*/exact_trajectory_error", "type": "bound", "at_most": 1e-6},
                {
                    "metric": "lenet-float32/*/*/final_accuracy",
                    "type": "equivalence",
                    "margin": {"absolute": 0.2},
                },
            ],
            mutable=["resources"],
        ),
        "transformer": program.write(
            "transformer",
            make_trainings(
                *("transformer", "transformer", dtypes),
                batch=20,
                epochs=epochs,
                optimizer={"name": "adamw", "lr": 0.01},
                cases=[{"layers": 2, "width": 32, "heads": 2, "length": 32, "vocabulary": 12}],
            ),
            datasets={"data": tokens},
        ),
        "cosmoflow": program.write(
            "cosmoflow",
            make_trainings(
                *("cosmoflow", "cosmoflow", dtypes[:1]),
                batch=4,
                epochs=1,
                optimizer={**SGD, "lr": 0.01},
                cases=[{"side": side, "width": 4, "dropout": 20}],
            ),
            datasets={"data": universe},
        ),
        # one rank has nobody to exchange with, but all calls of NCCL and events of its steps
        "ranks": program.write(
            "ranks",
            [
                one
                for scheme in _SCHEMES[: 2 if dry else None]
                for one in make_trainings(
                    *(str(scheme["name"]), "lenet", ("float32",)),
                    batch=20,
                    epochs=1,
                    level=3,
                    scheme=scheme,
                )
            ],
            datasets={"data": glyphs},
        ),
        "command": program.write(
            "command",
            [
                {
                    "id": "train",
                    "command": ["python3", "command/train.py", "{seed}"],
                    "inputs": ["command"],
                    "metrics": {"loss": loss, "seconds": seconds},
                }
            ],
            seeds=seeds,
        ),
    }
    if settings.mode == "whole":
        compiled = make_trainings("lenet", "lenet", ("float32",), batch=20, epochs=1)
        made["compile"] = program.write(
            "compile",
            [{**one, "frameworks": ["torch-compile"]} for one in compiled],
            datasets={"data": glyphs},
        )
    return made
