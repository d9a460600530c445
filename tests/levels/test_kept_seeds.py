"""Generators that keep a seed of their own under an injected one, and seeds that nothing uses."""

from __future__ import annotations

from importlib import util
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from capsule import notes
from capsule.notes import Note
from tests.support.seeding import compare, run


class Program(NamedTuple):
    """A program, and the line of its file that keeps a seed, None for none."""

    text: str
    line: int | None = None
    file: str = "program.py"


NUMPY = "import os, random\nimport numpy as np\n"
TORCH = "import os, random\nimport torch\nfrom torch.utils.data import DataLoader, Dataset\n"
JAX = "import os\nimport jax\n"
LEGACY = "('MT19937', np.arange(624, dtype='uint32'), 624, 0, 0.0)"
STATE = (
    "{'bit_generator': 'PCG64', 'state': {'state': 5, 'inc': 7}, 'has_uint32': 0, 'uinteger': 0}"
)
DATA = """
class Draws(Dataset):
    def __len__(self): return 4
    def __getitem__(self, index):
        return DRAW
"""
SAMPLER = "torch.utils.data.distributed.DistributedSampler(range(8), num_replicas=2, rank=0{})"
HELPER = (
    "import numpy as np\n\ndef make(seed=7):\n"
    "    return np.random.Generator(np.random.PCG64(seed))\n"
)

