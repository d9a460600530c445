"""A table of launches of several ranks: wrong ones, right ones, and others that are no failure."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.support.engines import tensorflow_image, torch_image
from tests.support.mpi import FAMILIES, programs

NOT_SEEN, JOINED = "not seen", "joined by the launcher, not seen inside"
Where = Literal["host", "apptainer", "slurm", "slurm apptainer"]

PI = r"""
#include <math.h>
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, size;
    double part = 0, whole = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = rank; i < 100000; i += size)
        part += 4 / (1 + (i + 0.5) / 100000 * (i + 0.5) / 100000);
    MPI_Reduce(&part, &whole, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("loss: %.3e\n", fabs(whole / 100000 - acos(-1.0)));
    MPI_Finalize();
    return 0;
}
"""
# as a compiler of Fortran links it: the program itself needs the part for Fortran alone
FORTRAN = r"""
extern void mpi_init_(int *), mpi_finalize_(int *), sum_(double *, int *);
#include <stdio.h>
int main(void)
{
    int rank = 0, error;
    double sum = 1;
    mpi_init_(&error);
    sum_(&sum, &rank);
    if (rank == 0)
        printf("loss: %.3e\n", sum);
    mpi_finalize_(&error);
    return 0;
}
"""
FOR_FORTRAN = r"""
#include <mpi.h>
void mpi_init_(int *error) { *error = MPI_Init(0, 0); }
void mpi_finalize_(int *error) { *error = MPI_Finalize(); }
void sum_(double *sum, int *rank)
{
    MPI_Comm_rank(MPI_COMM_WORLD, rank);
    MPI_Allreduce(MPI_IN_PLACE, sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
"""
BUILD = 'cd "$CAPSULE_INPUTS" && mpicc -O1 pi.c -o "$CAPSULE_OUT/pi" -lm'
_LINK = '-L"$CAPSULE_OUT" -Wl,-rpath,"$CAPSULE_OUT"'
BUILD_FORTRAN = (
    'cd "$CAPSULE_INPUTS" && mpicc -shared -fPIC -Wl,-soname,NAME part.c -o "$CAPSULE_OUT/NAME" &&'
    f' gcc main.c -o "$CAPSULE_OUT/pi" {_LINK} -l:NAME'
)
OF_FORTRAN = {"MPICH": "libmpifort.so.12", "Open MPI": "libmpi_mpifh.so.40"}

WHO = """
import os, sys
rank, ranks = int(os.environ["CAPSULE_RANK"]), int(os.environ["CAPSULE_RANKS"])
place = os.environ["CAPSULE_RENDEZVOUS"]
def tell():
    if rank == 0:
        print("loss: 0.5", flush=True)
"""
TORCH = f"{WHO}import torch.distributed as dist\n"
JOIN = 'dist.init_process_group("gloo", init_method=place, rank=rank, world_size=ranks)\n'
OF_ONE = JOIN.replace("=ranks", "=1").replace("=rank,", "=0,")
ALONE = """
import os
import torch.distributed as dist
if "RANK" in os.environ:
    dist.init_process_group("gloo")
print("loss: 0.5")
"""
BY_ENVIRONMENT = (
    'import torch.distributed as dist; dist.init_process_group("gloo"); print("loss: 1")'
)
PARTS = """
part = rank // 2
dist.init_process_group(
    "gloo", init_method=f"file:///capsule/shared/{part}" if os.path.isdir("/capsule/shared")
    else f"{place}-{part}", rank=rank % 2, world_size=2)
tell()
"""
HALF = """
if rank < 2:
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
tell()
"""
OWN_WORLD = """
import sys
import torch.distributed as dist, torch.multiprocessing as mp
def work(rank, place):
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
if __name__ == "__main__":
    import os
    mp.spawn(work, (f"file://{os.getcwd()}/own",), nprocs=2)
    print("loss: 0.5")
"""
OF_MPI = """
import os, sys
if "MPI_HERE" in os.environ:
    sys.path.insert(0, os.environ["MPI_HERE"])
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(1)
if world.rank == 0:
    print("loss:", total, flush=True)
"""
JAX = f"""{WHO}
import jax, time
if rank == 0:
    import socket
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open(place[7:] + "-part", "w") as file:
        file.write(str(port))
    os.rename(file.name, place[7:] + "-port")
while not os.path.exists(place[7:] + "-port"):
    time.sleep(0.01)
address = "127.0.0.1:" + open(place[7:] + "-port").read()
jax.distributed.initialize(address, HOW_MANY, NUMBER)
tell()
"""
TENSORFLOW = f"""{WHO}
import json, socket, time
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
base = place[7:]
with open(base + f"-part{{rank}}", "w") as file:
    file.write(str(port))
os.rename(file.name, base + f"-port{{rank}}")
ports = []
for other in range(ranks):
    while not os.path.exists(base + f"-port{{other}}"):
        time.sleep(0.01)
    ports.append(open(base + f"-port{{other}}").read())
os.environ["TF_CONFIG"] = json.dumps(
    {{"cluster": {{"worker": [f"127.0.0.1:{{one}}" for one in ports]}},
     "task": {{"type": "worker", "index": rank}}}})
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
assert strategy.num_replicas_in_sync == ranks
tell()
"""
SOCKETS = f"""{WHO}
import socket, time
path = place[7:]
if rank == 0:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with open(path + "-part", "w") as file:
            file.write(str(server.getsockname()[1]))
        os.rename(file.name, path)
        for _ in range(ranks - 1):
            server.accept()
else:
    while not os.path.exists(path):
        time.sleep(0.01)
    socket.create_connection(("127.0.0.1", int(open(path).read()))).close()
tell()
"""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How some ranks are started, and what becomes of that.

    Attributes:
        command: As in the manifest.
        files: Inputs by name.
        setup: A line of shell, empty for none.
        where: By what engine, and whether by Slurm on two nodes.
        launcher: A family of MPI whose `mpirun` starts them, `srun`, or None for none.
        path: A family whose compiler the setup takes, where that is not the launcher's.
        ranks: World size.
        fields: Others of the benchmark.
        image: Reference of an image, by its function; None for the one with torch.
        world: What the record says of the world; None where the trial fails or is refused.
        code: Exit code, where there is no record.
    """

    command: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    setup: str = ""
    where: Where = "host"
    launcher: str | None = None
    path: str | None = None
    ranks: int = 2
    fields: Mapping[str, Any] = field(default_factory=dict)
    tensorflow: bool = False
    world: str | None = None
    code: int = 5


def python(text: str, *options: str, **how: Any) -> Launch:
    return Launch(command=("python3", *options, "x.py"), files={"x.py": text}, **how)


def compiled(*command: str, **how: Any) -> Launch:
    words = command or ("{out}/pi",)
    return Launch(command=words, files={"pi.c": PI}, setup=BUILD, **how)


def fortran(family: str, **how: Any) -> Launch:
    build = BUILD_FORTRAN.replace("NAME", OF_FORTRAN[family])
    files = {"main.c": FORTRAN, "part.c": FOR_FORTRAN}
    return Launch(command=("{out}/pi",), files=files, setup=build, path=family, **how)


def _mpi4py(family: str) -> dict[str, Any]:
    """By which Python on the host finds mpi4py, and that MPI."""
    folder = Path(os.environ["CAPSULE_TEST_MPI"]) / FAMILIES[family]
    (library,) = folder.glob("**/lib/libmpi.so.*")
    (package,) = folder.glob("**/mpi4py/__init__.py")
    return {"MPI_HERE": str(package.parents[1]), "MPI4PY_LIBMPI": str(library)}


OWN_LIBRARY = (
    'cd "$CAPSULE_INPUTS" && sed s/main/solve/ pi.c > "$CAPSULE_OUT/solve.c" &&'
    ' cd "$CAPSULE_OUT" &&'
    " mpicc -shared -fPIC solve.c -o libsolve.so -lm && echo 'int solve(int, char **);"
    " int main(int n, char **words) { return solve(n, words); }' > main.c &&"
    f" gcc main.c -o pi {_LINK} -lsolve"
)
IN_SCRIPT = {"run.sh": "echo begins\npython3 $CAPSULE_INPUTS/x.py\necho ends\n", "x.py": ALONE}
RANK_BY_ENVIRONMENT = {
    "environment": {
        "RANK": "{rank}",
        "WORLD_SIZE": "{ranks}",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29871",
    }
}
TORCHRUN = ("python3", "-m", "torch.distributed.run", "--nproc-per-node")
INDEPENDENT, DECLARED = {"ranks_independent": True}, {"world": "declared"}
GLOO, BARE = f"{TORCH}{JOIN}", f"{WHO}tell()\n"

WRONG: dict[str, Launch] = {
    "C": compiled(path="MPICH", code=6),
    "C of Open MPI": compiled(path="Open MPI", code=6),
    "Fortran": fortran("MPICH", code=6),
    "Fortran of Open MPI": fortran("Open MPI", code=6),
    "C behind env": compiled("env", "X=1", "{out}/pi", path="MPICH", code=6),
    "C behind a shell": compiled("sh", "-c", "exec $CAPSULE_OUT/pi", path="MPICH", code=6),
    "C by a library": Launch(
        command=("{out}/pi",), files={"pi.c": PI}, setup=OWN_LIBRARY, path="MPICH", code=6
    ),
    "C that is declared": compiled(path="MPICH", fields=DECLARED, code=6),
    "C in a script": Launch(
        command=("sh", "run.sh"),
        files={"run.sh": "$CAPSULE_OUT/pi\n", "pi.c": PI},
        setup=BUILD,
        path="MPICH",
        world=NOT_SEEN,
    ),
    "C under another family": compiled(path="Open MPI", launcher="MPICH", code=6),
    "C under MPICH's": fortran("MPICH", launcher="Open MPI", code=6),
    "an mpirun in each rank": compiled(
        "mpirun", "-n", "2", "{out}/pi", path="MPICH", world=NOT_SEEN
    ),
    "mpi4py": python(OF_MPI, path="MPICH", fields={"environment": "MPICH"}),
    "mpi4py of Open MPI": python(OF_MPI, path="Open MPI", fields={"environment": "Open MPI"}),
    "an mpirun of Python in each rank": Launch(
        command=("mpirun", "-n", "2", "python3", "x.py"),
        files={"x.py": OF_MPI},
        path="MPICH",
        fields={"environment": "MPICH"},
    ),
    "torch without RANK": python(ALONE),
    "no library": python('print("loss: 0.5")'),
    "torch by no variables": python(BY_ENVIRONMENT),
    "torch of one": python(f"{TORCH}place += str(rank)\n{OF_ONE}tell()"),
    "half a world": python(f"{TORCH}{HALF}", ranks=4),
    "two worlds of two": python(f"{TORCH}{PARTS}", ranks=4),
    "a world in each rank": python(OWN_WORLD),
    "torchrun in each rank": Launch(
        command=(*TORCHRUN, "2", "--standalone", "x.py"), files={"x.py": BY_ENVIRONMENT}
    ),
    "jax of one": python(
        JAX.replace("HOW_MANY", "1").replace("NUMBER", "0").replace("-port", "{rank}")
    ),
    "a script of Python": Launch(command=("sh", "run.sh"), files=IN_SCRIPT),
    "alone with -I": python(ALONE, "-I", world=NOT_SEEN),
    "C in a container": compiled(where="apptainer", code=6),
    "mpi4py in a container": python(OF_MPI, where="apptainer"),
    "torch alone in a container": python(ALONE, where="apptainer"),
    "two worlds in containers": python(f"{TORCH}{PARTS}", where="apptainer", ranks=4),
    "no variables in a container": python(BY_ENVIRONMENT, where="apptainer"),
    "C on two nodes": compiled(where="slurm", path="Open MPI", code=6),
    "torch alone on two nodes": python(ALONE, where="slurm"),
    "half a world on two nodes": python(f"{TORCH}if rank == 0:\n    {OF_ONE}tell()", where="slurm"),
    "two worlds on two nodes": python(OWN_WORLD, where="slurm"),
    "no variables on two nodes": python(BY_ENVIRONMENT, where="slurm"),
    "torch alone in containers of two nodes": python(ALONE, where="slurm apptainer"),
    "mpirun on two nodes": compiled(
        "mpirun", "-n", "1", "{out}/pi", where="slurm", path="MPICH", world=NOT_SEEN
    ),
}
SEEN = "seen by torch"
RIGHT: dict[str, Launch] = {
    "torch": python(f"{GLOO}tell()", world=SEEN),
    "torch of four": python(f"{GLOO}tell()", ranks=4, world=SEEN),
    "torch by variables": python(f"{WHO}{BY_ENVIRONMENT}", fields=RANK_BY_ENVIRONMENT, world=SEEN),
    "torch with seeds": python(f"{GLOO}tell()", fields={"seeding": "inject"}, world=SEEN),
    "torch in a script": Launch(
        command=("sh", "run.sh"), files={**IN_SCRIPT, "x.py": f"{GLOO}tell()"}, world=SEEN
    ),
    "torch by a mesh": python(
        f"{WHO}os.environ |= {{'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': '29872',"
        " 'RANK': str(rank), 'WORLD_SIZE': str(ranks)}\n"
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "init_device_mesh('cpu', (ranks,))\ntell()",
        world=SEEN,
    ),
    "torch in a child": python(
        f"{TORCH}import multiprocessing as mp\ndef work():\n    {JOIN}\n"
        "if __name__ == '__main__':\n    one = mp.get_context('spawn').Process(target=work)\n"
        "    one.start()\n    one.join()\n    tell()",
        world=SEEN,
    ),
    "torchrun of all": Launch(
        command=(
            *(*TORCHRUN, "1", "--nnodes", "{ranks}", "--node-rank", "{rank}"),
            *("--master-addr", "127.0.0.1", "--master-port", "29873", "x.py"),
        ),
        files={"x.py": BY_ENVIRONMENT},
        world=SEEN,
    ),
    "jax": python(JAX.replace("HOW_MANY", "ranks").replace("NUMBER", "rank"), world="seen by jax"),
    "C": compiled(launcher="MPICH", world=JOINED),
    "C of Open MPI": compiled(launcher="Open MPI", world=JOINED),
    "C behind env": compiled("env", "X=1", "{out}/pi", launcher="MPICH", world=JOINED),
    "C by a library": Launch(
        command=("{out}/pi",),
        files={"pi.c": PI},
        setup=OWN_LIBRARY,
        launcher="MPICH",
        world=JOINED,
    ),
    "Fortran": fortran("MPICH", launcher="MPICH", world=JOINED),
    "Fortran of Open MPI": fortran("Open MPI", launcher="Open MPI", world=JOINED),
    "mpi4py": python(
        OF_MPI, launcher="MPICH", fields={"environment": "MPICH"}, world="seen by mpi4py"
    ),
    "mpi4py of Open MPI": python(
        OF_MPI, launcher="Open MPI", fields={"environment": "Open MPI"}, world="seen by mpi4py"
    ),
    "torch in containers": python(f"{GLOO}tell()", where="apptainer", world=SEEN),
    "mpi4py in containers": python(
        OF_MPI, where="apptainer", launcher="MPICH", world="seen by mpi4py"
    ),
    "C in containers": compiled(where="apptainer", launcher="MPICH", world=JOINED),
    "torch on two nodes": python(f"{GLOO}tell()", where="slurm", world=SEEN),
    "C on two nodes": compiled(where="slurm", path="MPICH", world=JOINED),
    "torch in containers of two nodes": python(
        f"{GLOO}tell()", where="slurm apptainer", world=SEEN
    ),
    "C in containers of two nodes": compiled(where="slurm apptainer", world=JOINED),
}
OTHER: dict[str, Launch] = {
    "TensorFlow": python(
        TENSORFLOW, where="apptainer", tensorflow=True, world="seen by tensorflow"
    ),
    "sockets": python(SOCKETS, fields=DECLARED, world="declared by the author"),
    "a group that is destroyed": python(f"{GLOO}dist.destroy_process_group()\ntell()", world=SEEN),
    "made again": python(
        f"{GLOO}dist.destroy_process_group()\nplace += '-2'\n{JOIN}tell()", world=SEEN
    ),
    "groups within": python(f"{GLOO}dist.new_group([0])\ntell()", world=SEEN),
    "os._exit": python(f"{GLOO}tell()\nos._exit(0)", world=SEEN),
    "-I": python(f"{GLOO}tell()", "-I", world=NOT_SEEN),
    "-S": python(BARE, "-S", world=NOT_SEEN),
    "-E": python(f"{GLOO}tell()", "-E", world=NOT_SEEN),
    "independent": python(BARE, fields=INDEPENDENT, world="independent ranks"),
    "independent of one each": python(
        f"{TORCH}place += str(rank)\n{OF_ONE}tell()",
        fields=INDEPENDENT,
        world="independent ranks",
    ),
    "C that is independent": compiled(path="MPICH", fields=INDEPENDENT, world="independent ranks"),
    "a shell": Launch(
        command=("sh", "run.sh"), files={"run.sh": "echo loss: $CAPSULE_RANK\n"}, world=NOT_SEEN
    ),
    "C without MPI": Launch(
        command=("{out}/x",),
        files={"x.c": '#include <stdio.h>\nint main(void) { puts("loss: 1"); return 0; }\n'},
        setup='gcc "$CAPSULE_INPUTS/x.c" -o "$CAPSULE_OUT/x"',
        world=NOT_SEEN,
    ),
    "Python where MPI is at hand": python(f"{GLOO}tell()", launcher="MPICH", world=SEEN),
}


def write(folder: Path, launch: Launch) -> dict[str, str]:
    """The manifest `m.json` with its inputs, and the variables that it is run with."""
    for name, text in launch.files.items():
        (folder / name).write_text(text)
    fields = dict(launch.fields)
    if isinstance(family := fields.get("environment"), str):
        fields["environment"] = _mpi4py(family)
    nodes = 2 if launch.where.startswith("slurm") else 1
    setup = launch.setup
    if launch.path and launch.launcher:
        compiler = Path(programs(launch.path).split(os.pathsep)[0], "mpicc")
        setup = setup.replace("mpicc", str(compiler))
    benchmark = {
        "id": "b",
        "command": list(launch.command),
        "inputs": sorted(launch.files),
        "metrics": {"loss": {"from": {"pattern": "loss: ([0-9.e+-]+)"}}},
        **({"setup": ["sh", "-c", setup]} if setup else {}),
        **fields,
    }
    manifest = {
        "name": "m",
        "title": "Several ranks",
        "authors": [{"name": "Ada Author"}],
        "license": "CC0-1.0",
        "seeds": [1],
        "resources": {
            "nodes": nodes,
            "ranks_per_node": launch.ranks // nodes,
            "cpus_per_rank": 1,
        },
        "benchmarks": [benchmark],
        "claims": [{"metric": "b/*/*/loss", "type": "bound", "at_most": 100}],
        "mutable": ["resources"],
    }
    (folder / "m.json").write_text(json.dumps(manifest))
    site = {"launcher": "mpirun"} if launch.launcher else {}
    (folder / "site.json").write_text(json.dumps(site))
    family = launch.launcher or launch.path
    path = programs(family) if family else os.environ["PATH"]
    own = str(Path(sys.executable).parent)
    return {"CAPSULE_SITE": str(folder / "site.json"), "PATH": f"{own}{os.pathsep}{path}"}


def words(launch: Launch) -> Iterator[str]:
    """Options of `run` and `verify`."""
    yield from ("--runtime", "apptainer" if "apptainer" in launch.where else "host")
    if "apptainer" in launch.where:
        yield from ("--image", tensorflow_image() if launch.tensorflow else torch_image())
