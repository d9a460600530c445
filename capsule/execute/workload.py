"""What one process start is given: its mounts, its whole environment, its command, its job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capsule.execute.workspace import Start, Workspace
from capsule.plan import Group, Trial
from capsule.runtimes.base import Invocation, Mount, Prepared, Runtime

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
# what makes cuBLAS and TensorFlow choose the same kernels in the same order each time
STRICT_VARIABLES = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TF_DETERMINISTIC_OPS": "1"}
_INPUTS = "/capsule/inputs"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How the workloads of a run are started.

    Attributes:
        runtime: The engine.
        prepared: The image, ready to start.
        data: Where each dataset lies on the host.
        threads: Threads that a workload may use.
        device: `cpu` or `cuda`.
        gpus: Devices to expose.
        determinism: `default` or `strict`.
        label: Marks every process and container of this run.
        node: Index of this node in the record.
        deadline: Monotonic time in seconds at which the walltime is used up, None without one.
    """

    runtime: Runtime
    prepared: Prepared
    data: Mapping[str, Path]
    threads: int
    device: str
    gpus: int
    determinism: str
    label: str
    node: int
    deadline: float | None


def environment(setting: Setting) -> dict[str, str]:
    """The variables that every workload of the run gets; nothing of the caller's own leaks in."""
    return {
        **dict.fromkeys(THREAD_VARIABLES, str(setting.threads)),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "CAPSULE_RUN": setting.label,
        **(STRICT_VARIABLES if setting.determinism == "strict" else {}),
    }


def job(workspace: Workspace, group: Group, setting: Setting) -> dict[str, Any]:
    """The slice of the plan that `levels` reads, in the form `capsule-job/1`."""
    # where `invocation` mounts the folder of inputs
    inputs = setting.runtime.inside(Mount(source=workspace.inputs, target=_INPUTS))
    return {
        "format": "capsule-job/1",
        "framework": group.framework,
        "seed": group.seed,
        "determinism": setting.determinism,
        "device": setting.device,
        "threads": setting.threads,
        "ranks": 1,
        "data": {},
        "trials": [_trial(trial, inputs) for trial in group.trials],
    }


def _trial(trial: Trial, inputs: str) -> dict[str, Any]:
    benchmark = trial.benchmark
    subject = {
        "operator": benchmark.operator,
        "network": benchmark.network,
        "source": f"{inputs}/{benchmark.source}" if benchmark.source else None,
        "trains": benchmark.trains if benchmark.network else None,
    }
    return {
        "id": trial.id,
        "benchmark": benchmark.id,
        "level": benchmark.level,
        **{name: value for name, value in subject.items() if value is not None},
        "dtype": benchmark.dtype,
        "case": trial.case.name,
        "parameters": dict(trial.case.parameters),
        "repetitions": benchmark.repetitions,
        "warmup": benchmark.warmup,
        "datasets": [],
    }


def invocation(workspace: Workspace, group: Group, start: Start, setting: Setting) -> Invocation:
    """How to start a group: `levels` with its job, or the manifest's own command."""
    out = Mount(source=start.out, target="/out", writable=True)
    inside = setting.runtime.inside
    variables = {
        **environment(setting),
        "PYTHONHASHSEED": str(group.seed),
        "HOME": inside(out),
    }
    first = group.trials[0]
    mounts: tuple[Mount, ...]
    command: tuple[str, ...]
    if first.benchmark.command is None:
        levels = Mount(source=workspace.levels, target="/capsule/levels")
        task = Mount(source=start.job, target="/capsule/job.json")
        mounts = (out, levels, task)
        if any(trial.benchmark.inputs for trial in group.trials):
            mounts += (Mount(source=workspace.inputs, target=_INPUTS),)
        command = (
            "python3",
            inside(levels),
            "run",
            inside(task),
            f"{inside(out)}/journal.jsonl",
        )
    else:
        mounts, command, more = _command(workspace, first, out, setting)
        variables |= more
    return Invocation(
        command=command,
        environment=variables,
        mounts=mounts,
        cwd=inside(out),
        gpus=setting.gpus,
        network=first.benchmark.online,
        label=setting.label,
        stdout=start.stdout,
        stderr=start.stderr,
    )


def probe(workspace: Workspace, start: Start, setting: Setting) -> Invocation:
    """How to ask an image what software it holds, when no `levels` group tells it anyway."""
    out = Mount(source=start.out, target="/out", writable=True)
    levels = Mount(source=workspace.levels, target="/capsule/levels")
    inside = setting.runtime.inside
    return Invocation(
        command=("python3", inside(levels), "probe"),
        environment={**environment(setting), "HOME": inside(out)},
        mounts=(out, levels),
        cwd=inside(out),
        gpus=setting.gpus,
        label=setting.label,
        stdout=start.stdout,
        stderr=start.stderr,
    )


def _command(
    workspace: Workspace, trial: Trial, out: Mount, setting: Setting
) -> tuple[tuple[Mount, ...], tuple[str, ...], dict[str, str]]:
    """Mounts, argument list and variables of a command benchmark."""
    inside = setting.runtime.inside
    inputs = Mount(source=workspace.inputs, target=_INPUTS)
    data = {
        name: Mount(source=setting.data[name], target=f"/capsule/data/{name}")
        for name in trial.benchmark.datasets
    }
    # a word that names an input file means that file, wherever the engine shows it
    command = tuple(
        f"{inside(inputs)}/{word}" if word in trial.benchmark.inputs else word
        for word in trial.benchmark.command or ()
    )
    variables = {
        "CAPSULE_TRIAL": trial.id,
        "CAPSULE_SEED": str(trial.seed),
        "CAPSULE_OUT": inside(out),
        "CAPSULE_RESULTS": f"{inside(out)}/results.jsonl",
        "CAPSULE_INPUTS": inside(inputs),
        **{f"CAPSULE_DATA_{_variable(name)}": inside(mount) for name, mount in data.items()},
    }
    return (out, inputs, *data.values()), command, variables


def _variable(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name).upper()
