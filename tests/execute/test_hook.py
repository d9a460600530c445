"""The file that notes the world which a program makes, in any company."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import util
from pathlib import Path

import pytest

from capsule.execute import sightings
from capsule.execute.payload import OWN_LEVELS
from capsule.execute.sightings import Made, Sighting
from tests.support.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

NEEDS_TORCH = pytest.mark.skipif(not util.find_spec("torch"), reason="torch is not installed")
HOOK = OWN_LEVELS / "worlds"
SEEDING = OWN_LEVELS / "seeding"


def start(
    folder: Path, rank: int, *words: str, before: str = "", after: str = "", **variables: str
) -> subprocess.Popen[str]:
    """A Python with the hook on its path, as `before` and `after` it other folders are."""
    path = os.pathsep.join(filter(None, (before, str(HOOK), after)))
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": path,
            "CAPSULE_WORLD": str(folder / f"world-{rank}"),
            "OMP_NUM_THREADS": "1",
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *words: str, before: str = "", after: str = "", **variables: str) -> str:
    """What one prints, which ends well."""
    started = start(folder, 0, *words, before=before, after=after, **variables)
    said, errors = started.communicate(timeout=PATIENCE_SECONDS)
    assert (started.returncode, errors) == (0, "")
    return said


def seen(folder: Path, rank: int = 0) -> Sighting:
    return sightings.read(folder / f"world-{rank}")


def module(folder: Path, name: str, text: str) -> None:
    """A module or, by its dotted name, one of packages."""
    path = folder.joinpath(*name.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    for parent in path.relative_to(folder).parents:
        (folder / parent / "__init__.py").touch()
    path.write_text(text)


def test_nothing_is_imported_and_nothing_else_is_changed(tmp_path: Path) -> None:
    program = "import random, sys; random.seed(1); print(sorted(sys.modules), random.random())"
    ours = run(tmp_path, "-c", program)
    assert seen(tmp_path) == Sighting(has_python=True)
    bare = run(tmp_path, "-S", "-c", f"import site; site.main(); {program}")
    extra = set(ours.split()) - set(bare.split())
    slow = "torch", "numpy", "'json", "'typing'"
    assert not [one for one in extra if any(name in one for name in slow)]
    assert ours.split()[-1] == bare.split()[-1]


@pytest.mark.parametrize("option", ["-I", "-S", "-E"])
def test_a_python_that_leaves_it_out_says_nothing(tmp_path: Path, option: str) -> None:
    run(tmp_path, option, "-c", "pass")
    assert seen(tmp_path) == Sighting()


def test_every_file_of_that_name_runs_once_in_any_company(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    module(theirs, "sitecustomize", "print('theirs')")
    variables = {"CAPSULE_SEED": "7", "CAPSULE_SEEDING": str(tmp_path / "seeding")}
    program = "import random; random.seed(1); print(random.random())"
    alone = run(tmp_path, "-c", program, before=str(SEEDING), **variables)
    both = run(tmp_path, "-c", program, before=str(SEEDING), after=str(theirs), **variables)
    assert both == f"theirs\n{alone}"
    lines = (tmp_path / "seeding").read_text().splitlines()
    assert len([line for line in lines if '"python"' in line]) == 2
    assert run(tmp_path, "-c", "pass", after=str(theirs)) == "theirs\n"


def test_what_goes_wrong_in_a_program_stays_its_own(tmp_path: Path) -> None:
    lines = ["import mpi4py.MPI", "import torch.distributed.distributed_c10d"]
    for name in ("mpi4py.MPI", "torch.distributed.distributed_c10d"):
        module(tmp_path / "broken", name, "raise ImportError('their own words')")
    for line in lines:
        started = start(tmp_path, 0, "-c", line, after=str(tmp_path / "broken"))
        _, errors = started.communicate(timeout=PATIENCE_SECONDS)
        assert errors.endswith("ImportError: their own words\n")
    started = start(tmp_path, 0, "-c", "import mpi4py_of_nobody")
    _, errors = started.communicate(timeout=PATIENCE_SECONDS)
    assert "No module named 'mpi4py_of_nobody'" in errors
    assert "sitecustomize" not in errors


def test_libraries_of_other_versions_and_unwritable_places_stop_nobody(tmp_path: Path) -> None:
    for name in ("jax._src.distributed", "mpi4py.MPI"):
        module(tmp_path / "other", name, "value = 3")
    program = "import jax._src.distributed as d, mpi4py.MPI as m; print(d.value + m.value)"
    assert run(tmp_path, "-c", program, after=str(tmp_path / "other")) == "6\n"
    assert run(tmp_path, "-c", "print(1)", CAPSULE_WORLD="/nowhere/at/all") == "1\n"
    assert run(tmp_path, "-c", "print(1)", CAPSULE_WORLD="") == "1\n"


MPI = """
class Comm:
    def __init__(self, rank=0, size=0): self.rank, self.size = rank, size
    def Get_rank(self): return self.rank
    def Get_size(self): return self.size
    @staticmethod
    def Get_parent(): return PARENT
