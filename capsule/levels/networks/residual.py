"""Residual networks: ResNet-18, ResNet-50 and ResNet-44 (He, Zhang, Ren and Sun, CVPR 2016), and
the ResNet-9 with which CIFAR-10 is trained in seconds; and one for images of several classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable

from ..graphs.builder import Builder
from ..graphs.graph import Graph
from .convolutional import classify

Block = Callable[[Builder, str, int, int], str]
"""Function of a builder, a value, channels and a stride, which returns a value."""


def resnet18(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """ResNet-18 for ImageNet: 11,689,512 parameters with 1000 classes."""
    return _imagenet(g, sizes, _basic, (2, 2, 2, 2))


def resnet50(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """ResNet-50 for ImageNet: 25,557,032 parameters with 1000 classes.

    The stride is at the 3 x 3 convolution of a block, as in torchvision and in MLPerf ("v1.5").
    """
    return _imagenet(g, sizes, _bottleneck, (3, 4, 6, 3))


def resnet44(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """ResNet-44 for CIFAR-10 (section 4.2): 3 stages of 7 blocks with 16, 32 and 64 channels.

    Shortcuts that change the shape are projections (the paper's option B; its CIFAR networks pad
    with zeros instead): 661,338 parameters with 10 classes, where the paper rounds to 0.66 M.
    """
    batch, side, classes = sizes["batch"], sizes["side"], sizes["classes"]
    x = g.input("image", (batch, 3, side, side))
    x = g.relu(_convolve(g, x, 16, 3))
    for stage, channels in enumerate((16, 32, 64)):
        x = _stage(g, x, _basic, channels, 7, 1 if stage == 0 else 2)
    return _head(g, x, classes)


def multilabel(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """ResNet-50 with a logit for each class, any number of which an image may show.

    `blocks` 0 stands for its 3, 4, 6 and 3 bottlenecks, a number for so many in each stage; `width`
    is that of the first stage: 23,671,952 parameters with 80 classes. The loss is binary cross
    entropy, the mean over all classes.
    """
    blocks = sizes["blocks"]
    counts = (blocks,) * 4 if blocks else (3, 4, 6, 3)
    logits = _logits(g, _trunk(g, sizes, _bottleneck, counts, sizes["width"]), sizes["classes"])
    target = g.input("target", g.shape(logits))
    return g.graph([logits], loss=g.sigmoid_cross_entropy(logits, target))


def resnet9(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """ResNet-9 for CIFAR-10 on one GPU (Page, "How to train your ResNet", myrtle.ai, 2018), which
    won the training time of DAWNBench: 6,573,120 parameters with width 64 and 10 classes. Dropout,
    of so many percent (none in that one), comes before the last layer.
    """
    side, width = sizes["side"], sizes["width"]
    x = g.input("image", (sizes["batch"], 3, side, side))
    x = g.relu(_convolve(g, x, width, 3))
    for factor, has_block in ((2, True), (4, False), (8, True)):
        x = g.max_pool2d(g.relu(_convolve(g, x, factor * width, 3)), 2, stride=2)
        if has_block:
            y = g.relu(_convolve(g, x, factor * width, 3))
            x = g.sum(g.relu(_convolve(g, y, factor * width, 3)), x)
    last = g.shape(x)[2]
    x = g.dropout(g.flat(g.max_pool2d(x, last, stride=last)), sizes["dropout"])
    return classify(g, g.scale(g.linear(x, sizes["classes"], bias=False), 0.125))


def _imagenet(g: Builder, sizes: Mapping[str, int], block: Block, counts: tuple[int, ...]) -> Graph:
    return _head(g, _trunk(g, sizes, block, counts, 64), sizes["classes"])


def _trunk(
    g: Builder, sizes: Mapping[str, int], block: Block, counts: tuple[int, ...], width: int
) -> str:
    side = sizes["side"]
    x = g.input("image", (sizes["batch"], 3, side, side))
    x = g.relu(_convolve(g, x, width, 7, stride=2))
    x = g.max_pool2d(x, 3, stride=2, padding=1)
    for stage, count in enumerate(counts):
        x = _stage(g, x, block, width * 2**stage, count, 1 if stage == 0 else 2)
    return x


def _stage(g: Builder, x: str, block: Block, channels: int, count: int, stride: int) -> str:
    for index in range(count):
        x = block(g, x, channels, stride if index == 0 else 1)
    return x


def _basic(g: Builder, x: str, channels: int, stride: int) -> str:
    y = g.relu(_convolve(g, x, channels, 3, stride=stride))
    y = _convolve(g, y, channels, 3)
    return _join(g, x, y, stride)


def _bottleneck(g: Builder, x: str, channels: int, stride: int) -> str:
    y = g.relu(_convolve(g, x, channels, 1))
    y = g.relu(_convolve(g, y, channels, 3, stride=stride))
    y = _convolve(g, y, 4 * channels, 1)
    return _join(g, x, y, stride)


def _join(g: Builder, x: str, y: str, stride: int) -> str:
    """Return the block's result plus its input, projected where the shape changed."""
    if g.shape(x) != g.shape(y):
        x = _convolve(g, x, g.shape(y)[1], 1, stride=stride)
    return g.relu(g.sum(y, x))


def _convolve(g: Builder, x: str, channels: int, window: int, stride: int = 1) -> str:
    # normalization by the batch undoes any gain; by initial kept statistics, 0 and 1, a larger one
    # would make inference grow from block to block beyond what 16 bits hold
    how = {"stride": stride, "padding": window // 2}
    return g.batch_norm(g.conv2d(x, channels, window, **how, bias=False, gain=1))


def _head(g: Builder, x: str, classes: int) -> Graph:
    return classify(g, _logits(g, x, classes))


def _logits(g: Builder, x: str, classes: int) -> str:
    return g.linear(g.flat(g.global_average_pool(x)), classes)


NETWORKS = {
    "resnet9": resnet9,
    "resnet18": resnet18,
    "resnet44": resnet44,
    "resnet50": resnet50,
    "multilabel": multilabel,
}
