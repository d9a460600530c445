"""A regression by a small network, as one writes it in torch: on the GPU that it is given.

It knows nothing of capsule, and runs without it too:
python3 train.py --seed 1 --devices 0
"""

import argparse
import time

import torch

SETTLING = 10  # the first tenth of the steps chooses kernels and raises the clocks

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--devices", default="", help="GPUs of this process; none for a CPU")
parser.add_argument("--dtype", choices=("float32", "tf32", "bfloat16"), default="float32")
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--batch", type=int, default=8192)
parser.add_argument("--steps", type=int, default=2000)
options = parser.parse_args()

device = torch.device("cuda" if options.devices else "cpu")
torch.manual_seed(options.seed)
torch.set_float32_matmul_precision("high" if options.dtype == "tf32" else "highest")


def wait() -> float:
    """Return the time once the device has finished."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


layers = []
for _ in range(4):
    layers += [torch.nn.Linear(options.width, options.width), torch.nn.GELU()]
network = torch.nn.Sequential(*layers, torch.nn.Linear(options.width, 1)).to(device)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
teacher = torch.randn(options.width, 1, device=device) / options.width**0.5
settled = options.steps // SETTLING
began = wait()
for step in range(options.steps):
    if step == settled:
        began = wait()
    inputs = torch.randn(options.batch, options.width, device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=options.dtype == "bfloat16"):
        outputs = network(inputs)
    loss = torch.nn.functional.mse_loss(outputs.float(), inputs @ teacher)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
took = wait() - began
print(f"final loss {loss.item():.6f}")
print(f"samples per second {options.batch * (options.steps - settled) / took:.1f}")
