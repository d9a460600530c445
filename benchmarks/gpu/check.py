"""Check capsule on a machine with a GPU: is it right there, are its times true, is it fast?

    python benchmarks/gpu/check.py --quick          smallest sizes, at most 150 s
    python benchmarks/gpu/check.py                  all parts, at most 420 s
    python benchmarks/gpu/check.py --dry            every part on CPUs with tiny sizes
    python benchmarks/gpu/check.py --parts facts,clocks

Run it under the interpreter that has torch and capsule. On a machine without network, `--wheels`
names a folder with the wheels that are missing there (`wheels.py` fills it); capsule is then the
checkout itself.

--out gets `gpu.json` with all results, `gpu.md` for people, and a few capsules; with
`--out docs/evidence` the page of the documentation is replaced. Both texts are written again after
each part. Each part is a process with a deadline, so that a hang, a crash or a broken CUDA context
costs that part alone.

Ends with 1 if a part did not end, or if a result is not as it has to be.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

from checking import bounds, clocks, environment, facts, repeats, steps, whole
from checking.part import Called, Json, Part, Settings, call, cut, describe, file_of

ROOT = Path(__file__).resolve().parents[2]
PARTS: dict[str, ModuleType] = {
    "facts": facts,
    "whole": whole,
    "bounds": bounds,
    "clocks": clocks,
    "steps": steps,
    "repeats": repeats,
}
BUDGETS_S = {
    "quick": dict(zip(PARTS, (15, 48, 24, 25, 18, 20), strict=True)),
    "whole": dict(zip(PARTS, (20, 90, 90, 85, 95, 40), strict=True)),
    "dry": dict(zip(PARTS, (240, 1200, 600, 400, 600, 600), strict=True)),
}
"""Seconds of each part; those of `quick` and `whole` add up to 150 and 420."""

# a part stops itself before it is stopped, and its results are written
_RESERVE_S = 2
_PROBE = """
import capsule, torch
print(torch.cuda.get_device_name() if torch.cuda.is_available() else "")
"""


def main() -> int:
    """Run the parts, and write the results after each."""
    options = _parse()
    if options.part:
        return _run_part(options.part, options.limit)
    mode = "dry" if options.dry else "quick" if options.quick else "whole"
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="gpu-check-"))
    try:
        (work / "home").mkdir()
        return _check(options, mode, out, work)
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)


def _check(options: argparse.Namespace, mode: str, out: Path, work: Path) -> int:
    began = time.monotonic()
    python = sys.executable
    if options.wheels is not None:
        python = environment.install(work / "environment", ROOT, options.wheels.resolve())
    probed = call([python, "-c", _PROBE], 120, folder=work)
    if probed.code != 0:
        print(
            f"{python} cannot import capsule and torch: {cut(probed.err, 300)}\nrun the check under"
            " an interpreter that has both, or name a folder of wheels with --wheels",
            file=sys.stderr,
        )
        return 2
    device = probed.out.strip()
    settings = Settings(
        mode=mode,
        cuda=bool(device) and mode != "dry",
        cores=len(os.sched_getaffinity(0)),
        work=str(work),
        out=str(out),
        checkout=str(ROOT),
        python=python,
    )
    parts: dict[str, Json] = {}
    document: Json = {
        "mode": mode,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "commit": _find_commit(),
        "device": device or "no CUDA device",
        "cores": settings.cores,
        "platform": platform.platform(),
        "parts": parts,
    }
    for name in options.parts:
        parts[name] = _start_part(name, settings, BUDGETS_S[mode][name])
        document["seconds"] = round(time.monotonic() - began, 1)
        _write(out, document)
        print(f"{name}: {parts[name]['status']}, {parts[name]['seconds']} s", flush=True)
    found = find_faults(document)
    print(*(found or ["nothing is wrong"]), sep="\n")
    return 1 if found else 0


def _start_part(name: str, settings: Settings, budget_s: float) -> Json:
    """Run a part as a process, and return what it has written."""
    words = [settings.python, Path(__file__).resolve(), "--part", name]
    limit_s = budget_s - _RESERVE_S
    called: Called = call(
        [*words, "--limit", limit_s], budget_s, folder=Path(settings.work), stdin=settings.dump()
    )
    try:
        found: Json = json.loads(file_of(name, settings).read_text())
    except (OSError, ValueError):
        found = {"status": "broken", "steps": {}}
    if called.code is None:
        found["status"] = "stopped at its deadline"
    elif called.code:
        found["status"], found["error"] = f"exit {called.code}", cut(called.err)
    found["seconds"] = round(called.seconds, 1)
    return found


def _run_part(name: str, limit_s: float) -> int:
    """Run a part in this process; its settings come by standard input."""
    part = Part(name, Settings(**json.load(sys.stdin)), limit_s)
    try:
        PARTS[name].run(part)
    except BaseException as error:
        part.found["error"] = describe(error)
        part.finish("broken")
        raise
    part.finish()
    return 0


def find_faults(document: Json) -> list[str]:
    """Return all that is not as it has to be, a line each."""
    parts, found = document["parts"], []
    assert isinstance(parts, dict)
    for name, part in parts.items():
        if part["status"] != "done":
            found.append(f"{name}: {part['status']}: {cut(str(part.get('error', '')), 200)}")
        for step, facts_of_step in part["steps"].items():
            found += _find_in(f"{name}, {step}", facts_of_step)
    return found


# doctor looks for engines, which a machine lent for a check need not have; two fresh runs may
# leave a verdict open
_EXPECTED_EXITS = {
    "facts, doctor": (0, 6),
    "whole, verify, here": (0, 3),
    "whole, verify, on cpu": (0, 3),
}
_REFUSED = "whole, verify, no device visible"
_FALSE = ("caught", "equal bits", "as stated", "as fast", "share as stated")


def _find_in(place: str, node: object) -> list[str]:
    if not isinstance(node, dict):
        return []
    found = []
    for key, value in node.items():
        if key == "exit":
            if place == _REFUSED:
                if value == 0:
                    found.append(f"{place}: exit 0, expected a refusal")
            elif value not in _EXPECTED_EXITS.get(place, (0,)):
                found.append(f"{place}: exit {value}: {cut(str(node.get('error', '')), 200)}")
        elif key in ("alarms", "failed") and value:
            found.append(f"{place}: {len(value)} {key}, for example {next(iter(value.items()))}")
        elif key == "error" and "exit" not in node:
            found.append(f"{place}: {value}")
        elif key in _FALSE and value is False:
            found.append(f"{place}: not {key}")
        elif isinstance(value, dict):
            found += _find_in(f"{place}, {key}", value)
    return found


def _write(out: Path, document: Json) -> None:
    """Replace both files of results."""
    texts = {"gpu.json": json.dumps(document, indent=1) + "\n", "gpu.md": _make_page(document)}
    for name, text in texts.items():
        temporary = out / f".{name}.new"
        temporary.write_text(text)
        temporary.replace(out / name)


_TITLES = {
    "facts": "Machine",
    "whole": "Runs and verifications",
    "bounds": "Right results, and faults found",
    "clocks": "Times of one call",
    "steps": "Samples of a training per second",
    "repeats": "Equal bits",
}


def _make_page(document: Json) -> str:
    """Return the page of the documentation."""
    parts = document["parts"]
    assert isinstance(parts, dict)
    found = find_faults(document)
    lines = [
        *("# GPU", ""),
        "Does capsule run on a GPU, are its results right, its times true, and its trainings fast?",
        "This command wrote the page and [gpu.json](gpu.json), with all results:",
        *("", "    python benchmarks/gpu/check.py --out docs/evidence", ""),
        f"Date: {document['date']} (commit {document['commit']}, mode {document['mode']}).",
        f"Device: {document['device']}; {document['cores']} CPU cores.",
    ]
    for name, part in parts.items():
        lines += ["", f"## {_TITLES[name]}", ""]
        said = PARTS[name].summarize(part["steps"])
        is_table = bool(said) and said[0].startswith("|")
        lines += said if is_table else [f"- {line}" for line in said if line]
    lines += ["", "## Not as it has to be", ""]
    lines += [f"- {cut(line, 300)}" for line in found[:20]] or ["Nothing."]
    return "\n".join(lines) + "\n"


def _find_commit() -> str:
    called = call(["git", "-C", ROOT, "log", "-1", "--format=%h"], 10)
    # a copy without history carries the commit in a file
    marked = ROOT / ".gpu/commit.txt"
    text = called.out if called.code == 0 else marked.read_text() if marked.exists() else "unknown"
    return text.strip()


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", action="store_true", help="smallest sizes, at most 150 s")
    mode.add_argument("--dry", action="store_true", help="on CPUs, tiny sizes")
    parser.add_argument("--parts", type=_read_parts, default=list(PARTS), help="facts,clocks")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "gpu-out")))
    parser.add_argument("--wheels", type=Path, help="folder of wheels to add to the environment")
    parser.add_argument("--keep", action="store_true", help="keep the working folder")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, help=argparse.SUPPRESS)
    return parser.parse_args()


def _read_parts(words: str) -> list[str]:
    chosen = words.split(",")
    if unknown := [one for one in chosen if one not in PARTS]:
        raise argparse.ArgumentTypeError(f"unknown part {unknown[0]}; there are {', '.join(PARTS)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
