"""What a run is asked to carry, and where its capsule is asked to go."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support.command import NOISY, User, write_manifest, write_script

_KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\n"

Step = Callable[[User], None]


def _input(plant: Step, **benchmark: object) -> Prepare:
    """A manifest of a stranger's, with a folder of inputs beside it."""

    def prepare(user: User) -> list[str | Path]:
        (user.home / ".ssh").mkdir()
        (user.home / ".ssh" / "id_rsa").write_text(_KEY)
        code = user.folder / "code"
        code.mkdir()
        (code / "run.py").write_text(NOISY)
        plant(user)
        whole = {
            "id": "tiny",
            "command": ["python3", "code/run.py"],
            "inputs": ["code"],
            "metrics": {"loss": {"direction": "lower"}},
            **benchmark,
        }
        return ["run", write_manifest(user.folder, seeds=[1, 2], benchmarks=[whole])]

    return prepare


def _link_to_key(user: User) -> None:
    (user.folder / "code" / "weights.bin").symlink_to(user.home / ".ssh" / "id_rsa")


def _link_to_folder(user: User) -> None:
    (user.folder / "code" / "more").symlink_to(user.home / ".ssh")


def _hollow(user: User) -> None:
    (user.folder / "code" / "hollow").touch()
    os.truncate(user.folder / "code" / "hollow", 1 << 40)


def _link_inside(user: User) -> None:
    (user.folder / "code" / "again.py").symlink_to("run.py")


def _link_by_name(user: User) -> None:
    (user.folder / ".env").write_text(_KEY)
    (user.folder / "data.txt").symlink_to(".env")


def _link_on_the_way(user: User) -> None:
    (user.folder / "hidden").mkdir()
    (user.folder / "hidden" / "x.txt").write_text(_KEY)
    (user.folder / "code" / "sub").symlink_to("../hidden")


def _hard_link(user: User) -> None:
    os.link(user.home / ".ssh" / "id_rsa", user.folder / "code" / "weights.bin")


def _fifo(user: User) -> None:
    os.mkfifo(user.folder / "code" / "pipe")


def _empty(user: User) -> None:
    (user.folder / "data").mkdir()


def _run(script: str, *words: str) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        write_script(user.folder, script)
        manifest = write_manifest(user.folder, seeds=[1, 2])
        return ["run", manifest, "--runtime", "host", *words]

    return prepare


def _key_among_inputs(user: User) -> None:
    (user.folder / "code" / "deploy.txt").write_text("host=a\n" + _KEY)


def _existing_output(user: User) -> list[str | Path]:
    (user.folder / "mine.zip").write_text("precious")
    return [*_run(NOISY)(user), "--output", "mine.zip"]


# a key that stands in no input, but in what is printed
_TELLING = 'print("-----BEGIN " + "RSA PRIVATE KEY-----", flush=True)\n' + NOISY

CASES = (
    Case(
        name="inputs/a-link-to-a-private-key",
        prepare=_input(_link_to_key),
        status=2,
        says="is a link",
        says_not="sealed",
    ),
    Case(
        name="inputs/a-link-to-a-folder",
        prepare=_input(_link_to_folder),
        status=2,
        says="is a link",
        says_not="sealed",
    ),
    Case(
        name="inputs/a-link-that-stays-inside",
        prepare=_input(_link_inside),
        status=2,
        says="'code/again.py' is a link, to 'run.py'",
    ),
    Case(
        name="inputs/a-terabyte-of-nothing",
        prepare=_input(_hollow),
        status=2,
        says="in total; the limit is 64.0 GiB",
    ),
    Case(
        name="inputs/a-link-that-is-named",
        prepare=_input(_link_by_name, inputs=["code", "data.txt"]),
        status=2,
        says="'data.txt' is a link, to '.env'",
    ),
    Case(
        name="inputs/a-link-on-the-way",
        prepare=_input(_link_on_the_way, inputs=["code/run.py", "code/sub/x.txt"]),
        status=2,
        says="'code/sub' is a link",
    ),
    Case(name="inputs/a-hard-link", prepare=_input(_hard_link), status=2, says="has 2 hard links"),
    Case(
        name="inputs/a-fifo",
        prepare=_input(_fifo),
        status=2,
        says="'code/pipe' is a named pipe (FIFO), expected a file or a folder",
    ),
    Case(
        name="inputs/an-empty-folder",
        prepare=_input(_empty, inputs=["code", "data"]),
        status=2,
        says="'data' is a folder without a file",
    ),
    Case(
        name="inputs/one-that-changes-while-it-is-measured",
        prepare=_run(NOISY + 'open(__file__, "a").write("# more")\n'),
        status=0,
        says="wrote to its inputs: tiny.py",
    ),
    Case(
        name="inputs/a-copy-that-no-workload-was-handed",
        prepare=_run(
            NOISY + 'open(os.environ["CAPSULE_INPUTS"] + "/../../inputs/tiny.py", "a").write("#")\n'
        ),
        status=4,
        says="inputs/tiny.py was changed",
        says_not="sealed",
    ),
    Case(
        name="privacy/a-key-among-the-inputs",
        prepare=_input(_key_among_inputs, inputs=["code/run.py", "code/deploy.txt"]),
        status=0,
        says="inputs/code/deploy.txt:2: a private key",
    ),
    Case(
        name="privacy/a-key-in-a-log",
        prepare=_run(_TELLING),
        status=0,
        says="logs/0001-stdout.txt:1: a private key",
    ),
    Case(
        name="privacy/a-key-in-a-log-with-strict-privacy",
        prepare=_run(_TELLING, "--strict-privacy"),
        status=5,
        says="not sealed, possibly private: logs/0001-stdout.txt:1: a private key",
        says_not="sealed tiny-",
    ),
    Case(
        name="places/an-output-that-exists",
        prepare=_existing_output,
        status=2,
        says="already exists, and is not overwritten",
        says_not="to resume if interrupted",
    ),
    Case(
        name="places/an-output-whose-name-is-too-long",
        prepare=_run(NOISY, "--output", "a" * 240),
        status=2,
        says="file name too long for this file system",
        says_not="to resume if interrupted",
    ),
)
