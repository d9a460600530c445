"""The trainings of manifests/minis: run, verified, and with faults that somebody has to notice.

Those of manifests/minis-ranks, which ranks share, are run and verified by launchers.

    python tools/minis.py run --image IMAGE [NAME ...]
    python tools/minis.py verify [--times N] [NAME ...]
    python tools/minis.py share [NAME ...]
    python tools/minis.py reshape [--way WAY] [NAME ...]
    python tools/minis.py plant --image IMAGE [KEY ...]
    python tools/minis.py compare --image TORCH --other TENSORFLOW NAME
    python tools/minis.py page

`run` seals minis under Apptainer in an image that has torch; `verify` verifies under Docker what
`run` left in `--folder`. `share` seals minis that four ranks train, started by capsule itself
without a container; `reshape` verifies them in one way of `minis_ranks.WAYS`, or in each: by MPI's
`mpirun`, by Slurm's `srun` on two nodes, and alone. `plant` puts faults of `minis_faults` into
copies of this package, which seal capsules of their own, and asks this package about them.
`compare` trains minis with the same seeds in torch and in TensorFlow. What is measured is kept in
docs/minis.json at once, and each verb ends by writing docs/minis.md from that.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import minis_faults as faults
import minis_page as page
import minis_ranks as shapes

from capsule import api

ROOT = page.ROOT
Document = page.Document


def main() -> None:
    """Do what the first word says."""
    words = _parse()
    if words.verb == "run":
        for name in words.names or page.names():
            before = page.read()["minis"].get(name, {"verdicts": []})
            # none is forgotten that an earlier capsule of it was given
            row = run(name, words.image, words.folder) | {"verdicts": before["verdicts"]}
            page.keep("minis", name, row)
    elif words.verb == "verify":
        for _ in range(words.times):
            for name in words.names or page.names():
                row = page.read()["minis"][name]
                row["verdicts"].append(verify(name, words.folder, len(row["verdicts"])))
                page.keep("minis", name, row)
    elif words.verb in ("share", "reshape"):
        _train_by_ranks(words)
    elif words.verb == "plant":
        for key in words.names or faults.FAULTS:
            page.keep("faults", key, plant(faults.FAULTS[key], words.image))
    elif words.verb == "compare":
        for name in words.names:
            images = {"torch": words.image, "tensorflow": words.other}
            page.keep("frameworks", name, compare(name, images))
    page.PAGE.write_text(page.text(page.read()), encoding="utf-8")


def _train_by_ranks(words: argparse.Namespace) -> None:
    """Add runs or verifications of minis that ranks share; none is forgotten."""
    ways: Sequence[str | None] = [None]
    if words.verb == "reshape":
        ways = [words.way] if words.way else list(shapes.WAYS)
    for name, way in product(words.names or shapes.names(), ways):
        row = reshape(name, way, words.folder) if way else share(name, words.folder)
        page.keep("ranks", name, [*page.read()["ranks"].get(name, []), row])


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("page", help="write docs/minis.md")
    meanings = {
        "run": "seal minis under Apptainer",
        "verify": "verify them under Docker",
        "share": "seal minis that ranks share",
        "reshape": "verify them by other launchers",
        "plant": "plant faults",
        "compare": "train minis in torch and TensorFlow",
    }
    for verb, meaning in meanings.items():
        one = verbs.add_parser(verb, help=meaning)
        one.add_argument("names", nargs="+" if verb == "compare" else "*", metavar="NAME")
        if verb in ("run", "verify", "share", "reshape"):
            one.add_argument("--folder", type=_absolute, default=ROOT / "build" / "minis")
        if verb == "verify":
            one.add_argument("--times", type=int, default=1, metavar="N")
        elif verb == "reshape":
            one.add_argument("--way", choices=tuple(shapes.WAYS))
        elif verb != "share":
            one.add_argument("--image", required=True, help="with torch, by digest")
        if verb == "compare":
            one.add_argument("--other", required=True, help="with TensorFlow, by digest")
    return parser.parse_args()


def _absolute(word: str) -> Path:
    return Path(word).resolve()


def run(name: str, image: str, folder: Path) -> Document:
    """Seal a mini under Apptainer.

    Args:
        name: Of the mini.
        image: Reference by digest.
        folder: Where its capsule is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sealed = folder / f"{name}.capsule.zip"
    sealed.unlink(missing_ok=True)
    began, others = time.monotonic(), _busy_elsewhere()
    _seal(ROOT, page.manifest(name), image, sealed)
    seconds = time.monotonic() - began
    came_to = _came_to(sealed)
    return {
        **came_to,
        "seconds": round(seconds / came_to["reached"][1], 1),
        "others": round((_busy_elsewhere() - others) / seconds, 1),
    }


