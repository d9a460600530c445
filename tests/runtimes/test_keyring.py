"""A workload cannot reach its user's keys of the kernel, by whatever calls of the machine."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import pwd
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from capsule import places, process
from capsule.errors import CannotRunError
from capsule.runtimes import keyguard, keyring
from capsule.runtimes.apptainer import Apptainer
from tests.support.command import User, write_manifest
from tests.support.engines import ROOT, as_user, engine_cache, small_image
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runtimes import Engine, fill_user_cache, run, small

REFUSED = [-errno.ENOSYS] * 3
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="changes its user")
on_x86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="calls of x86-64")

# what each call about keys answers, by each way into the kernel that this machine has
PROBE = """
import ctypes, json, mmap, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    return libc.syscall(number, *arguments) if ctypes.set_errno(0) is None else 0
def answer(number, *arguments):
    ctypes.set_errno(0)
    value = libc.syscall(number, *arguments)
    return value if value >= 0 else -ctypes.get_errno()
machine = os.uname().machine
add, request, keyctl = {"x86_64": (248, 249, 250)}.get(machine, (217, 218, 219))
def all_of(bit):
    return [
        answer(bit + add, b"user", b"capsule-test", b"x", 1, -2),
        answer(bit + request, b"user", b"capsule-test", None, 0),
        answer(bit + keyctl, 0, -3, 0),
    ]
answers = {"native": all_of(0)}
if machine == "x86_64":
    answers["x32"] = all_of(0x40000000)
    # push rbx; mov eax, edi; mov ebx, esi; mov ecx, edx; zero the rest; int 0x80; pop rbx; ret
    code = bytes.fromhex("5389f889f389d131d231f631ffcd805bc3")
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(code)
    interrupt = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int)(
        ctypes.addressof(ctypes.c_char.from_buffer(page)))
    if interrupt(20, 0, 0) == os.getpid():
        answers["i386"] = [interrupt(number, 0, -3) for number in (286, 287, 288)]
print(json.dumps(answers))
"""

# starts a command as `process` does, with a key in the session keyring of whoever starts it
STARTER = """
import ctypes, os, sys, tempfile
from pathlib import Path
from capsule import process
from capsule.runtimes import keyguard
libc = ctypes.CDLL(None)
ADD, KEYCTL = {"x86_64": (248, 250)}.get(os.uname().machine, (217, 219))
libc.syscall(KEYCTL, 1, None)
libc.syscall(ADD, b"user", b"canary", b"CANARY", 6, -3)
def find():
    return libc.syscall(KEYCTL, 10, -3, b"user", b"canary", 0)
before = find()
# the C library's own search, by a program that refuses no call
LOOK = "import ctypes; print(ctypes.CDLL(None).syscall(%d, 10, -3, b'user', b'canary', 0))"
def ask(guard, program):
    return process.run([sys.executable, "-c", program], guard=guard).stdout.decode().strip()
