"""A GPT of the size of GPT-2 small, with learned positions and untied weights."""

import torch
from torch import nn
from torch.nn import functional

MIXED = False
LENGTH = 512
WORDS, WIDTH, HEADS, LAYERS = 50304, 768, 12, 12
inputs = {
    "token": {"below": 50304, "shape": (512,)},
    "label": {"below": 50304, "shape": (512,)},
}
quality = "accuracy"


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.joint, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dense = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU("tanh"), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.joint(self.norms[0](x)).view(batch, length, 3, HEADS, -1)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.dense(self.norms[1](x))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, token):
        kind = self.words.weight.dtype
        enabled = MIXED and kind == torch.float32
        with torch.autocast(token.device.type, torch.bfloat16, enabled=enabled):
            x = self.words(token) + self.places.weight[: token.shape[1]]
            scores = self.head(self.norm(self.blocks(x)))
        # (batch, words, length), as the cross-entropy wants its classes
        return scores.to(kind).transpose(1, 2)


def network():
    return Gpt()
