"""docs/minis.md: what was measured of manifests/minis, kept in docs/minis.json."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import minis_faults as faults

from capsule.stats.decision import Region, decide
from capsule.stats.interval import paired_shift
from capsule.stats.runs import Runs

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "manifests" / "minis"
MEASURED = ROOT / "docs" / "minis.json"
PAGE = ROOT / "docs" / "minis.md"

Document = dict[str, Any]

_HEAD = """# Minis

The scientific workloads in a size that a core trains in seconds, on data that a generator makes:
the same networks, losses, measures of quality and checks as at full size. Each is run in a
container with ten seeds, under Apptainer, and verified under Docker with fresh ones.

    capsule run manifests/minis/transformer.json --image docker://... --runtime apptainer
    capsule verify transformer-mini-....capsule.zip --runtime docker

The verbs `run`, `verify`, `plant` and `compare` of `tools/minis.py` measure what stands here and
keep it in [minis.json](minis.json), from which `python tools/minis.py page` writes this page. All
of it was measured with one core for each training, on a machine of two.

"""

_RULES = """
- **untrained** is what the network has before it learns: chance, or the mean of what is due.
- **margin** was written into the manifest before any of these runs, from a pilot with other seeds:
  at most a tenth of the way from untrained to the pilot's quality.
- **quality** is the mean over the seeds of the mean of the last three evaluations, with the
  standard deviation between seeds.
- **reached** counts the seeds whose training reached its target.
- **seconds** are those of `capsule run` for each seed, starts of containers included, and
  **others** the cores that other programs of the machine kept busy meanwhile.
- **verified** says what the verifications under Docker decided at the first look, each with fresh
  seeds of its own; all that were made are counted.

"""

_RANKS = """
## By ranks together

Three of them are also trained data-parallel: the same recipes, targets and margins in
`manifests/minis-ranks`, with one global batch whose samples one, two or four ranks share. DeepCAM
normalizes by groups of two samples there, of which each of four ranks has one, and its mini above
by the batch as a whole; its margin is wider, 0.08, since of its few seeds one in ten may end 0.1
below the others: with 0.05 a verification by two ranks was INCONCLUSIVE. `share` seals one by four
ranks without a container; `reshape` verifies it with fresh seeds, and the sealed ones again, by
other launchers and in other shapes: two ranks of MPI's `mpirun`, four of Slurm's `srun` on two
virtual nodes, and one process alone.

    capsule run manifests/minis-ranks/transformer.json --runtime host
    capsule verify transformer-ranks-....capsule.zip --set /resources/ranks_per_node=1

Both are verbs of `tools/minis.py`. Every run that was made is below, and
what is not there was not made. All ranks had one core together, which other programs kept busy too:
**seconds** of a training say what it took there, and nothing of ranks with cores of their own.

"""

_FAULTS = """
## Faults

Each is one wrong line in a copy of this package, which seals a capsule of two seeds, as any author
would. The copy calls itself another release: one of this name is refused at once, because its
program is another. Then this package is asked: what `check` says of that capsule, and what
`verify --levels own` says, which measures it again without the fault. **claims** are those that
differ, or whose bound the capsule itself breaks, so that there is nothing to reproduce.

"""

_FRAMEWORKS = """
## The same recipe in another framework

The same seeds, initial parameters and order of samples, in float32. The interval is that of the
mean difference of runs under equal seeds, TensorFlow less torch, at the level of a claim.