print(before > 0, ask(None, LOOK % KEYCTL) == str(before), ask(keyguard.join, LOOK % KEYCTL))
print(ask(keyguard.isolate, sys.argv[1]))
print(find() == before, Path("/proc/self/status").read_text().split("NoNewPrivs:")[1].split()[0])
"""


def check_starter(words: list[str]) -> None:
    known, answers, kept = words
    # the starter's own keyring was neither changed, nor reached from a new one
    assert known == "True True -1"
    assert all(answer == REFUSED for answer in json.loads(answers).values())
    assert kept == "True 0"


def test_what_is_started_has_a_new_keyring_and_no_calls_and_its_starter_keeps_both() -> None:
    ended = process.run([sys.executable, "-c", STARTER, PROBE])
    check_starter(ended.stdout.decode().splitlines())


@pytest.mark.engines
def test_for_an_ordinary_user_it_is_the_same() -> None:
    check_starter(as_user(STARTER, PROBE).splitlines())


Word = tuple[int, int, int, int]


def interpret(program: bytes, architecture: int, number: int) -> int:
    """What the kernel does with a call, by its three instructions that filters of ours have."""
    code: list[Word] = list(struct.iter_unpack("=HBBI", program))
    value, place = 0, 0
    while True:
        operation, then, otherwise, operand = code[place]
        place += 1
        match operation:
            case 0x20:
                value = {0: number, 4: architecture}[operand]
            case 0x15:
                place += then if value == operand else otherwise
            case 0x06:
                return operand


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "ppc64le", "riscv64", "s390x"])
def test_the_filter_of_each_machine_refuses_three_calls_of_each_architecture_alone(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyguard, "_machine", lambda: machine)
    program, tables = keyguard._instructions(), keyguard._TABLES[machine]
    for architecture, calls in tables.items():
        refused = {
            number
            for bit in (0, 0x40000000)
            for number in range(bit, bit + 500)
            if interpret(program, architecture, number) == 0x00050000 | errno.ENOSYS
        }
        assert refused == set(calls)
    assert interpret(program, 0xDEAD, 250) == 0x7FFF0000


@needs_root
def test_a_path_that_only_the_users_keys_open_is_named_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on AFS, where a thread with another keyring is another user."""
    libc = ctypes.CDLL(None)
    monkeypatch.setattr(keyguard, "isolate", lambda: libc.setfsuid(65534))
    secret = tmp_path / "data"
    secret.mkdir(mode=0o700)
    (tmp_path / "open").mkdir()
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    keyring.require_reachable([tmp_path / "open", tmp_path / "open" / "made" / "later"])
    with pytest.raises(CannotRunError, match="keep-keyring") as caught:
        keyring.require_reachable([tmp_path / "open", secret])
    assert caught.value.where == str(secret)
    # the thread alone was another user
    assert list(secret.iterdir()) == []


@pytest.mark.parametrize("kind", ["afs", "ecryptfs"])
def test_a_path_on_a_file_system_with_keys_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "21 1 254:0 / / rw - ext4 /dev/vda rw\n"
        f"22 21 0:5 / {tmp_path}/a\\040cell rw - {kind} none rw\n"
    )
    (tmp_path / "a cell").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a cell")
    known = places.file_system
    monkeypatch.setattr(places, "file_system", lambda path: known(path, table))
    keyring.require_reachable([tmp_path])
    with pytest.raises(CannotRunError, match=r"(?s)ecryptfs|AFS") as caught:
        keyring.require_reachable([tmp_path / "link" / "not yet there"])
    assert caught.value.where == str(tmp_path / "link")


def test_where_no_keyring_can_be_had_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(keyguard, "isolate", refuse)
    with pytest.raises(CannotRunError, match="keep-keyring"):
        keyring.require_reachable([Path("/")])


LOOK = """
import ctypes, os
number = {"x86_64": 250}.get(os.uname().machine, 219)
libc = ctypes.CDLL(None, use_errno=True)
print("loss: 1.5")
key = libc.syscall(number, 10, -3, b"user", b"canary", 0)
print("found" if key > 0 else "nothing", ctypes.get_errno())
"""

WITH_CANARY = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
add, keyctl = {"x86_64": (248, 250)}.get(os.uname().machine, (217, 219))
assert libc.syscall(keyctl, 1, None) > 0
assert libc.syscall(add, b"user", b"canary", b"CANARY", 6, -3) > 0
os.execvp(sys.argv[1], sys.argv[1:])
"""


def with_canary(user: User, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run capsule where the session keyring has a key."""
    return subprocess.run(
        [sys.executable, "-c", WITH_CANARY, *user.argv(*words)],
        cwd=user.folder,
        env=user.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def logs(capsule: Path) -> str:
    with zipfile.ZipFile(capsule) as archive:
        names = [name for name in archive.namelist() if "/data/logs/" in f"/{name}"]
        return "".join(archive.read(name).decode() for name in names)


def observed(capsule: Path) -> dict[str, str]:
    with zipfile.ZipFile(capsule) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("records/image.json"))
        observations: dict[str, str] = json.loads(archive.read(name))["observations"]
        return observations


