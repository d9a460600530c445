"""Ranks that `srun` starts on the two nodes of a real Slurm."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import launch, process, processes
from capsule.errors import CannotRunError
from capsule.launch import preflight, started
from capsule.launch.base import RENDEZVOUS, Launched
from capsule.launch.preflight import Request
from capsule.launch.srun import Srun
from capsule.manifest.model import Resources
from capsule.runtimes.base import Ended, Prepared
from capsule.runtimes.docker import Docker
from capsule.runtimes.host import Host
from capsule.site import Site
from tests.support.launches import KILLED, TAKEN, THEN, WAITS, WELL, label, ranks
from tests.support.mpi import environment
from tests.support.patience import PATIENCE_SECONDS, read_lines
from tests.support.preflights import given, refused, request

pytestmark = pytest.mark.engines

PREPARED = Prepared(handle="")
TWO_NODES = Resources(nodes=2)


@pytest.fixture(scope="module")
def job() -> Iterator[str]:
    """An allocation of both nodes."""
    words = ["salloc", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2", "--no-shell"]
    granted = subprocess.run(words, capture_output=True, text=True, check=True)
    found = re.search(r"Granted job allocation (\d+)", granted.stderr)
    assert found is not None, granted.stderr
    yield found[1]
    subprocess.run(["scancel", found[1]], check=True)


@pytest.fixture(autouse=True)
def inside(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As salloc has it for what it starts."""
    monkeypatch.setenv("SLURM_JOB_ID", job)
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "2")


def start(folder: Path, *scripts: str, resources: Resources = TWO_NODES) -> Launched:
    return Srun(resources).start(Host(), PREPARED, ranks(folder, *scripts))


def ends(folder: Path, *scripts: str, resources: Resources = TWO_NODES) -> object:
    launched = start(folder, *scripts, resources=resources)
    try:
        return launched.wait(PATIENCE_SECONDS)
    finally:
        launched.stop()
        assert not process.find_marked(label(folder))
        assert not steps()


def steps() -> list[str]:
    """Those that run now."""
    job = os.environ["SLURM_JOB_ID"]
    words = ["squeue", "--steps", "--noheader", "--format=%i", f"--jobs={job}"]
    answer = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return [step for step in answer if not step.endswith(".extern")]


def test_ranks_meet_at_one_address_and_see_nothing_else_of_slurm(tmp_path: Path) -> None:
    four = Resources(nodes=2, ranks_per_node=2)
    assert ends(tmp_path, *["env"] * 4, resources=four) == (WELL,) * 4
    told = [(tmp_path / f"{rank}/out").read_text() for rank in range(4)]
    addresses = {re.findall(f"{RENDEZVOUS}=(.*)", text)[0] for text in told}
    assert len(addresses) == 1
    assert re.fullmatch(r"tcp://[0-9.]+:[0-9]{5}", addresses.pop())
    assert not re.findall(r"(?m)^(?:SLURM_|PMI|HOME)\w*", "".join(told))


@pytest.mark.parametrize("names", [["n1"], ["n1", "n1"], ["n1", "n1", "n2"]])
def test_fewer_ranks_are_the_first_of_all(tmp_path: Path, names: list[str]) -> None:
    four = Resources(nodes=2, ranks_per_node=2)
    told = f"echo $SLURMD_NODENAME ${RENDEZVOUS}"
    assert ends(tmp_path, *[told] * len(names), resources=four) == (WELL,) * len(names)
    words = [(tmp_path / f"{rank}/out").read_text().split() for rank in range(len(names))]
    assert [name for name, _ in words] == names
    # those of one node need no address
    assert {place.partition(":")[0] for _, place in words} == {"tcp" if "n2" in names else "file"}


def test_ranks_of_one_node_keep_the_file_they_meet_in(tmp_path: Path) -> None:
    shown = f"echo ${RENDEZVOUS}"
    assert ends(tmp_path, shown, shown, resources=Resources(ranks_per_node=2)) == (WELL, WELL)
    assert (tmp_path / "1/out").read_text() == "file:///nowhere\n"


def test_the_one_that_fails_is_the_cause_and_ends_the_other(tmp_path: Path) -> None:
    fails = f"{THEN}exit 3"
    assert ends(tmp_path, WAITS, fails) == (TAKEN, Ended(exit_code=3, signal=None))


def test_one_that_is_killed_ends_the_other(tmp_path: Path) -> None:
    killed = f"{THEN}kill -9 $$"
    assert ends(tmp_path, killed, WAITS) == (KILLED, TAKEN)


