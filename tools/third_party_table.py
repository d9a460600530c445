"""Run the programs of manifests/third-party under one engine, verify them under the other."""

from __future__ import annotations

import difflib
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import third_party_sources as sources

ROOT = sources.ROOT
PAGE = ROOT / "docs" / "third-party.md"
MEASURED = sources.FOLDER / "measured.json"
ENGINES = ("docker", "apptainer")
_WORDS = ("REPRODUCED", "DIFFERENT", "INCONCLUSIVE")

_HEAD = """# Programs of others

Public programs, run and verified as they are. None of them is in this repository: each is fetched
by digest, and no line of it is changed; no command is wrapped in a shell. A manifest says what is
started and where the number is found, and the image knows nothing of capsule: it has what the
program imports, or the program itself, compiled from the same source.

    python tools/third_party.py fetch
    python tools/third_party.py image small
    capsule run manifests/third-party/simpy.json --image docker://... --runtime docker
    capsule verify simpy-....capsule.zip --runtime apptainer

`fetch` lets pip, apt and git bring the sources that
[sources.json](../manifests/third-party/sources.json) names, and refuses another digest than is
written there. `image` builds what they run in, and prints the reference. `python
tools/third_party.py table` does all of that for every program, under one engine and then under the
other, and writes this page.

"""

_TAIL = """
- **lines changed** counts the lines in which the files that were sealed are not those of the
  archive or of the commit. What is compiled is built in the image, from the files as they came.
- **found by** says where the number is: a pattern in what the program prints, a member of a JSON
  file, MLPerf's log lines.
- **seed** says how a run gets its own: as a word of the command; *injected* where the program fixes
  its seed or knows none; *none* where nothing in it is random.
- **seconds** are those of `capsule run`, then of `capsule verify`, once Apptainer's form of the
  image is in the cache.
- Rates and times belong to a machine. Both engines ran on the same one, which other work kept busy:
  such margins are wide, INCONCLUSIVE is an honest answer, and `capsule lint` says that between
  machines the claim means little.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """How one program fared.

    Attributes:
        sha256: Of the source that ran.
        lines_changed: In the files that were sealed, against the source.
        engines: What ran it, then what verified it.
        verdict: The word of the verification, or why there is none.
        seconds: Of the run, then of the verification.
    """

    sha256: str
    lines_changed: int
    engines: Sequence[str]
    verdict: str
    seconds: Sequence[float]


def measure(source: sources.Source, image: str, engines: Sequence[str], work: Path) -> Row:
    """Run a program under one engine, and verify it under another.

    Args:
        source: Which.
        image: Reference by digest.
        engines: The two.
        work: A folder to leave the capsules in.
    """
    sources.fetch(source, work)
    capsule = work / f"{source.name}.capsule.zip"
    again = work / f"{source.name}.verification.zip"
    manifest = str(work / f"{source.name}.json")
    chosen = ("--image", image, "--runtime", engines[0])
    ran = _call(work, "run", manifest, *chosen, "-o", str(capsule))
    if not capsule.exists():
        raise sources.FetchError(f"{source.name} was not sealed:\n{ran.text[-3000:]}")
    words = (str(capsule), "--runtime", engines[1], "-o", str(again), "--json")
    checked = _call(work, "verify", *words)
    return Row(
        sha256=source.sha256,
        lines_changed=count_changes(source, capsule, work),
        engines=engines,
        verdict=_verdict(checked.text),
        seconds=[round(ran.seconds, 1), round(checked.seconds, 1)],
    )


def count_changes(source: sources.Source, capsule: Path, work: Path) -> int:
    """Lines that were added to or taken from the program's files on their way into a capsule."""
    lines, prefix = 0, f"data/inputs/sources/{source.name}/"
    with zipfile.ZipFile(capsule) as archive:
        for name in archive.namelist():
            if name.startswith(prefix):
                before = sources.published_bytes(source, name.removeprefix(prefix), work)
                lines += _count_differences(before, archive.read(name))
    return lines


def measure_all(names: Sequence[str], images: Mapping[str, str]) -> None:
    """Measure programs, all of them or some, and write the page.

    Args:
        names: Which; none are all.
        images: Kind of image to reference.
    """
    chosen = [one for one in sources.read().values() if not names or one.name in names]
    with tempfile.TemporaryDirectory() as scratch:
        for number, source in enumerate(chosen):
            engines = ENGINES if number % 2 == 0 else ENGINES[::-1]
            row = measure(source, images[source.image], engines, Path(scratch))
            print(source.name, row, flush=True)
            rows = {**read_measured(), source.name: row}
            document = {name: asdict(row) for name, row in sorted(rows.items())}
            MEASURED.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


def read_measured() -> dict[str, Row]:
    """What was measured last, by name."""
    if not MEASURED.exists():
        return {}
    document = json.loads(MEASURED.read_text(encoding="utf-8"))
    return {name: Row(**row) for name, row in document.items()}


def page() -> str:
    """docs/third-party.md, from the sources, their manifests and what was measured."""
    heads = "program", "version", "source", "language", "lines changed", "found by", "seed"
    heads += "claims", "run, then verified by", "verdict", "seconds"
    rows = [
        _line(source, measured)
        for source in sources.read().values()
        if (measured := read_measured().get(source.name)) is not None
    ]
    rule = ["---"] * len(heads)
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows)]
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


def _line(source: sources.Source, row: Row) -> list[str]:
    manifest = json.loads((sources.FOLDER / f"{source.name}.json").read_text(encoding="utf-8"))
    origin = f"{source.place} at {source.commit[:12]}" if source.commit else source.origin
    return [
        f"[{source.name}](../manifests/third-party/{source.name}.json)",
        source.version,
        f"{origin}, sha256 `{row.sha256[:12]}`",
        source.language,
        str(row.lines_changed),
        ", ".join(_readers(manifest)),
        _seeding(manifest),
        ", ".join(f"{n} {kind}" for kind, n in _claims(manifest).items()),
        ", ".join(row.engines),
        row.verdict,
        ", ".join(f"{value:.0f}" for value in row.seconds),
    ]


def _readers(manifest: Mapping[str, Any]) -> list[str]:
    metrics = [one for benchmark in manifest["benchmarks"] for one in benchmark["metrics"].values()]
    kinds = ("pattern", "json", "csv", "mllog")
    return [kind for kind in kinds if any(kind in metric["from"] for metric in metrics)]


def _seeding(manifest: Mapping[str, Any]) -> str:
    if any(one.get("seeding") == "inject" for one in manifest["benchmarks"]):
        return "injected"
    words = [word for one in manifest["benchmarks"] for word in one["command"]]
    return "word" if "{seed}" in words else "none"


def _claims(manifest: Mapping[str, Any]) -> Counter[str]:
    return Counter(claim["type"] for claim in manifest["claims"])


@dataclass(frozen=True, kw_only=True)
class _Ended:
    text: str
    seconds: float


def _call(work: Path, *words: str) -> _Ended:
    began = time.monotonic()
    command = [sys.executable, "-m", "capsule", *words]
    ended = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    return _Ended(text=ended.stdout or ended.stderr, seconds=time.monotonic() - began)


def _verdict(text: str) -> str:
    try:
        document = json.loads(text)
    except ValueError:
        raise sources.FetchError(f"no verdict:\n{text[-3000:]}") from None
    assert document["verdict"] in _WORDS
    return str(document["verdict"])


def _count_differences(before: bytes, after: bytes) -> int:
    if before == after:
        return 0
    lines = difflib.ndiff(before.decode().splitlines(), after.decode().splitlines())
    return sum(line[:2] in ("+ ", "- ") for line in lines)
