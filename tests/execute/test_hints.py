"""What would mend a failed trial: each cause by its evidence, and never one that is none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from capsule.execute.hints import Scene, hint
from capsule.jsons import JsonObject
from capsule.record import Attempt, Reason
from capsule.runtimes.programs import Origin
from tests.manifest.test_reader import read, variant

NOWHERE = Origin(kind="none")
COMMAND = ["python3", "src/train.py", "--seed", "{seed}"]
OUT, INPUTS = "/capsule-test/starts/0001/out", "/capsule-test/inputs"
KEY = (
    'Traceback (most recent call last):\n  File "<frozen os>", line 685, in __getitem__\nKeyError: '
)
PLAIN_KEY = 'Traceback (most recent call last):\n  File "train.py", line 2, in <module>\nKeyError: '


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An author's folder and, beside it, home."""
    folder = tmp_path / "work"
    for name in ("src/train.py", "src/model.py", "src/nets/unet.py", "pkg/__init__.py", "go.sh"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("pass\n")
    for name in ("data/train.csv", "weights.npy", "src/config.yaml"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    (tmp_path / "home/.cache/models").mkdir(parents=True)
    (tmp_path / "home/.cache/models/tiny.bin").touch()
    return folder


def find(
    folder: Path,
    message: str,
    *,
    reason: Reason = "exit",
    code: int | None = 1,
    contained: bool = False,
    origin: Origin = NOWHERE,
    variables: Mapping[str, str] | None = None,
    carried: str | None = None,
    **fields: Any,
) -> list[str]:
    benchmark: JsonObject = {
        "id": "train",
        "command": COMMAND,
        "inputs": ["src/train.py"],
        "metrics": {"loss": {}},
        **fields,
    }
    (made,) = read(variant(benchmarks=[benchmark], claims=[])).benchmarks
    scene = Scene(
        benchmark=made,
        folder=folder,
        inputs=INPUTS,
        carried=folder / carried if carried else None,
        places=(OUT,),
        contained=contained,
        programs={"python3": "/usr/bin/python3"},
        variables=variables or {},
        home=folder.parent / "home",
        locate=lambda *_: origin,
    )
    attempt = Attempt(
        trial="train/default/command/1",
        attempt=1,
        group="0001",
        seed=1,
        seed_source="manifest",
        outcome="failed",
        reason=reason,
        message=message,
        exit_code=code,
        started="now",
        seconds=1.0,
    )
    return hint(attempt, scene)


def missing(name: str) -> str:
    return f"exit code 1\nModuleNotFoundError: No module named '{name}'"


def no_file(path: str) -> str:
    return f"exit code 1\nFileNotFoundError: [Errno 2] No such file or directory: '{path}'"


# a failure and, of the one sentence that explains it, words
EXPLAINED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a sibling": ({"message": missing("model")}, ["src/model.py", '"inputs"']),
    "a sibling package": ({"message": missing("nets")}, ['add "src/nets" to "inputs"']),
    "a module of a sibling package": ({"message": missing("nets.unet")}, ['add "src/nets" to']),
    "python -m": (
        {"message": "exit code 1\n/usr/bin/python3: No module named model"},
        ["model.py"],
    ),
    "a module where Python does not look": (
        {"message": missing("pkg"), "inputs": ["src/train.py", "pkg"]},
        ["provides module pkg", '"env", "PYTHONPATH={inputs}"'],
    ),
    "a module above the script": (
        {"message": missing("pkg")},
        ['add "pkg" to "inputs"', '"env", "PYTHONPATH={inputs}"'],
    ),
    "a part of a package that was chosen": (
        {"message": missing("nets.unet"), "inputs": ["src/train.py", "src/nets/__init__.py"]},
        ['add "src/nets/unet.py" to "inputs"'],
    ),
    "a user's own package": (
        {"message": missing("labpkg"), "origin": Origin(kind="user")},
        ["labpkg", "pip install --user", "virtual environment"],
    ),
    "a package of PYTHONPATH": (
        {"message": missing("modpkg"), "origin": Origin(kind="path", folder="/sw/packages")},
        ["modpkg", '"env", "PYTHONPATH=/sw/packages"'],
    ),
    "a module that is nowhere": (
        {"message": missing("nothing")},
        ["/usr/bin/python3", "no module nothing", "first on your PATH"],
    ),
    "a module that the image lacks": (
        {"message": missing("nothing"), "contained": True},
        ["image", "no module nothing"],
    ),
    "bash without USER": (
        {"message": "exit code 1\ngo.sh: line 2: USER: unbound variable"},
        ["USER is not set in a trial", '"environment": {"USER": "user"}'],
    ),
    "dash without USER": (
        {"message": "exit code 2\ngo.sh: 2: USER: parameter not set"},
        ["USER is not set in a trial", '"environment"'],
    ),
    "tput without TERM": (
        {"message": "exit code 2\ntput: No value for $TERM and no -T specified"},
        ["TERM is not set in a trial", '{"TERM": "xterm"}'],
    ),
    "os.environ": ({"message": f"exit code 1\n{KEY}'USER'"}, ['{"USER": "user"}']),
    "a variable of the caller": (
        {"message": f"exit code 1\n{KEY}'MY_DATA'", "variables": {"MY_DATA": "/private/place"}},
        ["MY_DATA is not set in a trial", '{"MY_DATA": "..."}'],
    ),
    "a key of the caller": (
        {"message": f"exit code 1\n{KEY}'WANDB_API_KEY'", "variables": {"WANDB_API_KEY": "sesame"}},
        ["WANDB_API_KEY is not set in a trial", "would be published"],
    ),
    "a variable that no manifest sets": (
        {
            "message": "exit code 1\ngo.sh: 2: SLURM_JOB_ID: unbound variable",
            "variables": {"SLURM_JOB_ID": "1"},
        },
        ["SLURM_JOB_ID is not set in a trial", '"env", "SLURM_JOB_ID=..."'],
    ),
    "Julia without USER": (
        {"message": 'exit code 1\nERROR: KeyError: key "USER" not found'},
        ["USER"],
    ),
    "getpass without a name": (
        {"message": "exit code 1\nOSError: No username set in the environment", "contained": True},
        ['{"USER": "user"}'],
    ),
    "a killed worker": (
        {"message": "exit code 1\nRuntimeError: worker (pid 7) is killed by signal: Killed."},
        ["SIGKILL", "memory"],
    ),
    "a killed rank of torchrun": (
        {"message": "exit code 1\n  exitcode  : -9 (pid: 7)\n  traceback : no"},
        ["SIGKILL", "memory"],
    ),
    "a killed program of a script": (
        {"message": "exit code 3\ngo.sh: line 2:    7 Killed\n"},
        ["SIGKILL", "memory"],
    ),
    "a window": (
        {"message": "exit code 1\n_tkinter.TclError: no display name and no $DISPLAY environment"},
        ["DISPLAY", "MPLBACKEND"],
    ),
    "git": (
        {"message": "exit code 128\nfatal: not a git repository (or any parent)"},
        [".git is not in a capsule", '"environment"'],
    ),
    "GitPython": ({"message": "exit code 1\ngit.exc.InvalidGitRepositoryError: /x"}, [".git"]),
    "a module that git ignores": (
        {"message": missing("model"), "inputs": ["."], "carried": "elsewhere"},
        ['add "src/model.py" to "inputs"'],
    ),
    "a data file beside the script": (
        {"message": no_file(f"{INPUTS}/src/config.yaml")},
        ["src/config.yaml", 'add it to "inputs"'],
    ),
    "a data file by a relative path": (
        {"message": no_file("data/train.csv")},
        ["data/train.csv", 'add it to "inputs"', "CAPSULE_INPUTS"],
    ),
    "a data file from the folder that a trial starts in": (
        {"message": no_file(f"{OUT}/weights.npy")},
        ["weights.npy", '"inputs"'],
    ),
    "an input that is looked for elsewhere": (
        {"message": no_file("data/train.csv"), "inputs": ["src/train.py", "data"]},
        ["among the inputs", "CAPSULE_INPUTS", '"cwd"'],
    ),
    "a shell's file": (
        {"message": "exit code 1\ncat: weights.npy: No such file or directory"},
        ["weights.npy", '"inputs"'],
    ),
    "dash's file": (
        {"message": "exit code 2\nsh: 1: cannot open weights.npy: No such file"},
        ["weights.npy"],
    ),
    "bash's redirection": (
        {"message": "exit code 1\ngo.sh: line 3: data/train.csv: No such file or directory"},
        ["data/train.csv"],
    ),
    "R's file": (
        {"message": "exit code 1\n  cannot open file 'data/train.csv': No such file or directory"},
        ["data/train.csv"],
    ),
    "Node's file": (
        {"message": "exit code 1\nError: ENOENT: no such file or directory, open 'data/train.csv'"},
        ["data/train.csv"],
    ),
    "Julia's file": (
        {"message": 'exit code 1\nSystemError: opening file "data/train.csv": No such file'},
        ["data/train.csv"],
    ),
    "Ruby's file": (
        {"message": "exit code 1\nNo such file or directory @ rb_sysopen - data/train.csv"},
        ["data/train.csv"],
    ),
    "Go's file": (
        {"message": "exit code 1\npanic: open data/train.csv: no such file or directory"},
        ["data/train.csv"],
    ),
    "numpy's file": ({"message": "exit code 1\nOSError: weights.npy not found."}, ["weights.npy"]),
    "a file of the home": (
        {"message": no_file(f"{OUT}/.cache/models/tiny.bin")},
        ["~/.cache/models/tiny.bin", "HOME", "dataset"],
    ),
    "a place that a container does not see": (
        {"message": no_file("/etc/passwd"), "contained": True},
        ["/etc/passwd", "container", "dataset"],
    ),
    "a program of the host": (
        {"message": no_file("sh"), "contained": True},
        ["program sh", "not in the image"],
    ),
    "the script itself": (
        {
            "message": f"exit code 2\npython3: can't open file '{OUT}/go.sh'",
            "command": ["python3", "go.sh"],
        },
        ["go.sh", "inputs"],
    ),
    "a question": (
        {"message": "exit code 1\nEOFError: EOF when reading a line"},
        ["stdin is closed", '"stdin"'],
    ),
    "a library of nowhere": (
        {"message": "exit code 127\n./a: libsolver.so.2: cannot open shared object file"},
        ["libsolver.so.2", "LD_LIBRARY_PATH"],
    ),
    "a missing program": (
        {
            "message": "cannot start x",
            "reason": "not-started",
            "code": None,
            "command": ["pyhton3"],
            "inputs": [],
        },
        ["pyhton3", "PATH"],
    ),
    "a missing program of the image": (
        {
            "message": "cannot start x",
            "reason": "not-started",
            "code": None,
            "command": ["julia"],
            "inputs": [],
            "contained": True,
        },
        ["julia", "image"],
    ),
    "a script without #!": (
        {
            "message": "cannot start go.sh",
            "reason": "not-started",
            "code": None,
            "command": ["go.sh"],
            "inputs": ["go.sh"],
        },
        ["go.sh", "#!"],
    ),
    "a limit of time": ({"message": "exceeded", "reason": "timeout", "code": None}, ['"timeout"']),
}

# what the trial said is no evidence of anything that this machine could mend
UNEXPLAINED: dict[str, dict[str, Any]] = {
    "git, outside of any clone": {
        "message": "exit code 1\nCommand '['git', 'log']' returned non-zero exit status 128."
    },
    "its own error": {"message": "exit code 1\nValueError: bad shape"},
    "a silent end": {"message": "exit code 3"},
    "a dictionary's key": {"message": f"exit code 1\n{PLAIN_KEY}'USER'"},
    "a variable that nobody has": {"message": "exit code 1\ngo.sh: line 2: LOSS: unbound variable"},
    "a missing argument": {"message": "exit code 1\ngo.sh: line 2: 1: unbound variable"},
    "a variable that the manifest sets": {
        "message": "exit code 1\ngo.sh: line 2: USER: unbound variable",
        "environment": {"USER": "u"},
    },
    "a variable that each trial has": {
        "message": f"exit code 1\n{KEY}'HOME'",
        "variables": {"HOME": "/root"},
    },
    "a file that nobody has": {"message": no_file("nothing.csv")},
    "an absolute path that nobody has": {"message": no_file("/no/such/file")},
    "a file that the trial removed": {"message": no_file(f"{INPUTS}/src/train.py")},
    "an output that was not written": {"message": no_file(f"{OUT}/model.pt")},
    "a file of the host without a container": {"message": no_file("/etc/passwd")},
    "words about modules": {"message": "exit code 1\nloaded module named model"},
    "a killed program": {"message": "ended by SIGKILL", "reason": "signal", "code": None},
    "a number that is none": {"message": "loss is nan (1 of 1 values)", "reason": "non-finite"},
    "a library that is there": {
        "message": "exit code 127\nlibc.so.6: cannot open shared object file",
        "variables": {"LD_LIBRARY_PATH": "LIBRARIES"},
    },
}


@pytest.mark.parametrize("kind", EXPLAINED)
def test_a_cause_is_told_by_its_evidence_with_the_key_that_mends_it(
    folder: Path, kind: str
) -> None:
    failure, words = EXPLAINED[kind]
    found = find(folder, **failure)
    assert len(found) == 1, found
    for word in words:
        assert word in found[0]
    assert "private" not in found[0]
    assert "sesame" not in found[0]


@pytest.mark.parametrize("kind", UNEXPLAINED)
def test_no_cause_is_told_without_evidence(folder: Path, kind: str) -> None:
    failure = dict(UNEXPLAINED[kind])
    if failure.get("variables") == {"LD_LIBRARY_PATH": "LIBRARIES"}:
        (folder / "libraries").mkdir()
        (folder / "libraries/libc.so.6").touch()
        failure["variables"] = {"LD_LIBRARY_PATH": str(folder / "libraries")}
    assert find(folder, **failure) == []


@pytest.mark.parametrize(
    ("message", "cwd", "copied"),
    [
        (f"OSError: [Errno 30] Read-only file system: '{INPUTS}/src/a.ckpt'", None, "src"),
        ("OSError: [Errno 30] Read-only file system: 'a.ckpt'", "src", "src"),
        ("sh: 1: cannot create state.txt: Read-only file system", "src/nets", "src/nets"),
        ("OSError: [Errno 30] Read-only file system: '/etc/hosts'", None, None),
        ("OSError: [Errno 30] Read-only file system: 'a.ckpt'", None, None),
    ],
)
def test_an_input_that_can_only_be_read_can_be_copied(
    folder: Path, message: str, cwd: str | None, copied: str | None
) -> None:
    fields: dict[str, Any] = {"inputs": ["src"], **({"cwd": cwd} if cwd else {})}
    hints = " ".join(find(folder, message, contained=True, **fields))
    assert ("CAPSULE_OUT" in hints) == (copied is not None)
    assert copied is None or f'"cwd": {{"copy": "{copied}"}}' in hints
    assert "CAPSULE_OUT" not in " ".join(find(folder, message, **fields))