def test_who_fails_for_want_of_one_that_is_ended_from_outside_is_not_the_cause(
    tmp_path: Path,
) -> None:
    """Slurm ends a job's tasks when a node of it is lost, and the others see it at once."""
    # which takes its time to go, and of which the other knows at once
    names = "echo $$ >part; mv part there; trap 'echo >>gone' TERM; while :; do sleep 0.01; done"
    follows = "while [ ! -e gone ]; do sleep 0.01; done; exit 1"
    launched = start(tmp_path, names, follows)
    wrapper = processes.read_stat(int(read_lines(tmp_path / "there")[0])).parent
    os.kill(wrapper, signal.SIGTERM)
    ended = launched.wait(PATIENCE_SECONDS)
    launched.stop()
    assert ended == (TAKEN, TAKEN)


def test_a_rank_whose_program_is_not_there_ends_the_other(tmp_path: Path) -> None:
    invocations = ranks(tmp_path, WAITS, "")
    invocations[1] = replace(invocations[1], command=("no-such-program",))
    ended = Srun(TWO_NODES).start(Host(), PREPARED, invocations).wait(PATIENCE_SECONDS)
    assert ended is not None
    assert ended[0] == TAKEN
    assert "no-such-program" in str(ended[1].engine_fault)


def test_ranks_run_until_they_are_stopped_and_then_none_is_left(tmp_path: Path) -> None:
    launched = start(tmp_path, WAITS, f"setsid sh -c '{WAITS.replace(chr(39), chr(34))}'")
    read_lines(tmp_path / "there", 2)
    assert launched.wait(0) is None
    launched.stop()
    assert not process.find_marked(label(tmp_path))
    assert not steps()


MAPS = """
import mmap, sys, time
with open(sys.argv[1], "w+b") as file:
    file.truncate(mmap.PAGESIZE)
    shared = mmap.mmap(file.fileno(), 0)
open("there", "a").write("there\\n")
time.sleep(600)
"""


def test_shared_memory_of_ranks_that_are_stopped_goes_with_them(tmp_path: Path) -> None:
    names = [Path(f"/dev/shm/capsule-test-{secrets.token_hex(8)}") for _ in range(2)]
    invocations = [
        replace(one, command=(sys.executable, "-c", MAPS, str(name)))
        for one, name in zip(ranks(tmp_path, "", ""), names, strict=True)
    ]
    launched = Srun(TWO_NODES).start(Host(), PREPARED, invocations)
    read_lines(tmp_path / "there", 2)
    assert all(name.exists() for name in names)
    launched.stop()
    assert not [name for name in names if name.exists()]


def test_a_step_that_somebody_kills_is_told_as_killed(tmp_path: Path) -> None:
    launched = start(tmp_path, WAITS, WAITS)
    read_lines(tmp_path / "there", 2)
    (step,) = steps()
    subprocess.run(["scancel", "--signal=KILL", step], check=True)
    ended = launched.wait(PATIENCE_SECONDS)
    launched.stop()
    assert ended == (KILLED,) * 2
    assert not process.find_marked(label(tmp_path))


def test_an_interrupt_before_any_rank_is_there_leaves_none(tmp_path: Path) -> None:
    launched = start(tmp_path, WAITS, WAITS)
    launched.stop()
    assert not process.find_marked(label(tmp_path))
    assert not steps()


def test_more_than_a_node_has_is_the_launchers_fault_not_the_workloads(tmp_path: Path) -> None:
    wide = Resources(nodes=2, cpus_per_rank=64)
    ended = start(tmp_path, "true", "true", resources=wide).wait(PATIENCE_SECONDS)
    assert ended is not None
    assert "rank 0 never started" in str(ended[0].engine_fault)
    assert "srun: error" in str(ended[0].engine_fault)


def test_mpi_that_srun_says_nothing_to_is_found_and_explained(tmp_path: Path) -> None:
    of = given(request(tmp_path, nodes=(0, 1), how="mpi"), environment("MPICH"))
    said = refused(of, Srun(TWO_NODES), PATIENCE_SECONDS)
    assert "is alone in its world according to mpi, but 2 ranks were started" in said
    assert "MPICH Version: 5.0.2 received no variables of a world" in said
    assert "(PMI_*, PMIX_*, OMPI_*) from srun, as with srun --mpi=none" in said


def of_mpi(folder: Path, family: str, nodes: tuple[int, ...], how: str = "mpi") -> Request:
    """Ranks that ask to be joined by MPI, of whose family they have a library."""
    of = given(request(folder, len(nodes), nodes=nodes, how=how), environment(family))
    asking = tuple(replace(one, joins=True) for one in of.invocations)
    return replace(of, invocations=asking)


def test_ranks_of_mpich_are_a_world_of_mpi_across_nodes(tmp_path: Path) -> None:
    four = Srun(Resources(nodes=2, ranks_per_node=2))
    of = of_mpi(tmp_path, "MPICH", (0, 0, 1))
    assert preflight.check(four, Host(), PREPARED, of).means == ("sockets", "mpi")
    assert not steps()


