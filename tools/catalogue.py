"""Write level0.json, level1.json and gpu/level0.json of manifests: what the catalogue holds.

    python tools/catalogue.py

One benchmark per operator and element type, and per network, of small cases, in the frameworks that
have it on a CPU. What an image lacks is left out with `capsule run --frameworks`. On a GPU torch
has operators in more element types, and some of them have larger cases, too.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from capsule.levels import catalog
from capsule.levels.catalog.types import Subject

Document = dict[str, Any]

FOLDER = Path(__file__).parents[1] / "manifests"
# so many runs within a bound say that less than 26 %, or 46 %, of all runs break it
SEEDS = {
    "level0": list(range(17, 27)),
    "level1": list(range(17, 22)),
    "level0-gpu": list(range(17, 20)),
}

# half as long as `quick` to check, and no batch normalization over one pixel
CASES = {
    "resnet18": [{"batch": 2, "side": 33, "classes": 10}],
    "resnet44": [{"batch": 4, "side": 17}],
    "resnet50": [{"batch": 2, "side": 33, "classes": 10}],
}

BOUNDED = (
    *("l2_error_ratio", "element_error_ratio"),
    *("grad_l2_error_ratio", "grad_element_error_ratio", "gradient_check"),
)
# of a network every node is held by itself, forward and backward
OF_NODES = tuple(metric for metric in BOUNDED if metric != "grad_element_error_ratio")

# of fewer no interval of a median has a confidence of 95 % that is worth its width
REPETITIONS = 20

# a case takes ten seconds to compile: two that a compiler makes one loop of
COMPILED_OPERATORS = ("softmax", "layer_norm")

# compiling these costs a process up to half a minute each, the others a minute and more
COMPILED = ("lenet", "transformer")
# torch's compiler adds the gradient of an embedding in any order, which is not repeatable
COMPILED_BY_TORCH = ("lenet", "cosmoflow")

# the formulas in numpy: a check of the check, which the others need not repeat
IN_NUMPY = ("lenet", "alexnet", "resnet44", "unet", "transformer")
ALONE = {"torch-compile": COMPILED_BY_TORCH, "tensorflow-xla": COMPILED, "numpy": IN_NUMPY}

GPU_DTYPES = ("float32", "tf32", "bfloat16", "float16")
# elsewhere tf32 is float32
PRODUCTS = (
    *("gemm", "matmul", "conv1d", "conv2d", "conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("attention", "grouped_attention", "lstm_cell", "einsum", "swiglu"),
)
# the first two are shapes of DeepBench. References compute on CPUs: a trial of each takes a core at
# most ten seconds, and the whole manifest 20 minutes
LARGE: dict[str, list[dict[str, int]]] = {
    "gemm": [
        {"m": 1760, "n": 16, "k": 1760},
        {"m": 3072, "n": 64, "k": 1024},
        {"m": 1024, "n": 700, "k": 512},
        {"m": 512, "n": 16, "k": 512, "tb": 1},
        {"m": 35, "n": 700, "k": 2048},
    ],
    "conv2d": [
        {"n": 8, "c": 3, "h": 108, "w": 108, "k": 64, "r": 3, "s": 3, "stride": 2, "padding": 1},
        {"n": 8, "c": 256, "h": 14, "w": 14, "k": 256, "r": 1, "s": 1},
        {"n": 8, "c": 512, "h": 7, "w": 7, "k": 512, "r": 1, "s": 1},
        {"n": 16, "c": 832, "h": 7, "w": 7, "k": 256, "r": 1, "s": 1},
        {"n": 8, "c": 256, "h": 7, "w": 7, "k": 512, "r": 3, "s": 3, "stride": 1, "padding": 1},
    ],
    "attention": [{"batch": 1, "heads": 4, "length": 256, "width": 64, "causal": 1}],
    "rms_norm": [{"rows": 512, "columns": 2048}],
    "swiglu": [{"rows": 128, "width": 512, "hidden": 1024}],
}
DEEPBENCH = ("gemm", "conv2d")
COMPILED_LARGE = ("rms_norm", "swiglu")


def level0() -> Document:
    """All operators."""
    benchmarks = [
        {
            "id": f"{name}-{dtype}",
            "level": 0,
            "operator": name,
            "dtype": dtype,
            "cases": "quick",
            "frameworks": frameworks,
            "repetitions": REPETITIONS,
            "warmup": 1,
        }
        for name, operator in catalog.OPERATORS.items()
        for dtype in operator.dtypes
        if (frameworks := _of_operator(operator, dtype))
    ]
    title = "Every operator in every framework and element type, against its a-priori error bound"
    times = _ratios("forward_time", "backward_time")
    return _manifest("level0", title, benchmarks, [*_bounds(BOUNDED), *times])


def level1() -> Document:
    """All networks, in float32."""
    benchmarks = [
        {
            "id": name,
            "level": 1,
            "network": name,
            "cases": CASES.get(name, "quick"),
            "frameworks": [
                framework
                for framework in _frameworks(network, "float32")
                if name in ALONE.get(framework, (name,))
            ],
            "repetitions": REPETITIONS,
            "warmup": 1,
        }
        for name, network in catalog.NETWORKS.items()
    ]
    title = "Every network in every framework, inference and training, against its error bound"
    times = _ratios("inference_time", "training_time")
    return _manifest("level1", title, benchmarks, [*_bounds(OF_NODES), *times])


def level0_gpu() -> Document:
    """All operators, on a GPU in torch."""
    pairs = [
        (name, dtype)
        for name, operator in catalog.OPERATORS.items()
        for dtype in GPU_DTYPES
        if catalog.refusal(operator, "torch", dtype, "cuda") is None
        and (dtype != "tf32" or name in PRODUCTS)
    ]
    small = [_on_gpu(f"{name}-{dtype}", name, dtype, "quick") for name, dtype in pairs]
    large = [
        {
            **_on_gpu(f"{name}-large-{dtype}", name, dtype, LARGE[name]),
            **({"roofline": True} if name in DEEPBENCH else {}),
        }
        for name, dtype in pairs
        if name in LARGE
    ]
    for benchmark in large:
        if benchmark["operator"] in COMPILED_LARGE and benchmark["dtype"] == "bfloat16":
            benchmark["frameworks"].append("torch-compile")
    title = "Every operator in float32, TF32, bfloat16 and float16, and shapes of DeepBench, on one"
    times = _ratios("forward_time", "backward_time")
    # several operators add in varying order on a GPU, so nothing is claimed to repeat
    claims = [*_bounds(BOUNDED)[:-1], *times]
    manifest = _manifest("level0-gpu", f"{title} NVIDIA H100", [*small, *large], claims)
    resources = {"cpus_per_rank": 8, "gpus_per_rank": 1, "walltime": "00:40:00"}
    return {**manifest, "$schema": f"../{manifest['$schema']}", "resources": resources}


def _on_gpu(identity: str, operator: str, dtype: str, cases: Any) -> Document:
    return {
        "id": identity,
        "level": 0,
        "operator": operator,
        "dtype": dtype,
        "cases": cases,
        "frameworks": ["torch"],
        "repetitions": 50,
        "warmup": 10,
    }


def text(manifest: Document) -> str:
    """As it is written: one benchmark and one claim a line."""
    lines = []
    for key, value in manifest.items():
        if key in ("benchmarks", "claims"):
            rows = ",\n".join(f"    {json.dumps(row)}" for row in value)
            lines.append(f"  {json.dumps(key)}: [\n{rows}\n  ]")
        else:
            lines.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _of_operator(operator: Subject, dtype: str) -> list[str]:
    """The frameworks; what torch compiles, in one element type."""
    is_compiled = operator.name in COMPILED_OPERATORS and dtype == "float32"
    names = _frameworks(operator, dtype)
    return [name for name in names if name != "torch-compile" or is_compiled]


def _frameworks(subject: Subject, dtype: str) -> list[str]:
    return [
        framework
        for framework in subject.frameworks
        if catalog.refusal(subject, framework, dtype, "cpu") is None
    ]


def _bounds(metrics: Sequence[str]) -> list[Document]:
    bounds = [{"metric": f"*/*/*/{metric}", "type": "bound", "at_most": 1} for metric in metrics]
    return [*bounds, {"metric": "*/*/*/repeatable", "type": "bound", "at_least": 1}]


def _ratios(*metrics: str) -> list[Document]:
    return [{"metric": f"*/*/*/{metric}", "type": "ratio", "primary": False} for metric in metrics]


def _manifest(
    name: str,
    title: str,
    benchmarks: Sequence[Document],
    claims: Sequence[Document],
) -> Document:
    return {
        "$schema": "../capsule/schema/manifest-1.schema.json",
        "name": name,
        "title": title,
        "authors": [{"name": "The capsule authors"}],
        "license": "CC0-1.0",
        "resources": {"cpus_per_rank": 2, "walltime": "02:00:00"},
        "seeds": SEEDS[name],
        "benchmarks": benchmarks,
        "claims": claims,
        "mutable": ["resources"],
    }


FILES = {"level0.json": level0, "level1.json": level1, "gpu/level0.json": level0_gpu}


if __name__ == "__main__":
    for name, make in FILES.items():
        (FOLDER / name).write_text(text(make()))
