"""Programs that fix their own seed, or know none, seeded from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capsule import levels
from capsule.execute import seeding

FOLDER = Path(levels.__file__).parent / "seeding"
LIBRARIES = {
    "random": ("random", "random.seed({})", "random.random()"),
    "random, again": ("random", "random.seed({})", "random.randint(0, 10**9)"),
    "a generator": ("random", "g = random.Random({})", "g.random()"),
    "numpy": ("numpy", "numpy.random.seed({})", "numpy.random.rand()"),
    "numpy's old generator": ("numpy", "g = numpy.random.RandomState({})", "g.rand()"),
    "numpy's new generator": ("numpy", "g = numpy.random.default_rng({})", "g.random()"),
    "torch": ("torch", "torch.manual_seed({})", "torch.rand(1).item()"),
}
# which takes seconds to import
TORCH = pytest.param("torch", marks=pytest.mark.slow)
each_library = pytest.mark.parametrize(
    "name", [TORCH if name == "torch" else name for name in LIBRARIES]
)


class Program:
    """Starts a program under a seed, and knows what it printed and what was replaced."""

    def __init__(self, folder: Path) -> None:
        self._report = folder / "seeding.jsonl"

    def run(self, text: str, seed: int = 1, options: tuple[str, ...] = ()) -> str:
        self._report.unlink(missing_ok=True)
        variables = {
            "CAPSULE_SEED": str(seed),
            "CAPSULE_SEEDING": str(self._report),
            "PYTHONPATH": str(FOLDER),
        }
        ended = subprocess.run(
            [sys.executable, *options, "-c", text],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    @property
    def replaced(self) -> object:
        report = seeding.read(self._report)
        return report and report.replaced


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@each_library
def test_a_fixed_seed_follows_the_runs(program: Program, name: str) -> None:
    library, seed, draw = LIBRARIES[name]
    text = f"import {library}\n{seed.format(42)}\nprint({draw})"
    first, again, other = (program.run(text, run_seed) for run_seed in (1, 1, 2))
    assert first == again != other
    (replaced,) = [program.replaced]
    assert isinstance(replaced, dict)
    assert list(replaced.values()) == ["42"]


@pytest.mark.parametrize("name", ["random", "numpy", TORCH, "numpy's new generator"])
def test_a_program_without_a_seed_has_the_runs(program: Program, name: str) -> None:
    library, seed, draw = LIBRARIES[name]
    begin = seed.format("") if draw.startswith("g.") else ""
    text = f"import {library}\n{begin}\nprint({draw})"
    first, again, other = (program.run(text, run_seed) for run_seed in (1, 1, 2))
    assert first == again != other
    assert program.replaced == {}


@each_library
def test_two_streams_stay_two_and_one_that_is_set_again_starts_again(
    program: Program, name: str
) -> None:
    library, seed, draw = LIBRARIES[name]
    steps = "\n".join(f"{seed.format(value)}\nprint({draw})" for value in (42, 43, 42))
    first, other, again = program.run(f"import {library}\n{steps}").split()
    assert first == again != other


def test_generators_without_a_seed_are_many(program: Program) -> None:
    text = "import numpy as n\nprint(*(n.random.default_rng().random() for _ in range(9)))"
    assert len(set(program.run(text).split())) == 9


def test_whole_numbers_of_numpy_are_the_numbers(program: Program) -> None:
    text = "import random, numpy\nrandom.seed({})\nprint(random.random())"
    assert program.run(text.format("42")) == program.run(text.format("numpy.int64(42)"))


def test_generators_are_what_they_were(program: Program) -> None:
    assert program.run(
        "import copy, pickle, numpy as n\n"
        "g = n.random.RandomState(1)\n"
        "print(isinstance(g, n.random.RandomState), g.__class__.__name__)\n"
        "print(isinstance(n.random.mtrand._rand, n.random.RandomState))\n"
        "print(pickle.loads(pickle.dumps(g)).rand() == copy.deepcopy(g).rand())\n"
        "class Own(n.random.RandomState): pass\n"
        "own = Own(1)\n"
        "print(isinstance(own, Own), isinstance(g, Own), isinstance(own, n.random.RandomState))\n"
        "bits = n.random.PCG64(7)\n"
        "same = n.random.Generator(n.random.PCG64(7))\n"
        "print(n.random.default_rng(bits).random() == same.random())\n"
        "print(n.random.seed.__name__, n.random.default_rng.__doc__ is not None)"
    ).splitlines() == [
        "True RandomState",
        "True",
        "True",
        "True False True",
        "True",
        "seed True",
    ]


OPTIMIZERS = """
import inspect, sys, torch
torch.manual_seed(42)
names = [n for n, c in vars(torch.optim).items()
         if inspect.isclass(c) and issubclass(c, torch.optim.Optimizer) and n != "Optimizer"]
