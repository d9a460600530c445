"""Streams that a program gives no seed: apart between processes, and equal in two runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.jobs import needs_torch
from tests.support.seeding import FOLDER, run

DRAW = """
import random, sys
import numpy as np
def draw(name=""):
    print(name, random.random(), random.Random().random(), np.random.default_rng().random(),
          np.random.Generator(np.random.PCG64()).random(), np.random.RandomState().rand(),
          np.random.SeedSequence().entropy, flush=True)
"""
START = "if __name__ == '__main__':\n"
# ways to start processes; each line that one prints has numbers that no other line has
STARTS = {
    "os.fork": (
        DRAW
        + """
import os
for child in range(3):
    if os.fork() == 0:
        draw(child)
        if child == 2 and os.fork() == 0:
            draw("grandchild")
            os._exit(0)
        if child == 2:
            os.wait()
        os._exit(0)
    os.wait()
draw("parent")
"""
    ),
    **{
        f"multiprocessing, {method}": DRAW
        + START
        + f"""
    import multiprocessing
    context = multiprocessing.get_context({method!r})
    children = [context.Process(target=draw, args=(child,)) for child in range(3)]
    for child in children:
        child.start()
        child.join()
    draw("parent")
"""
        for method in ("fork", "spawn", "forkserver")
    },
    "subprocess": (
        DRAW
        + """
import os, subprocess
words = [sys.executable, "-c", open(__file__).read().partition("import os")[0] + "draw()"]
subprocess.run(words)
subprocess.run(words, env=dict(os.environ))
subprocess.run(words, env={**os.environ, "RANK": "1"}, close_fds=False)
subprocess.run(words, preexec_fn=lambda: None)
os.waitpid(os.posix_spawn(sys.executable, words, os.environ), 0)
os.spawnv(os.P_WAIT, sys.executable, words)
os.spawnve(os.P_WAIT, sys.executable, words, dict(os.environ))
open("child.py", "w").write(words[2])
os.system(sys.executable + " child.py")
subprocess.run([sys.executable, "child.py"])
draw()
"""
    ),
    "threads": (
        DRAW
        + """
import subprocess, threading
words = [sys.executable, "-c", open(__file__).read().partition("import subprocess")[0] + "draw()"]
said = {}
def work(number, gate):
    gate.wait()
    for _ in range(3):
        # the generator that threads share is drawn from in the order of time
        mine = random.Random().random(), np.random.default_rng().random()
        said.setdefault(number, []).append(mine)
    said[number].append(subprocess.check_output(words, text=True))
