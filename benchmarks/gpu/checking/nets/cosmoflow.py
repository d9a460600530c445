"""CosmoFlow as MLPerf HPC's reference defines it, on cubes of 64."""

import torch
from torch import nn
from torch.nn import functional

MIXED = False
SIDE = 64
WIDTH = 32
inputs = {"volume": (4, 64, 64, 64), "target": (4,)}
quality = "mean_absolute_error"


class CosmoFlow(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions, channels = nn.ModuleList(), 4
        for number in range((SIDE // 4).bit_length() - 1):
            self.convolutions.append(nn.Conv3d(channels, WIDTH << number, 3, padding=1))
            channels = WIDTH << number
        self.dense = nn.Sequential(
            *(nn.Linear(channels * 64, 128), nn.LeakyReLU(0.3)),
            *(nn.Linear(128, 64), nn.LeakyReLU(0.3)),
            *(nn.Linear(64, 4), nn.Tanh()),
        )

    def forward(self, volume):
        with torch.autocast(volume.device.type, torch.bfloat16, enabled=is_mixed(volume)):
            x = volume
            for convolution in self.convolutions:
                x = functional.max_pool3d(functional.leaky_relu(convolution(x), 0.3), 2)
            return self.dense(x.flatten(1)).to(volume.dtype) * 1.2


def is_mixed(volume):
    return MIXED and volume.dtype == torch.float32


def network():
    return CosmoFlow()
