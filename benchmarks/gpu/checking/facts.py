"""Software, device and inventory of the machine."""

from __future__ import annotations

import os
import platform

from .part import Json, Part, cut
from .program import Program

_SOFTWARE = """
import json, sys
found = {"python": sys.version.split()[0]}
import numpy, torch
found["numpy"], found["torch"] = numpy.__version__, torch.__version__
found["cuda"], found["cudnn"] = torch.version.cuda, torch.backends.cudnn.version()
if torch.cuda.is_available():
    one = torch.cuda.get_device_properties(0)
    found["name"], found["capability"] = one.name, f"{one.major}.{one.minor}"
    found["memory_bytes"], found["multiprocessors"] = one.total_memory, one.multi_processor_count
    found["l2_bytes"] = getattr(one, "L2_cache_size", None)
    found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
from importlib import metadata
found["packages"] = {}
for name in ("triton", "jax", "onnxruntime-gpu", "tensorflow", "nvidia-ml-py", "mpi4py"):
    try:
        found["packages"][name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""

_VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("NVIDIA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "LD_LIBRARY_PATH"),
)


def run(part: Part) -> None:
    """Record facts of the machine, as torch and capsule see it."""
    program = Program(part.settings)
    with part.step("software") as found:
        found.update(program.python("-c", _SOFTWARE, limit_s=part.left_s(90)).read_json())
    with part.step("machine") as found:
        found["platform"] = platform.platform()
        found["cores"] = part.settings.cores
        found["variables"] = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    with part.step("doctor") as found:
        called = program("doctor", "--json", limit_s=part.left_s(100))
        found["exit"] = called.code
        findings = called.read_json().get("findings")
        assert isinstance(findings, list)
        found["findings"] = [
            f"{one['area']}: {one['what']}" for one in findings if one["area"] in ("GPU", "host")
        ]
    with part.step("inventory") as found:
        called = program("inventory", "--json", limit_s=part.left_s(100))
        found["exit"] = called.code
        said = called.read_json()
        found["gpus"] = _find(said, "gpus")
        found["unread"] = [
            cut(one, 160) for one in _find_unread(said) if "gpu" in one or "driver" in one
        ][:40]


def _find(node: object, name: str) -> object:
    """Return the first value of a key, wherever it stands."""
    if isinstance(node, dict):
        if node.get(name) is not None:
            return node[name]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        if (found := _find(child, name)) is not None:
            return found
    return None


def _find_unread(node: object, path: str = "") -> list[str]:
    """Return path and reason of each fact that could not be read."""
    if isinstance(node, dict):
        if "reason" in node and "detail" in node:
            return [f"{path}: {node['reason']}: {node['detail']}"]
        children: list[tuple[str, object]] = [(str(name), node[name]) for name in node]
    elif isinstance(node, list):
        children = [(str(place), child) for place, child in enumerate(node)]
    else:
        return []
    return [one for name, child in children for one in _find_unread(child, f"{path}/{name}")]


def summarize(steps: dict[str, Json]) -> list[str]:
    """Return the software as one line."""
    found = steps.get("software", {})
    names = ("name", "torch", "cuda", "cudnn", "nccl", "python", "numpy")
    return [", ".join(f"{name} {found[name]}" for name in names if found.get(name) is not None)]
