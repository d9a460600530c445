"""Sum one array over all ranks, some times, and hold the sum to what it must be.

`capsule run` starts a process for each rank and says in variables who it is and where all meet.
"""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from capsule_regions import report

NUMBERS = 250_000  # 1 MB in single precision
TIMES = 5


def share(seed: int, rank: int) -> torch.Tensor:
    """What one rank adds: whole numbers, so that their sum is the same in whatever order."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(-1000, 1000, (NUMBERS,), generator=generator).float()


def main() -> None:
    """Every rank runs this."""
    seed, rank, ranks = (int(os.environ[f"CAPSULE_{name}"]) for name in ("SEED", "RANK", "RANKS"))
    # by hand there is one process, which meets nobody
    place = os.environ.get("CAPSULE_RENDEZVOUS", "tcp://127.0.0.1:29500")
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=ranks)
    report("world_size", dist.get_world_size())
    expected = sum(share(seed, other) for other in range(ranks))
    worst = 0.0
    for _ in range(TIMES):
        total = share(seed, rank)
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(total)
        report("time", time.perf_counter() - began)
        worst = max(worst, (total - expected).abs().max().item())
    report("error", worst)
    dist.destroy_process_group()


main()
