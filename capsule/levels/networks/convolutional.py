"""LeNet-5, AlexNet, and the network that tells events of particle physics apart."""

from __future__ import annotations

from collections.abc import Mapping

from ..graphs.builder import Builder
from ..graphs.graph import Graph

_HEP_UNITS = 5


def lenet(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """LeNet-5 (LeCun, Bottou, Bengio and Haffner, Proc. IEEE 86, 1998) in its simple modern form.

    Images (batch, 1, side, side) of the data set's 28 x 28, padded by 2 as in the paper; tanh, and
    plain averages for sub-sampling; the second convolution sees all channels, and the last layer is
    linear with a softmax loss: 61,706 parameters for 10 classes, the paper's form has 60,000.
    """
    batch, side, classes = sizes["batch"], sizes["side"], sizes["classes"]
    x = g.input("image", (batch, 1, side, side))
    x = g.tanh(g.conv2d(x, 6, 5, padding=2))
    x = g.average_pool2d(x, 2, stride=2)
    x = g.tanh(g.conv2d(x, 16, 5))
    x = g.average_pool2d(x, 2, stride=2)
    x = g.flat(x)
    x = g.tanh(g.linear(x, 120))
    x = g.tanh(g.linear(x, 84))
    return classify(g, g.linear(x, classes))


def alexnet(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """AlexNet on one device (Krizhevsky, arXiv:1404.5997, 2014), as torchvision has it.

    Images (batch, 3, side, side); 61,100,840 parameters at side 224 with 1000 classes, where its
    adaptive pooling does nothing; there is none here, so other sides have other widths. Dropout,
    of so many percent (50 in the paper), comes before both hidden layers behind the convolutions.
    """
    batch, side, classes = sizes["batch"], sizes["side"], sizes["classes"]
    x = g.input("image", (batch, 3, side, side))
    x = g.relu(g.conv2d(x, 64, 11, stride=4, padding=2))
    x = g.max_pool2d(x, 3, stride=2)
    x = g.relu(g.conv2d(x, 192, 5, padding=2))
    x = g.max_pool2d(x, 3, stride=2)
    for channels in (384, 256, 256):
        x = g.relu(g.conv2d(x, channels, 3, padding=1))
    x = g.max_pool2d(x, 3, stride=2)
    x = g.flat(x)
    for _ in range(2):
        x = g.relu(g.linear(g.dropout(x, sizes["dropout"]), 4096))
    return classify(g, g.linear(x, classes))


def hepcnn(g: Builder, sizes: Mapping[str, int]) -> Graph:
    """Return the HEP-CNN benchmark (Kurth et al., "Deep learning at 15PF", SC 2017, section 3.1).

    Images of jets (batch, channels, side, side), signal or background: five convolutions of 3 x 3
    with relu, a maximum of 2 x 2 after each of the first four and the mean over the image after the
    last, and one linear layer: 594,178 parameters with 3 channels and width 128, the paper's 2.3
    MiB. It gives score minus score of two classes as the one that events are ordered by.
    """
    batch, channels, side = sizes["batch"], sizes["channels"], sizes["side"]
    x = g.input("image", (batch, channels, side, side))
    for unit in range(_HEP_UNITS):
        x = g.relu(g.conv2d(x, sizes["width"], 3, padding=1))
        x = g.global_average_pool(x) if unit == _HEP_UNITS - 1 else g.max_pool2d(x, 2, stride=2)
    return classify(g, g.linear(g.flat(x), 2))


def classify(g: Builder, logits: str) -> Graph:
    """Return the network of (rows, classes) logits, its loss against a label per row."""
    rows, classes = g.shape(logits)
    labels = g.labels("label", rows, classes)
    return g.graph([logits], loss=g.softmax_cross_entropy(logits, labels))


NETWORKS = {"lenet": lenet, "alexnet": alexnet, "hepcnn": hepcnn}
