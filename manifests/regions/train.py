"""A line is fitted by gradient descent: what `capsule_regions` reports of it, and times.

By hand, from the repository's root:
PYTHONPATH=capsule/levels/library CAPSULE_RESULTS=/dev/stdout python3 manifests/regions/train.py
"""

import os
import random

from capsule_regions import region, report

EPOCHS, SAMPLES, RATE, NOISE = 8, 256, 0.2, 0.1

noise = random.Random(int(os.environ.get("CAPSULE_SEED", "17")))
points = [noise.uniform(-1, 1) for _ in range(SAMPLES)]
samples = [(x, 3 * x + 1 + noise.gauss(0, NOISE)) for x in points]
slope, offset = 0.0, 0.0


@region("forward")
def forward():
    return [(x, slope * x + offset - y) for x, y in samples]


@region("backward")
def backward(errors):
    by_slope = sum(error * x for x, error in errors)
    return 2 * by_slope / SAMPLES, 2 * sum(error for _, error in errors) / SAMPLES


for epoch in range(EPOCHS):
    with region("epoch"):
        for _ in range(10):
            by_slope, by_offset = backward(forward())
            slope, offset = slope - RATE * by_slope, offset - RATE * by_offset
    report("loss", sum(error**2 for _, error in forward()) / SAMPLES, step=epoch)
