"""Lines of README.md that start a command's first trial without capsule."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from capsule import plain
from capsule.archive import escapes
from capsule.digest import Digest
from capsule.manifest import Benchmark, Command, commands, templates
from capsule.record import Record

_MOST_BENCHMARKS = 5
_MOST_SEEDS = 20
# stands for the value of a variable where nothing is contained; no text of a manifest holds NUL
_MARK = "\0"
_VARIABLE = re.compile(f"{_MARK}[A-Z0-9_]+{_MARK}")
# the folder of the unpacked capsule
_HERE = f"{_MARK}HERE{_MARK}"
_INDENT = "    "


@dataclass(frozen=True, kw_only=True)
class _Places:
    """Paths of a workload's files and folders, as the workload sees them."""

    out: str = "/out"
    inputs: str = "/capsule/inputs"
    library: str = "/capsule/library"
    seeding: str = "/capsule/seeding"

    def data(self, name: str) -> str:
        return f"/capsule/data/{name}"


class _HostPlaces(_Places):
    def data(self, name: str) -> str:
        return f"{_MARK}{commands.data_variable(name)}{_MARK}"


_CONTAINED = _Places()
_HOST = _HostPlaces(
    inputs=f"{_HERE}/inputs",
    library=f"{_HERE}/levels/library",
    seeding=f"{_HERE}/levels/seeding",
)


@dataclass(frozen=True, kw_only=True)
class _Start:
    """One process start, as it was made; `copied` is the input folder that it had a copy of."""

    benchmark: Benchmark
    case: str
    seed: int
    setup: tuple[str, ...]
    words: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str
    stdin: str | None
    copied: str | None
    mounts: Mapping[str, str]
    gpus: int


def lines(
    record: Record, benchmarks: Sequence[Benchmark], payload: Mapping[str, Digest | None]
) -> Iterator[str]:
    """Yield Markdown lines that run commands by hand.

    Args:
        record: Record of the capsule; it has one rank.
        benchmarks: Commands that were planned.
        payload: Files below `data/`, with their digests where these are known.
    """
    yield "Each command starts the first trial of a benchmark as in the sealed run, but seals no"
    yield "capsule and judges no claim. Type the command in `data/` of the unpacked capsule."
    yield from _names(payload)
    for benchmark in benchmarks[:_MOST_BENCHMARKS]:
        yield from _benchmark(record, benchmark, payload)
    if (more := len(benchmarks) - _MOST_BENCHMARKS) > 0:
        yield ""
        yield f"`manifest.json` has {more} more benchmark{'s' * (more > 1)}."


def _names(payload: Collection[str]) -> Iterator[str]:
    """Yield the command that restores the original names of escaped files."""
    stored = escapes.encode([name for name in payload if name.startswith(escapes.FOLDERS)])
    tops = {name.partition("/")[0] for name in stored if stored[name] != name}
    if not tops:
        return
    yield ""
    yield "Some file names are escaped, also in the lists of SHA-256. Check the files, then restore"
    yield "the original names:"
    yield ""
    yield f"{_INDENT}find {' '.join(sorted(tops))} -depth -name '*=*' -exec python3 -c \\"
    yield f"{_INDENT}  'import os, quopri, sys; [os.rename(path, os.path.join("
    yield f"{_INDENT}  os.path.dirname(path),"
    yield f"{_INDENT}  quopri.decodestring(os.path.basename(path)).decode()))"
    yield f"{_INDENT}  for path in sys.argv[1:]]' {{}} +"


