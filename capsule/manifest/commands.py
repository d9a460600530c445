"""Turn a `benchmarks` entry with a command into a value, its cases written out."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from capsule.levels.catalog import determinism
from capsule.manifest import templates
from capsule.manifest.kinds import Command
from capsule.manifest.model import Benchmark, Case, Scalar
from capsule.manifest.problems import Problems, nearest, quote
from capsule.schema import pointer

Raw = Mapping[str, Any]

# what stands for a thing of the trial, wherever the engine shows it
PLACEHOLDERS = ("seed", "case", "trial", "out", "inputs", "threads", "devices", "rank", "ranks")
DATA = "data:"
# what the name of a file may hold that a metric is read from: what whoever reads it again knows
NAME_PLACEHOLDERS = ("seed", "case", "trial", "rank")
MOST_CASES = 100_000
_MOST_NAME = 64
_NOT_IN_SEGMENTS = r"[^A-Za-z0-9._+-]+"
_NO_START = r"^[^A-Za-z0-9]+"
# what starts programs, loads code, or belongs to engines, launchers and us
_REFUSED = r"""(?x)
    PATH | HOME | SHELL | SHELLOPTS | BASHOPTS | BASH_.* | ENV | IFS | PS4 | PROMPT_COMMAND | CDPATH
    | LD_.* | GCONV_PATH | LOCPATH | NLSPATH | LC_ALL | TZ | TMPDIR | GIT_.* | PYTHON.* | PERL5.*
    | RUBYLIB | RUBYOPT | NODE_OPTIONS | NODE_PATH | JAVA_TOOL_OPTIONS | JDK_JAVA_OPTIONS
    | APPTAINER.* | CONTAINER.* | DOCKER.* | ENROOT.* | PODMAN.* | REGISTRY_.* | SARUS.*
    | SHIFTER.* | SINGULARITY.* | CUDA_DEVICE_ORDER | CUDA_VISIBLE_DEVICES | GPU_DEVICE_ORDINAL
    | HIP_VISIBLE_DEVICES | NVIDIA_.* | ONEAPI_DEVICE_SELECTOR | ROCR_VISIBLE_DEVICES
    | ZE_AFFINITY_MASK | ZE_ENABLE_PCI_ID_DEVICE_ORDER | ZE_FLAT_DEVICE_HIERARCHY
    | COBALT_.* | FLUX_.* | HYDI_.* | HYDRA_.* | JSM_.* | LSB_.* | MPIEXEC_.* | MPIRUN_.*
    | MPI_LOCAL.* | OMPI.* | ORTE_.* | PALS_.* | PBS_.* | PMI.* | PRTE_.* | SLURM.*
    | CAPSULE_.*
    """
# what modules of clusters set, with what brings it in
_WAYS = {
    "PYTHONPATH": '; start the command with "env", "PYTHONPATH=..."',
    "LD_LIBRARY_PATH": '; start the command with "env", "LD_LIBRARY_PATH=...", or run without a'
    " container, where a trial inherits the caller's value",
}
# nobody sets these but to be deterministic, and there is a field for that
_STRICT_ALONE = ("CUBLAS_WORKSPACE_CONFIG", "TF_DETERMINISTIC_OPS")


def command(raw: Raw, here: str, problems: Problems) -> tuple[Command, tuple[Case, ...]]:
    """Return the command of an entry that fits the schema, and its cases.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        problems: Collects unknown placeholders, cases of one name, variables that are not free.
    """
    cases = write_out(raw.get("cases"), f"{here}/cases", problems)
    environment: dict[str, str] = dict(raw.get("environment", {}))
    for name in environment:
        if reason := refuse_variable(name):
            problems.add(here + pointer("environment", name[:200]), reason)
    datasets = raw.get("datasets", ())
    _variables_of_datasets(datasets, f"{here}/datasets", problems)
    known = [*placeholders(cases, PLACEHOLDERS), *(DATA + name for name in datasets)]
    # of cases that are wrong, or not drawn, it is not known which parameters they have
    unknown = problems.below(f"{here}/cases") or ("search" in raw and "cases" not in raw)
    for place, text in () if unknown else _texts(raw):
        for name in templates.names(text):
            if name not in known:
                problems.add(f"{here}{place}", fault(name, known))
    for place, path in paths(raw):
        if not is_below(path, raw.get("inputs", ())):
            message = f'{quote(path)} is outside this benchmark\'s inputs; add it to "inputs"'
            problems.add(f"{here}{place}", message)
    if raw.get("ranks_independent") and "world" in raw:
        problems.add(f"{here}/world", 'ranks_independent excludes "world": remove one of the two')
    cwd = raw.get("cwd")
    subject = Command(
        words=tuple(raw["command"]),
        setup=tuple(raw.get("setup", ())),
        environment=environment,
        cwd=cwd["copy"] if isinstance(cwd, Mapping) else cwd,
        copies_cwd=isinstance(cwd, Mapping),
        stdin=raw.get("stdin"),
        injects_seed=raw.get("seeding") == "inject",
        ranks_independent=raw.get("ranks_independent", False),
        declares_world="world" in raw,
        gpu_required=raw.get("gpu_required", False),
    )
    return subject, cases


def paths(raw: Raw) -> Iterator[tuple[str, str]]:
    """Yield the working folder and the standard input of an entry: JSON pointer below it, and
    path.
    """
    cwd = raw.get("cwd")
    copied = cwd.get("copy") if isinstance(cwd, Mapping) else None
    for place, path in (("/cwd", cwd), ("/cwd/copy", copied), ("/stdin", raw.get("stdin"))):
        if isinstance(path, str):
            yield place, path


def is_below(path: str, inputs: Iterable[str]) -> bool:
    """Return whether a path is an input, or inside an input folder; `.` is the manifest's own
    folder.

    >>> is_below("repo/run.py", ["repo"]), is_below("run.py", ["."]), is_below("/bin/sh", ["."])
    (True, True, False)
    """
    return any(
        path == name
        or path.startswith(f"{name}/")
        or (name == "." and path != "" and not path.startswith("/"))
        for name in inputs
    )


def programs(benchmarks: Iterable[Benchmark]) -> list[str]:
    """Return the first words of all commands that name a program of wherever they run, and no
    input.
    """
    words = []
    for benchmark in benchmarks:
        if isinstance(benchmark.subject, Command):
            word = benchmark.subject.words[0]
            is_name = "/" not in word and not any(templates.names(word))
            # a name alone is looked up, whatever lies beside the manifest
            named = [name for name in benchmark.inputs if name != "."]
            if (is_name or word.startswith("/")) and not is_below(word, named):
                words.append(word)
    return list(dict.fromkeys(words))


def data_variable(name: str) -> str:
    """Return the variable that says where a dataset lies.

    >>> data_variable("cifar-10")
    'CAPSULE_DATA_CIFAR_10'
    """
    return "CAPSULE_DATA_" + "".join(c if c.isalnum() else "_" for c in name).upper()


def show(value: Scalar) -> str:
    """Return a parameter as a word of the command has it.

    >>> [show(value) for value in (64, 1e-5, "adam", True)]
    ['64', '1e-05', 'adam', 'true']
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def name_values(case: Case, *, trial: str, seed: int, rank: int) -> dict[str, str]:
    """Return the values of the placeholders that the name of a metric's file may have.

    Args:
        case: Whose parameters are among them.
        trial: Id of the trial.
        seed: The trial's.
        rank: Who leaves the file.
    """
    return {
        **{name: show(value) for name, value in case.parameters.items()},
        "seed": str(seed),
        "case": case.name,
        "trial": trial,
        "rank": str(rank),
    }