gate = threading.Barrier(4)
threads = [threading.Thread(target=work, args=(number, gate)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for number in sorted(said):
    *mine, child = said[number]
    print(*(value for pair in mine for value in pair))
    print(child, end="")
draw()
"""
    ),
}


def numbers(printed: str) -> list[str]:
    """Every number that was printed with a fraction, or that is an entropy."""
    return [word for word in printed.split() if "." in word or len(word) > 20]


@pytest.mark.slow
@pytest.mark.parametrize("way", STARTS)
def test_processes_draw_apart_and_the_same_in_each_run(tmp_path: Path, way: str) -> None:
    first, again, other = (run(tmp_path, STARTS[way], seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert not set(numbers(first)) & set(numbers(other))
    assert len(set(numbers(first))) == len(numbers(first)) > 15


def test_ranks_draw_apart_and_the_same_in_each_run(tmp_path: Path) -> None:
    text = DRAW + "draw(); draw(); print(np.random.rand())"
    ranks = [[run(tmp_path, text, rank=rank)[0] for rank in range(2)] for _ in range(2)]
    assert ranks[0] == ranks[1]
    assert not set(numbers(ranks[0][0])) & set(numbers(ranks[0][1]))


def test_a_seed_of_the_program_is_alike_on_every_rank_and_in_every_process(
    tmp_path: Path,
) -> None:
    text = """
import os, random
import numpy as np
def draw():
    random.seed(0); np.random.seed(0)
    print(random.random(), random.Random(5).random(), np.random.default_rng([1, 2]).random(),
          np.random.rand(), np.random.RandomState(np.array([1, 2])).rand(), flush=True)
if os.fork() == 0:
    draw()
    os._exit(0)
os.wait()
draw()
"""
    ranks = [run(tmp_path, text, rank=rank)[0].splitlines() for rank in range(2)]
    assert len({line for lines in ranks for line in lines}) == 1
    assert run(tmp_path, text, seed=2)[0].splitlines()[0] != ranks[0][0]


def test_a_forked_child_goes_on_with_the_state_of_numpy(tmp_path: Path) -> None:
    text = """
import os, random
import numpy as np
np.random.rand(); random.random()
state = np.random.get_state()
if os.fork() == 0:
    print(np.random.rand(), random.random(), flush=True)
    os._exit(0)
os.wait()
print(np.random.rand(), random.random())
"""
    child, parent = (line.split() for line in run(tmp_path, text)[0].splitlines())
    assert child[0] == parent[0]
    assert child[1] != parent[1]


def test_a_library_that_only_the_children_import_draws_apart_there(tmp_path: Path) -> None:
    text = """
import os
for child in range(2):
    if os.fork() == 0:
        import numpy as np
        print(np.random.rand(), np.random.default_rng().random(), flush=True)
        os._exit(0)
    os.wait()
import numpy as np
print(np.random.rand())
"""
    first, again = (run(tmp_path, text)[0] for _ in range(2))
    assert first == again
    assert len(set(first.split())) == 5


def test_a_seed_asked_for_again_is_another_one(tmp_path: Path) -> None:
    text = """
import random
import numpy as np
for _ in range(3):
    random.seed(); np.random.seed(); np.random.seed(None)
    print(random.random(), np.random.rand())
"""
    first, again = (run(tmp_path, text)[0] for _ in range(2))
    assert first == again
    assert len(set(first.split())) == 6


def test_a_compiler_that_starts_or_does_not_shifts_no_stream(tmp_path: Path) -> None:
    text = """
import random, subprocess, sys
for _ in range({}):
    subprocess.run(["true"])
subprocess.run([sys.executable, "-c", "import random; print(random.random())"])
"""
    assert run(tmp_path, text.format(0))[0] == run(tmp_path, text.format(3))[0]


def test_names_of_temporary_files_and_what_the_system_draws_stay_random(tmp_path: Path) -> None:
    text = """
import os, random, secrets, tempfile, uuid
print(tempfile.mktemp(), uuid.uuid4(), secrets.token_hex(), os.urandom(9).hex())
print(random.SystemRandom().random())
"""
    assert not set(run(tmp_path, text)[0].split()) & set(run(tmp_path, text)[0].split())


def test_threads_that_seed_at_once_take_no_seed_of_another(tmp_path: Path) -> None:
    text = """
import sys, threading
import numpy as np
sys.setswitchinterval(1e-6)
found = set()
def work():
    for _ in range(500):
        found.add(np.random.RandomState(5).rand())
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(found))
"""
    assert run(tmp_path, text)[0] == "1\n"


def test_a_start_imports_no_library(tmp_path: Path) -> None:
    text = "import sys; print(*sorted(sys.modules))"
    ours = set(run(tmp_path, text)[0].split())
    assert not ours & {"random", "numpy", "torch", "json", "typing", "hashlib", "subprocess"}


def test_a_child_without_the_variables_of_the_run_starts_unseeded(tmp_path: Path) -> None:
    text = f"""
import subprocess, sys
words = [sys.executable, "-c", "import random; print(random.random())"]
print(subprocess.run(words, env={{"PYTHONPATH": {str(FOLDER)!r}}}, capture_output=True))
"""
    printed, _ = run(tmp_path, text)
    assert "returncode=0" in printed
    assert "stderr=b''" in printed


def test_a_library_that_is_found_at_the_second_try_is_seeded(tmp_path: Path) -> None:
    text = """
import sys
kept = list(sys.path)
sys.path = [path for path in sys.path if "site-packages" not in path]
try:
    import numpy
except ImportError:
    print("missing")
sys.path = kept
import numpy
print(numpy.random.rand())
"""
    first, again = (run(tmp_path, text)[0] for _ in range(2))
    assert first == again
    assert first.startswith("missing")


LOADERS = """
import random, sys
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

class Draws(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.tensor([random.random(), np.random.rand(), torch.rand(1).item(),
                             random.Random().random(), np.random.default_rng().random(),
                             torch.Generator().seed() % 2**40],
                            dtype=torch.float64)

if __name__ == "__main__":
    for workers, persistent, method in CASES:
        loader = DataLoader(Draws(), num_workers=workers, persistent_workers=persistent,
                            multiprocessing_context=method, batch_size=2, shuffle=True)
        for epoch in range(2):
            for batch in loader:
                for row in batch.tolist():
                    print(workers, persistent, *map(repr, row))
"""
FORKS = [(0, False, None), (1, False, "fork"), (1, True, "fork"), (4, False, "fork")]


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(
    "cases",
    [[*FORKS, (4, True, "fork")], [(2, False, "spawn")], [(2, True, "forkserver")]],
    ids=["fork", "spawn", "forkserver"],
)
def test_workers_of_a_loader_draw_apart_and_the_same_in_each_run(
    tmp_path: Path, cases: list[tuple[int, bool, str | None]]
) -> None:
    text = LOADERS.replace("CASES", repr(cases))
    first, again, other = (run(tmp_path, text, seed)[0] for seed in (1, 1, 2))
    assert first == again
    drawn = numbers(first)
    assert len(drawn) == len(cases) * 2 * 8 * 6
    assert len(set(drawn)) == len(drawn)
    assert not set(drawn) & set(numbers(other))


@needs_torch
@pytest.mark.slow
def test_generators_of_torch_without_a_seed(tmp_path: Path) -> None:
    text = """
import copy, pickle, torch
one, two = torch.Generator(), torch.Generator()
print(torch.rand(1, generator=one).item(), torch.rand(1, generator=two).item())
torch.seed()
print(torch.rand(1).item(), torch.Generator().seed())
state = one.get_state()
again = torch.Generator()
again.set_state(state)
print(type(one) is torch._C.Generator is torch.Generator, isinstance(one, torch.Generator))
print(torch.rand(1, generator=one).item() == torch.rand(1, generator=again).item())
print(torch.Generator().manual_seed(5).initial_seed(), torch.Generator.manual_seed.__name__)

@torch.compile(backend="eager")
def draw(x):
    return x + torch.rand(1, generator=torch.Generator().manual_seed(5))
print(draw(torch.zeros(1)).item() == draw(torch.zeros(1)).item())

@torch.jit.script
def drop(x, p: float):
    return torch.nn.functional.dropout(x, p)
print(drop(torch.ones(3), 0.0).sum().item())
"""
    first, again, other = (run(tmp_path, text, seed)[0].splitlines() for seed in (1, 1, 2))
    assert first == again
    assert first[2:] == other[2:] == ["True True", "True", "5 manual_seed", "True", "3.0"]
    assert not set(" ".join(first[:2]).split()) & set(" ".join(other[:2]).split())
    assert len(set(" ".join(first[:2]).split())) == 4
