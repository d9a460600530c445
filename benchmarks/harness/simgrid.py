"""The model of `capsule show scaling` held to SimGrid's replay of the same operations.

    python benchmarks/harness/simgrid.py [--most RANKS]

Takes `smpirun` (Debian's libsimgrid-dev). Latency and bandwidth are fitted to replays of an
operation at 2, 3 and 4 ranks of a flat network, as they are to sealed runs, and the same operation
by the same algorithm is replayed at 8 to 4096 ranks: on the flat network, where all must be within
10 %, and on a fat tree that is four times narrower at each level and on a dragonfly, whose
deviation is printed as it is. Rings go no further than 256 ranks: their messages are too many.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[2]))

from capsule.extrapolation.costs import reckon
from capsule.stats import RelativeFit, fit_relative

FITTED, WORLDS = (2, 3, 4), (8, 16, 64, 96, 256, 1024, 4096)
# of equal parts for all of these: SimGrid sends what is left of a division by another algorithm
SIZES = (3 << 13, 3 << 19)
WITHIN = 0.1
NETWORKS = {
    "flat": "",
    "fat tree": 'topology="FAT_TREE" topo_parameters="3;16,16,16;1,4,4;1,1,1"',
    "dragonfly": 'topology="DRAGONFLY" topo_parameters="16,1;8,1;8,1;4"',
}
# SimGrid 3.32 ends with a segmentation fault at 4096 ranks of it, by recursive doubling
_CROWDED = {"dragonfly": 1024}
_NODES = 4096
_CLUSTER = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<cluster id="c" prefix="n" suffix="" radical="0-{last}" speed="1Gf" bw="1.25GBps" lat="1us" {how}/>
</platform>
"""
_PLAIN = (
    # one factor for messages of every size: the model has one
    "--cfg=smpi/bw-factor:0:1",
    "--cfg=smpi/lat-factor:0:1",
    # a rank sends one message at a time; else small ones go out at once, and share its link
    "--cfg=smpi/send-is-detached-thresh:0",
    "--cfg=smpi/host-speed:1Gf",
)


@dataclass(frozen=True)
class Collective:
    """An operation by an algorithm, as the model and as SimGrid call them.

    Attributes:
        line: Of a trace, with the bytes of each rank for `{size}`.
        switch: SimGrid's operation and algorithm.
        most: Ranks at which its replay ends soon.
    """

    operation: str
    algorithm: str
    line: str
    switch: str
    most: int = _NODES


COLLECTIVES = (
    Collective("all-reduce", "ring", "allreduce {size} 0", "allreduce:lr", most=256),
    Collective("all-reduce", "recursive-doubling", "allreduce {size} 0", "allreduce:rdb"),
    Collective("all-reduce", "rabenseifner", "allreduce {size} 0", "allreduce:rab_rdb"),
    Collective("all-gather", "ring", "allgather {size} {size}", "allgather:ring", most=256),
    Collective("broadcast", "binomial-tree", "bcast {size} 0", "bcast:binomial_tree"),
)


@dataclass(frozen=True)
class Row:
    """An operation that was replayed and predicted; seconds."""

    network: str
    collective: Collective
    ranks: int
    size: int
    replayed: float
    predicted: float

    @property
    def deviation(self) -> float:
        """Of the model, in parts of the replay."""
        return self.predicted / self.replayed - 1


def replay(network: str, collective: Collective, ranks: int, size: int) -> float:
    """Seconds that SimGrid says an operation takes."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        platform, hosts, traces = folder / "platform.xml", folder / "hosts", folder / "traces"
        platform.write_text(_CLUSTER.format(last=_NODES - 1, how=NETWORKS[network]))
        hosts.write_text("".join(f"n{rank}\n" for rank in range(ranks)))
        lines = ("init", collective.line.format(size=size), "finalize")
        (folder / "trace").write_text(
            "".join(f"{rank} {line}\n" for rank in range(ranks) for line in lines)
        )
        traces.write_text(f"{folder}/trace\n")
        switch = f"--cfg=smpi/{collective.switch}"
        where = ("-np", str(ranks), "-platform", platform, "-hostfile", hosts, "-replay", traces)
        done = subprocess.run(
            ["smpirun", *where, *_PLAIN, switch, "--log=smpi_replay.fmt:%.15r%n"],
            capture_output=True,
            text=True,
            check=True,
        )
    return float((done.stdout + done.stderr).split()[-1])


def fit(one: Collective) -> RelativeFit:
    """The model of an operation among few ranks of the flat network."""
    places = [(ranks, size) for ranks in FITTED for size in SIZES]
    rows = [reckon(one.operation, one.algorithm, *place) for place in places]
    fitted = fit_relative(rows, [replay("flat", one, *place) for place in places])
    assert fitted is not None
    return fitted


def judge(
    one: Collective, fitted: RelativeFit, network: str, worlds: Sequence[int]
) -> Iterator[Row]:
    """Hold predictions to replays."""
    for ranks in worlds:
        most = min(one.most, _CROWDED.get(network, _NODES))
        for size in SIZES if ranks <= most else ():
            seconds = fitted.give(reckon(one.operation, one.algorithm, ranks, size))
            yield Row(network, one, ranks, size, replay(network, one, ranks, size), seconds)


def main() -> int:
    """Print the table; 1 where the model is further from the flat network than it may be."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--most", type=int, default=_NODES, help="ranks")
    worlds = [one for one in WORLDS if one <= parser.parse_args().most]
    worst = dict.fromkeys(NETWORKS, 0.0)
    for one in COLLECTIVES:
        fitted = fit(one)
        latency, inverse = fitted.coefficients
        print(
            f"{one.operation} by {one.algorithm}: {latency * 1e6:.3f} us a message and"
            f" {1e-9 / inverse:.4f} GB/s were fitted"
        )
        for network in NETWORKS:
            for row in judge(one, fitted, network, worlds):
                worst[network] = max(worst[network], abs(row.deviation))
                print(
                    f"  {network:9}  {row.ranks:5}  {row.size:9,}  {row.replayed * 1e6:11.2f} us"
                    f"  {row.predicted * 1e6:11.2f} us  {row.deviation:+8.1%}",
                    flush=True,
                )
    for network, deviation in worst.items():
        print(f"{network}: {deviation:.1%} at most")
    return int(worst["flat"] > WITHIN)


if __name__ == "__main__":
    sys.exit(main())
