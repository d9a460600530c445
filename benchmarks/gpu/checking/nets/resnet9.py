"""ResNet-9 as DAWNBench trained it on pictures with three channels."""

import torch
from torch import nn
from torch.nn import functional

MIXED = False
WIDTH = 64
inputs = {"image": (3, 32, 32), "label": {"below": 10}}
quality = "accuracy"


def block(channels, features):
    convolution = nn.Conv2d(channels, features, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(features), nn.ReLU())


class ResNet9(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(block(3, WIDTH), block(WIDTH, 2 * WIDTH), nn.MaxPool2d(2))
        self.residual = nn.Sequential(block(2 * WIDTH, 2 * WIDTH), block(2 * WIDTH, 2 * WIDTH))
        self.second = nn.Sequential(
            *(block(2 * WIDTH, 4 * WIDTH), nn.MaxPool2d(2)),
            *(block(4 * WIDTH, 8 * WIDTH), nn.MaxPool2d(2)),
        )
        self.last = nn.Sequential(block(8 * WIDTH, 8 * WIDTH), block(8 * WIDTH, 8 * WIDTH))
        self.head = nn.Linear(8 * WIDTH, 10, bias=False)

    def forward(self, image):
        with torch.autocast(image.device.type, torch.bfloat16, enabled=is_mixed(image)):
            x = self.first(image)
            x = self.second(self.residual(x) + x)
            x = self.last(x) + x
            x = functional.adaptive_max_pool2d(x, 1).flatten(1)
            return self.head(x).to(image.dtype) * 0.125


def is_mixed(image):
    return MIXED and image.dtype == torch.float32


def network():
    return ResNet9()