KEPT = {
    "a bit generator": Program(NUMPY + "np.random.Generator(np.random.PCG64(0)).random()", 3),
    "PCG64DXSM": Program(NUMPY + "np.random.Generator(np.random.PCG64DXSM(0)).random()", 3),
    "Philox": Program(NUMPY + "np.random.Generator(np.random.Philox(0)).random()", 3),
    "SFC64": Program(NUMPY + "np.random.Generator(np.random.SFC64(seed=0)).random()", 3),
    "an old state of a bit generator": Program(
        NUMPY + "np.random.RandomState(np.random.MT19937(0)).rand()", 3
    ),
    "a seed sequence": Program(
        NUMPY + "sequence = np.random.SeedSequence(0)\nnp.random.default_rng(sequence)", 3
    ),
    "children of a sequence": Program(
        NUMPY + "[np.random.default_rng(one) for one in np.random.SeedSequence(0).spawn(2)]", 3
    ),
    "a sequence of a list": Program(NUMPY + "np.random.SeedSequence([1, 2])", 3),
    "a sequence of a tuple": Program(NUMPY + "np.random.SeedSequence((1, 2))", 3),
    "a sequence of an array": Program(NUMPY + "np.random.SeedSequence(np.array([1, 2]))", 3),
    "a sequence by rank": Program(NUMPY + "np.random.SeedSequence(0, spawn_key=(1,))", 3),
    "after one that fails": Program(
        NUMPY + "try: np.random.SeedSequence(0.5)\nexcept TypeError: pass\nnp.random.PCG64(0)", 5
    ),
    "a name of numpy's own": Program(
        NUMPY + "from numpy.random._pcg64 import PCG64\nnp.random.Generator(PCG64(0)).random()", 4
    ),
    "a state of numpy": Program(NUMPY + f"np.random.set_state({LEGACY})", 3),
    "a state of a new generator": Program(
        NUMPY + f"rng = np.random.default_rng()\nrng.bit_generator.state = {STATE}", 4
    ),
    "a state of random": Program(
        "import _random, random\nrandom.setstate((3, _random.Random(5).getstate(), None))", 2
    ),
    "a pickled generator": Program(
        NUMPY
        + "import pickle\n"
        + f"text = pickle.dumps(np.random.default_rng()).hex()\nstate = {STATE}\n"
        + "rng = pickle.loads(bytes.fromhex(text))\n"
        + "rng.bit_generator.state = state\n"
        + "again = pickle.loads(pickle.dumps(rng))",
        7,
    ),
    "in another file": Program("import helper\nhelper.make().random()", 4, "helper.py"),
    "in a thread": Program(
        NUMPY + "import threading\nthread = threading.Thread(target=lambda:\n"
        "    np.random.PCG64(0))\nthread.start()\nthread.join()",
        5,
    ),
    "in a forked child": Program(
        NUMPY + "if os.fork() == 0:\n    np.random.PCG64(0)\n    os._exit(0)\nos.wait()", 4
    ),
    "by epoch": Program(NUMPY + "for epoch in range(9):\n    np.random.PCG64(100 + epoch)", 4),
    "after many others": Program(
        NUMPY + "for _ in range(9):\n    np.random.PCG64(random.getrandbits(40))\n"
        "np.random.PCG64(0)",
        5,
    ),
}
KEPT_BY_TORCH = {
    "a generator": Program(TORCH + "torch.Generator().manual_seed(0)", 4),
    "the default generator": Program(TORCH + "torch.default_generator.manual_seed(0)", 4),
    "a sampler of ranks": Program(
        TORCH + f"loader = DataLoader(range(8), sampler={SAMPLER.format('')})\n"
        "for epoch in range(2):\n    list(loader)",
        6,
    ),
    "a split": Program(
        TORCH + "torch.utils.data.random_split(range(8), [4, 4],"
        " generator=torch.Generator().manual_seed(42))",
        4,
    ),
    "a state": Program(
        TORCH + "state = torch.Generator().manual_seed(3).get_state()\ntorch.set_rng_state(state)",
        5,
    ),
    "a sequence of Sobol": Program(
        TORCH + "torch.quasirandom.SobolEngine(2, scramble=True, seed=0).draw(2)", 4
    ),
    "in a worker": Program(
        TORCH
        + "import numpy as np"
        + DATA.replace("DRAW", "np.random.Generator(np.random.PCG64(0)).random()")
        + "list(DataLoader(Draws(), num_workers=2))",
        8,
    ),
    "a key of JAX": Program(JAX + "jax.random.PRNGKey(0)", 3),
    "a new key of JAX": Program(JAX + "jax.random.split(jax.random.key(0))", 3),
}
SEED = "int(os.environ['CAPSULE_SEED'])"
FREE = {
    "random": Program("import random\nrandom.seed(0); random.random()"),
    "a generator of random": Program("import random\nrandom.Random(0).random()"),
    "random without a seed": Program("import random\nrandom.shuffle([1, 2])"),
    "numpy": Program(NUMPY + "np.random.seed(0); np.random.rand()"),
    "an old generator": Program(NUMPY + "np.random.RandomState(0).rand()"),
    "an old generator by another name": Program(NUMPY + "np.random.mtrand.RandomState(0).rand()"),
    "a new generator": Program(NUMPY + "np.random.default_rng(0).random()"),
    "a new generator of a list": Program(NUMPY + "np.random.default_rng([0, 1]).random()"),
    "a new generator without a seed": Program(NUMPY + "np.random.default_rng().random()"),
    "children of a new generator": Program(NUMPY + "np.random.default_rng(0).spawn(3)"),
    "the run's seed": Program(NUMPY + f"np.random.Generator(np.random.PCG64({SEED})).random()"),
    "the run's seed and a rank": Program(NUMPY + f"np.random.SeedSequence([{SEED}, 3])"),
    "a sequence without a seed": Program(NUMPY + "np.random.SeedSequence().spawn(3)"),
    "a seed that was drawn": Program(NUMPY + "np.random.Philox(np.random.randint(2**31))"),
    "a state of its own": Program(
        NUMPY + "random.setstate(random.getstate())\n"
        "np.random.set_state(np.random.get_state())\nrandom.random()"
    ),
    "a state of another generator": Program(
        NUMPY + "one, two = np.random.default_rng(0), np.random.default_rng(1)\n"
        "one.bit_generator.state = two.bit_generator.state\none.bit_generator.jumped()"
    ),
    "copies": Program(
        NUMPY + "import copy, pickle\nrng = np.random.default_rng(0)\n"
        "copy.deepcopy(rng); pickle.loads(pickle.dumps(np.random.RandomState(1)))"
    ),
    "a seed by epoch": Program(
        NUMPY + "for epoch in range(3):\n    random.seed(42 + epoch)\n"
        "    np.random.seed(42 + epoch)\n    random.random()"
    ),
    "a pool": Program(
        NUMPY + "import multiprocessing\ndef draw(_): return np.random.default_rng().random()\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n    pool.map(draw, range(4))"
    ),
    "names of files": Program("import random, tempfile\ntempfile.mktemp(); random.random()"),
}
FREE_OF_TORCH = {
    "torch": Program(TORCH + "torch.manual_seed(0); torch.rand(1)"),
    "a generator without a seed": Program(TORCH + "torch.rand(1, generator=torch.Generator())"),
    "a seed that was drawn": Program(
        TORCH + "torch.Generator().manual_seed(random.randrange(2**40))"
    ),
    "a shuffled loader with workers": Program(
        TORCH
        + DATA.replace("DRAW", "torch.rand(1)").lstrip()
        + "list(DataLoader(Draws(), num_workers=2, shuffle=True))"
    ),
    "a sampler of ranks with the run's seed": Program(
        TORCH + f"list({SAMPLER.format(', seed=' + SEED)})"
    ),
    "a state that returns": Program(
        TORCH + "with torch.random.fork_rng():\n    torch.rand(1)\ntorch.rand(1)"
    ),
    "a key of JAX with the run's seed": Program(JAX + f"jax.random.key({SEED})"),
    "a key of JAX in a traced function": Program(
        JAX + "@jax.jit\ndef draw(seed): return jax.random.normal(jax.random.PRNGKey(seed))\n"
        f"draw({SEED}); jax.random.PRNGKey({SEED})"
    ),
}