def _benchmark(
    record: Record, benchmark: Benchmark, payload: Mapping[str, Digest | None]
) -> Iterator[str]:
    places = _CONTAINED if record.image else replace(_HOST, out=f"{_HERE}/out/{benchmark.id}")
    start = _first(record, benchmark, payload, places)
    yield ""
    cases = len(benchmark.cases)
    case = f", case `{start.case}` (of {cases} cases)" if cases > 1 else ""
    yield f"`{benchmark.id}`{case}, seed {start.seed}:"
    yield ""
    variables = (*start.environment, *start.environment.values())
    texts = (*start.setup, *start.words, *variables, start.cwd, start.stdin or "")
    command = benchmark.subject
    assert isinstance(command, Command)
    own = (*command.setup, *command.words, *command.environment.values())
    is_clean = all(plain.is_clean(_VARIABLE.sub("", text)) for text in texts)
    if not is_clean or any(_MARK in text for text in own):
        yield "The command has characters that this text cannot show: see `manifest.json`."
        return
    # a capsule carries no modes, and a run starts any of its files
    yield f"{_INDENT}mkdir -p out/{benchmark.id} && chmod -R +x inputs"
    if start.copied is not None and record.image is not None:
        source = shlex.quote(_below("inputs", start.copied))
        yield f"{_INDENT}mkdir -p copy && rm -rf {_copy(start)} && cp -R {source} {_copy(start)}"
    for name in benchmark.datasets:
        yield f"{_INDENT}{commands.data_variable(name)}={_find_data(record, name, payload)}"
    if record.image is None:
        for one in _in_turn(start):
            yield from _fold(_on_the_host(one))
    else:
        image = record.image.pinned
        if image is None:
            yield f"{_INDENT}# no registry has this image: load it, then replace IMAGE by its name"
        if record.image.config is not None:
            yield from ("", "then with Docker:", "")
            for one in _in_turn(start):
                yield from _fold(_by_docker(one, image or "IMAGE"))
        yield from ("", f"{'or' if record.image.config else 'then'} with Apptainer:", "")
        for one in _in_turn(start):
            yield from _fold(_by_apptainer(one, image or "IMAGE"))
    yield ""
    yield from _after(record, benchmark, start)


def _find_data(record: Record, name: str, payload: Mapping[str, Digest | None]) -> str:
    """The place of a dataset as a shell reads it: in the capsule, or wherever the reader has it."""
    digest = next((one.digest for one in record.datasets if one.name == name and one.embedded), "")
    place = f"datasets/{name}"
    carried = {path: str(one) for path, one in payload.items() if path.startswith(f"{place}/")}
    if not carried:
        return f"/path/to/{name}"
    # a dataset is a folder, or the one file in it
    place = next((path for path, one in carried.items() if one == digest), place)
    # engines take their signs between two paths for those in a path
    is_told = plain.is_clean(place) and not (record.image and set(":,") & set(place))
    return f'"$PWD"/{shlex.quote(place)}' if is_told else f"/path/to/{name}"


def _in_turn(start: _Start) -> Iterator[_Start]:
    """The setup, where there is one, and then the command."""
    if start.setup:
        yield replace(start, words=start.setup, stdin=None)
    yield start


def _after(record: Record, benchmark: Benchmark, start: _Start) -> Iterator[str]:
    """Yield where the values are written, and what else to know."""
    sources = [metric.source for metric in benchmark.metrics]
    if any(source is None for source in sources):
        yield f"The command writes its reported values to `out/{benchmark.id}/results.jsonl`."
    if any(sources):
        yield "capsule reads metrics with `from` in `manifest.json` from the output of the command."
    seeds = list(dict.fromkeys(trial["seed"] for _, trial in _trials(record, benchmark)))
    shown = ", ".join(map(str, seeds[:_MOST_SEEDS]))
    more = f" and {len(seeds) - _MOST_SEEDS} more" if len(seeds) > _MOST_SEEDS else ""
    yield f"Seeds: {shown}{more}. For another seed, replace {start.seed} wherever it is the seed."
    if record.image is not None and not benchmark.online:
        yield "If Apptainer refuses `--net` on your machine, leave `--net --network none` out."