def _texts(raw: Raw) -> Iterator[tuple[str, str]]:
    for field in ("setup", "command"):
        for index, word in enumerate(raw.get(field, ())):
            yield f"/{field}/{index}", word
    for name, value in raw.get("environment", {}).items():
        yield pointer("environment", name[:200]), value


def placeholders(cases: Sequence[Case], names: Iterable[str]) -> list[str]:
    """Return the names that a placeholder may have beside the parameters of every case."""
    parameters = [set(case.parameters) for case in cases]
    common = set.intersection(*parameters) if parameters else set()
    return [*sorted(common), *names]


def fault(name: str, known: Sequence[str]) -> str:
    """Return the problem of an unknown placeholder."""
    if name.startswith(DATA):
        data = [one for one in known if one.startswith(DATA)]
        if not data:
            return f'{{{name}}}: this benchmark has no datasets; add the dataset to its "datasets"'
        return f"unknown placeholder {{{name}}}; there are: {_braces(data)}"
    near = nearest(name, known)
    meant = f"did you mean {{{near}}}?" if near else f"there are: {_braces(known)}"
    return f"unknown placeholder {{{name}}}; {meant} (write {{{{{name}}}}} for the text itself)"


def _braces(names: Iterable[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)


def refuse_variable(name: str) -> str | None:
    """Return why a manifest may not set a variable, None where it may."""
    if name in determinism.THREADS:
        return f"cpus_per_rank in resources sets {name}; remove {name}, and set cpus_per_rank"
    if name in _STRICT_ALONE:
        return f'"determinism": "strict" sets {name}; write this field instead of {name}'
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
        return (
            f"found {quote(name)}, expected capital letters, digits and _, starting with a letter"
        )
    if re.fullmatch(_REFUSED, name):
        way = _WAYS.get(name, "")
        return (
            f"{name} cannot be set: it starts programs, loads code, or belongs to engines,"
            f" launchers or capsule{way}"
        )
    return None


def _variables_of_datasets(names: Iterable[str], here: str, problems: Problems) -> None:
    first: dict[str, str] = {}
    for index, name in enumerate(names):
        other = first.setdefault(data_variable(name), name)
        if other != name:
            message = f"{quote(name)} and {quote(other)} would share the variable"
            problems.add(f"{here}/{index}", f"{message} {data_variable(name)}; rename one")


def write_out(
    raw: Any, here: str, problems: Problems, reserved: Sequence[str] = PLACEHOLDERS
) -> tuple[Case, ...]:
    """Return a sweep written out: the one case `default` where an entry has none.

    Args:
        raw: An entry's `cases`: a list of points, or a list of values per parameter.
        here: Its JSON pointer.
        problems: Collects what is wrong.
        reserved: What no parameter may be called.
    """
    if raw is None:
        return (Case(name="default", parameters={}),)
    points = (_grid if isinstance(raw, dict) else _list)(raw, here, problems, reserved)
    cases: list[Case] = []
    names: set[str] = set()
    for place, point, own_name in points:
        name = own_name or name_case(point)
        if not name or len(name) > _MOST_NAME:
            message = (
                f"the values of this case make a name of {len(name)} characters, expected 1 to"
                f" {_MOST_NAME}; write the cases as a list of points, each with its name"
            )
            problems.add(place, message)
        elif name in names:
            problems.add(place, f"two cases have the name {name!r}; rename one")
        names.add(name)
        cases.append(Case(name=name, parameters=point))
    return tuple(cases)


def find_repeated(values: Iterable[Scalar]) -> Scalar | None:
    """Return the first value that occurs twice, None if all differ; true is not 1.

    >>> find_repeated([1, True, 2, 1]), find_repeated([1, True])
    (1, None)
    """
    seen: set[tuple[bool, Scalar]] = set()
    for value in values:
        if (key := (isinstance(value, bool), value)) in seen:
            return value
        seen.add(key)
    return None


Point = tuple[str, dict[str, Scalar], str | None]


def _grid(raw: Raw, here: str, problems: Problems, reserved: Sequence[str]) -> list[Point]:
    check_parameters(raw, here, problems, reserved)
    for name, values in raw.items():
        if (twice := find_repeated(values)) is not None:
            problems.add(here + pointer(name[:200]), f"{quote(twice)} is given twice")
    if (count := math.prod(map(len, raw.values()))) > MOST_CASES:
        problems.add(here, f"makes {count} cases; at most {MOST_CASES} are allowed")
    if problems.below(here):
        return []
    return [
        (here, dict(zip(raw, values, strict=True)), None)
        for values in itertools.product(*raw.values())
    ]


def _list(
    raw: Sequence[Raw], here: str, problems: Problems, reserved: Sequence[str]
) -> list[Point]:
    points: list[Point] = []
    for index, entry in enumerate(raw):
        place = f"{here}/{index}"
        point = {name: value for name, value in entry.items() if name != "name"}
        check_parameters(point, place, problems, reserved)
        if point.keys() != raw[0].keys() - {"name"}:
            found, first = quote(sorted(point)), quote(sorted(raw[0].keys() - {"name"}))
            problems.add(place, f"found parameters {found}, expected {first} as in the first case")
        points.append((place, point, entry.get("name")))
    return points


def check_parameters(
    names: Iterable[str], here: str, problems: Problems, reserved: Sequence[str] = PLACEHOLDERS
) -> None:
    """Note what cannot be the name of a case's parameter, such as what is reserved."""
    for name in names:
        if name in reserved or name == "name":
            message = f"{name!r} is a reserved name; rename the parameter"
            problems.add(here + pointer(name), message)
        elif not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
            message = (
                f"{quote(name)} is not a parameter name: use letters, digits and _ only, starting"
                " with a letter or _, at most 64 characters"
            )
            problems.add(here + pointer(name[:200]), message)


def name_case(parameters: Mapping[str, Scalar]) -> str:
    """Return the name of a case: numbers with their parameters, texts alone, flags as yes or no.

    >>> name_case({"lr": 0.1, "optimizer": "adam", "amp": False})
    'lr0.1-adam-no-amp'
    """
    parts = []
    for name, value in parameters.items():
        if isinstance(value, bool):
            parts.append(name if value else f"no-{name}")
        else:
            parts.append(value if isinstance(value, str) else f"{name}{value}")
    joined = re.sub(_NOT_IN_SEGMENTS, "_", "-".join(parts))
    return re.sub(_NO_START, "", joined)
