"""Whole records, small but complete, with every number given by the test that asks for them."""

import dataclasses
import json
import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from capsule import __version__, digest, notes, summary, verdict
from capsule import manifest as manifests
from capsule.image import Image, Layer
from capsule.manifest import looks
from capsule.manifest.model import Manifest, Metric
from capsule.notes import Note
from capsule.origin import Original, Verification
from capsule.record import Attempt, Dataset, File, FrozenClaim, Record, Samples

SEEDS = (17, 18, 19, 20, 21)
LOSS = "train/default/command/final_loss"
STEP_TIME = "train/default/command/step_time"
REGISTRY = "127.0.0.1:5000"
LEVELS = b"raise SystemExit(0)\n"
LEVELS_DIGEST = str(digest.of_tree({"__main__.py": digest.of_bytes(LEVELS)}))
RUN_UUID = "6f1c6b52-5d1e-4a0e-9a35-0d9c5b1f3c11"

Document = dict[str, Any]
ClaimDocument = Mapping[str, Any]
"""A claim as a manifest has it."""


def manifest_document(
    seeds: tuple[int, ...] = SEEDS,
    image: bool = True,
    asked: Sequence[ClaimDocument] | None = None,
) -> Document:
    document = {
        "name": "tiny-training",
        "title": "A tiny training run",
        "authors": [
            {"name": "Ada Author", "orcid": "0000-0002-1825-0097", "affiliation": "Example Lab"},
            {"name": "Ben Author"},
        ],
        "license": "CC-BY-4.0",
        "paper": {"doi": "10.5555/12345678"},
        "image": {"reference": f"docker://{REGISTRY}/tiny:1"},
        "seeds": list(seeds),
        "datasets": {"ramp": {"path": "ramp.bin", "digest": f"sha256:{'5' * 64}"}},
        "benchmarks": [
            {
                "id": "train",
                "command": ["python3", "train.py"],
                "inputs": ["train.py"],
                "datasets": ["ramp"],
                "metrics": {
                    "final_loss": {"direction": "lower"},
                    "step_time": {
                        "unit": "s",
                        "direction": "lower",
                        "kind": "machine",
                        "resolution": 1e-9,
                    },
                },
            }
        ],
        "claims": asked or [{"metric": LOSS, "type": "equivalence", "margin": {"absolute": 0.05}}],
        "mutable": ["resources"],
    }
    if not image:
        del document["image"]
    return document


def make_manifest(
    seeds: tuple[int, ...] = SEEDS,
    image: bool = True,
    asked: Sequence[ClaimDocument] | None = None,
) -> Manifest:
    """The manifest of `manifest_document`, as a capsule's reader returns it."""
    source = json.dumps(manifest_document(seeds, image, asked), indent=2).encode()
    return manifests.read(source, where="manifest.json", folder=None)


def make_image(reference: str = f"docker://{REGISTRY}/tiny:1", *variables: str) -> Image:
    """An image whose digests really are those of its manifest and configuration."""
    diff_ids = [digest.of_bytes(b"tar 0"), digest.of_bytes(b"tar 1")]
    blobs = [digest.of_bytes(b"gzip 0"), digest.of_bytes(b"gzip 1")]
    media_type = "application/vnd.oci.image.layer.v1.tar+gzip"
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["PATH=/usr/bin:/bin", *variables]},
            "rootfs": {"type": "layers", "diff_ids": [str(item) for item in diff_ids]},
        }
    ).encode()
    config_digest = digest.of_bytes(config)
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "size": len(config),
                "digest": str(config_digest),
            },
            "layers": [{"mediaType": media_type, "size": 6, "digest": str(item)} for item in blobs],
        }
    ).encode()
    manifest_digest = digest.of_bytes(manifest)
    return Image(
        reference=reference,
        pinned=f"{REGISTRY}/tiny@{manifest_digest}",
        index_digest=None,
        manifest_digest=manifest_digest,
        platform="linux/amd64",
        config_digest=config_digest,
        layers=tuple(
            Layer(digest=blob, size_bytes=6, media_type=media_type, diff_id=diff_id)
            for blob, diff_id in zip(blobs, diff_ids, strict=True)
        ),
        manifest=manifest,
        config=config,
    )


