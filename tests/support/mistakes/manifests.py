"""What authors do wrong in a manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.command import Document, User, write_manifest, write_script
from tests.support.mistakes.making import (
    Prepare,
    on_capsule,
    run_claim,
    run_file,
    run_manifest,
    run_source,
    run_text,
    typed,
)


def _other_data(user: User, capsule: Path) -> Sequence[str | Path]:
    (user.folder / "cifar").mkdir()
    (user.folder / "cifar" / "x").write_text("x")
    data = {"cifar": {"path": "cifar", "digest": f"sha256:{'0' * 64}"}}
    return run_manifest(benchmark={"datasets": ["cifar"]}, datasets=data)(user, capsule)


def _operator(**changes: object) -> Prepare:
    benchmark: Document = {
        "id": "gemm",
        "level": 0,
        "operator": "gemm",
        "cases": {"m": [8], "n": [8], "k": [8]},
        "frameworks": ["numpy"],
    }
    return run_manifest(benchmarks=[{**benchmark, **changes}], claims=[])


PREPARE: dict[str, Prepare] = {
    "a misspelt placeholder": run_manifest(benchmark={"command": ["python3", "tiny.py", "{sed}"]}),
    "a pattern without a group": run_source(pattern="loss: [0-9.]+"),
    "a pattern with two groups": run_source(pattern="(loss): (.*)"),
    "a pattern that is none": run_source(pattern="loss: ([0-9.+"),
    "a number from two places": run_source(pattern="(x)", json="/a"),
    "a misspelt field": run_manifest(benchmark={"comand": ["true"], "command": None}),
    "a misspelt field of a metric": run_manifest(
        benchmark={"metrics": {"loss": {"dirction": "lower"}}}
    ),
    "a trailing comma": run_text(lambda text: text.replace('"CC0-1.0",', '"CC0-1.0",,').encode()),
    "a comma before the end": run_text(lambda text: text.rstrip("}\n").encode() + b",}"),
    "JSON with comments": run_text(lambda text: b"// my benchmark\n" + text.encode()),
    "a backslash that is not doubled": run_text(
        lambda text: text.replace(
            '"direction": "lower"', r'"from": {"pattern": "a (\d+)"}'
        ).encode()
    ),
    "a backspace for a word boundary": run_source(pattern="loss: ([0-9.]+)\b"),
    "a tab in a pattern": run_source(pattern="loss:\t([0-9.]+)"),
    "JSON with single quotes": run_text(lambda text: text.replace('"', "'").encode()),
    "YAML": run_text(lambda _: b"name: tiny\ntitle: Tiny\nseeds: [1, 2]\n", "tiny.yaml"),
    "Latin-1": run_text(lambda text: text.replace("A. Author", "J. Müller").encode("latin-1")),
    "a mark of the byte order": run_text(lambda text: text.encode("utf-8-sig")),
    "UTF-16": run_text(lambda text: text.encode("utf-16")),
    "an empty manifest": run_text(lambda _: b""),
    "a manifest that is not there": typed("run", "tiny.jsn", make=write_manifest),
    "a folder for a manifest": typed("run", "."),
    "a script for a manifest": typed("run", "tiny.py", make=write_script),
    "a capsule for a manifest": on_capsule("run", "a.capsule.zip"),
    "an input that is not there": run_manifest(benchmark={"inputs": ["tiny.py", "data.csv"]}),
    "a script that is no input": run_manifest(benchmark={"inputs": None}),
    "a script path that is wrong": run_manifest(benchmark={"command": ["python3", "src/tiny.py"]}),
    "an input above the folder": run_manifest(benchmark={"inputs": ["tiny.py", "../data.csv"]}),
    "an absolute input": run_manifest(benchmark={"inputs": ["tiny.py", "/etc/hosts"]}),
    "an input with a name that is too long": run_file(f"{'数' * 21}.csv", "1"),
    "a command as one text": run_manifest(benchmark={"command": "python3 tiny.py"}),
    "a command as one word": run_manifest(benchmark={"command": ["python3 tiny.py"]}),
    "a command for a shell": run_manifest(
        benchmark={"command": ["python3", "tiny.py", "&&", "echo"]}
    ),
    "seeds twice": run_manifest(seeds=[1, 2, 2]),
    "a seed below zero": run_manifest(seeds=[-1, 2]),
    "seeds as a number": run_manifest(seeds=5),
    "one seed": run_manifest(seeds=[1]),
    "a claim on an unknown metric": run_claim(metric="tiny/default/command/los"),
    "a claim on a metric's last name": run_claim(metric="loss"),
    "a claim without a margin": run_claim(margin=None),
    "a margin in percent": run_claim(margin={"percent": 5}),
    "a margin as a text": run_claim(margin="5%"),
    "a margin below zero": run_claim(margin={"absolute": -1}),
    "a misspelt claim": run_claim(type="equivalance"),
    "a time limit in words": run_manifest(benchmark={"timeout": "30m"}),
    "a time limit below zero": run_manifest(benchmark={"timeout": "-00:10:00"}),
    "a parameter that is a placeholder": run_manifest(benchmark={"cases": {"seed": [1]}}),
    "a parameter that nothing uses": run_manifest(benchmark={"cases": {"lr": [1, 2]}}, claims=[]),
    "PATH as a variable": run_manifest(benchmark={"environment": {"PATH": "/opt/bin"}}),
    "a dataset that nobody declares": run_manifest(benchmark={"datasets": ["cifar"]}),
    "data that is not there": run_manifest(
        benchmark={"datasets": ["cifar"]}, datasets={"cifar": {"path": "cifar"}}
    ),
    "data with another digest": _other_data,
    "the placeholder of no dataset": run_manifest(
        benchmark={"command": ["python3", "tiny.py", "{data:cifar}"]}
    ),
    "a misspelt framework": _operator(frameworks=["troch"]),
    "a misspelt operator": _operator(operator="matmull"),
    "a working folder that is no input": run_manifest(benchmark={"cwd": "repo"}),
    "a licence left out": run_manifest(license=None),
}
