"""Faults of ranks that train together, and what notices each.

Run as a program, it prints docs/evidence/ranks-faults.md.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from capsule.levels.catalog import schemes, splitting, training
from capsule.levels.data import generators, samplers
from capsule.levels.networks import build
from tests.support import ranks
from tests.support.ranks import Outcome, Scenario, trial
from tests.support.ranks_plants import SLOW
from tests.support.trainings import SMALL

SIZES: Mapping[str, Mapping[str, int]] = {
    "glyphs": SMALL,
    "universe": {"samples": 12, "test_samples": 5, "side": 8},
    "colours": {**SMALL, "samples": 32, "side": 16, "channels": 3},
    "storms": {"samples": 16, "test_samples": 3, "height": 16, "width": 32},
    "markov": {"samples": 45, "test_samples": 7, "length": 6, "vocabulary": 5},
    "voids": {"samples": 8, "test_samples": 3, "side": 16},
    "letters": {"samples": 20, "test_samples": 5, "side": 28, "classes": 3},
}
GENERATORS: Mapping[str, str] = {"colours": "glyphs", "letters": "glyphs", "voids": "universe"}
"""Of datasets that have another name."""
RESNET: dict[str, Any] = {
    "network": "resnet9",
    "parameters": {"side": 16, "width": 2, "classes": 3, "dropout": 30},
    "datasets": ["colours"],
    "batch": 16,
    "batch_norm_group": 2,
}
COSMOS: dict[str, Any] = {
    "network": "cosmoflow",
    "parameters": {"side": 8, "width": 2, "dropout": 50},
    "datasets": ["universe"],
    "batch": 6,
    "optimizer": {"name": "adam", "lr": 0.001},
}
VOIDS: dict[str, Any] = {
    **COSMOS,
    "parameters": {"side": 16, "width": 2, "dropout": 20},
    "datasets": ["voids"],
    "batch": 4,
}
"""Two convolutions, the second of which has gradients of its halo."""
ALLREDUCE = {"name": "allreduce"}
SERVER = {"name": "parameter-server"}
ASYNCHRONOUS = {"name": "asynchronous-parameter-server"}
STALE = {"name": "stale-synchronous", "staleness": 1}
MODELS = {"name": "model-averaging"}
LOCAL = {"name": "local-sgd", "period": 3}
NEIGHBOURS = {"name": "neighbour-averaging"}
BUCKETED = {"name": "bucketed", "bucket_bytes": 4000}
SHARDED = {"name": "sharded"}
SPATIAL = {"name": "spatial"}
PIPELINED = {"name": "pipelined"}
IN_PARTS: dict[str, Any] = {"batch": 18, "accumulate": 3}
WORDS: dict[str, Any] = {
    "network": "transformer",
    "parameters": {
        **{"layers": 2, "width": 8, "heads": 2},
        **{"length": 6, "vocabulary": 5, "dropout": 20},
    },
    "datasets": ["markov"],
    "batch": 8,
    "accumulate": 2,
    "optimizer": {"name": "adamw", "lr": 0.01},
}
LARGEST = {"name": "top-k", "density": 0.02}
QUANTIZED = {"name": "quantized"}


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, and where it shows: a key of a table of plants.

    Of `ranks_plants` or `splits_plants`.
    """

    name: str
    scheme: Mapping[str, Any]
    ranks: int = 2
    recipe: Mapping[str, Any] | None = None
    is_of_deep500: bool = False

    @property
    def scenario(self) -> Scenario:
        """Of one epoch."""
        entry = trial(self.scheme, epochs=1, **(self.recipe or {}))
        folder = f"{self.name}-{self.scheme['name']}".replace(" ", "-")
        return Scenario(folder, self.ranks, (entry,), self.name)


