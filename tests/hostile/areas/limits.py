"""What a workload takes of the machine: time, disk, processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support.capsules import seal
from tests.support.command import NOISY, User, write_manifest, write_script
from tests.support.records import make_record

# honest for its author, and greedy under fresh seeds, which are large
_FILLS = """
if seed > 2:
    import time
    with open(os.path.join(os.environ["CAPSULE_OUT"], "filling"), "wb") as file:
        for _ in range(4):
            file.write(bytes(1 << 20))
    {rest}
"""
_HIDES = """
if seed > 2:
    import time
    for number in range(600):
        os.mkdir(os.path.join(os.environ["CAPSULE_OUT"], f"d{number}"))
"""
_HOLLOW = """
if seed > 2:
    os.ftruncate(1, 1 << 40)
"""
_FORKS = """
if seed > 2:
    import time
    for _ in range(40):
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    time.sleep(600)
"""
_SLEEPS = "\nif seed > 2:\n    import time\n    time.sleep(600)\n"
_LAST = 'report("loss"'


def _script(greed: str) -> str:
    return NOISY.replace(_LAST, f"{greed}\n{_LAST}", 1)


def _verify(greed: str, *words: str) -> Prepare:
    """A stranger's capsule, whose code takes more here than there."""

    def prepare(user: User) -> list[str | Path]:
        another = User.make(user.folder, "another")
        write_script(another.folder, _script(greed))
        capsule = user.folder / "a.capsule.zip"
        manifest = write_manifest(another.folder, seeds=[1, 2])
        ended = another.run("run", manifest, "--output", capsule)
        assert ended.returncode == 0, ended.stderr
        return ["verify", capsule, "--trust", "--allow-host", *words]

    return prepare


def _resume(user: User) -> list[str | Path]:
    """A run that was cut off by a limit, and goes on with a larger one."""
    write_script(user.folder, NOISY.replace(_LAST, _FILLS.format(rest="pass") + _LAST, 1))
    manifest = write_manifest(user.folder, seeds=[1, 2, 3])
    words = ("--disk", "1M", "--work", "tiny.run")
    ended = user.run("run", manifest, *words)
    assert ended.returncode == 5, ended.stderr
    return ["run", "--resume", "tiny.run", "--disk", "1G"]


def _endless_original(user: User) -> list[str | Path]:
    record = make_record()
    attempts = tuple(replace(attempt, seconds=1e300) for attempt in record.attempts)
    return ["verify", seal(user.folder, replace(record, attempts=attempts)), "--runtime", "host"]


CASES = (
    Case(
        name="limits/a-full-disk",
        prepare=_verify(_FILLS.format(rest="time.sleep(600)"), "--disk", "1M"),
        status=5,
        says="left more than 1.0 MiB on disk, the limit of --disk",
        says_not="DIFFERENT",
    ),
    Case(
        name="limits/a-disk-that-is-filled-at-once",
        prepare=_verify(_FILLS.format(rest="pass"), "--disk", "1M"),
        status=5,
        says="left more than 1.0 MiB on disk, the limit of --disk",
        says_not="DIFFERENT",
    ),
    Case(
        name="limits/a-workload-that-fails-on-a-full-disk",
        prepare=_verify(_FILLS.format(rest="sys.exit(1)"), "--disk", "1M"),
        status=5,
        says="left more than 1.0 MiB on disk, the limit of --disk",
        says_not="DIFFERENT",
    ),
    Case(
        name="limits/folders-without-a-byte",
        prepare=_verify(_HIDES, "--disk", "1M"),
        status=5,
        says="left more than 1.0 MiB on disk, the limit of --disk",
        says_not="DIFFERENT",
    ),
    Case(
        name="limits/a-hollow-log",
        prepare=_verify(_HOLLOW),
        status=5,
        says="left more than 4.0 GiB on disk, the limit of --disk",
        says_not="DIFFERENT",
    ),
    Case(
        name="limits/processes",
        prepare=_verify(_FORKS, "--pids", "30"),
        status=5,
        says="reached the limit of --pids: 30",
        says_not="DIFFERENT",
    ),
    Case(
        name="limits/time",
        prepare=_verify(_SLEEPS, "--walltime", "00:00:02"),
        status=5,
        says="--walltime: the walltime is used up",
        says_not="DIFFERENT",
    ),
    Case(
        name="limits/a-larger-one-goes-on",
        prepare=_resume,
        status=0,
        says="sealed tiny-",
    ),
    Case(
        name="limits/usual-ones-are-announced",
        prepare=_verify("", "--runs", "2"),
        status=0,
        says="per start 4.0 GiB of disk (--disk)",
    ),
    Case(
        name="limits/an-original-that-took-for-ever",
        prepare=_endless_original,
        status=4,
        says="720 h in all (--walltime)",
    ),
    Case(
        name="limits/no-size",
        prepare=_verify("", "--disk", "much"),
        status=2,
        says="expected a size, for example 500M or 20G, found 'much'",
    ),
)