def _first(record: Record, benchmark: Benchmark, names: Collection[str], places: _Places) -> _Start:
    """The first trial of a benchmark, filled in as `execute` fills it in."""
    group, trial = _trials(record, benchmark)[0]
    command = benchmark.subject
    assert isinstance(command, Command)
    values = _values(record, benchmark, trial, places)
    data = {name: places.data(name) for name in benchmark.datasets}
    library = any(name.startswith("levels/library/") for name in names)
    image = record.image
    own: Mapping[str, str] = {}
    if image is not None and image.config is not None:
        from capsule.image import documents

        own = documents.variables(image.config, where=image.reference)
    path = (
        places.seeding if command.injects_seed else None,
        own.get("PYTHONPATH"),
        places.library if library else None,
    )
    environment = {
        **{name: templates.fill(text, values) for name, text in command.environment.items()},
        **record.environment["variables"],
        "PYTHONHASHSEED": str(group["seed"]),
        "HOME": places.out,
        "CAPSULE_RANK": "0",
        "CAPSULE_RANKS": "1",
        "CAPSULE_TRIAL": str(trial["id"]),
        "CAPSULE_SEED": values["seed"],
        "CAPSULE_OUT": places.out,
        "CAPSULE_RESULTS": f"{places.out}/results.jsonl",
        "CAPSULE_INPUTS": places.inputs,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        **{commands.data_variable(name): place for name, place in data.items()},
    }
    if command.injects_seed:
        environment["CAPSULE_SEEDING"] = f"{places.out}/.capsule-seeding.jsonl"

    def fill(words: tuple[str, ...]) -> tuple[str, ...]:
        filled = (templates.fill(word, values) for word in words)
        return tuple(_place(word, benchmark, names, places) for word in filled)

    return _Start(
        benchmark=benchmark,
        case=values["case"],
        seed=trial["seed"],
        setup=fill(command.setup),
        words=fill(command.words),
        # in an order that a record which was read has as well
        environment=dict(sorted(environment.items())),
        cwd=places.out if command.cwd is None else _below(places.inputs, command.cwd),
        stdin=command.stdin,
        copied=command.cwd if command.copies_cwd else None,
        mounts={
            "$PWD/inputs": places.inputs,
            **({"$PWD/levels/seeding": places.seeding} if command.injects_seed else {}),
            **({"$PWD/levels/library": places.library} if library else {}),
            **{f"${commands.data_variable(name)}": place for name, place in data.items()},
        },
        gpus=record.manifest.resources.gpus_per_rank,
    )