def skip_without_library(program: Program) -> None:
    for library in ("torch", "jax"):
        if f"import {library}" in program.text and not util.find_spec(library):
            pytest.skip(f"{library} is not installed")


def places(found: list[Note]) -> list[str]:
    """File and line of every generator that a note names."""
    generators = [
        cast("tuple[tuple[str, str, str], ...]", dict(note.facts or ())["generators"])
        for note in found
        if note.code == notes.SEEDS_KEPT
    ]
    return [place.partition(" (")[0] for some in generators for _, _, place in some]


def marked(table: dict[str, Program], slow: dict[str, Program]) -> list[object]:
    """Each program of two tables; importing torch or JAX takes seconds."""
    return [
        *(pytest.param(program, id=name) for name, program in table.items()),
        *(
            pytest.param(program, id=f"torch, {name}", marks=pytest.mark.slow)
            for name, program in slow.items()
        ),
    ]


@pytest.mark.parametrize("program", marked(KEPT, KEPT_BY_TORCH))
def test_a_generator_that_keeps_its_seed_is_noted_with_its_place(
    tmp_path: Path, program: Program
) -> None:
    skip_without_library(program)
    (tmp_path / "helper.py").write_text(HELPER)
    assert f"{program.file}:{program.line}" in places(compare(tmp_path, program.text))


@pytest.mark.parametrize("program", marked(FREE, FREE_OF_TORCH))
def test_a_program_whose_seeds_follow_the_runs_is_not_noted(
    tmp_path: Path, program: Program
) -> None:
    skip_without_library(program)
    assert compare(tmp_path, program.text) == []


def test_a_note_names_function_seed_and_place(tmp_path: Path) -> None:
    text = NUMPY + "np.random.PCG64(0)\nnp.random.PCG64(random.getrandbits(40))\nnp.random.SFC64(1)"
    (note,) = compare(tmp_path, text, seeds=(1, 2, 3))
    assert dict(note.facts or ()) == {
        "benchmark": "b",
        "seeds": 3,
        "generators": (
            ("numpy.random.SeedSequence", "0", "program.py:3"),
            ("numpy.random.SeedSequence", "1", "program.py:5"),
        ),
        "more": 0,
    }


