"""Twenty architectures, exported by torch's default exporter, in torch and in ONNX Runtime.

    python benchmarks/harness/architectures.py export FOLDER        writes NAME.onnx for each, once
    python benchmarks/harness/architectures.py check FOLDER         runs each, held to the reference

Needs, beside `.[torch,test]`, onnxscript (which torch's exporter is written in) and torchvision's
Python files; its compiled part is not used, so `pip install --no-deps torchvision` does beside any
torch. Weights are random, pictures are 64 x 64 (96 x 96 for inception), the batch is free. What the
exporter writes of this machine, paths of sources among it, is taken out, so that a file is the same
wherever it is written by the same versions; it is named by its sha256.

docs/evidence/onnx.md has the table. Models that the exporter itself does not write are listed.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import onnx
import torch
from google.protobuf.message import DecodeError
from torch import nn

from capsule.levels import frameworks
from capsule.levels.frameworks.base import FrameworkError
from capsule.levels.graphs import reference, structure, values
from capsule.levels.graphs.bounds import bounds
from capsule.levels.graphs.onnx import exchange
from capsule.levels.instruments import errors

BATCH, SIDE, CLASSES, SEED, DTYPE = 2, 64, 10, 17, "float32"
RUNNERS = ("torch", "onnxruntime")


class Gpt(nn.Module):
    """Two blocks of a GPT, attention by torch's own function, with a causal mask."""

    def __init__(self, vocabulary: int = 97, length: int = 24, width: int = 48, heads: int = 4):
        super().__init__()
        self.heads, self.length = heads, length
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "first": nn.LayerNorm(width),
                    "qkv": nn.Linear(width, 3 * width),
                    "back": nn.Linear(width, width),
                    "second": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                }
            )
            for _ in range(2)
        )
        self.last = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(self.length, device=tokens.device)
        x = self.tokens(tokens) + self.places(places)
        for block in self.blocks:
            qkv = block["qkv"](block["first"](x)).unflatten(-1, (3, self.heads, -1))
            q, k, v = (part.transpose(1, 2) for part in qkv.unbind(2))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block["back"](y.transpose(1, 2).flatten(2))
            y = nn.functional.gelu(block["up"](block["second"](x)), approximate="tanh")
            x = x + block["down"](y)
        return self.head(self.last(x))


class Lstm(nn.Module):
    """A classifier of sequences by two layers of LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.LSTM(12, 20, 2, batch_first=True)
        self.last = nn.Linear(20, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.cells(x)[0][:, -1])


@cache
def vision() -> Any:
    """torchvision's definitions, without its compiled part."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _LIBRARIES.append(library)
    from torchvision import models

    return models


def named(name: str, side: int = SIDE, **options: Any) -> Callable[[], tuple[Any, Any]]:
    """A model of torchvision with so many classes, and a batch of pictures."""

    def make() -> tuple[Any, Any]:
        module = getattr(vision(), name)(weights=None, num_classes=CLASSES, **options)
        return module, torch.randn(BATCH, 3, side, side)

    return make


def transformer() -> tuple[Any, Any]:
    """A small ViT: torchvision's own sizes take pictures of 224 x 224."""
    module = vision().VisionTransformer(SIDE, 16, 3, 4, 64, 128, num_classes=CLASSES)
    # a head of zeros would hide what comes before
    nn.init.normal_(module.heads.head.weight, std=0.1)
    return module, torch.randn(BATCH, 3, SIDE, SIDE)


def segmenter() -> tuple[Any, Any]:
    """A network whose output is a picture."""
    module = vision().segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=CLASSES
    )
    return module, torch.randn(BATCH, 3, SIDE, SIDE)


_LIBRARIES: list[Any] = []
"""Kept, for what a library defines goes with it."""