for name in names:
    model = torch.nn.Linear(4, 4, bias=False)
    model = torch.nn.Embedding(4, 4, sparse=True) if name == "SparseAdam" else model
    optimizer = getattr(torch.optim, name)(model.parameters())
    index = torch.arange(4) if name == "SparseAdam" else torch.randn(4, 4)
    def closure():
        optimizer.zero_grad()
        loss = model(index).pow(2).sum()
        loss.backward()
        return loss
    print(name, optimizer.step(closure).item())
assert "torch._dynamo" in sys.modules
torch.seed() + 0
print(torch.rand(1).item())

@torch.compile(backend="eager")
def draw(x):
    torch.manual_seed(seed=42)
    return x + torch.rand(1)
print(draw(torch.zeros(1)).item())
"""


@pytest.mark.slow
def test_every_optimizer_of_torch_and_what_it_compiles_take_the_functions_that_seed(
    program: Program,
) -> None:
    first, again, other = (program.run(OPTIMIZERS, seed).splitlines() for seed in (1, 1, 2))
    assert first == again
    assert len(first) > 13
    assert not set(first) & set(other)
    assert program.replaced == {"torch.manual_seed": "42"}


def test_workers_and_children_are_seeded_too(program: Program) -> None:
    text = (
        "import subprocess, sys\n"
        "child = [sys.executable, '-c', 'import random; print(random.random())']\n"
        "print(subprocess.check_output(child))"
    )
    assert program.run(text) == program.run(text) != program.run(text, 2)


def test_the_programs_own_file_of_that_name_is_executed(program: Program, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('own')\n")
    variables = {
        "CAPSULE_SEED": "1",
        "CAPSULE_SEEDING": str(tmp_path / "seeding.jsonl"),
        "PYTHONPATH": f"{FOLDER}{os.pathsep}{tmp_path / 'own'}",
    }
    command = [sys.executable, "-c", "import random; print(random.random())"]
    output = subprocess.check_output(command, env={**os.environ, **variables}, text=True)
    assert output.splitlines() == ["own", program.run(command[2]).strip()]


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_a_python_that_leaves_it_out_reports_nothing(program: Program, option: str) -> None:
    program.run("pass", options=(option,))
    assert program.replaced is None


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b"{}",
        b"[]\n1\nnull\n",
        b'{"replaced": 1, "value": "2"}',
        b'{"replaced": "x"}',
        b"[" * 50_000,
    ],
)
def test_a_report_that_is_none_replaces_nothing(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "seeding.jsonl"
    path.write_bytes(text)
    assert seeding.read(path) == seeding.Report(replaced={})


def test_a_report_is_bounded_and_clean(tmp_path: Path) -> None:
    path = tmp_path / "seeding.jsonl"
    lines = [{"replaced": f"f{n}\x1b[2J", "value": "\n" + "x" * 1000} for n in range(1000)]
    path.write_text("\n".join(map(json.dumps, lines)))
    report = seeding.read(path)
    assert report is not None
    replaced = report.replaced
    assert len(replaced) < 101
    assert all(name.isprintable() and len(str(seed)) < 201 for name, seed in replaced.items())