@pytest.mark.slow
def test_a_library_s_function_is_named_with_the_line_that_calls_it(tmp_path: Path) -> None:
    program = KEPT_BY_TORCH["a sampler of ranks"]
    skip_without_library(program)
    (note,) = compare(tmp_path, program.text)
    assert "torch.Generator.manual_seed(0) in program.py:6 (DistributedSampler.__iter__)" in (
        note.sentence
    )


def test_one_seed_shows_no_seed_that_is_kept(tmp_path: Path) -> None:
    assert compare(tmp_path, KEPT["a bit generator"].text, seeds=(1,)) == []
    assert compare(tmp_path, KEPT["a bit generator"].text, seeds=(1, 1)) == []


FORK = "import os, random\nif os.fork() == 0:\n    {}\n    os._exit(0)\nos.wait()"
PROCESS = (
    "import multiprocessing, random\ndef work(): {}\n"
    "child = multiprocessing.get_context('fork').Process(target=work)\nchild.start(); child.join()"
)
UNUSED = {
    "nothing": "print(1)",
    "libraries": "import random\nimport numpy",
    "a seed that is set": "import random\nrandom.seed(0)\nimport numpy\nnumpy.random.seed(0)",
    "a generator that keeps its seed": NUMPY + "np.random.Generator(np.random.PCG64(0)).random()",
    "a child": PROCESS.format("pass"),
    "another program": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'])",
}
USED = {
    "a draw": "import random\nrandom.random()",
    "a draw between seeds": "import random\nfor n in (1, 2):\n    random.seed(n); random.random()\n"
    "random.seed(3)",
    "numpy": "import numpy\nnumpy.random.rand()",
    "a generator": "import numpy\nnumpy.random.default_rng(1)",
    "in a thread": "import random, threading\nthread = threading.Thread(target=random.random)\n"
    "thread.start(); thread.join()",
    "in a child": PROCESS.format("random.random()"),
    "in a forked child": FORK.format("random.random()"),
    "perhaps in a forked child": FORK.format("pass"),
    "by another program": "import subprocess, sys\n"
    "subprocess.run([sys.executable, '-c', 'import random; random.random()'])",
    "at the end": "import atexit, random\natexit.register(random.random)",
    "perhaps, of which the end is not seen": "import os\nos._exit(0)",
    "its own way": NUMPY + f"np.random.PCG64({SEED})",
}


@pytest.mark.parametrize("name", UNUSED)
def test_an_injected_seed_that_nothing_uses_is_noted(tmp_path: Path, name: str) -> None:
    found = compare(tmp_path, UNUSED[name])
    assert found[-1] == notes.unused_injection(benchmark="b", runs=2)


@pytest.mark.parametrize("name", USED)
def test_an_injected_seed_that_something_uses_is_not_noted(tmp_path: Path, name: str) -> None:
    assert compare(tmp_path, USED[name]) == []


@pytest.mark.slow
@pytest.mark.skipif(not util.find_spec("torch"), reason="torch is not installed")
def test_draws_of_torch_are_seen(tmp_path: Path) -> None:
    seeded = "import torch\ntorch.manual_seed(0)\ntorch.Generator().manual_seed(1)\n"
    assert run(tmp_path, seeded)[1].is_unused
    assert not run(tmp_path, seeded + "torch.rand(1)")[1].is_unused
    assert not run(tmp_path, seeded + "torch.rand(1, generator=torch.Generator())")[1].is_unused


def test_a_report_stays_small(tmp_path: Path) -> None:
    text = NUMPY + "".join(f"np.random.PCG64({n})\n" for n in range(2000))
    text += "for n in range(5000):\n    np.random.PCG64(n)\n"
    _, report = run(tmp_path, text)
    assert (tmp_path / "report.jsonl").stat().st_size < 1 << 17
    assert 100 < len(report.kept) < 1000
