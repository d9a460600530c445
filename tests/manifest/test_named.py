"""Files that `capsule init --model` writes: what the host reads of them, and what is in them."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from capsule import manifest
from capsule.errors import UsageError
from capsule.manifest.named import starter_by_name

PICTURE, LABEL = "image", "label"


def write(folder: Path, model: str) -> Path:
    """Both files, as `capsule init` writes them."""
    named = starter_by_name("mine", model)
    (folder / "mine.json").write_bytes(named.manifest)
    (folder / "mine.py").write_bytes(named.module)
    return folder / "mine.json"


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        ("torchvision/resnet18", {PICTURE: (3, 64, 64), LABEL: {"below": 10}}),
        ("torchvision/inception_v3", {PICTURE: (3, 299, 299), LABEL: {"below": 10}}),
        ("torchvision/vit_b_16", {PICTURE: (3, 224, 224), LABEL: {"below": 10}}),
        (
            "torchvision/fcn_resnet50",
            {PICTURE: (3, 64, 64), LABEL: {"below": 10, "shape": (64, 64)}},
        ),
        ("timm/resnet18.a1_in1k", {PICTURE: (3, 64, 64), LABEL: {"below": 10}}),
        ("timm/mobilenetv3_large_100", {PICTURE: (3, 64, 64), LABEL: {"below": 10}}),
        ("timm/vit_tiny_patch16_224", {PICTURE: (3, 224, 224), LABEL: {"below": 10}}),
        (
            "timm/vit_base_patch16_clip_384.openai_ft_in12k_in1k",
            {PICTURE: (3, 384, 384), LABEL: {"below": 10}},
        ),
        (
            "transformers/gpt2",
            {
                "tokens": {"below": 1000, "shape": (32,)},
                LABEL: {"below": 1000, "shape": (32,)},
            },
        ),
        (
            "transformers/bert",
            {"tokens": {"below": 1000, "shape": (32,)}, LABEL: {"below": 10}},
        ),
    ],
)
def test_a_file_has_the_shapes_of_its_model_and_is_one_that_the_host_reads(
    tmp_path: Path, model: str, inputs: dict[str, object]
) -> None:
    path = write(tmp_path, model)
    assert manifest.load(path).benchmarks
    tree = ast.parse((tmp_path / "mine.py").read_text())
    values = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    assert ast.literal_eval(values["inputs"]) == inputs
    text = (tmp_path / "mine.py").read_text()
    assert len(text.splitlines()) < 50
    assert f'"{model.partition("/")[2]}"' in text


@pytest.mark.parametrize(
    "model",
    ["torchvision/resnet18", "torchvision/deeplabv3_resnet50", "timm/resnet18", "transformers/t5"],
)
def test_no_weights_are_asked_for(model: str) -> None:
    text = starter_by_name("mine", model).module.decode()
    assert "from_pretrained" not in text
    calls = {"torchvision": "weights=None", "timm": "pretrained=False", "transformers": "for_model"}
    assert calls[model.partition("/")[0]] in text
    # torchvision's segmentation networks fetch those of their backbone unless told not to
    assert ("weights_backbone=None" in text) == ("deeplab" in model)


def test_what_has_auxiliary_classifiers_is_made_without() -> None:
    for name in ("inception_v3", "googlenet"):
        module = starter_by_name("mine", f"torchvision/{name}").module.decode()
        assert "aux_logits=False" in module
    assert "aux_logits" not in starter_by_name("mine", "torchvision/resnet18").module.decode()


def test_bounds_are_claimed_and_times_reported() -> None:
    claims = json.loads(starter_by_name("mine", "timm/resnet18").manifest)["claims"]
    bounds = {claim["metric"].split("/")[-1] for claim in claims if claim["type"] == "bound"}
    assert bounds == {
        *("l2_error_ratio", "grad_l2_error_ratio", "gradient_check", "node_error_ratio"),
        "repeatable",
    }
    assert all(not claim["primary"] for claim in claims if claim["type"] == "ratio")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("keras/resnet50", "no library 'keras' makes models by name here, but torchvision, timm"),
        ("resnet18", "no library 'resnet18'"),
        ("torchvision", "'' is no name of a model"),
        ("timm/", "'' is no name of a model"),
        ('timm/a"); import os; ("', "is no name of a model"),
        ("timm/a\nimport os", "is no name of a model"),
        ("timm/{name}", "is no name of a model"),
        ("timm/hf-hub:owner/name", "is no name of a model"),
        ("transformers/meta-llama/Llama-3.1-8B", "is no name of a model"),
        ("torchvision/fasterrcnn_resnet50_fpn", "yields no scores of classes"),
        ("torchvision/ssd300_vgg16", "yields no scores of classes"),
        ("torchvision/raft_large", "yields no scores of classes"),
    ],
)
def test_what_is_no_model_is_refused(model: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        starter_by_name("mine", model)