FAULTS = (
    Fault("rank 0's gradient dropped", ALLREDUCE),
    Fault("rank 0's gradient dropped", SERVER, is_of_deep500=True),
    Fault("sum instead of mean", ALLREDUCE),
    Fault("division by one rank more", ALLREDUCE),
    Fault("ranks count alike, whatever their samples", ALLREDUCE, 4),
    Fault("averaging left out", ALLREDUCE),
    Fault("one rank's gradient taken twice", SERVER),
    Fault("one rank's gradient applied twice", ASYNCHRONOUS),
    Fault("parameters handed out from before the step", ASYNCHRONOUS),
    Fault("staleness beyond its bound", STALE),
    Fault("one rank leaves", STALE, 3),
    Fault("neighbours average gradients, not parameters", NEIGHBOURS, 4, is_of_deep500=True),
    Fault("two neighbours divide by three", NEIGHBOURS, is_of_deep500=True),
    Fault("a wrong neighbour", NEIGHBOURS, 4),
    Fault("parameters averaged a step late", LOCAL),
    Fault("momentum forgotten with each averaging", MODELS),
    Fault("buckets sent before the last micro-batch", BUCKETED, 2, {"batch": 24, "accumulate": 3}),
    Fault("last number of each bucket not sent", BUCKETED),
    Fault("one rank's part stale", SHARDED),
    Fault("boundaries of parts shifted", SHARDED, 3),
    Fault("parameters gathered once for all", SHARDED),
    Fault("one rank leaves", SHARDED, 3),
    Fault("halo of the other side", SPATIAL, 3, VOIDS),
    Fault("halo of zeros", SPATIAL, 2, VOIDS),
    Fault("gradient of the halo dropped", SPATIAL, 2, VOIDS),
    Fault("dense gradient counted by every rank", SPATIAL, 2, VOIDS),
    Fault("one rank's slab left out of the sum", SPATIAL, 3, VOIDS),
    Fault("other samples on one rank", SPATIAL, 2, VOIDS),
    Fault("one rank leaves", SPATIAL, 3, VOIDS),
    Fault("a micro-batch dropped", PIPELINED, 2, IN_PARTS),
    Fault("micro-batches added up and not averaged", PIPELINED, 2, IN_PARTS),
    Fault("no gradients handed back", PIPELINED, 3, IN_PARTS),
    Fault("the micro-batch before handed over", PIPELINED, 2, IN_PARTS),
    Fault("one rank's stage stale", PIPELINED, 2, IN_PARTS),
    Fault("gradients of tied weights apart", PIPELINED, 2, WORDS),
    Fault("one rank leaves", PIPELINED, 3, IN_PARTS),
    Fault("error feedback left out", LARGEST),
    Fault("error feedback left out", QUANTIZED),
    Fault("largest chosen with their sign", LARGEST),
    Fault("numbers of others scaled by one's own scale", QUANTIZED),
    Fault("one rank's optimizer state stale", ALLREDUCE),
    Fault("other initial parameters on each rank", ALLREDUCE),
    Fault("a shard read twice", ALLREDUCE),
    Fault("rest of an uneven batch dropped", ALLREDUCE, 4),
    Fault("equal noise on every rank", ALLREDUCE, 2, COSMOS),
    Fault("statistics of one rank's groups alone", ALLREDUCE, 2, RESNET),
    Fault("bytes counted one way", ALLREDUCE),
    Fault("a two-way exchange counted once", NEIGHBOURS, 4),
    Fault("bytes of the whole node counted by each rank", ALLREDUCE, is_of_deep500=True),
    Fault("one slow rank", ALLREDUCE),
)


def write(folder: Path) -> dict[str, str]:
    """The data of all trainings, in folders of their own; where each lies, by its name."""
    places = {}
    for name, sizes in SIZES.items():
        (folder / name).mkdir()
        generators.write(generators.generate(GENERATORS.get(name, name), sizes), folder / name)
        places[name] = str(folder / name)
    return places


def count_parameters(entry: Mapping[str, Any]) -> int:
    """Trained numbers of a trial's network."""
    graph = build(entry["network"], {**entry["parameters"], "batch": 1})
    return sum(int(numpy.prod(graph.parameters[name].shape)) for name in graph.trainable)


