"""Operators beside the roofline of the machine that ran them, from the manifest to the table."""

import json
import re
import zipfile

from tests.support.command import User, write_manifest

BENCHMARKS = [
    {
        "id": name,
        "level": 0,
        "operator": name,
        "cases": [parameters],
        "frameworks": ["numpy"],
        "repetitions": 3,
        "roofline": True,
    }
    for name, parameters in (
        ("gemm", {"m": 64, "n": 64, "k": 64}),
        ("relu", {"n": 50_000}),
        ("reshape", {"n": 64, "c": 64, "h": 16, "w": 16}),
    )
]
CLAIM = {"metric": "*/*/*/roofline_share", "type": "threshold", "at_least": 1e-9}


def test_each_operator_s_share_is_shown_and_sealed(author: User) -> None:
    manifest = write_manifest(author.folder, seeds=[17], benchmarks=BENCHMARKS, claims=[CLAIM])
    ended = author.run("run", manifest, "--runtime", "host")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    with zipfile.ZipFile(capsule) as opened:
        lines = opened.read("data/results/samples.jsonl").decode().splitlines()
    samples = {line["metric"]: line["values"] for line in map(json.loads, lines)}
    assert len(samples["gemm/m64n64k64/numpy/machine_flops_per_second"]) >= 5
    assert len(samples["relu/n50000/numpy/machine_bytes_per_second"]) == 10
    shown = author.run("show", capsule, COLUMNS="200")
    assert shown.returncode == 0, shown.stderr
    title = r"Roofline of numpy in float32: products \S+ [TGM]FLOP/s, memory \S+ [TGM]By/s"
    assert re.search(title, shown.stdout)
    row = r"gemm/m64n64k64/numpy +10\.7 .*FLOP/s +.*FLOP/s +(?:products|memory) +\S+%"
    assert re.search(row, shown.stdout), shown.stdout
    # what computes nothing is held to the memory alone, by bytes
    assert re.search(r"reshape/\S+ +0 .*By/s +.*By/s +memory +\S+%", shown.stdout)
    shares = re.findall(r"/numpy .*(?:products|memory) +(\S+)%", shown.stdout)
    assert len(shares) == 3
    # a view moves nothing, whatever its bytes are
    assert max(map(float, shares)) > 100
    assert "more than 100 % of memory" in shown.stdout
    checked = author.run("check", capsule)
    assert checked.returncode == 0, checked.stderr