COMM_NULL, COMM_WORLD = Comm(), Comm(1, 4)
PARENT = COMM_NULL
begun = True
def Is_initialized(): return begun
def Get_library_version(): return "MPICH Version: 4"
def Init(): pass
def Init_thread(required=3): return required
"""
TENSORFLOW = """
class Spec:
    def as_dict(self): return {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
class Resolver:
    task_type, task_id = "worker", 1
    def cluster_spec(self): return Spec()
class Extended:
    _num_workers = 3
class CollectiveAllReduceStrategy:
    def __init__(self, cluster_resolver=None, communication_options=None):
        self.cluster_resolver, self.extended = Resolver(), Extended()
class Old(CollectiveAllReduceStrategy):
    pass
"""
STRATEGY = "tensorflow.python.distribute.collective_all_reduce_strategy"
# a module that stands for a library, the program, and the world that it makes
STAND_INS: Mapping[str, tuple[str, str, str, tuple[Made, ...]]] = {
    "mpi on import": (
        "mpi4py.MPI",
        MPI,
        "import mpi4py.MPI",
        (Made(by="mpi4py", rank=1, ranks=4),),
    ),
    "mpi later": (
        "mpi4py.MPI",
        MPI.replace("begun = True", "begun = False"),
        "from mpi4py import MPI; MPI.Init_thread()",
        (Made(by="mpi4py", rank=1, ranks=4),),
    ),
    "mpi never": (
        "mpi4py.MPI",
        MPI.replace("begun = True", "begun = False"),
        "from mpi4py import MPI",
        (),
    ),
    "spawned by mpi": (
        "mpi4py.MPI",
        MPI.replace("PARENT = COMM_NULL", "PARENT = Comm(0, 1)"),
        "from mpi4py import MPI",
        (),
    ),
    "tensorflow": (
        STRATEGY,
        TENSORFLOW,
        f"import {STRATEGY} as s; s.Old()",
        (Made(by="tensorflow", rank=2, ranks=3),),
    ),
}


@pytest.mark.parametrize("case", STAND_INS)
def test_each_library_is_asked_when_its_world_is_made(tmp_path: Path, case: str) -> None:
    name, text, program, made = STAND_INS[case]
    module(tmp_path / "library", name, text)
    run(tmp_path, "-c", program, after=str(tmp_path / "library"))
    assert seen(tmp_path).made == made


GLOO = """
import os, sys
import torch.distributed as dist
if __name__ == "__main__":
    rank, place = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
    # who ends while the other still connects would fail it
    store = dist.distributed_c10d._get_default_store()
    store.set(f"made {rank}", "")
    store.wait(["made 0", "made 1"])
    END
"""


@NEEDS_TORCH
@pytest.mark.parametrize("end", ["os._exit(0)", "dist.destroy_process_group()"])
def test_a_world_of_torch_is_noted_whatever_comes_then(tmp_path: Path, end: str) -> None:
    program = GLOO.replace("END", end)
    place = f"file://{tmp_path}/place"
    both = [start(tmp_path, rank, "-c", program, str(rank), place) for rank in range(2)]
    for one in both:
        one.communicate(timeout=PATIENCE_SECONDS)
        assert one.returncode == 0
    made = [seen(tmp_path, rank).made for rank in range(2)]
    assert [[(one.by, one.rank, one.ranks) for one in each] for each in made] == [
        [("torch", 0, 2)],
        [("torch", 1, 2)],
    ]
    # one word for one world
    assert len({one.token for each in made for one in each}) == 1
    assert made[0][0].token


APART = """
import sys
import torch.distributed as dist
from torch.distributed import HashStore
dist.init_process_group("gloo", store=HashStore(), rank=int(sys.argv[1]), world_size=2)
"""
FAKE = """
import sys
from torch.testing._internal.distributed.fake_pg import FakeStore
import torch.distributed as dist
dist.init_process_group("fake", store=FakeStore(), rank=int(sys.argv[1]), world_size=2)
"""


@NEEDS_TORCH
def test_a_backend_that_connects_nobody_makes_no_world(tmp_path: Path) -> None:
    run(tmp_path, "-c", FAKE, "0")
    assert seen(tmp_path) == Sighting(has_python=True)


@NEEDS_TORCH
def test_two_stores_are_two_worlds(tmp_path: Path) -> None:
    # connections are made where they are needed, so that each goes on by itself
    for rank in range(2):
        one = start(tmp_path, rank, "-c", APART, str(rank), TORCH_GLOO_LAZY_INIT="1")
        one.communicate(timeout=PATIENCE_SECONDS)
    tokens = {one.token for rank in range(2) for one in seen(tmp_path, rank).made}
    assert len(tokens) == 2


SPAWNS = """
import sys
import torch.distributed as dist
import torch.multiprocessing as mp
def work(rank, place):
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
if __name__ == "__main__":
    mp.spawn(work, (sys.argv[1],), nprocs=2)
"""


@NEEDS_TORCH
def test_what_a_rank_starts_by_itself_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "spawns.py").write_text(SPAWNS)
    run(tmp_path, "spawns.py", f"file://{tmp_path}/place")
    assert sorted(one.rank for one in seen(tmp_path).made) == [0, 1]


def test_lines_are_json_and_come_by_one_write(tmp_path: Path) -> None:
    module(tmp_path / "library", "mpi4py.MPI", MPI)
    program = "import os; import mpi4py.MPI; os.kill(os.getpid(), 9)"
    started = start(tmp_path, 0, "-c", program, after=str(tmp_path / "library"))
    started.communicate(timeout=PATIENCE_SECONDS)
    assert started.returncode == -9
    lines = (tmp_path / "world-0").read_text().splitlines()
    assert [sorted(json.loads(line)) for line in lines] == [
        ["python"],
        ["backend", "rank", "ranks", "world"],
    ]
