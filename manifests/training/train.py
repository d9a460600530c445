"""A plain PyTorch training loop: a small network learns a noisy distance to the origin.

It knows nothing of capsule but for the three lines marked below, and runs without it too:
CAPSULE_SEED=17 CAPSULE_RESULTS=/dev/stdout python3 train.py
"""

import json
import os
from pathlib import Path

import torch

SAMPLES, FEATURES, EPOCHS, BATCH, NOISE = 2048, 4, 12, 64, 0.1

seed = int(os.environ["CAPSULE_SEED"])  # capsule 1 of 3: the seed of this run
torch.manual_seed(seed)

inputs = torch.rand(2 * SAMPLES, FEATURES) * 2 - 1
targets = inputs.square().sum(dim=1, keepdim=True).sqrt()
targets += NOISE * torch.randn_like(targets)
train_inputs, test_inputs = inputs.split(SAMPLES)
train_targets, test_targets = targets.split(SAMPLES)

network = torch.nn.Sequential(
    torch.nn.Linear(FEATURES, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
)
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
loss_of = torch.nn.MSELoss()

for epoch in range(EPOCHS):
    for batch in torch.randperm(SAMPLES).split(BATCH):
        optimizer.zero_grad()
        loss = loss_of(network(train_inputs[batch]), train_targets[batch])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1} of {EPOCHS}: batch loss {loss.item():.6f}", flush=True)

with torch.no_grad():
    final_loss = loss_of(network(test_inputs), test_targets).item()

with Path(os.environ["CAPSULE_RESULTS"]).open("a") as results:  # capsule 2 of 3: where results go
    results.write(json.dumps({"metric": "final_loss", "value": final_loss}) + "\n")  # 3 of 3
