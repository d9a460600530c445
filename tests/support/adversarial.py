"""A generator and a discriminator, written by hand with torch.nn, and the gradients of both."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from capsule.levels.graphs.graph import Graph

Sizes = Mapping[str, int]


def fill(model: nn.Module, graph: Graph, values: Mapping[str, NDArray[Any]]) -> None:
    """Give a module the parameters of a graph, in the order of their use."""
    with torch.no_grad():
        for name, parameter in zip(graph.trainable, model.parameters(), strict=True):
            assert tuple(parameter.shape) == graph.parameters[name].shape, name
            parameter.copy_(torch.from_numpy(values[name]))


class _CosmoGan(nn.Module):
    """A generator, and what tells its maps from real ones."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        layers, side = sizes["layers"], sizes["side"] >> sizes["layers"]
        channels = [sizes["width"] << layer for layer in range(layers)]
        wide = channels[-1]
        make: list[nn.Module] = [
            nn.Linear(sizes["latent"], wide * side * side, bias=False),
            nn.Unflatten(1, (wide, side, side)),
        ]
        for before, after in pairwise([*reversed(channels), 1]):
            how = {"stride": 2, "padding": 2, "output_padding": 1}
            last = nn.ConvTranspose2d(before, after, 5, bias=after == 1, **how)
            make += [nn.BatchNorm2d(before), nn.ReLU(), last]
        self.generator = nn.Sequential(*make, nn.Tanh())
        judge: list[nn.Module] = []
        for before, after in pairwise([1, *channels]):
            judge.append(nn.Conv2d(before, after, 5, stride=2, padding=2, bias=before == 1))
            judge += [] if before == 1 else [nn.BatchNorm2d(after)]
            judge.append(nn.LeakyReLU(0.2))
        last_layer = nn.Linear(wide * side * side, 1)
        self.discriminator = nn.Sequential(*judge, nn.Flatten(), last_layer)


def results(
    graph: Graph,
    sizes: Sizes,
    values: Mapping[str, NDArray[Any]],
    dtype: torch.dtype = torch.float64,
) -> tuple[NDArray[Any], float, dict[str, NDArray[Any]]]:
    """As `torch_networks.results`, by a pass back for each of two networks."""
    model = _CosmoGan(sizes).to(dtype)
    fill(model, graph, values)
    real, latent = (torch.from_numpy(values[name]).to(dtype) for name in ("map", "latent"))
    model.eval()
    with torch.no_grad():
        outputs = model.generator(latent)
    model.train()

    def cost(maps: torch.Tensor, due: float) -> torch.Tensor:
        logits = model.discriminator(maps)
        return functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, due))

    made = model.generator(latent)
    judged = cost(real, 1) + cost(made.detach(), 0)
    fooled = cost(made, 1)
    gradients = [
        *torch.autograd.grad(fooled, list(model.generator.parameters())),
        *torch.autograd.grad(judged, list(model.discriminator.parameters())),
    ]
    named = zip(graph.trainable, gradients, strict=True)
    return (
        outputs.double().numpy(),
        (judged + fooled).item(),
        {name: gradient.double().numpy() for name, gradient in named},
    )
