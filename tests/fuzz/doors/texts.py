"""What a command printed or left in a file, and where its manifest says that a number is in it.

An input is a metric's `from` in one line of JSON, and below it the text.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from capsule import extraction, manifest, plan
from capsule.errors import DamagedError
from capsule.execute import texts
from capsule.execute.reports import Journal, merge
from capsule.execute.workspace import RankFiles
from capsule.localpaths import LocalPaths
from capsule.manifest.sources import SCALARS
from tests.fuzz import mutate
from tests.fuzz.campaign import Door
from tests.fuzz.doors.reports import seal
from tests.support import eventfiles
from tests.support.records import manifest_document

_TEXTS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"pattern": "loss: ([0-9.]+)"}, "begin\nstep 1 loss: 0.5\rstep 2 loss: 0.25\nend\n"),
    (
        {"pattern": "step (?P<step>.*) loss: (?P<value>.*)", "occurrence": "all"},
        "step 1 loss: 0.5\nstep 2 loss: 0.25\n",
    ),
    ({"json": "/a/b~1c", "file": "out.json"}, '{"a": {"b/c": [1, 2.5, NaN]}}'),
    ({"csv": "loss", "file": "a/log.csv", "step": "n"}, 'n,loss\n1,0.5\n2,""\n3,"0.25"\n'),
    (
        {"mllog": "eval", "stream": "stderr"},
        ':::MLLOG {"key": "eval", "value": 0.5, "metadata": {"epoch_num": 1}}\n',
    ),
)


_EVENTS: dict[str, Any] = {"tensorboard": "loss", "file": "runs"}
_PAYLOADS = (
    eventfiles.VERSION,
    eventfiles.event(1, eventfiles.simple("loss", 0.5)),
    eventfiles.event(2, eventfiles.tensor("loss", b"\x08\x01\x2d\0\0\0\x3f")),
    eventfiles.begins(2),
)


def make_text(random: Random) -> bytes:
    """A source and a text that has its number, one or both changed."""
    if random.random() < 0.2:
        return json.dumps(_EVENTS).encode() + b"\n" + _make_events(random)
    source, text = random.choice(_TEXTS)
    if random.random() < 0.3:
        source = mutate.document(source, random, 1)
    data = text.encode() * random.choice((1, 1, 1, 300))
    if random.random() < 0.8:
        data = mutate.text(data, random)
    return json.dumps(source).encode() + b"\n" + data


def _make_events(random: Random) -> bytes:
    """Event files whose messages, or whose records, are no longer what a program writes."""
    payloads = [
        mutate.text(payload, random) if random.random() < 0.5 else payload for payload in _PAYLOADS
    ]
    data = b"".join(map(eventfiles.record, payloads))
    return mutate.text(data, random) if random.random() < 0.3 else data


def send_text(data: bytes, folder: Path) -> None:
    """Read it as that of a command that ended well; what it amounts to can be sealed."""
    head, _, text = data.partition(b"\n")
    document = manifest_document(image=False)
    command = next(one for one in document["benchmarks"] if "command" in one)
    try:
        source = json.loads(head)
    except ValueError:
        raise DamagedError("no source") from None
    command["metrics"] = {"loss": {"from": source}}
    whole = {**document, "benchmarks": [command], "claims": []}
    read = manifest.read(json.dumps(whole).encode(), where="a", folder=None)
    (trial, *_) = plan.make(read).groups[0].trials
    files = RankFiles(folder=folder)
    (loss,) = trial.benchmark.metrics
    assert loss.source is not None
    path = files.folder / loss.source.text
    if loss.source.text in ("stdout", "stderr"):
        path = path.with_suffix(".txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    if loss.source.text.endswith(SCALARS):
        path = path.parent / eventfiles.NAME
    path.write_bytes(text)
    report = texts.read(files, trial, LocalPaths(folder), ended_well=True, rank=0)
    journal = Journal(software={}, environment={}, reports=(report,))
    seal(merge([journal], (trial,)), (trial,))
    for kept in texts.find(files, trial, 0, reported=False):
        assert extraction.describe(kept.name)


TEXTS = Door(name="texts", make=make_text, send=send_text)
