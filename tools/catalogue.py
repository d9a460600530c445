"""Write manifests/level0.json and manifests/level1.json: everything that the catalogue holds.

    python tools/catalogue.py

One benchmark per operator and element type, and per network, of small cases, in the frameworks that
have it on a CPU. What an image lacks is left out with `capsule run --frameworks`.
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
SEEDS = {"level0": list(range(17, 27)), "level1": list(range(17, 22))}

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


if __name__ == "__main__":
    for manifest in (level0(), level1()):
        (FOLDER / f"{manifest['name']}.json").write_text(text(manifest))