def verify(name: str, folder: Path, number: int) -> str:
    """The verdict of one more verification under Docker.

    Args:
        name: Of a mini that `run` has sealed.
        folder: Where.
        number: How many there were before; each draws fresh seeds.
    """
    sealed = folder / f"{name}.capsule.zip"
    if not sealed.exists():
        sys.exit(f"{sealed} is not there: seal it with `tools/minis.py run --image IMAGE {name}`")
    words = ("--runtime", "docker", "--nonce", f"look-{number}", "-o")
    again = folder / f"{name}-{number}.verification.zip"
    again.unlink(missing_ok=True)
    verdict: str = _judge(sealed, *words, str(again))["verdict"]
    return verdict


def share(name: str, folder: Path) -> Document:
    """Seal a mini that four ranks train.

    Args:
        name: Of the mini.
        folder: Where its capsule is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sealed = folder / f"{name}-ranks.capsule.zip"
    sealed.unlink(missing_ok=True)
    manifest = str(shapes.FOLDER / f"{name}.json")
    words = ("--runtime", "host", "--keep-going", "-o", str(sealed), "--work", f"{sealed}.run")
    _call(ROOT, "run", manifest, *words, codes=(0, 5))
    return _world(sealed)


def reshape(name: str, key: str, folder: Path) -> Document:
    """Verify in another way what `share` has sealed.

    Args:
        name: Of the mini.
        key: Of the way, in `minis_ranks.WAYS`.
        folder: Where.
    """
    # each draws fresh seeds
    number = len(page.read()["ranks"].get(name, []))
    sealed, way = folder / f"{name}-ranks.capsule.zip", shapes.WAYS[key]
    if not sealed.exists():
        sys.exit(f"{sealed} is not there: seal it with `tools/minis.py share {name}`")
    again = folder / f"{name}-ranks-{number}.verification.zip"
    again.unlink(missing_ok=True)
    words = ("--runtime", "host", "--nonce", f"look-{number}", *way.words, "-o", str(again))
    with tempfile.TemporaryDirectory(prefix="capsule-") as scratch:
        site = Path(scratch) / "site.json"
        site.write_text(json.dumps({"launcher": way.launcher}), encoding="utf-8")
        judged = _judge(sealed, *words, before=way.before, settings={"CAPSULE_SITE": str(site)})
    return _world(again) | {"verdict": judged["verdict"]}


def _world(sealed: Path) -> Document:
    """What ranks came to, and who started how many of them on how many nodes."""
    with api.open(sealed) as capsule:
        record = capsule.record
        taken = [one.seconds for one in record.attempts]
        (shape,) = {(one.ranks, len(one.nodes)) for one in record.attempts}
        launcher = record.image_observations.get("launcher", "capsule")
    return {
        "ranks": shape[0],
        "nodes": shape[1],
        "launcher": launcher,
        **_came_to(sealed),
        "seconds": round(sum(taken) / len(taken), 1),
    }


def plant(fault: faults.Fault, image: str) -> Document:
    """Let a copy of the package with one wrong line seal a capsule; check and verify that."""
    with tempfile.TemporaryDirectory(prefix="capsule-") as scratch:
        folder = Path(scratch)
        package = faults.copy_package(fault, folder)
        document = page.manifest(fault.mini)
        document["seeds"] = document["seeds"][: faults.SEEDS]
        # nobody publishes a target that their own runs miss
        for benchmark in document["benchmarks"]:
            del benchmark["target"]
        document["claims"] = [
            claim for claim in document["claims"] if not claim["metric"].endswith("time_to_target")
        ]
        sealed = folder / "faulty.capsule.zip"
        _seal(package.parent, document, image, sealed)
        checked = _call(ROOT, "check", str(sealed), codes=(0, 4))
        if checked.returncode:
            said = " ".join(checked.stderr.replace(f"{folder}/", "").split())
            return {"check": said, "verdict": "", "claims": []}
        words = ("--levels", "own", "--runs", str(faults.SEEDS), "--runtime", "docker", "--trust")
        judged = _judge(sealed, *words, "-o", str(folder / "again.zip"))
    # an original that breaks its own bound leaves nothing to reproduce
    claims = {
        claim["metric"].rpartition("/")[2]
        for claim in judged["claims"]
        if claim["verdict"] == "DIFFERENT" or "in the original itself" in claim["sentence"]
    }
    return {"check": "", "verdict": judged["verdict"], "claims": sorted(claims)}


def compare(name: str, images: Mapping[str, str]) -> Document:
    """Qualities of the same seeds by framework.

    Args:
        name: Of the mini.
        images: Reference by digest, by framework.
    """
    qualities = {}
    for framework, image in images.items():
        with tempfile.TemporaryDirectory(prefix="capsule-") as scratch:
            document = page.manifest(name)
            document["benchmarks"][0]["frameworks"] = [framework]
            sealed = Path(scratch) / "a.capsule.zip"
            _seal(ROOT, document, image, sealed)
            qualities[framework] = _qualities(sealed)
    return qualities


def _came_to(sealed: Path) -> Document:
    """What each seed ended with, and how many of how many reached their target."""
    with api.open(sealed) as capsule:
        attempts = capsule.record.attempts
        trials = {one.trial for one in attempts}
        reached = {one.trial for one in attempts if one.outcome == "completed"}
    return {"qualities": _qualities(sealed), "reached": [len(reached), len(trials)]}


def _qualities(sealed: Path) -> dict[str, float]:
    """What each seed ended with."""
    with api.open(sealed) as capsule:
        seeds = {one.trial: one.seed for one in capsule.record.attempts}
        return {
            str(seeds[line.trial]): line.values[0]
            for line in capsule.record.samples
            if line.metric.rpartition("/")[2].startswith("final_")
        }


def _seal(package: Path, document: Document, image: str, sealed: Path) -> None:
    manifest = sealed.with_suffix(".json")
    del document["$schema"]
    manifest.write_text(json.dumps(document), encoding="utf-8")
    words = ("--image", image, "--runtime", "apptainer", "--keep-going", "-o", str(sealed))
    _call(package, "run", str(manifest), *words, "--work", f"{sealed}.run", codes=(0, 5))


def _judge(sealed: Path, *words: str, **how: Any) -> Document:
    ended = _call(ROOT, "verify", str(sealed), *words, "--json", codes=(0, 1, 2, 3), **how)
    document: Document = json.loads(ended.stdout)
    return document


def _call(
    package: Path,
    *words: str,
    codes: Sequence[int] = (0,),
    before: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """A command of the package in a folder, of another command's and with more variables.

    Raises:
        SystemExit: It ended otherwise.
    """
    ended = subprocess.run(
        [*before, sys.executable, "-m", "capsule", *words],
        # the folder that Python is started in comes before all others
        cwd=package,
        env={**os.environ, "PYTHONPATH": str(package), **(settings or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode not in codes:
        raise SystemExit(f"{words[0]} ended with {ended.returncode}:\n{ended.stderr[-3000:]}")
    return ended


def _busy_elsewhere() -> float:
    """Seconds of processor that this machine has spent on all but this program's children."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        ticks = [int(word) for word in file.readline().split()[1:]]
    # user, nice, system, and not idle, waiting
    busy = (sum(ticks[:3]) + sum(ticks[5:8])) / os.sysconf("SC_CLK_TCK")
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    return busy - ours.ru_utime - ours.ru_stime


if __name__ == "__main__":
    main()