def test_on_the_host_a_strangers_code_has_no_keys_unless_it_is_given_them(
    author: User, stranger: User
) -> None:
    (author.folder / "look.py").write_text(LOOK)
    benchmark = {
        "id": "b",
        "command": ["python3", "look.py"],
        "inputs": ["look.py"],
        "metrics": {"loss": {"from": {"pattern": "loss: ([0-9.]+)"}}},
    }
    manifest = write_manifest(author.folder, benchmarks=[benchmark], claims=[], seeds=[1])
    ended = with_canary(author, "run", manifest, "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr
    # one's own runs keep what they had, and nothing is recorded of it
    assert "found 0" in logs(author.folder / "a.zip")
    assert "keyring" not in observed(author.folder / "a.zip")

    permission = ("--trust", "--allow-host")
    given = author.folder / "a.zip"
    first = with_canary(stranger, "verify", given, *permission, "--output", "b.zip")
    assert first.returncode == 3, first.stderr
    assert f"nothing {errno.ENOSYS}" in logs(stranger.folder / "b.zip")
    assert observed(stranger.folder / "b.zip")["keyring"].startswith("new")

    words = ("verify", given, *permission, "--keep-keyring", "--output", "c.zip")
    second = with_canary(stranger, *words)
    assert second.returncode == 3, second.stderr
    assert "--keep-keyring" in second.stderr
    assert "found 0" in logs(stranger.folder / "c.zip")
    notes = [note["code"] for note in stranger.json("show", "c.zip")["notes"]]
    assert "keyring-kept" in notes
    assert stranger.run("check", "c.zip").returncode == 0


@pytest.mark.engines
def test_in_an_image_it_is_the_same_for_root_and_a_missing_program_is_told_as_before(
    tmp_path: Path,
) -> None:
    prepared = Apptainer().prepare(small(), cache=engine_cache())
    engine = Engine(runtime=Apptainer(), prepared=prepared)
    ended = run(engine, tmp_path, "python3", "-c", PROBE)
    assert ended.exit_code == 0, (tmp_path / "stderr").read_text()
    answers = json.loads((tmp_path / "stdout").read_text())
    assert all(answer == REFUSED for answer in answers.values())


ALL_USERS = "['0', '0', '4294967295']"
IN_IMAGE = """
import sys, tempfile
from pathlib import Path
from capsule.image import reference, registry
from capsule.runtimes.apptainer import Apptainer
from capsule.runtimes.base import Invocation, Mount
image = registry.resolve(reference.parse(sys.argv[1]))
prepared = Apptainer().prepare(image, cache=Path(sys.argv[2]), own=sys.argv[5] == 'own')
print(prepared.keyring)
def start(*command):
    folder = Path(tempfile.mkdtemp())
    (folder / 'out').mkdir()
    out = Mount(source=folder / 'out', target='/out', writable=True)
    running = Apptainer().start(prepared, Invocation(
        command=command, environment={'HOME': '/out'}, mounts=(out,), cwd='/out', label='keys',
        stdout=folder / 'stdout', stderr=folder / 'stderr'))
    ended = running.wait(float(sys.argv[3]))
    return ended, (folder / 'stdout').read_text()
ended, out = start('python3', '-c', sys.argv[4])
print(ended.exit_code, out, end='')
print(start('no-such-program')[0].engine_fault is not None)
print(start('sh', '-c', 'echo FATAL: mine >&2; exit 255')[0].engine_fault)
print(start('cat', '/proc/self/uid_map')[1].split())
"""


def in_image() -> list[str]:
    words = (small_image(), str(fill_user_cache()), str(PATIENCE_SECONDS), PROBE, "own")
    return as_user(IN_IMAGE, *words).splitlines()


def check_image(lines: list[str], where: str) -> None:
    kind, answers, missing, own_words, _ = lines
    assert kind == where
    code, _, document = answers.partition(" ")
    assert code == "0"
    assert all(answer == REFUSED for answer in json.loads(document).values())
    assert (missing, own_words) == ("True", "None")


@pytest.mark.engines
def test_in_an_image_it_is_the_same_for_an_ordinary_user() -> None:
    check_image(in_image(), "outside")


@pytest.fixture
def setuid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], list[str]]:
    """Run a program as the ordinary user where Apptainer's starter is installed setuid.

    The machine's own installation stays as it is: the starter lies in a mount namespace alone.
    """
    answer = process.run(["apptainer", "buildcfg", "LIBEXECDIR"]).stdout.decode()
    folder = Path(answer.strip().removeprefix("LIBEXECDIR=")) / "apptainer" / "bin"
    shown = tmp_path / "bin"
    shown.mkdir(mode=0o755)
    for name, mode in (("starter", 0o755), ("starter-suid", 0o4755)):
        shutil.copy(folder / "starter", shown / name)
        (shown / name).chmod(mode)

    def run(whose: str) -> list[str]:
        account = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
        path = os.pathsep.join([str(ROOT), *(p for p in sys.path if p.endswith("-packages"))])
        words = (small_image(), str(fill_user_cache()), str(PATIENCE_SECONDS), PROBE, whose)
        mount = 'mount --make-rprivate / && mount --bind "$1" "$2" && shift 2 && exec "$@"'
        identity = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups")
        variables = (
            f"HOME={account.pw_dir}",
            f"PYTHONPATH={path}",
            f"PATH={os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE=1",
        )
        ended = subprocess.run(
            [
                *("unshare", "--mount", "sh", "-c", mount, "sh", str(shown), str(folder)),
                *("setpriv", *identity, "env", "-i", *variables),
                *("/usr/bin/python3", "-c", IN_IMAGE, *words),
            ],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.splitlines()

    return run


@pytest.mark.engines
def test_where_the_starter_is_setuid_the_filter_is_set_inside(
    setuid: Callable[[str], list[str]],
) -> None:
    lines = setuid("own")
    check_image(lines, "inside")
    # by the setuid starter, in the machine's own namespace of users
    assert lines[-1] == ALL_USERS


@pytest.mark.engines
def test_but_a_strangers_image_is_not_asked_to_guard_against_itself(
    setuid: Callable[[str], list[str]],
) -> None:
    lines = setuid("a stranger's")
    check_image(lines, "userns")
    assert lines[-1] != ALL_USERS


ENCRYPTED = """
import fcntl, os, struct
from pathlib import Path
from capsule.errors import CannotRunError
from capsule.runtimes import keyring
os.mkdir("/mnt/secret")
policy = struct.pack("BBBB8s", 0, 1, 4, 0, b"whatever")
fcntl.ioctl(os.open("/mnt/secret", os.O_RDONLY), 0x800C6613, policy)
keyring.require_reachable([Path("/mnt")])
try:
    keyring.require_reachable([Path("/mnt/secret/data")])
except CannotRunError as error:
    print(error.where, error.what)
"""


@pytest.mark.engines
def test_a_folder_that_its_file_system_encrypts_is_named(tmp_path: Path) -> None:
    image = tmp_path / "image"
    with image.open("wb") as stream:
        stream.truncate(32 << 20)
    # an ordinary PATH has no sbin
    process.run(["/usr/sbin/mkfs.ext4", "-q", "-O", "encrypt", str(image)])
    mount = 'mount --make-rprivate / && mount -o loop "$1" /mnt && shift && exec "$@"'
    ended = process.run(
        [
            *("unshare", "--mount", "sh", "-c", mount, "sh", str(image)),
            *(sys.executable, "-c", ENCRYPTED),
        ]
    )
    assert ended.stdout.startswith(b"/mnt/secret is on fscrypt"), ended.stderr


@pytest.mark.torch
def test_torch_and_the_workers_of_its_dataloader_run_without_keys() -> None:
    program = (
        "import torch\n"
        "from torch.utils.data import DataLoader\n"
        "if __name__ == '__main__':\n"
        "    data = DataLoader(torch.arange(8.0), batch_size=2, num_workers=2)\n"
        "    print(float(sum(batch.sum() for batch in data)))\n"
    )
    script = [sys.executable, "-c", program]
    assert process.run(script, guard=keyguard.isolate, timeout_seconds=300).stdout == b"28.0\n"
