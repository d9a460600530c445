"""The manifest and the module's file that `capsule init --model LIBRARY/NAME` writes.

The host has none of the libraries, so whether one knows the name is found out in the image. What
the file has to say before it is run, the shapes, goes by what is known of the libraries' models.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from capsule.errors import UsageError
from capsule.manifest.starter import NOBODY, require_name

_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SEEDS = tuple(range(17, 22))
_CLASSES, _SIDE = 10, 64
_WORDS, _LENGTH = 1000, 32

# what takes more than a picture, or yields boxes
_NO_CLASSIFIERS = re.compile(r".*rcnn_.*|(retinanet|ssd|ssdlite|fcos)[0-9_].*|raft_.*")
_SEGMENTERS = ("fcn_", "deeplabv3_", "lraspp_")
_WITH_AUXILIARY = {"googlenet": _SIDE, "inception_v3": 299}
"""torchvision's with classifiers beside the last, and the side of their pictures."""
_OF_ONE_SIDE = ("vit_", "maxvit_")
_SIDE_IN_NAME = re.compile(r"_([1-9][0-9]{2})(?=[_.]|$)")
_LEAST_SIDE = 160  # a smaller number is a width

_ENCODERS = frozenset(
    (
        *("albert", "bert", "big_bird", "camembert", "canine", "convbert", "data2vec-text"),
        *("deberta", "deberta-v2", "distilbert", "electra", "ernie", "esm", "eurobert"),
        *("flaubert", "fnet", "funnel", "ibert", "layoutlm", "longformer", "luke"),
        *("megatron-bert", "mobilebert", "modernbert", "mpnet", "mra", "nomic_bert"),
        *("nystromformer", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer"),
        *("squeezebert", "xlm", "xlm-roberta", "xlm-roberta-xl", "xlnet", "xmod", "yoso"),
    )
)
"""transformers' that read a text both ways, so that guessing its next word is no task of theirs."""


class Named(NamedTuple):
    """What is written: a manifest, and the file of its module, which lies beside it."""

    manifest: bytes
    module: bytes


def starter_by_name(name: str, model: str) -> Named:
    """A manifest of Level 1 for an untrained model, and the file that makes it in the image.

    Args:
        name: Of the capsule, as for `starter`; of the module's file, less its `.py`.
        model: `LIBRARY/NAME`.

    Raises:
        UsageError: `name` is no such name, or `model` none that can be measured.
    """
    require_name(name, "capsule")
    library, _, called = model.partition("/")
    if library not in _WRITERS:
        raise UsageError(
            f"no library {library!r} makes models by name here, but torchvision, timm and"
            " transformers do",
            where="--model",
            advice="such as --model torchvision/resnet18; for a model of another kind write a file"
            ' for "network": {"module": ...}',
        )
    if not _MODEL.fullmatch(called):
        raise UsageError(
            f"{called!r} is no name of a model: letters, digits and _ . - alone",
            where="--model",
            advice="a model's name as the library lists it, such as timm/vit_tiny_patch16_224; of"
            " transformers' an architecture's, such as transformers/gpt2",
        )
    module = _WRITERS[library](called)
    return Named(_manifest(name, library, called).encode(), module.encode())


def _manifest(name: str, library: str, called: str) -> str:
    manifest = {
        "$schema": "manifest-1.schema.json",
        "name": name,
        "title": f"{called} of {library}, untrained: inference and training",
        "authors": [{"name": NOBODY, "affiliation": "Your Institution"}],
        "license": "CC-BY-4.0",
        "resources": {"cpus_per_rank": 2, "walltime": "01:00:00"},
        "seeds": _SEEDS,
    }
    benchmark = {
        "id": name,
        "level": 1,
        "network": {"module": f"{name}.py", "trains": True},
        "inputs": [f"{name}.py"],
        "cases": {"batch": [4]},
        "frameworks": ["torch"],
        "repetitions": 10,
    }
    ratios = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check", "node_error_ratio")
    claims: list[dict[str, object]] = [
        *({"metric": f"*/*/*/{one}", "type": "bound", "at_most": 1} for one in ratios),
        {"metric": "*/*/*/repeatable", "type": "bound", "at_least": 1},
        *(
            {"metric": f"*/*/*/{one}_time", "type": "ratio", "primary": False}
            for one in ("inference", "training")
        ),
    ]
    lines = [f"  {json.dumps(field)}: {json.dumps(value)}," for field, value in manifest.items()]
    fields = ",\n     ".join(f'"{key}": {json.dumps(value)}' for key, value in benchmark.items())
    judged = ",\n".join(f"    {json.dumps(claim)}" for claim in claims)
    lines += ['  "benchmarks": [', f"    {{{fields}}}", "  ],", f'  "claims": [\n{judged}\n  ],']
    return "\n".join(["{", *lines, '  "mutable": ["resources"]', "}", ""])


def _write_torchvision(called: str) -> str:
    """The file of a classifier, or of a network that yields a picture.

    Raises:
        UsageError: It is known to be neither.
    """
    if _NO_CLASSIFIERS.fullmatch(called):
        raise UsageError(
            f"torchvision's {called} yields no scores of classes for a picture",
            where="--model",
            advice="name a classifier or a segmentation network, or write a file for"
            ' "network": {"module": ...} that yields a tensor',
        )
    if called.startswith(_SEGMENTERS):
        return _SEGMENTER.format(name=called, side=_SIDE, classes=_CLASSES)
    side = 224 if called.startswith(_OF_ONE_SIDE) else _WITH_AUXILIARY.get(called, _SIDE)
    options = ", aux_logits=False, init_weights=False" if called in _WITH_AUXILIARY else ""
    call = f'get_model("{called}", weights=None, num_classes={_CLASSES}{options})'
    imports = "from torchvision.models import get_model\n"
    if called.startswith("vit_"):
        body = _HEAD_OF_ZEROS.format(call=call)
        return _write_classifier(called, "torchvision", side, _IMPORT_NN + imports, body)
    return _write_classifier(called, "torchvision", side, imports, f"    return {call}\n")


def _write_timm(called: str) -> str:
    sides = [int(one) for one in _SIDE_IN_NAME.findall(called)]
    side = next((one for one in reversed(sides) if one >= _LEAST_SIDE), _SIDE)
    call = f'create_model("{called}", pretrained=False, num_classes={_CLASSES})'
    imports = "from timm import create_model\n"
    return _write_classifier(called, "timm", side, imports, f"    return {call}\n")


def _write_transformers(called: str) -> str:
    template = _ENCODER if called in _ENCODERS else _DECODER
    return template.format(name=called, words=_WORDS, length=_LENGTH, classes=_CLASSES)


def _write_classifier(called: str, library: str, side: int, imports: str, body: str) -> str:
    return _CLASSIFIER.format(
        name=called, library=library, side=side, classes=_CLASSES, imports=imports, body=body
    )


_WRITERS = {
    "torchvision": _write_torchvision,
    "timm": _write_timm,
    "transformers": _write_transformers,
}

_IMPORT_NN = "from torch import nn\n"

_CLASSIFIER = '''"""{name} of {library}, untrained: written by `capsule init`, to be changed."""

{imports}
# of one sample: channels, height and width of a picture, and which of the classes it is
inputs = {{"image": (3, {side}, {side}), "label": {{"below": {classes}}}}}
quality = "accuracy"


def network():
{body}'''

_HEAD_OF_ZEROS = """\
    model = {call}
    # torchvision's begins with zeros, which hide whatever comes before them
    nn.init.normal_(model.heads.head.weight, std=0.02)
    return model
"""

_SEGMENTER = '''"""{name} of torchvision, untrained: written by `capsule init`, to be changed."""

from torch import nn
from torchvision.models import get_model

# of one sample: channels, height and width of a picture, and the class of each of its places
inputs = {{
    "image": (3, {side}, {side}),
    "label": {{"below": {classes}, "shape": ({side}, {side})}},
}}
quality = "accuracy"


class Scores(nn.Module):
    """The scores alone, of all that torchvision's model yields."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, image):
        return self.model(image)["out"]


def network():
    return Scores(get_model("{name}", weights=None, weights_backbone=None, num_classes={classes}))
'''

_SIZES = """\
# small ones, since many of the library's own take gigabytes: without them it is of the usual size
sizes = {{
    "vocab_size": {words},
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    **dict.fromkeys(["pad_token_id", "bos_token_id", "eos_token_id"], 0),
}}
"""

_DECODER = (
    '''"""{name} of transformers, untrained: written by `capsule init`, to be changed."""

from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

# of one sample: the tokens of a text, and of each the one that is due next
inputs = {{
    "tokens": {{"below": {words}, "shape": ({length},)}},
    "label": {{"below": {words}, "shape": ({length},)}},
}}
quality = "accuracy"
'''
    + _SIZES
    + '''

class Scores(nn.Module):
    """The scores alone, of all that transformers' model yields: (batch, words, length)."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens, use_cache=False).logits.transpose(1, 2)


def network():
    config = AutoConfig.for_model("{name}", **sizes)
    return Scores(AutoModelForCausalLM.from_config(config))
'''
)

_ENCODER = (
    '''"""{name} of transformers, untrained: written by `capsule init`, to be changed."""

from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification

# of one sample: the tokens of a text, and which of the classes it is
inputs = {{"tokens": {{"below": {words}, "shape": ({length},)}}, "label": {{"below": {classes}}}}}
quality = "accuracy"
'''
    + _SIZES
    + '''

class Scores(nn.Module):
    """The scores alone, of all that transformers' model yields."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens).logits


def network():
    config = AutoConfig.for_model("{name}", num_labels={classes}, **sizes)
    return Scores(AutoModelForSequenceClassification.from_config(config))
'''
)
