"""Faults in a torch, through the whole product: run where torch is right, verify where it is wrong.

The second environment is made as an administrator would break one: a Python environment whose torch
is the installed one with `tests/support/faulty_torch.py` imported last. The capsule's own measuring
program runs in both.
"""

import json
import shutil
import site
import subprocess
import sys
from dataclasses import replace
from importlib import util
from pathlib import Path

import pytest

from tests.support.command import Document, User, write_manifest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(util.find_spec("torch") is None, reason="torch is not installed here"),
]

FAULTS = Path(__file__).parents[1] / "support" / "faulty_torch.py"
FORWARD, BACKWARD = "l2_error_ratio", "grad_l2_error_ratio"

Subject = tuple[str, str, dict[str, int], str | None]
"""Operator, dtype, case, the metric whose claim must fall; None: nothing is wrong with it."""
OPERATORS: dict[str, Subject] = {
    "gemm-sums-in-float16": ("gemm", "float16", {"m": 8, "n": 8, "k": 512}, FORWARD),
    "gemm-bias-without-gradient": (
        "gemm",
        "float32",
        {"m": 4, "n": 4, "k": 4, "bias": 1},
        BACKWARD,
    ),
    "conv2d-flipped": (
        "conv2d",
        "float32",
        {"n": 1, "c": 2, "h": 5, "w": 5, "k": 2, "r": 3, "s": 3},
        FORWARD,
    ),
    "conv1d-wrong-gradient": (
        "conv1d",
        "float32",
        {"n": 1, "c": 2, "w": 9, "k": 2, "s": 3},
        BACKWARD,
    ),
    "softmax-wrong-axis": ("softmax", "float32", {"rows": 4, "columns": 6}, FORWARD),
    "layer-norm-unbiased": ("layer_norm", "float32", {"rows": 4, "columns": 8}, FORWARD),
    "batch-norm-by-sample": ("batch_norm", "float32", {"n": 2, "c": 2, "h": 3, "w": 3}, FORWARD),
    "group-norm-not-a-number": (
        "group_norm",
        "float32",
        {"n": 2, "c": 4, "h": 3, "w": 3, "groups": 2},
        FORWARD,
    ),
    "cross-entropy-no-softmax": (
        "softmax_cross_entropy",
        "float32",
        {"rows": 4, "columns": 6},
        FORWARD,
    ),
    "gelu-approximate": ("gelu", "float32", {"n": 100}, FORWARD),
    "sigmoid-half-gradient": ("sigmoid", "float32", {"n": 100}, BACKWARD),
    "embedding-off-by-one": ("embedding", "float32", {"rows": 9, "width": 4, "count": 5}, FORWARD),
    "attention-not-scaled": (
        "attention",
        "float32",
        {"batch": 1, "heads": 1, "length": 4, "width": 8},
        FORWARD,
    ),
    "lstm-gates-moved": ("lstm_cell", "float32", {"n": 2, "width": 3, "hidden": 3}, FORWARD),
    "relu": ("relu", "float32", {"n": 100}, None),
    "add": ("add", "float32", {"rows": 4, "columns": 6}, None),
    "conv3d": (
        "conv3d",
        "float32",
        {"n": 1, "c": 2, "d": 3, "h": 3, "w": 3, "k": 2, "q": 2, "r": 2, "s": 2},
        None,
    ),
}
FAILING: dict[str, Subject] = {"tanh-wrong-type": ("tanh", "float32", {"n": 100}, FORWARD)}


def benchmark(identity: str, operator: str, dtype: str, case: dict[str, int]) -> Document:
    return {
        "id": identity,
        "level": 0,
        "operator": operator,
        "dtype": dtype,
        "cases": [case],
        "frameworks": ["torch"],
        "repetitions": 2,
        "warmup": 0,
    }


def broken_environment(folder: Path) -> Path:
    """An environment with everything of this one but for its torch; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in site.getsitepackages()]
    (packages / "everything.pth").write_text("".join(lines))
    torch = util.find_spec("torch")
    assert torch is not None
    assert torch.origin is not None
    right = Path(torch.origin).parent
    wrong = packages / "torch"
    wrong.mkdir()
    for path in right.iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            (wrong / path.name).symlink_to(path)
    shutil.copy(FAULTS, wrong / "_planted.py")
    text = (right / "__init__.py").read_text() + "\nfrom torch import _planted\n"
    (wrong / "__init__.py").write_text(text)
    return folder / "bin" / "python"


Judgement = tuple[int, Document]
"""Exit code, and what it printed."""


@pytest.fixture(scope="module")
def judgement(tmp_path_factory: pytest.TempPathFactory) -> Judgement:
    """What `verify` makes of a sound capsule where somebody's torch is wrong."""
    base = tmp_path_factory.mktemp("faults")
    author = User.make(base)
    every = {**OPERATORS, **FAILING}
    manifest = write_manifest(
        author.folder,
        seeds=[1],
        benchmarks=[benchmark(name, *what[:3]) for name, what in every.items()],
        claims=[
            {"metric": f"*/*/*/{metric}", "type": "bound", "at_most": 1}
            for metric in (FORWARD, BACKWARD)
        ],
    )
    made = author.run("run", manifest, "--runtime", "host")
    assert made.returncode == 0, made.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    verify = ("verify", capsule, "--runtime", "host", "--trust", "--allow-host", "--json")
    newcomer = User.make(base, "stranger")
    python = str(broken_environment(base / "broken"))
    ended = replace(newcomer, python=python).run(*verify)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def words(judgement: Judgement) -> dict[tuple[str, str], str]:
    """Verdicts by benchmark and metric."""
    _, document = judgement
    return {
        (claim["metric"].split("/")[0], claim["metric"].rpartition("/")[2]): claim["verdict"]
        for claim in document["claims"]
    }


def test_faults_make_the_verdict_different(judgement: Judgement) -> None:
    code, verdict = judgement
    assert (code, verdict["verdict"]) == (1, "DIFFERENT")


@pytest.mark.parametrize("name", [name for name, what in OPERATORS.items() if what[3]])
def test_each_fault_makes_its_own_claim_different(judgement: Judgement, name: str) -> None:
    *_, metric = OPERATORS[name]
    assert metric is not None
    verdicts = words(judgement)
    assert verdicts[name, metric] == "DIFFERENT"
    if metric == BACKWARD:
        assert verdicts[name, FORWARD] == "REPRODUCED"


@pytest.mark.parametrize("name", [name for name, what in OPERATORS.items() if not what[3]])
def test_operators_without_a_fault_stay_reproduced(judgement: Judgement, name: str) -> None:
    verdicts = words(judgement)
    assert {verdicts[name, FORWARD], verdicts[name, BACKWARD]} == {"REPRODUCED"}


@pytest.mark.parametrize("name", FAILING)
def test_a_result_of_the_wrong_type_fails_its_check(judgement: Judgement, name: str) -> None:
    assert words(judgement)[name, FORWARD] != "REPRODUCED"
