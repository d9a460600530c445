"""LeNet on pictures of 28 x 28."""

import torch
from torch import nn
from torch.nn import functional

MIXED = False
inputs = {"image": (1, 28, 28), "label": {"below": 10}}
quality = "accuracy"


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.dense = nn.Sequential(
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)
        )

    def forward(self, image):
        with torch.autocast(image.device.type, torch.bfloat16, enabled=is_mixed(image)):
            x = functional.max_pool2d(functional.relu(self.first(image)), 2)
            x = functional.max_pool2d(functional.relu(self.second(x)), 2)
            return self.dense(x.flatten(1)).to(image.dtype)


def is_mixed(image):
    return MIXED and image.dtype == torch.float32


def network():
    return LeNet()
