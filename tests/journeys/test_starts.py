"""Each verb once as a process from its start: a fork would hide a fault in the order of imports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import verbs
from tests.support import forking
from tests.support.command import User, write_manifest, write_script

# in this order: what one writes, others read
WORDS = {
    "run": ("tiny.json --output a.zip", "sealed a.zip"),
    "check": ("a.zip", "plan and seeds follow from the manifest"),
    "show": ("a.zip", "metrics in tiny/default/command/"),
    "export": ("csv a.zip", "tiny/default/command/loss"),
    "verify": ("a.zip --trust --allow-host --runs 3 --output b.zip", "sealed b.zip"),
    "diff": ("a.zip b.zip", "error rate"),
    "reread": ("a.zip --manifest tiny.json", "the same metrics and claims as the capsule"),
    "pair": ("tiny.json none.json", "none.json: no such file"),
    "sweep": ("show a.zip", "this capsule contains no search"),
    "init": ("new.json", "wrote new.json"),
    "lint": ("tiny.json", "tiny.json is valid"),
    "stage": ("tiny.json", "capsule run tiny.json --offline"),
    "inventory": ("", "processor"),
    "doctor": ("", "host"),
    "site": ("show", "your own"),
    "data": ("hash tiny.py", "sha256:"),
    "image": ("resolve none", "expected an image reference"),
    "submit": ("none.json", "none.json: no such file"),
}


def test_each_verb_starts_as_a_process(author: User) -> None:
    write_manifest(author.folder)
    write_script(author.folder)
    assert WORDS.keys() == verbs.TABLE.keys()
    with forking.real_starts(True):
        for verb, (words, says) in WORDS.items():
            ended = author.run(verb, *words.split())
            assert says in ended.stdout + ended.stderr, verb


FACTS = """
import json, os, random, signal, sys, tempfile
from pathlib import Path
status = Path("/proc/self/status").read_text().splitlines()
facts = {
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "descriptors": sorted(os.listdir("/proc/self/fd"))[:-1],
    "umask and signals": [
        line for line in status if line.startswith(("Umask", "SigBlk", "SigIgn"))
    ],
    "session": [os.getsid(0), os.getpgid(0)],
    "threads": len(os.listdir("/proc/self/task")),
    "temporary": tempfile.gettempdir(),
}
print(json.dumps({"facts": facts, "random": random.random()}), flush=True)
os._exit(7)
"""


def test_a_fork_has_what_a_start_has(author: User, tmp_path: Path) -> None:
    (tmp_path / "facts.py").write_text(FACTS)
    environment = {**author.environment(), "OWN": "one", "TMPDIR": str(tmp_path)}
    seen = []
    for _ in range(2):
        with forking.take(environment) as server, (tmp_path / "out").open("w+b") as out:
            assert server
            server.start(
                [],
                folder=author.folder,
                environment=environment,
                out=out.fileno(),
                err=out.fileno(),
                first=tmp_path / "facts.py",
            )
            ended = server.wait(60)
            assert ended
            assert ended.status == 7
            seen.append(json.loads((tmp_path / "out").read_text()))
    started = subprocess.run(
        [author.python, tmp_path / "facts.py"],
        cwd=author.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert seen[0]["facts"] == seen[1]["facts"] == json.loads(started.stdout)["facts"]
    assert seen[0]["random"] != seen[1]["random"]


def test_a_fork_that_takes_too_long_is_killed_and_the_next_one_starts(author: User) -> None:
    write_manifest(author.folder)
    pid = author.folder / "pid"
    hang = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    write_script(author.folder, hang)
    with pytest.raises(subprocess.TimeoutExpired):
        replace(author, patience_seconds=10).run("run", "tiny.json")
    # as of a started one, its workload is left
    os.kill(int(pid.read_text()), signal.SIGKILL)
    assert author.run("lint", "tiny.json").returncode == 0


def test_a_command_is_started_where_an_interpreter_would_start_otherwise(author: User) -> None:
    environment = author.environment()
    before = os.umask(0o077)
    try:
        with forking.take(environment) as server:
            assert server is None
    finally:
        os.umask(before)
    with forking.take({**environment, "PYTHONPATH": "/nowhere"}) as server:
        assert server is None
    with forking.take(environment) as server, forking.take(environment) as second:
        assert server
        assert second is None
    with forking.real_starts(True), forking.take(environment) as server:
        assert server is None
