"""What a workload does to its own run: how it ends, and what it puts where it may write."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support.command import REPORT, User, write_manifest, write_script

# a locale whose encoding is ASCII, which Python itself would avoid
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
DONE = REPORT + 'report("loss", 1)\n'
PLACES = """
import os, signal, socket
out, results = os.environ["CAPSULE_OUT"], os.environ["CAPSULE_RESULTS"]
"""

JOURNAL = """
import json, os, sys
job, path = json.load(open(sys.argv[-2])), sys.argv[-1]
trial = job["trials"][0]["id"]
hello = {"event": "hello", "format": "capsule-journal/1", "software": {}, "environment": {}}
begin = {"event": "begin", "trial": trial}
failed = {"event": "end", "trial": trial, "outcome": "failed", "reason": "error", "seconds": 1}

def leave(*lines):
    with open(path, "w") as stream:
        for line in lines:
            stream.write(line if isinstance(line, str) else json.dumps(line))
            stream.write("\\n")
    os._exit(0)

parameters = ("n",)

def tensors(sizes):
    return {"x": (sizes["n"],)}

def outputs(sizes):
    return ((sizes["n"],),)

def flops(sizes):
    return sizes["n"]

def forward(c, sizes, x):
    return c.store(x * x)

def backward(c, sizes, upstream, x):
    return (c.store(upstream * x * 2),)

def numpy(context, sizes, x):
    return (lambda x: x * x), (x,)

"""


def _run(script: str, **changes: object) -> Prepare:
    """One trial of a command in Python."""

    def prepare(user: User) -> list[str | Path]:
        write_script(user.folder, script)
        manifest = write_manifest(user.folder, **{"seeds": [1], **changes})
        return ["run", manifest, "--runtime", "host", "--keep-going"]

    return prepare


def _measure(strike: str, **changes: object) -> Prepare:
    """One trial of an operator whose file does as it likes inside the measuring code."""
    benchmark = {
        "id": "own",
        "level": 0,
        "operator": {"file": "own.py"},
        "inputs": ["own.py"],
        "cases": {"n": [1]},
        "frameworks": ["numpy"],
    }
    fields = {"seeds": [1], "benchmarks": [benchmark], "claims": [], **changes}

    def prepare(user: User) -> list[str | Path]:
        (user.folder / "own.py").write_text(JOURNAL + strike)
        return ["run", write_manifest(user.folder, **fields), "--runtime", "host", "--keep-going"]

    return prepare


ENDS = (
    Case(
        name="workload/real-time-signal",
        prepare=_run(PLACES + "os.kill(os.getpid(), 40)\n"),
        status=5,
        says="ended 3 times in a row by signal 40",
    ),
    Case(
        name="workload/kills-itself",
        prepare=_run(PLACES + "os.kill(os.getpid(), signal.SIGKILL)\n"),
        status=5,
        says="ended 3 times in a row by SIGKILL",
    ),
    Case(
        name="workload/terminates-itself-before-any-trial",
        prepare=_measure("os.remove(path)\nos.kill(os.getpid(), 15)\n"),
        status=5,
        says="ended 3 times in a row by SIGTERM",
    ),
    Case(
        name="workload/exit-status-of-a-signal",
        prepare=_run("import sys\nsys.exit(137)\n"),
        status=5,
        says="failed (exit): exit code 137",
    ),
)

RESULTS = tuple(
    Case(
        name=f"results/{name}",
        prepare=_run(PLACES + strike),
        status=5,
        says="exit code 0, but metric 'loss' is missing",
        seconds=120.0,
    )
    for name, strike in {
        "pipe": "os.mkfifo(results)\n",
        "device": "os.symlink('/dev/zero', results)\n",
        "socket": "socket.socket(socket.AF_UNIX).bind(os.path.relpath(results))\n",
        "folder": "os.mkdir(results)\n",
        "link-to-nowhere": "os.symlink('/nowhere', results)\n",
        "link-to-itself": "os.symlink(results, results)\n",
    }.items()
)

FOLDERS = (
    Case(
        name="out/deep-folders",
        prepare=_run(
            DONE + "os.chdir(os.environ['CAPSULE_OUT'])\n"
            "for _ in range(1100):\n    os.mkdir('d')\n    os.chdir('d')\n"
        ),
        status=0,
        says="sealed tiny-",
    ),
    Case(
        name="out/closed-folder",
        prepare=_run(
            DONE + "os.chdir(os.environ['CAPSULE_OUT'])\n"
            "os.makedirs('a/b/c')\nos.chmod('a/b', 0)\nos.chmod('a', 0)\n"
        ),
        status=0,
        says="sealed tiny-",
    ),
    Case(
        name="out/stderr-is-a-pipe",
        prepare=_run(
            PLACES + "path = os.path.join(out, '..', 'stderr.txt')\nos.remove(path)\n"
            "os.mkfifo(path)\nraise SystemExit(3)\n"
        ),
        status=5,
        says="failed (exit): exit code 3",
    ),
    Case(
        name="out/next-start-is-taken",
        prepare=_run(
            DONE + "if seed == 1: os.symlink('/etc', os.environ['CAPSULE_OUT'] + '/../../0002')\n",
            seeds=[1, 2],
        ),
        status=0,
        says="sealed tiny-",
    ),
)

# under its second seed the command reaches for what belongs to the first, or to the run
_REACH = (
    DONE
    + """