def test_ranks_of_open_mpi_are_refused_and_would_each_be_alone(tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match="two families of MPI") as caught:
        alone = of_mpi(tmp_path, "Open MPI", (0,), "probe-mpi")
        preflight.probe(Srun(TWO_NODES), Host(), PREPARED, alone)
    assert caught.value.exit_code == 6
    assert "srun joins only ranks of MPICH (--mpi=pmi2), and the image has Open MPI" in str(
        caught.value
    )
    (tmp_path / "asked").mkdir()
    of = of_mpi(tmp_path / "asked", "Open MPI", (0, 1))
    said = refused(of, Srun(TWO_NODES), PATIENCE_SECONDS)
    assert "is alone in its world according to mpi, but 2 ranks were started" in said
    assert "the launcher is MPICH" in said


def test_one_of_mpi_that_is_killed_ends_the_other(tmp_path: Path) -> None:
    invocations = [replace(one, joins=True) for one in ranks(tmp_path, f"{THEN}kill -9 $$", WAITS)]
    launched = Srun(TWO_NODES).start(Host(), PREPARED, invocations)
    assert launched.wait(PATIENCE_SECONDS) == (KILLED, TAKEN)
    launched.stop()
    assert not steps()


def test_a_host_that_no_node_knows_is_named(tmp_path: Path) -> None:
    elsewhere = "export CAPSULE_RENDEZVOUS=tcp://rank0.invalid:29500"
    of = request(tmp_path, nodes=(0, 1), start=elsewhere)
    said = refused(of, Srun(TWO_NODES), PATIENCE_SECONDS)
    assert "this node cannot resolve host 'rank0.invalid', where all ranks meet" in said


def test_each_node_says_once_what_it_is(tmp_path: Path) -> None:
    four = Resources(nodes=2, ranks_per_node=2)
    nodes = Srun(four).survey(salt="s", keep_hosts=True, folder=tmp_path / "survey")
    names = [str(node["identity"]["scheduler"]["node"]) for node in nodes]  # type: ignore[index, call-overload]
    assert names == ["n1", "n1", "n2", "n2"]
    assert nodes[0] is nodes[1]


def test_a_survey_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    with pytest.raises(CannotRunError, match="rank 0 of 2 did not start: srun: error"):
        Srun(Resources(nodes=2, cpus_per_rank=64)).survey(
            salt="s", keep_hosts=False, folder=tmp_path / "survey"
        )


def test_an_engine_with_a_service_of_its_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        CannotRunError, match="docker, which starts containers through a service of each machine"
    ):
        Srun(TWO_NODES).start(Docker(), PREPARED, ranks(tmp_path, "true", "true"))


def test_several_nodes_are_refused_where_there_is_no_allocation_of_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(file=tmp_path / "site.json")
    assert launch.choose(TWO_NODES, site).name == "srun"
    assert launch.choose(Resources(ranks_per_node=4), site).name == "local"
    with pytest.raises(CannotRunError, match="too few nodes in the Slurm job: 2"):
        launch.choose(Resources(nodes=3), site)
    with pytest.raises(CannotRunError, match="launcher local starts ranks on one node only"):
        launch.choose(TWO_NODES, replace(site, launcher="local"))
    monkeypatch.delenv("SLURM_JOB_ID")
    with pytest.raises(CannotRunError, match="outside a Slurm job"):
        launch.choose(TWO_NODES, site)
    with pytest.raises(CannotRunError, match="launcher srun requested outside a Slurm job"):
        launch.choose(Resources(), replace(site, launcher="srun"))


def test_a_dead_stepd_costs_some_seconds_and_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(started, "_SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(process, "STOP_SECONDS", 1)
    goes_on = "echo >>there; while [ ! -e go ]; do sleep 0.01; done"
    launched = start(tmp_path, goes_on, f"{THEN}{goes_on}")
    while len(read_lines(tmp_path / "there")) < 2:
        pass
    (step,) = steps()
    stepds = find_stepds(step)
    assert stepds
    for pid in stepds:
        os.kill(pid, signal.SIGSTOP)
    try:
        (tmp_path / "go").touch()
        assert launched.wait(PATIENCE_SECONDS) == (WELL, WELL)
    finally:
        for pid in stepds:
            os.kill(pid, signal.SIGCONT)
        launched.stop()


def test_a_rank_that_is_ended_on_another_node_says_what_it_did(tmp_path: Path) -> None:
    launched = start(tmp_path, "true", WAITS)
    read_lines(tmp_path / "there")
    launched.stop()
    ((rank, state),) = launched.stopped().items()
    assert rank == 1
    assert re.search(r"(?:sh|sleep) \([0-9]+\) [A-Z], ", state)


def find_stepds(step: str) -> list[int]:
    """The programs of Slurm's that stand above a step's ranks."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(f"slurmstepd: [{step}]".encode()):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
