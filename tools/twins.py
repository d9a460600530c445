"""CPU twins of manifests for GPUs: the same benchmarks in small sizes.

python tools/twins.py manifests/gpu/*.json --into FOLDER    write them, and print the rules
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from capsule.levels.catalog import NETWORKS
from capsule.levels.data.generators import GENERATORS

Entry = Mapping[str, Any]

MAX_SIZE = 16
MAX_BYTES = 4096
MAX_BATCH = 8
MAX_GROUP = 2
MAX_REPETITIONS = 3
MAX_QUERIES = 20
MAX_SEEDS = 1
MAX_WORKERS = 2
MAX_SAMPLES = 4 * MAX_BATCH
WALLTIME = "00:05:00"
# of 32 x 32 their last normalization has one pixel of each sample
SMALLER: dict[str, dict[str, int]] = {"resnet18": {"side": 33}, "resnet50": {"side": 33}}

_RANKS = ("nodes", "ranks_per_node")
_DROPPED = ("$schema", "image", "datasets")

RULES = (
    f"no GPUs, one CPU for each rank, a walltime of {WALLTIME}, the first seed",
    "tf32 is float32, also where it is a word of a case",
    f"a number of an operator's or command's case is at most {MAX_SIZE}; its named set is quick",
    f"an exchange has at most {MAX_BYTES} bytes",
    f"at most {MAX_REPETITIONS} repetitions after one call of warm-up, and {MAX_QUERIES} queries",
    "a network has the sizes of its case quick, but ResNet-18 and ResNet-50 pictures of 33 x 33",
    f"a training has a batch of at most {MAX_BATCH}, at most two parts of a batch, one epoch, no"
    f" target, at most {MAX_WORKERS} workers, and a learning rate that is smaller by as much as its"
    " batch",
    f"at most {MAX_GROUP} samples are normalized together by several ranks",
    f"a generated dataset has {MAX_SAMPLES} samples to train on and {MAX_BATCH} to test on, in the"
    " sizes of the network",
    "cases that become equal are one case; claims have no looks, and none is about a target",
)
"""Changes from a manifest to its twin, a line each."""


def make_twin(document: Entry) -> dict[str, Any]:
    """Return the twin of a manifest.

    Args:
        document: A valid manifest, whose benchmarks use no rules of a competition, no search and
            no networks of users.

    Raises:
        ValueError: A dataset serves networks that need different sizes, or is not generated.
    """
    twin = {name: value for name, value in document.items() if name not in _DROPPED}
    benchmarks = [_shrink(entry) for entry in document["benchmarks"]]
    resources = document.get("resources", {})
    twin |= {
        "name": f"{document['name']}-cpu",
        "title": f"{document['title']}: CPU twin",
        "resources": {
            **{name: resources[name] for name in _RANKS if name in resources},
            "cpus_per_rank": 1,
            "walltime": WALLTIME,
        },
        "seeds": document["seeds"][:MAX_SEEDS],
        "benchmarks": benchmarks,
    }
    if "datasets" in document:
        twin["datasets"] = {
            name: _shrink_dataset(name, entry, document["benchmarks"])
            for name, entry in document["datasets"].items()
        }
    if "claims" in document:
        twin["claims"] = [
            {field: value for field, value in claim.items() if field != "looks"}
            for claim in document["claims"]
            if not claim["metric"].endswith("_to_target")
        ]
    return twin


def write(path: Path, folder: Path) -> Path:
    """Write the twin of a manifest file, and the inputs beside it, into a folder.

    Returns:
        The twin's file.
    """
    document = json.loads(path.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    for name in {name for entry in document["benchmarks"] for name in entry.get("inputs", ())}:
        source, target = path.parent / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)
    target = folder / path.name
    target.write_text(json.dumps(make_twin(document), indent=2) + "\n")
    return target


def _shrink(entry: Entry) -> dict[str, Any]:
    """Return the twin of a benchmark."""
    small = dict(entry)
    if small.get("dtype") == "tf32":
        small["dtype"] = "float32"
    for field, most in (("repetitions", MAX_REPETITIONS), ("warmup", 1), ("workers", MAX_WORKERS)):
        if field in small:
            small[field] = min(small[field], most)
    if "bytes" in small:
        small["bytes"] = _unite(min(size, MAX_BYTES) for size in small["bytes"])
    if "serving" in small:
        small["serving"] = {**small["serving"], "queries": MAX_QUERIES}
    if "optimizer" in small:
        small = _shrink_training(small)
    elif "network" in small:
        small["cases"] = [_find_small(small["network"])]
    elif "operator" in small or "command" in small:
        small |= _shrink_cases(small)
    return small


def _shrink_cases(entry: Entry) -> dict[str, Any]:
    """Return the cases of an operator or a command, where it has any."""
    cases = entry.get("cases")
    if cases is None:
        return {}
    if isinstance(cases, str):
        return {"cases": "quick"}
    if isinstance(cases, Mapping):
        return {"cases": {name: _unite(map(_reduce, values)) for name, values in cases.items()}}
    small = [{name: _reduce(value) for name, value in case.items()} for case in cases]
    return {"cases": _unite(small)}


def _shrink_training(entry: Entry) -> dict[str, Any]:
    """Return the twin of a training."""
    sizes = _list_sizes(entry["network"])
    options = {option.name for option in NETWORKS[entry["network"]].options}
    cases = [
        {**{name: value for name, value in case.items() if name not in options}, **sizes}
        for case in entry.get("cases", [{}])
    ]
    batch = min(entry["batch"], MAX_BATCH)
    optimizer = entry["optimizer"]
    rate = optimizer["lr"] * batch / entry["batch"]
    small = {name: value for name, value in entry.items() if name not in ("cases", "target")}
    small |= {"batch": batch, "epochs": 1, "optimizer": {**optimizer, "lr": rate}}
    if any(cases):
        small["cases"] = _unite(cases)
    if "batch_norm_group" in entry:
        small["batch_norm_group"] = min(entry["batch_norm_group"], MAX_GROUP)
    if "accumulate" in entry:
        small["accumulate"] = 2 if entry["accumulate"] > 1 and batch % 2 == 0 else 1
    return small


def _shrink_dataset(name: str, entry: Entry, benchmarks: Iterable[Entry]) -> dict[str, Any]:
    """Return a generated dataset in the sizes of the networks that train on it."""
    if "generator" not in entry:
        raise ValueError(f"dataset {name} is not generated, so its twin cannot be made")
    small = {field: value for field, value in entry.items() if field != "digest"}
    small |= {"samples": MAX_SAMPLES, "test_samples": MAX_BATCH}
    known = {parameter.name for parameter in GENERATORS[entry["generator"]].parameters}
    networks = {one["network"] for one in benchmarks if name in one.get("datasets", ())}
    wanted: dict[str, int] = {}
    for network in sorted(networks):
        complete = NETWORKS[network].complete({"batch": 1, **_list_sizes(network)})
        for size in sorted(known & complete.keys()):
            if wanted.setdefault(size, complete[size]) != complete[size]:
                raise ValueError(
                    f"dataset {name} serves networks of different {size}, {wanted[size]} and"
                    f" {complete[size]}: give each network its own dataset"
                )
    return {**small, **wanted}


def _find_small(network: str) -> dict[str, int]:
    """Return the small case of a network."""
    ((_, point),) = NETWORKS[network].cases["quick"]
    return {**point, **SMALLER.get(network, {})}


def _list_sizes(network: str) -> dict[str, int]:
    """Return the options of a network in its small case, without the batch."""
    return {name: value for name, value in _find_small(network).items() if name != "batch"}


def _reduce(value: Any) -> Any:
    """Return the value of a case's parameter in the twin."""
    if isinstance(value, int) and not isinstance(value, bool):
        return min(value, MAX_SIZE)
    return "float32" if value == "tf32" else value


def _unite(values: Iterable[Any]) -> list[Any]:
    """Return different values, in their order."""
    unique: list[Any] = []
    for value in values:
        if value not in unique:
            unique.append(value)
    return unique


def main() -> None:
    """Write the twins of the files on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("manifests", nargs="+", type=Path, metavar="MANIFEST")
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    for rule in RULES:
        print(f"- {rule}")
    for path in arguments.manifests:
        print(f"{path} -> {write(path, arguments.into)}")


if __name__ == "__main__":
    main()
