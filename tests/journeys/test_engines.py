"""The whole way in real containers: an ordinary user's run, and a stranger's verdict on it."""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.capsules import pack, rehash, sample_files
from tests.support.command import User, write_manifest
from tests.support.engines import engine_cache, faulty_image, torch_image, user_python
from tests.support.runtimes import hand_on_sif

pytestmark = pytest.mark.engines

OPERATORS = [
    {
        "id": "gemm",
        "level": 0,
        "operator": "gemm",
        "cases": {"m": [32, 64], "n": [32], "k": [64]},
        "frameworks": ["torch", "numpy"],
        "repetitions": 10,
    },
    {"id": "relu", "level": 0, "operator": "relu", "cases": {"n": [1000]}, "frameworks": ["torch"]},
]
CLAIMS = [
    {"metric": "*/*/*/l2_error_ratio", "type": "bound", "at_most": 1},
    {"metric": "gemm/*/torch/forward_time", "type": "ratio", "primary": False},
]


@pytest.fixture(scope="module")
def ordinary() -> Iterator[User]:
    """A user of a cluster: no root, an own home, an own installation of capsule."""
    account = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    user = User.make(base)
    for folder in (user.home, user.folder):
        os.chown(folder, account.pw_uid, account.pw_gid)
    hand_on_sif(torch_image(), account, user.home)
    yield User(home=user.home, folder=user.folder, python=user_python(), account=account.pw_name)
    shutil.rmtree(base)


@pytest.fixture(scope="module")
def published(ordinary: User) -> Path:
    """A capsule that an ordinary user sealed under Apptainer, from a registry on loopback."""
    # a bound is kept or broken by each run for itself
    manifest = write_manifest(ordinary.folder, benchmarks=OPERATORS, claims=CLAIMS, seeds=[1, 2])
    ended = ordinary.run("run", manifest, "--image", torch_image(), "--runtime", "apptainer")
    assert ended.returncode == 0, ended.stderr
    (capsule,) = ordinary.folder.glob("*.capsule.zip")
    return capsule


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))


def test_the_capsule_names_the_digest_that_ran(published: Path, author: User) -> None:
    shown = author.json("show", published)
    assert torch_image().endswith(shown["image"]["manifest_digest"])
    assert (shown["runtime"], shown["contained"]) == ("apptainer", True)


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_it_reproduces_under_another_engine(published: Path, stranger: User, engine: str) -> None:
    ended = stranger.run("verify", published, "--runtime", engine, "--trust")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith("REPRODUCED")
    assert "image" not in ended.stdout.splitlines()[0]
    (second,) = stranger.folder.glob("*.verification.zip")
    shown = stranger.json("show", second)
    assert shown["verifies"] == stranger.json("show", published)["id"]
    assert torch_image().endswith(shown["image"]["manifest_digest"])


def test_an_image_whose_gemm_is_wrong_by_one_percent_is_different(
    published: Path, stranger: User
) -> None:
    ended = stranger.run(
        "verify", published, "--runtime", "docker", "--trust", "--image", faulty_image()
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert ended.stdout.startswith("DIFFERENT")
    assert f"anotherimage({faulty_image()})" in "".join(ended.stdout.split())
    (second,) = stranger.folder.glob("*.verification.zip")
    verdict = stranger.json("diff", published, second, code=1)
    different = {claim["metric"] for claim in verdict["claims"] if claim["verdict"] == "DIFFERENT"}
    assert different == {
        "gemm/m32n32k64/torch/l2_error_ratio",
        "gemm/m64n32k64/torch/l2_error_ratio",
    }


def test_a_strangers_capsule_runs_nothing_unasked(published: Path, stranger: User) -> None:
    ended = stranger.run("verify", published, "--runtime", "docker")
    assert ended.returncode == 4
    assert "--trust" in ended.stderr
    assert torch_image().rpartition("/")[2] in ended.stderr
    assert list(stranger.folder.iterdir()) == []


def test_one_changed_byte_runs_nothing_even_when_trusted(
    published: Path, stranger: User, tmp_path: Path
) -> None:
    data = bytearray(published.read_bytes())
    data[len(data) // 2] ^= 1
    forged = tmp_path / "forged.capsule.zip"
    forged.write_bytes(data)
    ended = stranger.run("verify", forged, "--runtime", "docker", "--trust")
    assert ended.returncode == 4
    assert list(stranger.folder.iterdir()) == []


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_an_image_that_is_not_there_is_named(author: User, engine: str) -> None:
    wrong = torch_image().rpartition(":")[0] + ":" + "0" * 64
    manifest = write_manifest(author.folder, benchmarks=OPERATORS, claims=CLAIMS)
    ended = author.run("run", manifest, "--image", wrong, "--runtime", engine)
    assert ended.returncode == 6
    assert "0" * 64 in ended.stderr
    assert not list(author.folder.glob("*.run"))


def test_gpus_that_are_not_there_are_named(author: User) -> None:
    devices = subprocess.run(["ls", "/dev/nvidia0"], capture_output=True, check=False)
    if devices.returncode == 0:
        pytest.skip("this machine has a GPU")
    # numpy has no device to ask for
    manifest = write_manifest(
        author.folder, benchmarks=OPERATORS[1:], claims=CLAIMS[:1], resources={"gpus_per_rank": 1}
    )
    for engine in ("apptainer", "docker", "podman"):
        ended = author.run("run", manifest, "--image", torch_image(), "--runtime", engine)
        assert ended.returncode == 6, ended.stderr
        assert "GPU" in ended.stderr


@pytest.mark.parametrize("engine", ["apptainer", "docker", "podman"])
@pytest.mark.parametrize("who", ["ordinary", "stranger"])
def test_a_record_that_pins_another_image_runs_under_no_engine(
    request: pytest.FixtureRequest, who: str, engine: str
) -> None:
    """Its manifest and its configuration are one image's, and what it pins is another real one."""
    user: User = request.getfixturevalue(who)
    files = dict(sample_files())
    document = json.loads(files["data/records/image.json"])
    document["image"]["pinned"] = torch_image().removeprefix("docker://")
    files["data/records/image.json"] = json.dumps(document).encode()
    forged = pack(rehash(files), user.folder / f"{engine}.zip")
    forged.chmod(0o644)
    before = sorted(user.folder.iterdir())
    ended = user.run("verify", forged, "--runtime", engine, "--trust")
    assert ended.returncode == 4
    assert "pinned contradict its reference" in " ".join(ended.stderr.split())
    assert sorted(user.folder.iterdir()) == before
