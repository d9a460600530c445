"""ResNet-50 for ten classes."""

import torch
from torch import nn

MIXED = False
inputs = {"image": (3, 128, 128), "label": {"below": 10}}
quality = "accuracy"


def convolve(channels, features, kernel, stride=1):
    convolution = nn.Conv2d(channels, features, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(features))


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.first, self.second = convolve(channels, width, 1), convolve(width, width, 3, stride)
        self.third = convolve(width, 4 * width, 1)
        same = stride == 1 and channels == 4 * width
        self.skip = nn.Identity() if same else convolve(channels, 4 * width, 1, stride)
        self.relu = nn.ReLU()

    def forward(self, x):
        y = self.relu(self.second(self.relu(self.first(x))))
        return self.relu(self.third(y) + self.skip(x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        layers, channels = [convolve(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(count):
                layers.append(Bottleneck(channels, width, 1 if number else stride))
                channels = 4 * width
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(channels, 10)

    def forward(self, image):
        with torch.autocast(image.device.type, torch.bfloat16, enabled=is_mixed(image)):
            return self.head(self.layers(image)).to(image.dtype)


def is_mixed(image):
    return MIXED and image.dtype == torch.float32


def network():
    return ResNet50()
