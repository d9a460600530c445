"""Worlds that are none, from the manifest to the exit code: never a capsule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import User, write_manifest, write_script
from tests.support.engines import engine_cache, torch_image
from tests.support.mpi import environment, programs
from tests.support.patience import until
from tests.support.slurm import in_job
from tests.support.worlds import BARE, MEETING, RANKS, is_alive, meeting, wrap_python

pytestmark = pytest.mark.usefixtures("bare_python")

# what stands in the place of python3, and words of the explanation
WRONG_WORLDS = {
    "env -i": (
        5,
        f'exec env -i PATH="$PATH" {BARE}/python3 "$@"',
        "acts as the only rank",
    ),
    "literal": (6, "export CAPSULE_RENDEZVOUS='tcp://$HOST:1'", "an unexpanded shell variable"),
    "hung": (5, '[ "$CAPSULE_RANK$CAPSULE_RANKS" = 12 ] && exec sleep 600', "rank 1 of 2 did not"),
}


@pytest.mark.parametrize("cause", WRONG_WORLDS)
def test_a_wrong_world_is_never_a_capsule_and_the_run_goes_on_when_it_is_right(
    author: User, cause: str
) -> None:
    code, line, words = WRONG_WORLDS[cause]
    path = meeting(author, world="1")  # which nobody would notice else
    write_script(author.folder, MEETING.replace("WORLD", "2"))
    variables = wrap_python(author, line)
    limit = ["--walltime", "00:00:06"] if cause == "hung" else []
    ended = author.run("run", path, "--runtime", "host", *limit, **variables)
    said = " ".join(ended.stderr.split())
    assert ended.returncode == code, said
    assert words in said
    assert "pre-flight" in said
    assert not list(author.folder.glob("*.capsule.zip"))
    (work,) = author.folder.glob("*.run")
    assert not list(work.glob("starts/*"))
    assert f"resume the run folder {work.name}" in said or str(work) in said
    wrap_python(author, "")
    ended = author.run("run", "--resume", work, **variables)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    assert len(author.json("show", capsule)["worlds"]) == 1


def test_a_run_that_is_killed_in_pre_flight_leaves_nothing_and_goes_on(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, mark = meeting(author), author.folder / "mark"
    line = f'[ "$CAPSULE_RANKS" = 2 ] && [ ! -e {mark} ] && echo $$ >{mark} && exec sleep 600'
    monkeypatch.setenv("PATH", wrap_python(author, line)["PATH"])
    process = author.start("run", path, "--runtime", "host")
    until(lambda: mark.exists() and bool(mark.read_text()), "a rank is in pre-flight")
    process.kill()
    process.wait()
    (work,) = author.folder.glob("*.run")
    ended = author.run("run", "--resume", work)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not is_alive(mark.read_text().strip())


def test_words_that_no_shell_expands_are_refused_before_a_rank_starts(author: User) -> None:
    path = meeting(author)
    document = json.loads(path.read_text())
    document["benchmarks"][0]["command"] += ["--rdzv-id=$SLURM_JOB_ID"]
    path.write_text(json.dumps(document))
    ended = author.run("run", path, "--runtime", "host")
    said = " ".join(ended.stderr.split())
    assert ended.returncode == 6, said
    assert (
        'ranks cannot form one world with "--rdzv-id=$SLURM_JOB_ID": no shell expands the variable'
        in said
    )
    (work,) = author.folder.glob("*.run")
    assert not list(work.glob("starts/*"))


def test_ranks_without_python_are_told_as_not_seen(author: User) -> None:
    (author.folder / "rank.sh").write_text("echo loss: 1\n")
    metrics = {"loss": {"from": {"pattern": "loss: (.*)"}}}
    benchmark = {"id": "tiny", "command": ["sh", "rank.sh"], "inputs": ["rank.sh"]}
    path = write_manifest(
        author.folder, benchmarks=[{**benchmark, "metrics": metrics}], seeds=[1], resources=RANKS
    )
    ended = author.run("run", path, "--runtime", "host", **wrap_python(author, "exit 127"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = " ".join(ended.stdout.split())
    assert "2 on 1 node; pre-flight: world not checked, because no python3 starts" in said
    assert "world not seen" in said
    # what the author reads is sealed, too
    (capsule,) = author.folder.glob("*.capsule.zip")
    assert author.json("show", capsule)["world"] == {"tiny": "not seen"}


OF_MPI = """
import json, os
from mpi4py import MPI
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    results.write(json.dumps({"metric": "loss", "value": MPI.COMM_WORLD.rank}) + "\\n")
"""


def of_mpi(user: User, **shape: int) -> Path:
    """A manifest of two ranks that meet by MPI alone, and do not say how many they are."""
    write_script(user.folder, OF_MPI)
    benchmark = {"id": "tiny", "command": ["python3", "tiny.py"], "inputs": ["tiny.py"]}
    return write_manifest(
        user.folder,
        benchmarks=[{**benchmark, "metrics": {"loss": {"per": "rank"}}}],
        seeds=[1],
        resources={**RANKS, **shape},
    )


@pytest.mark.engines
def test_ranks_of_mpi_that_nothing_joins_are_found(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    ended = author.run("run", of_mpi(author), "--runtime", "apptainer", "--image", torch_image())
    said = " ".join(ended.stderr.split())
    assert ended.returncode == 5, said
    assert "is alone in its world according to mpi, but 2 ranks were started" in said
    assert "MPICH Version: 5.0.2 received no variables of a world" in said
    assert not list(author.folder.glob("*.capsule.zip"))


@pytest.mark.engines
def test_ranks_of_mpi_in_containers_are_joined_by_an_mpirun_of_their_family(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    site = author.folder / "site.json"
    site.write_text('{"launcher": "mpirun"}')
    words = ("run", of_mpi(author), "--runtime", "apptainer", "--image", torch_image())
    named = {"CAPSULE_SITE": str(site)}
    ended = author.run(*words, **named, PATH=programs("Open MPI"))
    said = " ".join(ended.stderr.split())
    assert ended.returncode == 6, said
    assert "mpirun belongs to Open MPI, and the image has MPICH Version: 5.0.2" in said
    assert not list(author.folder.glob("*.capsule.zip"))

    (work,) = author.folder.glob("*.run")
    ended = author.run("run", "--resume", work, **named, PATH=programs("MPICH"))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    shown = author.json("show", capsule)
    assert [one["means"] for one in shown["worlds"]] == [["gloo", "mpi"]]
    (run,) = shown["metrics"]["tiny/default/command/loss"]["runs"]
    assert "containers share no memory" in shown["image"]["observations"]["mpi"]
    assert run["value"] in (0, 1)


@pytest.mark.engines
def test_the_machines_own_mpi_joins_ranks_in_containers_of_two_nodes_by_srun(
    author: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    path = of_mpi(author, nodes=2, ranks_per_node=1)
    words = ("run", path, "--runtime", "apptainer", "--image", torch_image())
    library = Path(environment("MPICH")["MPI4PY_LIBMPI"])
    site = author.folder / "site.json"
    shown = {"/opt/site-mpi": str(library.parent)}
    site.write_text(json.dumps({"binds": shown, "mpi": [f"/opt/site-mpi/{library.name}"]}))
    ended = in_job(author).run(*words, CAPSULE_SITE=str(site))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    document = author.json("show", capsule)
    assert [one["means"] for one in document["worlds"]] == [["gloo", "mpi"]]
    observed = document["image"]["observations"]
    assert "pmi2 for ranks of MPI" in observed["launcher"]
    (note,) = [one for one in document["notes"] if one["code"] == "site-mpi"]
    assert f"libmpi.so.12 ({observed['library libmpi.so.12']})" in note["sentence"]