def find_order(entry: Mapping[str, Any], epochs: int) -> int:
    """The fingerprint of all samples in the order that so many epochs have to take them in."""
    fingerprint, batch = samplers.Fingerprint(), entry["recipe"]["batch"]
    count = SIZES[entry["datasets"][0]]["samples"]
    for epoch in range(min(training.ORDERED_EPOCHS, epochs)):
        order = samplers.shuffle(count, 17, epoch)
        fingerprint.add("order", order[: count // batch * batch])
    return fingerprint.value()


def notice(scenario: Scenario, outcome: Outcome) -> list[str]:
    """The metrics by which a training shows that it is wrong, as a reader sees it."""
    (entry,) = (one for one in scenario.trials if one["id"] == outcome.trial)
    ends = {one["outcome"] for one in outcome.ends}
    if ends != {"completed"}:
        assert ends == {"failed"}, outcome.ends
        return ["failed"]
    return list(_notice(entry, scenario, outcome))


def _notice(entry: Mapping[str, Any], scenario: Scenario, outcome: Outcome) -> Iterator[str]:
    first, scheme = outcome.values[0], dict(entry["recipe"]["scheme"])
    if not first["reference_error_ratio"][0] <= 1:
        yield "reference_error_ratio"
    if max(first.get("rank_difference", (0,))) > 0:
        yield "rank_difference"
    if max(first.get("staleness", (0,))) > scheme.get("staleness", numpy.inf):
        yield "staleness"
    if first["order_fingerprint"] != (find_order(entry, len(first["loss"])),):
        yield "order_fingerprint"
    name, elements = scheme.pop("name"), count_parameters(entry)
    recipe = entry["recipe"]
    shared = recipe["batch"], recipe.get("accumulate", 1)
    work = splitting.Work(entry["network"], entry["parameters"], *shared)
    item = int(entry["dtype"][-2:]) // 8
    for place, metric in enumerate(schemes.TRAFFIC):
        due = [
            tuple(
                schemes.traffic(name, scheme, *what, step, work)[place]
                for step in range(1, len(values[metric]) + 1)
            )
            for rank, values in enumerate(outcome.values)
            for what in [(rank, scenario.ranks, elements, item)]
        ]
        if due != [values[metric] for values in outcome.values]:
            yield metric
    if scenario.fault == "one slow rank" and set(first["straggler"]) == {SLOW}:
        yield "straggler"


_HEAD = """# Faults of ranks that train together

Which faults of distributed training were planted, and which check noticed each? One command plants
all faults, on the CPUs of one machine, and writes this page; a test compares the page with a run:

    python -m tests.support.ranks_faults > docs/evidence/ranks-faults.md

The ranks train a small network. Each check is named by its metric:

- `reference_error_ratio`: the first steps, compared with the steps of one process.
- `rank_difference`: the difference of parameters that must be equal on all ranks.
- `order_fingerprint`: the order of all samples, which follows from the seed.
- `bytes_sent`, `bytes_received`, `messages`: counts that follow from the scheme.
- `staleness`: the number of steps that a rank was ahead of the slowest.
- `straggler`: the number of the slow rank; a slow rank breaks no claim.
- `failed`: the trial fails on all ranks, because one rank left.

The column "of Deep500" marks faults that Deep500's own schemes have.

| fault | scheme | ranks | of Deep500 | noticed by |
| --- | --- | --- | --- | --- |
"""


def tabulate(outcomes: Mapping[str, Mapping[str, Outcome]]) -> Iterator[str]:
    """A row of the page for each fault, of what was run of their scenarios."""
    for fault in FAULTS:
        (outcome,) = outcomes[fault.scenario.name].values()
        noticed = ", ".join(f"`{name}`" for name in notice(fault.scenario, outcome)) or "nothing"
        theirs = "yes" if fault.is_of_deep500 else ""
        yield f"| {fault.name} | {fault.scheme['name']} | {fault.ranks} | {theirs} | {noticed} |"


def write_page(rows: Sequence[str]) -> str:
    """The whole page of its rows."""
    return _HEAD + "".join(f"{row}\n" for row in rows)


def run(folder: Path) -> dict[str, dict[str, Outcome]]:
    """All of them, in a folder."""
    scenarios = [fault.scenario for fault in FAULTS]
    (folder / "data").mkdir()
    return ranks.run(folder, write(folder / "data"), scenarios)


def main() -> None:
    """Plant each, and print what noticed it."""
    with tempfile.TemporaryDirectory() as scratch:
        rows = list(tabulate(run(Path(scratch))))
    print(write_page(rows), end="")


if __name__ == "__main__":
    main()
