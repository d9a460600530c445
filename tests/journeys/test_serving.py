"""A network as it is served, from the manifest to the verdict on its tails."""

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from capsule.errors import UsageError
from capsule.manifest import load
from tests.support.command import User, write_manifest

SERVED: dict[str, Any] = {
    "id": "served",
    "level": 1,
    "network": "lenet",
    "cases": [{"batch": 1, "side": 12}],
    "frameworks": ["numpy"],
    "repetitions": 2,
    "serving": {"scenario": "server", "queries": 400, "rate": 1e6},
}
UNIT = "served/batch1side12/numpy"


def claim(metric: str) -> dict[str, Any]:
    return {"metric": f"served/*/*/{metric}", "type": "bound", "at_most": 1000}


def test_tails_are_sealed_shown_and_judged(author: User) -> None:
    tails = ["latency", "latency_p90", "latency_p99"]
    manifest = write_manifest(
        author.folder, seeds=[17], benchmarks=[SERVED], claims=list(map(claim, tails))
    )
    ended = author.run("run", manifest, "--runtime", "host")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    with zipfile.ZipFile(capsule) as opened:
        lines = opened.read("data/results/samples.jsonl").decode().splitlines()
        metrics = json.loads(opened.read("data/results/metrics.json"))["metrics"]
    samples = {line["metric"]: line["values"] for line in map(json.loads, lines)}
    ordered = sorted(samples[f"{UNIT}/latency"])
    assert len(ordered) == 400
    assert metrics[f"{UNIT}/latency"]["median"] == (ordered[199] + ordered[200]) / 2
    assert metrics[f"{UNIT}/latency_p90"]["median"] == ordered[359]
    assert metrics[f"{UNIT}/latency_p99"]["median"] == ordered[395]
    # what follows from samples has none of its own
    assert f"{UNIT}/latency_p99" not in samples
    shown = author.run("show", capsule, COLUMNS="220")
    assert (
        f"Latencies of {UNIT} (server), with 95% intervals from the queries of each run"
        in shown.stdout
    )
    # they all wait for each other, so they are worth few independent ones
    assert re.search(r"seed +queries +p50 +p90 +p99", shown.stdout)
    assert re.search(r"^17 +400 +\S+ ms +\S+ ms +\S+ ms", shown.stdout, re.MULTILINE)
    assert re.search(r" +\(\d of 6\) +\(\d+ of 36\) +\(\d+ of 368\)", shown.stdout)
    assert "(m of n): an interval needs n independent queries" in shown.stdout
    verdict = author.json("verify", capsule)
    assert [one["verdict"] for one in verdict["claims"]] == ["REPRODUCED"] * 3


@pytest.mark.parametrize(
    ("serving", "metric", "message"),
    [
        (
            {"scenario": "single-stream", "queries": 100},
            "latency_p99",
            "100 queries are too few for a 95 % interval of the 99th percentile: use at least 368",
        ),
        ({"scenario": "offline"}, "latency_p90", 'scenario "offline" has no latencies'),
        (
            {"scenario": "server"},
            "latency",
            'needs a rate in queries per second, for example "rate": 20',
        ),
        ({"scenario": "offline", "rate": 5}, "service_time", 'scenario "offline" has no rate'),
        ({"scenario": "servers", "rate": 5}, "latency", "did you mean 'server'?"),
    ],
)
def test_what_cannot_be_served_or_claimed_is_refused_with_the_way_out(
    tmp_path: Path, serving: dict[str, Any], metric: str, message: str
) -> None:
    manifest = write_manifest(
        tmp_path, benchmarks=[{**SERVED, "serving": serving}], claims=[claim(metric)]
    )
    with pytest.raises(UsageError) as refused:
        load(manifest)
    assert message in str(refused.value)