def make_record(
    *,
    seeds: tuple[int, ...] = SEEDS,
    fresh: tuple[int, ...] = (),
    losses: Mapping[int, float] | None = None,
    step_times: Mapping[int, tuple[float, ...]] | None = None,
    failed: tuple[int, ...] = (),
    verifies: str | None = None,
    image: bool = True,
    asked: Sequence[ClaimDocument] | None = None,
    **changes: Any,
) -> Record:
    """A record of `train/default/command` with one trial a seed.

    Args:
        seeds: Seeds that ran, in executed order.
        fresh: Those of them that are `fresh`; the manifest's seeds are the others.
        losses: seed -> final loss; by default near 1 and different for every seed.
        step_times: seed -> values of step_time, first of them warm-up.
        failed: Seeds whose trial failed, without samples.
        verifies: Id of the capsule that was re-executed.
        image: False for a run on the host, without one.
        asked: Claims as a manifest has them, in place of the one on the loss.
        **changes: Fields of the record to replace at the end.
    """
    name = RUN_UUID
    if (sorted(seeds), verifies, losses) != (list(SEEDS), None, None):
        # another run, at other times
        identity = f"{sorted(seeds)} {verifies} {sorted((losses or {}).items())}"
        name = str(uuid.uuid5(uuid.UUID(RUN_UUID), identity))
    losses = losses or {seed: 1 + random.Random(seed).gauss(0, 0.01) for seed in seeds}
    clock = random.Random(name)
    step_times = step_times or {
        seed: tuple(0.1 + clock.random() / 100 for _ in range(5)) for seed in sorted(seeds)
    }
    own = tuple(seed for seed in seeds if seed not in fresh) or SEEDS
    manifest = make_manifest(own, image, asked)
    plan = make_plan(manifest, seeds, fresh, verifies)
    record = Record(
        tool=__version__,
        uuid=name,
        origin=Verification(of=verifies, runs=len(fresh) or 1) if verifies else Original(),
        started="2026-03-01T10:00:00+00:00",
        ended="2026-03-01T10:00:42.500+00:00",
        runtime="docker" if image else "host",
        contained=image,
        image=make_image() if image else None,
        image_observations={"engine": "20.10.24"} if image else {},
        manifest=manifest,
        plan=plan,
        plan_digest=str(digest.of_json(plan)),
        nodes=(make_node(),),
        software={"python": "3.11.2", "distributions": {"numpy": "2.1.0"}},
        environment={"variables": {"PYTHONHASHSEED": "0"}, "threads": 2, "effective": {}},
        levels={
            "digest": str(digest.of_tree({"__main__.py": digest.of_bytes(LEVELS)})),
            "release": None,
        },
        datasets=(
            Dataset(name="ramp", digest=f"sha256:{'5' * 64}", bytes=64, files=1, source="path"),
        ),
        claims=(
            FrozenClaim(
                metric=LOSS,
                type="equivalence",
                scale="linear",
                lower=-0.05,
                upper=0.05,
                margin_source="author",
                alpha=0.05,
                primary=True,
                pattern=manifest.claims[0],
                looks=looks.plan(manifest.claims, len(manifest.seeds)),
            ),
        ),
        attempts=tuple(make_attempt(seed, seed in fresh, seed in failed) for seed in seeds),
        samples=make_samples(manifest, set(seeds) - set(failed), losses, step_times),
        notes=(),
    )
    record = dataclasses.replace(record, **changes)
    if asked is None:
        return record
    claims = verdict.freeze(manifest.claims, summary.run_values(record))
    return dataclasses.replace(record, claims=claims)


def noted(*sentences: str) -> tuple[Note, ...]:
    """Notes of a record that end so."""
    return tuple(notes.NOTES("online", reason=sentence) for sentence in sentences)


def make_files() -> list[File]:
    """What a capsule of `make_record` carries besides."""
    return [
        File(path="inputs/train.py", source=b"print('training')\n"),
        File(path="levels/__main__.py", source=LEVELS),
        File(path="logs/0001/stdout.txt", source=b"step 1\nstep 2\n"),
        File(path="logs/0001/stderr.txt", source=b""),
    ]


def make_plan(
    manifest: Manifest,
    seeds: tuple[int, ...],
    fresh: tuple[int, ...] = (),
    verifies: str | None = None,
) -> Document:
    groups = [
        {
            "id": f"{number:04d}-command-{seed}",
            "framework": "command",
            "seed": seed,
            "ranks": 1,
            "trials": [
                {
                    "id": f"train/default/command/{seed}",
                    "benchmark": "train",
                    "case": "default",
                    "parameters": {},
                    "framework": "command",
                    "seed": seed,
                    "seed_source": "fresh" if seed in fresh else "manifest",
                }
            ],
        }
        for number, seed in enumerate(seeds, 1)
    ]
    return {
        "format": "capsule-plan/1",
        "manifest": str(digest.of_bytes(manifest.source)),
        "determinism": "default",
        "verifies": verifies,
        "subjects": [],
        "groups": groups,
    }


def make_node() -> dict[str, Document]:
    return {
        "identity": {"host": "sha256:" + "9" * 16},
        "class": {
            "cpu": {"model": "Example CPU", "sockets": 1, "cores": 2},
            "memory": {"total_bytes": 8 << 30},
            "gpus": None,
        },
        "state": {"load": 0.25},
        "missing": {"governor": "no cpufreq in this kernel"},
    }


def make_attempt(seed: int, fresh: bool = False, failed: bool = False, **changes: Any) -> Attempt:
    attempt = Attempt(
        trial=f"train/default/command/{seed}",
        attempt=1,
        group=f"command-{seed}",
        seed=seed,
        seed_source="fresh" if fresh else "manifest",
        outcome="failed" if failed else "completed",
        reason="exit" if failed else None,
        message="Traceback: no" if failed else "",
        exit_code=1 if failed else 0,
        started="2026-03-01T10:00:01+00:00",
        seconds=1.5,
    )
    return dataclasses.replace(attempt, **changes)


def make_samples(
    manifest: Manifest,
    seeds: set[int],
    losses: Mapping[int, float],
    step_times: Mapping[int, tuple[float, ...]],
) -> tuple[Samples, ...]:
    loss, step_time = manifest.benchmarks[0].metrics

    def line(seed: int, metric: Metric, warmup: int, values: Sequence[float]) -> Samples:
        return Samples(
            metric=f"train/default/command/{metric.name}",
            trial=f"train/default/command/{seed}",
            attempt=1,
            seed=seed,
            unit=metric.unit,
            direction=metric.direction,
            kind=metric.kind,
            resolution=metric.resolution,
            per=metric.per,
            warmup=warmup,
            values=tuple(values),
        )

    ordered = sorted(seeds)
    return (
        *(line(seed, loss, 0, [losses[seed]]) for seed in ordered),
        *(line(seed, step_time, 1, step_times[seed]) for seed in ordered),
    )