def _trials(
    record: Record, benchmark: Benchmark
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The trials of a benchmark in their order, each with its process start."""
    return [
        (group, trial)
        for group in record.plan["groups"]
        for trial in group["trials"]
        if trial["benchmark"] == benchmark.id
    ]


def _values(
    record: Record,
    benchmark: Benchmark,
    trial: Mapping[str, Any],
    places: _Places,
) -> dict[str, str]:
    """Return the value of each placeholder."""
    case = {one.name: one for one in benchmark.cases}[trial["case"]]
    return {
        **{name: commands.show(value) for name, value in case.parameters.items()},
        **{commands.DATA + name: places.data(name) for name in benchmark.datasets},
        "seed": str(trial["seed"]),
        "case": case.name,
        "trial": str(trial["id"]),
        "out": places.out,
        "inputs": places.inputs,
        "threads": str(record.environment["threads"]),
        "devices": ",".join(map(str, range(record.manifest.resources.gpus_per_rank))),
        "rank": "0",
        "ranks": "1",
    }


def _place(word: str, benchmark: Benchmark, names: Collection[str], places: _Places) -> str:
    """A word; one that is the path of an input, or of something inside one, as where that lies."""
    path = f"inputs/{word}"
    is_inside = (
        commands.is_below(word, benchmark.inputs)
        and ".." not in word.split("/")
        and (path in names or any(name.startswith(f"{path}/") for name in names))
    )
    return f"{places.inputs}/{word}" if word in benchmark.inputs or is_inside else word


def _below(folder: str, path: str) -> str:
    """An input in the folder of inputs, which `.` itself is."""
    return folder if path == "." else f"{folder}/{path}"


def _copy(start: _Start) -> str:
    """Return the place of the writable copy of a folder."""
    return f"copy/{start.benchmark.id}"


def _by_docker(start: _Start, image: str) -> Iterator[str]:
    reads = "" if start.stdin is None else "--interactive "
    yield f"docker run --rm {reads}--init --read-only --shm-size 2g --cap-drop ALL"
    yield "--security-opt no-new-privileges --tmpfs /tmp:exec,mode=1777"
    network = "" if start.benchmark.online else "--network none "
    gpus = f"--gpus {start.gpus} " if start.gpus else ""
    yield f'{network}{gpus}--user "$(id -u):$(id -g)" --workdir {shlex.quote(start.cwd)}'
    yield f'--volume "$PWD/out/{start.benchmark.id}:{_CONTAINED.out}"'
    for source, target in start.mounts.items():
        yield f'--volume "{source}:{target}:ro"'
    if start.copied is not None:
        target = shlex.quote(f":{_below(_CONTAINED.inputs, start.copied)}")
        yield f'--volume "$PWD/{_copy(start)}"{target}'
    for name, value in start.environment.items():
        yield f"--env {shlex.quote(f'{name}={value}')}"
    program, *words = start.words
    yield f"--entrypoint {shlex.quote(program)} {shlex.quote(image)}"
    if words:
        yield shlex.join(words)
    yield from _input(start)


def _by_apptainer(start: _Start, image: str) -> Iterator[str]:
    yield "env"
    for name, value in start.environment.items():
        # --home sets this one; the engine refuses it as a variable
        if name != "HOME":
            yield shlex.quote(f"APPTAINERENV_{name}={value}")
    network = "" if start.benchmark.online else " --net --network none"
    gpus = " --nv" if start.gpus else ""
    insecure = " --no-https" if _is_loopback(image) else ""
    yield f"apptainer exec --containall --cleanenv --no-eval --no-home{network}{gpus}{insecure}"
    yield f'--bind "$PWD/out/{start.benchmark.id}:{_CONTAINED.out}"'
    for source, target in start.mounts.items():
        yield f'--bind "{source}:{target}:ro"'
    if start.copied is not None:
        target = shlex.quote(f":{_below(_CONTAINED.inputs, start.copied)}")
        yield f'--bind "$PWD/{_copy(start)}"{target}'
    yield f"--home {_CONTAINED.out} --pwd {shlex.quote(start.cwd)}"
    yield f"{shlex.quote(f'docker://{image}')} {shlex.join(start.words)}"
    yield from _input(start)


def _on_the_host(start: _Start) -> Iterator[str]:
    yield f'(HERE="$PWD" && cd {_quote(start.cwd)} && exec env -i PATH="$PATH"'
    for name, value in start.environment.items():
        yield f"{name}={_quote(value)}"
    yield f"{' '.join(map(_quote, start.words))})"
    yield from _input(start)


def _input(start: _Start) -> Iterator[str]:
    """Yield the redirection of standard input, which the shell opens before the command starts."""
    if start.stdin is not None:
        yield f"<{shlex.quote(f'inputs/{start.stdin}')}"


def _quote(text: str) -> str:
    """A word of a shell in which variables are filled in."""
    texts = text.split(_MARK)
    if len(texts) == 1:
        return shlex.quote(text)
    return "".join(
        f'"${part}"' if place % 2 else shlex.quote(part) for place, part in enumerate(texts) if part
    )


def _fold(parts: Iterator[str]) -> Iterator[str]:
    """One command line in several, which a shell reads as one."""
    folded: Sequence[str] = list(parts)
    for number, part in enumerate(folded):
        ahead = _INDENT if number == 0 else _INDENT + "  "
        end = " \\" if number + 1 < len(folded) else ""
        yield f"{ahead}{part}{end}"


def _is_loopback(image: str) -> bool:
    from capsule.image.reference import parse

    return "/" in image and parse(f"docker://{image}").is_loopback