import pathlib, shutil
out = pathlib.Path(os.environ["CAPSULE_OUT"])
run, first = out.parents[2], out.parents[1] / "0001"
NUL = '{"target": "a' + chr(92) + 'u0000b"}'
if seed == 2:
    """
)
_LINK = "(first / 'stdout.txt').symlink_to('/etc/passwd')"
_ASTRAY = "shutil.rmtree(run / 'work'); (run / 'work').symlink_to(run.parent)"
_CHANGED = "the reported values were changed after the trial ended"

NEIGHBOURS = tuple(
    Case(
        name=f"neighbour/{name}",
        prepare=_run(_REACH + strike + "\n", seeds=[1, 2, 3]),
        status=status,
        says=says,
        says_not="bug in capsule",
    )
    for name, strike, status, says in (
        ("results-removed", "(first / 'out' / 'results.jsonl').unlink()", 5, _CHANGED),
        ("results-of-no-number", "(first / 'out' / 'results.jsonl').write_text('x')", 5, _CHANGED),
        ("start-removed", "shutil.rmtree(first)", 5, _CHANGED),
        ("all-starts-removed", "shutil.rmtree(first.parent)", 5, _CHANGED),
        ("nodes-removed", "shutil.rmtree(run / 'nodes')", 0, "sealed tiny-"),
        ("node-of-no-form", "(run / 'nodes' / '0000.json').write_text('[]')", 0, "sealed tiny-"),
        (
            "digests-removed",
            "(run / 'digests.txt').unlink()",
            4,
            "the list of copied files was changed",
        ),
        ("log-removed", "(run / 'attempts.jsonl').unlink()", 0, "sealed tiny-"),
        ("header-removed", "(run / 'run.json').unlink()", 0, "sealed tiny-"),
        ("lock-removed", "(run / 'lock').unlink()", 0, "sealed tiny-"),
        ("inputs-removed", "shutil.rmtree(run / 'inputs')", 5, "cannot read for sealing"),
        ("copies-removed", "shutil.rmtree(run / 'work')", 0, "wrote to its inputs"),
        ("copies-are-a-link", _ASTRAY, 0, "wrote to its inputs"),
        ("run-removed", "shutil.rmtree(run)", 5, "cannot write: the folder was removed"),
        ("note-of-no-json", "(run / 'sealing.json').write_text('{')", 0, "sealed tiny-"),
        ("note-with-nul", "(run / 'sealing.json').write_text(NUL)", 0, "sealed tiny-"),
        ("note-is-a-pipe", "os.mkfifo(run / 'sealing.json')", 0, "sealed tiny-"),
        ("clean-is-a-link", "(run / 'clean').symlink_to('/etc')", 0, "sealed tiny-"),
        ("starts-are-a-file", "shutil.rmtree(first.parent); first.parent.touch()", 5, "cannot"),
        ("log-is-a-link", "(first / 'stdout.txt').unlink(); " + _LINK, 0, "sealed tiny-"),
        ("hollow-results", "os.truncate(first / 'out' / 'results.jsonl', 1 << 40)", 5, _CHANGED),
        ("hollow-log", "os.truncate(first / 'stdout.txt', 1 << 40)", 5, "the logs are too large"),
    )
)

JOURNALS = tuple(
    Case(
        name=f"journal/{name}",
        prepare=_measure(f"leave({lines})\n"),
        status=5,
        says=says,
        says_not="bug in capsule",
        seconds=120.0,
    )
    for name, lines, says in (
        (
            "metric-is-a-list",
            "hello, begin, {'event': 'samples', 'trial': trial, 'metric': [], 'values': [1]}",
            "reports the undeclared metric '[]'",
        ),
        (
            "warm-up-is-true",
            "hello, begin, {'event': 'samples', 'trial': trial, 'metric': 'forward_time',"
            " 'values': [1, 2], 'warmup': True}",
            "warm-up of forward_time: found ",
        ),
        (
            "half-a-surrogate-in-a-message",
            "hello, begin, {**failed, 'message': 'half \\ud800 a pair'}",
            "half \\ud800 a pair",
        ),
        (
            "half-a-surrogate-in-the-software",
            "{**hello, 'software': {'\\udcff': ['\\ud800']}}, begin, {**failed, 'message': 'odd'}",
            "failed (error): odd",
        ),
        (
            "software-of-no-form",
            "{**hello, 'software': {'frameworks': 3}}, begin, {**failed, 'message': 'odd'}",
            "failed (error): odd",
        ),
        (
            "deep-begin",
            'hello, \'{"event": "begin", "trial": \' + \'[\' * 100000',
            "nested deeper than 64",
        ),
        (
            "trial-is-an-object",
            "hello, {'event': 'begin', 'trial': {'a': 1}}",
            "begins a trial that is not in its job",
        ),
        (
            "software-without-end",
            "{**hello, 'software': {str(n): n for n in range(10**5)}}, begin",
            "has a hello event of more than 256.0 KiB",
        ),
        ("event-is-a-list", "hello, {'event': ['begin']}", "unknown event"),
        ("no-object", "hello, '[]'", "line 2 is [], expected a JSON object"),
        ("hello-twice", "hello, hello", "has two hello events"),
        (
            "another-rank",
            "{**hello, 'rank': '\\ud800', 'ranks': 2}",
            "names rank \\ud800 of 2",
        ),
        (
            "seconds-below-0",
            "hello, begin, {**failed, 'seconds': -1}",
            "without a duration",
        ),
        (
            "a-number-without-end",
            "hello, begin, '1' * 9999",
            "does not fit in 64 bits",
        ),
    )
)

HANGS = (
    Case(
        name="journal/pipe",
        prepare=_measure(
            "import time\nos.remove(path)\nos.mkfifo(path)\ntime.sleep(600)\n",
            resources={"walltime": "00:00:02"},
        ),
        status=5,
        says="walltime",
        seconds=120.0,
    ),
    Case(
        name="journal/endless-device",
        prepare=_measure(
            "import time\nos.remove(path)\nos.symlink('/dev/zero', path)\ntime.sleep(600)\n",
            resources={"walltime": "00:00:02"},
        ),
        status=5,
        says="walltime",
        seconds=120.0,
    ),
    Case(
        name="journal/endless-line",
        prepare=_measure(
            "import time\nwith open(path, 'a') as stream: stream.write('x' * 10**8)\n"
            "time.sleep(600)\n",
            resources={"walltime": "00:00:02"},
        ),
        status=5,
        says="walltime",
        mib=256,
        seconds=120.0,
    ),
)

STOPS = (
    Case(
        name="workload/stops-itself",
        prepare=_run(
            PLACES + "os.kill(os.getpid(), signal.SIGSTOP)\n", resources={"walltime": "00:00:01"}
        ),
        status=5,
        says="walltime",
        seconds=120.0,
    ),
    Case(
        name="workload/ignores-the-end-of-its-time",
        prepare=_run(
            PLACES
            + "import time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)\n",
            resources={"walltime": "00:00:01"},
        ),
        status=5,
        says="walltime",
        seconds=120.0,
    ),
    Case(
        name="workload/removes-its-own-run",
        prepare=_run(
            PLACES + "import shutil\nshutil.rmtree(os.path.join(out, '../../..'))\n", seeds=[1, 2]
        ),
        status=4,
        says="was changed or removed",
    ),
    Case(
        name="workload/takes-its-log-away",
        prepare=_run(
            DONE
            + "os.chdir(os.environ['CAPSULE_OUT'])\nos.remove('../stdout.txt')\n"
            + "os.symlink('/dev/zero', '../stdout.txt')\n"
        ),
        status=0,
        says="sealed tiny-",
    ),
)

NAMES = (
    Case(
        name="workload/error-names-an-odd-file",
        prepare=_measure("raise OSError('none at ' + os.fsdecode(b'/nowhere-\\xff'))\n"),
        status=5,
        says="/nowhere-\\udcff",
    ),
    Case(
        name="workload/prints-what-is-no-text",
        prepare=_run("import os\nos.write(2, b'\\xff\\x00\\x1b[31m')\nraise SystemExit(3)\n"),
        status=5,
        says="exit code 3",
        says_not="\x1b",
    ),
    Case(
        name="locale/ascii",
        prepare=_run(DONE, title="Größe und Maß …", authors=[{"name": "Ä. Üöß"}]),
        status=0,
        says="sealed tiny-",
        variables=ASCII,
    ),
    Case(
        name="locale/ascii-and-a-failure",
        prepare=_run("raise SystemExit('für nichts')\n"),
        status=5,
        says="exit code 1",
        variables=ASCII,
    ),
)

CASES = ENDS + NEIGHBOURS + RESULTS + FOLDERS + JOURNALS + HANGS + STOPS + NAMES