"""


def names() -> list[str]:
    """Of the minis."""
    return [path.stem for path in sorted(FOLDER.glob("*.json"))]


def manifest(name: str) -> Document:
    """Of a mini, with one core for each training."""
    document: Document = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return {**document, "resources": {**document["resources"], "cpus_per_rank": 1}}


def read() -> Document:
    """What was measured: `minis`, `ranks`, `faults` and `frameworks`, each by name."""
    document: Document = json.loads(MEASURED.read_text(encoding="utf-8"))
    return document


def keep(table: str, name: str, row: Document | list[Document]) -> None:
    """Replace what is known of one, in the file."""
    measured = read()
    measured[table] = dict(sorted({**measured[table], name: row}.items()))
    MEASURED.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    print(name, json.dumps(row), flush=True)


def text(measured: Document) -> str:
    """The page, from the manifests and what was measured."""
    heads = ("mini", "data", "metric", "untrained", "margin", "quality", "reached", "seconds")
    rows = [_mini(name, row) for name, row in measured["minis"].items()]
    page = _HEAD + _table((*heads, "others", "verified"), rows) + _RULES + _count(measured["minis"])
    together = [row for name, runs in measured["ranks"].items() for row in _shared(name, runs)]
    columns: tuple[str, ...] = ("mini", "ranks", "nodes", "launcher", "quality", "reached")
    page += _RANKS + _table((*columns, "seconds", "verdict"), together)
    planted = [
        [fault.name, fault.mini, *_caught(measured["faults"][key])]
        for key, fault in faults.FAULTS.items()
        if key in measured["faults"]
    ]
    page += _FAULTS + _table(("fault", "planted in", "check", "verify", "claims"), planted)
    compared = [_compared(name, row) for name, row in measured["frameworks"].items()]
    columns = ("mini", "seeds", "torch", "tensorflow", "difference", "margin", "within")
    return page + _FRAMEWORKS + _table(columns, compared)


def _mini(name: str, row: Document) -> list[str]:
    document = manifest(name)
    benchmark, qualities = document["benchmarks"][0], list(row["qualities"].values())
    return [
        f"[{name}](../manifests/minis/{name}.json)",
        benchmark["datasets"][0],
        benchmark["target"]["metric"],
        f"{untrained(document):.2f}",
        f"{_margin(document):g}",
        _spread(qualities),
        "{} of {}".format(*row["reached"]),
        f"{row['seconds']:g}",
        f"{row['others']:g}",
        ", ".join(
            f"{row['verdicts'].count(word)} {word}" for word in dict.fromkeys(row["verdicts"])
        ),
    ]


def _shared(name: str, runs: Sequence[Document]) -> list[list[str]]:
    return [
        [
            f"[{name}](../manifests/minis-ranks/{name}.json)",
            str(run["ranks"]),
            str(run["nodes"]),
            run["launcher"],
            _spread(list(run["qualities"].values())),
            "{} of {}".format(*run["reached"]),
            f"{run['seconds']:g}",
            run.get("verdict", "sealed"),
        ]
        for run in runs
    ]


def untrained(document: Mapping[str, Any]) -> float:
    """The quality of what has learned nothing: chance, or always the mean of what is due."""
    (benchmark,) = document["benchmarks"]
    data = document["datasets"][benchmark["datasets"][0]]
    if benchmark["target"]["metric"] == "mean_absolute_error":
        # targets lie evenly between -1 and 1
        return 0.5
    if benchmark["target"]["metric"] == "mean_iou":
        # all background, which is nine tenths, and neither of the two others
        return 0.3
    if benchmark["target"]["metric"] == "spectrum_distance":
        # noise without any structure, of the variance that the maps have
        return 1.5
    return 1 / int(data.get("vocabulary", data.get("classes", 10)))


def _margin(document: Mapping[str, Any]) -> float:
    return float(document["claims"][0]["margin"]["absolute"])


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.4f} ± {statistics.stdev(values):.4f}"


def _count(minis: Mapping[str, Document]) -> str:
    verdicts = [word for row in minis.values() for word in row["verdicts"]]
    reproduced = verdicts.count("REPRODUCED")
    return (
        f"Of {len(verdicts)} verifications {reproduced} were REPRODUCED,"
        f" {verdicts.count('DIFFERENT')} DIFFERENT.\n"
    )


def _caught(outcome: Document) -> list[str]:
    claims = [f"`{name}`" for name in outcome["claims"]]
    nothing = "-" if outcome["check"] else "none: not caught"
    return [outcome["check"] or "whole", outcome["verdict"] or "-", ", ".join(claims) or nothing]


def _compared(name: str, row: Document) -> list[str]:
    margin, torch, other = _margin(manifest(name)), row["torch"], row["tensorflow"]
    differences = {int(seed): other[seed] - torch[seed] for seed in torch if seed in other}
    interval = paired_shift(Runs.of(differences), alpha=0.05)
    assert interval is not None
    word = decide(interval, Region(lower=-margin, upper=margin)).word
    return [
        name,
        str(len(differences)),
        _spread(list(torch.values())),
        _spread(list(other.values())),
        f"{interval.estimate:.4f} ({interval.lower:.4f} to {interval.upper:.4f})",
        f"{margin:g}",
        {"REPRODUCED": "yes", "DIFFERENT": "no"}.get(word, "not decided"),
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "Nothing of this has been measured yet.\n"
    lines = (heads, ["---"] * len(heads), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
