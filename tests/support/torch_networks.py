"""The catalogue's networks written by hand with torch.nn, parameters in the order of their use."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from capsule.levels.graphs.graph import Graph
from tests.support import adversarial

Sizes = Mapping[str, int]


class _LeNet(nn.Sequential):
    def __init__(self, sizes: Sizes) -> None:
        side = (sizes["side"] // 2 - 4) // 2
        super().__init__(
            nn.Conv2d(1, 6, 5, padding=2),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.Tanh(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(16 * side * side, 120),
            nn.Tanh(),
            nn.Linear(120, 84),
            nn.Tanh(),
            nn.Linear(84, sizes["classes"]),
        )


def _hepcnn(sizes: Sizes) -> nn.Module:
    width, layers = sizes["width"], list[nn.Module]()
    for unit, before in enumerate((sizes["channels"], width, width, width, width)):
        pool = nn.AdaptiveAvgPool2d(1) if unit == 4 else nn.MaxPool2d(2)
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(), pool]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(width, 2))


class _AlexNet(nn.Sequential):
    def __init__(self, sizes: Sizes) -> None:
        side = (sizes["side"] - 7) // 4 + 1
        for _ in range(3):
            side = (side - 3) // 2 + 1
        super().__init__(
            nn.Conv2d(3, 64, 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, 2),
            nn.Flatten(),
            nn.Linear(256 * side * side, 4096),
            nn.ReLU(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Linear(4096, sizes["classes"]),
        )


def _normed(before: int, after: int, window: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(before, after, window, stride, padding=window // 2, bias=False)
    return [convolution, nn.BatchNorm2d(after)]


class _Block(nn.Module):
    """A basic block, or with `expansion` 4 a bottleneck."""

    def __init__(self, before: int, channels: int, stride: int, expansion: int) -> None:
        super().__init__()
        after = expansion * channels
        if expansion == 1:
            first, last = _normed(before, channels, 3, stride), _normed(channels, after, 3)
            middle = []
        else:
            first, last = _normed(before, channels, 1), _normed(channels, after, 1)
            middle = [*_normed(channels, channels, 3, stride), nn.ReLU()]
        self.path = nn.Sequential(*first, nn.ReLU(), *middle, *last)
        changes = stride != 1 or before != after
        self.shortcut = nn.Sequential(*(_normed(before, after, 1, stride) if changes else []))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.path(x) + self.shortcut(x))


class _ResNet(nn.Sequential):
    def __init__(
        self,
        stem: Sequence[nn.Module],
        widths: Sequence[int],
        counts: Sequence[int],
        expansion: int,
        classes: int,
    ) -> None:
        blocks = []
        before = widths[0]
        for stage, (channels, count) in enumerate(zip(widths, counts, strict=True)):
            for index in range(count):
                stride = 2 if stage and not index else 1
                blocks.append(_Block(before, channels, stride, expansion))
                before = expansion * channels
        pool = nn.AdaptiveAvgPool2d(1)
        super().__init__(*stem, *blocks, pool, nn.Flatten(), nn.Linear(before, classes))


def _imagenet(counts: Sequence[int], expansion: int) -> Callable[[Sizes], nn.Module]:
    def make(sizes: Sizes) -> nn.Module:
        stem = [*_normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        return _ResNet(stem, (64, 128, 256, 512), counts, expansion, sizes["classes"])

    return make


def _multilabel(sizes: Sizes) -> nn.Module:
    width, blocks = sizes["width"], sizes["blocks"]
    stem = [*_normed(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    counts = (blocks,) * 4 if blocks else (3, 4, 6, 3)
    widths = [width * 2**stage for stage in range(4)]
    return _ResNet(stem, widths, counts, 4, sizes["classes"])


def _resnet44(sizes: Sizes) -> nn.Module:
    return _ResNet([*_normed(3, 16, 3), nn.ReLU()], (16, 32, 64), (7, 7, 7), 1, sizes["classes"])


def _layer(before: int, after: int) -> nn.Module:
    return nn.Sequential(*_normed(before, after, 3), nn.ReLU())


class _ResNet9(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        two, four, eight = (factor * sizes["width"] for factor in (2, 4, 8))
        self.prep = _layer(3, sizes["width"])
        self.layer1 = _layer(sizes["width"], two)
        self.block1 = nn.Sequential(_layer(two, two), _layer(two, two))
        self.layer2, self.layer3 = _layer(two, four), _layer(four, eight)
        self.block3 = nn.Sequential(_layer(eight, eight), _layer(eight, eight))
        self.linear = nn.Linear(eight, sizes["classes"], bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(self.layer1(self.prep(x)), 2)
        x = functional.max_pool2d(self.layer2(self.block1(x) + x), 2)
        x = functional.max_pool2d(self.layer3(x), 2)
        x = functional.adaptive_max_pool2d(self.block3(x) + x, 1)
        return self.linear(x.flatten(1)) * 0.125


class _UNet(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        widths = [sizes["width"] * 2**level for level in range(5)]
        pairs = list(zip([1, *widths], widths, strict=False))
        self.down = nn.ModuleList(self._twice(*pair) for pair in pairs)
        rising = []
        for low, high in reversed(list(pairwise(widths))):
            rising.append(
                nn.ModuleList([nn.ConvTranspose2d(high, low, 2, 2), self._twice(high, low)])
            )
        self.up = nn.ModuleList(rising)
        self.last = nn.Conv2d(widths[0], sizes["classes"], 1)

    @staticmethod
    def _twice(before: int, after: int) -> nn.Module:
        first, second = (
            nn.Conv2d(before, after, 3, padding=1),
            nn.Conv2d(after, after, 3, padding=1),
        )
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skipped = []
        for index, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if index else x)
            skipped.append(x)
        skipped.pop()
        for raised, block in self.up:
            x = block(torch.cat([skipped.pop(), raised(x)], dim=1))
        return self.last(x)


class _CosmoFlow(nn.Sequential):
    def __init__(self, sizes: Sizes) -> None:
        layers: list[nn.Module] = []
        before, side, width = 4, sizes["side"], sizes["width"]
        while side > 4:
            convolution = nn.Conv3d(before, width, 3, padding=1)
            layers += [convolution, nn.LeakyReLU(0.3), nn.MaxPool3d(2)]
            before, side, width = width, side // 2, 2 * width
        layers += [nn.Flatten(), nn.Linear(64 * before, 128), nn.LeakyReLU(0.3)]
        layers += [nn.Linear(128, 64), nn.LeakyReLU(0.3), nn.Linear(64, 4), nn.Tanh()]
        super().__init__(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 1.2


def _separable(before: int, after: int, stride: int = 1, dilation: int = 1) -> list[nn.Module]:
    how = {"padding": dilation, "dilation": dilation, "groups": before, "bias": False}
    return [nn.Conv2d(before, before, 3, stride, **how), nn.Conv2d(before, after, 1, bias=False)]


def _raised(before: int, after: int) -> nn.Module:
    return nn.ConvTranspose2d(before, after, 3, 2, padding=1, output_padding=1, bias=False)


class _Xception(nn.Module):
    """A block that strides, with a projection beside it."""

    def __init__(self, before: int, first: int, last: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            *_separable(before, first),
            nn.BatchNorm2d(first),
            nn.ReLU(),
            *_separable(first, last),
            nn.BatchNorm2d(last),
            *_separable(last, last, stride),
        )
        self.skip = nn.Sequential(*_normed(before, last, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.path(x) + self.skip(x)


class _Middle(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        thirds = [[*_separable(width, width), nn.BatchNorm2d(width)] for _ in range(3)]
        self.path = nn.Sequential(*thirds[0], nn.ReLU(), *thirds[1], nn.ReLU(), *thirds[2])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + x)


class _Pyramid(nn.Module):
    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.near = nn.Sequential(*_normed(before, width, 1), nn.ReLU())
        self.far = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(before, width, 3, padding=dilation, dilation=dilation, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            )
            for dilation in (2, 3, 4)
        )
        self.mean = nn.Conv2d(before, width, 1, bias=False)
        # a factor and a summand for each channel
        self.affine = nn.Conv2d(width, width, 1, groups=width)
        self.merged = nn.Sequential(*_normed(5 * width, width, 1), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        levels = [self.near(x), *(level(x) for level in self.far)]
        mean = torch.relu(self.affine(self.mean(x.mean((2, 3), keepdim=True))))
        return self.merged(torch.cat([*levels, mean.expand_as(levels[0])], 1))


class _DeepCam(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

        def width(published: int) -> int:
            whole = published // sizes["divisor"]
            return whole // 8 * 8 or whole or 1

        self.stem = nn.Sequential(
            *(*_normed(16, width(32), 3, 2), nn.ReLU()),
            *(*_normed(width(32), width(64), 3), nn.ReLU()),
        )
        self.entry = nn.ModuleList(
            _Xception(width(before), width(after), width(after), 2)
            for before, after in pairwise((64, 128, 256, 728))
        )
        self.middle = nn.Sequential(*(_Middle(width(728)) for _ in range(sizes["middle"])))
        ends: list[nn.Module] = []
        for before, after in pairwise((1024, 1536, 1536, 2048)):
            ends += _separable(width(before), width(after), dilation=2)
            ends += [nn.BatchNorm2d(width(after)), nn.ReLU()]
        self.exit = nn.Sequential(_Xception(width(728), width(728), width(1024), 1), *ends)
        self.pyramid = _Pyramid(width(2048), width(256))
        rise = [_raised(width(256), width(256)), nn.BatchNorm2d(width(256)), nn.ReLU()]
        again = [_raised(width(256), width(256)), nn.BatchNorm2d(width(256)), nn.ReLU()]
        self.rise = nn.Sequential(*rise, *again)
        self.low = nn.Sequential(*_normed(width(128), width(48), 1), nn.ReLU())
        self.last = nn.Sequential(
            *(*_normed(width(256) + width(48), width(256), 3), nn.ReLU()),
            *(*_normed(width(256), width(256), 3), nn.ReLU()),
            nn.Conv2d(width(256), width(256), 1),
            *(_raised(width(256), width(256)), nn.BatchNorm2d(width(256)), nn.ReLU()),
            _raised(width(256), 3),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = x = self.entry[0](self.stem(x))
        for block in self.entry[1:]:
            x = torch.relu(block(x))
        x = self.rise(self.pyramid(self.exit(self.middle(x))))
        x = self.last(torch.cat([x, self.low(low)], 1))
        return x.permute(0, 2, 3, 1).flatten(0, 2)


class _Decoder(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        width = sizes["width"]
        self.tokens = nn.Embedding(sizes["vocabulary"], width)
        self.places = nn.Embedding(sizes["length"], width)
        self.blocks = nn.ModuleList(self._block(width) for _ in range(sizes["layers"]))
        self.norm = nn.LayerNorm(width)

    @staticmethod
    def _block(width: int) -> nn.Module:
        layers = [nn.LayerNorm(width), *(nn.Linear(width, width) for _ in range(4))]
        layers += [nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)]
        return nn.ModuleList(layers)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        batch, length, heads = (self.sizes[name] for name in ("batch", "length", "heads"))
        x = self.tokens(tokens.reshape(batch, length)) + self.places.weight
        for norm, query, key, value, out, second, wide, narrow in self.blocks:
            y = norm(x)
            q, k, v = (
                layer(y).unflatten(2, (heads, -1)).transpose(1, 2) for layer in (query, key, value)
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + out(y.transpose(1, 2).flatten(2))
            x = x + narrow(functional.gelu(wide(second(x)), approximate="tanh"))
        return (self.norm(x) @ self.tokens.weight.T).reshape(batch * length, -1)


MODELS: dict[str, Callable[[Sizes], nn.Module]] = {
    "lenet": _LeNet,
    "alexnet": _AlexNet,
    "resnet9": _ResNet9,
    "resnet18": _imagenet((2, 2, 2, 2), 1),
    "resnet44": _resnet44,
    "resnet50": _imagenet((3, 4, 6, 3), 4),
    "multilabel": _multilabel,
    "hepcnn": _hepcnn,
    "unet": _UNet,
    "cosmoflow": _CosmoFlow,
    "deepcam": _DeepCam,
    "transformer": _Decoder,
}


def results(
    graph: Graph,
    sizes: Sizes,
    values: Mapping[str, NDArray[Any]],
    dtype: torch.dtype = torch.float64,
) -> tuple[NDArray[Any], float, dict[str, NDArray[Any]]]:
    """Outputs of inference, the loss, and gradients by the graph's names, as numpy arrays."""
    if graph.name == "cosmogan":
        return adversarial.results(graph, sizes, values, dtype)
    model = MODELS[graph.name](sizes).to(dtype)
    adversarial.fill(model, graph, values)
    first, labels = (torch.from_numpy(values[name]) for name in graph.inputs)
    first = first.to(dtype) if first.is_floating_point() else first
    model.eval()
    with torch.no_grad():
        outputs = model(first)
    model.train()
    logits = model(first)
    if logits.ndim == 4:
        logits = logits.permute(0, 2, 3, 1).flatten(0, 2)
    if graph.name == "multilabel":
        loss = functional.binary_cross_entropy_with_logits(logits, labels.to(dtype))
    elif labels.is_floating_point():
        loss = functional.mse_loss(logits, labels.to(dtype))
    elif graph.name == "deepcam":
        shares = numpy.array([0.986267818390377, 0.0004578708870701058, 0.01327431072255291])
        # as they are held in float32
        weights = torch.from_numpy((shares**-0.125).astype("float32")).to(dtype)
        losses = functional.cross_entropy(logits, labels, reduction="none")
        loss = (losses * weights[labels]).mean()
    else:
        loss = functional.cross_entropy(logits, labels)
    loss.backward()
    gradients = {
        name: parameter.grad.double().numpy()
        for name, parameter in zip(graph.trainable, model.parameters(), strict=True)
    }
    return outputs.double().numpy(), loss.item(), gradients