ARCHITECTURES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "mobilenet_v2": named("mobilenet_v2"),
    "mobilenet_v3": named("mobilenet_v3_small"),
    "efficientnet": named("efficientnet_b0"),
    "efficientnet_v2": named("efficientnet_v2_s"),
    "shufflenet": named("shufflenet_v2_x0_5"),
    "densenet": named("densenet121"),
    "regnet": named("regnet_y_400mf"),
    "swin": named("swin_t"),
    "swin_v2": named("swin_v2_t"),
    "convnext": named("convnext_tiny"),
    "vit": transformer,
    "gpt": lambda: (Gpt(), torch.randint(97, (BATCH, 24))),
    "lstm": lambda: (Lstm(), torch.randn(BATCH, 9, 12)),
    "resnet": named("resnet18"),
    "squeezenet": named("squeezenet1_1"),
    "googlenet": named("googlenet", init_weights=False, aux_logits=False),
    "mnasnet": named("mnasnet0_5"),
    "inception": named("inception_v3", 96, init_weights=False, aux_logits=False),
    "resnext": named("resnext50_32x4d"),
    "lraspp": segmenter,
}


def export(folder: Path, names: Iterable[str]) -> None:
    """Write the file of each architecture that is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}.onnx"
        if path.exists():
            continue
        torch.manual_seed(SEED)
        module, example = ARCHITECTURES[name]()
        module.eval()
        shapes = ({0: torch.export.Dim("batch")},)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module, (example,), dynamo=True, dynamic_shapes=shapes, verbose=False
            )
        path.write_bytes(strip(program.model_proto))
        print(f"{name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


def strip(model: Any) -> bytes:
    """The file without what the exporter tells of this machine."""
    for graph in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.functions):
        graph.ClearField("metadata_props")
        graph.ClearField("doc_string")
    for one in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        one.ClearField("metadata_props")
        one.ClearField("doc_string")
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def check(path: Path) -> str:
    """A line of the table for one file."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    try:
        model = onnx.load(path)
    except DecodeError:
        raise ValueError(f"{path} is not an ONNX file") from None
    kinds = len({node.op_type for node in model.graph.node})
    line = f"| {path.stem} | `{digest}` | {len(model.graph.node)} | {kinds} |"
    started = time.perf_counter()
    try:
        graph = exchange.load(path, {"batch": BATCH})
    except ValueError as error:
        return f"{line} {error} | | | |"
    graph = replace(graph, nodes=graph.inference, loss=None)
    own = sum(node.operator == structure.ONNX for node in graph.nodes)
    arrays = {**values.inputs(graph, DTYPE, SEED), **values.parameters(graph, DTYPE, SEED)}
    results = reference.forward(graph, arrays, DTYPE)
    due = tuple(results[name] for name in graph.outputs)
    limits = bounds(graph, arrays, DTYPE, SEED).outputs
    seconds = time.perf_counter() - started
    ratios = [_ratio(name, graph, arrays, due, limits) for name in RUNNERS]
    cells = " | ".join([f"{own} of {len(graph.nodes)}", *ratios])
    share = numpy.linalg.norm(limits) / numpy.linalg.norm([numpy.linalg.norm(one) for one in due])
    return f"{line} {cells} | {share:.1e} | {seconds:.0f} s |"


def _ratio(name: str, graph: Any, arrays: Any, due: Any, limits: Any) -> str:
    framework = frameworks.load(name, "cpu", 2, "default")
    native = {key: framework.from_numpy(array, DTYPE) for key, array in arrays.items()}
    assert framework.networks is not None
    try:
        function, operands = framework.networks.inference(graph, native)
        yielded = tuple(framework.to_numpy(one) for one in function(*operands))
    except FrameworkError as error:
        return str(error)
    return f"{errors.worst_ratio(yielded, due, limits):.3f}"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("action", choices=["export", "check"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="which architectures; all by default")
    options = parser.parse_args()
    names = options.names or list(ARCHITECTURES)
    if options.action == "export":
        export(options.folder, names)
        return 0
    print(
        "| architecture | sha256 | nodes | kinds | ONNX's own | torch | onnxruntime"
        " | bound / output | reference |\n|---|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    for name in names:
        print(check(options.folder / f"{name}.onnx"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
