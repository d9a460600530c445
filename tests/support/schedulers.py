"""Stand-ins for `qsub`, `bsub` and `flux`: they read a job script's options, and start it.

    python schedulers.py FOLDER PROGRAM [WORDS]

FOLDER gets N.json, the options of the N-th job, N.log, what it said, and N.exit, its exit code.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

_SHELL = 'bash "$1" >"$2.log" 2>&1; echo $? >"$2.part"; mv "$2.part" "$2.exit"'

Options = dict[str, str]


def directives(text: str, sentinel: str) -> Iterator[list[str]]:
    """The words of each directive, which stand before the first command."""
    first, *lines = text.splitlines()
    assert first == "#!/bin/bash"
    for line in lines:
        if not line.startswith("#"):
            return
        if line.startswith(sentinel):
            yield shlex.split(line.removeprefix(sentinel))


def read_pbs(text: str) -> Options:
    """What PBS Professional is asked for."""
    found: Options = {}
    for option, value in directives(text, "#PBS "):
        assert option in ("-N", "-l", "-j"), option
        if option == "-l":
            name, _, amount = value.partition("=")
            found[name] = amount
    chunks = re.fullmatch(r"(\d+):ncpus=(\d+):mpiprocs=(\d+):ngpus=(\d+)", found["select"])
    assert chunks
    nodes, cpus, ranks, gpus = chunks.groups()
    hours, minutes, seconds = found["walltime"].split(":")
    assert (minutes, seconds) == ("00", "00")
    return {"hours": str(int(hours)), "nodes": nodes, "cpus": cpus, "ranks": ranks, "gpus": gpus}


def read_lsf(text: str) -> Options:
    """What LSF is asked for, whose slots are CPUs."""
    found: Options = {}
    for option, value in directives(text, "#BSUB "):
        assert option in ("-J", "-n", "-R", "-gpu", "-W", "-o"), option
        found[option] = value
    assert found["-R"] == "span[hosts=1]"
    hours, minutes = found["-W"].split(":")
    assert minutes == "00"
    gpus = found["-gpu"].removeprefix("num=")
    return {"hours": hours, "nodes": "1", "cpus": found["-n"], "ranks": "2", "gpus": gpus}


def read_flux(text: str) -> Options:
    """What Flux is asked for: slots, of which each is a rank's."""
    found: Options = {}
    for words in directives(text, "#flux: "):
        found |= {name: value for name, _, value in (word.partition("=") for word in words)}
    assert found.keys() == {
        *("--job-name", "--nodes", "--nslots", "--cores-per-slot", "--gpus-per-slot"),
        *("--time-limit", "--output"),
    }
    ranks = int(found["--nslots"])
    return {
        "hours": found["--time-limit"].removesuffix("h"),
        "nodes": found["--nodes"],
        "cpus": str(ranks * int(found["--cores-per-slot"])),
        "ranks": str(ranks),
        "gpus": str(ranks * int(found["--gpus-per-slot"])),
    }


READERS: dict[str, Callable[[str], Options]] = {
    "qsub": read_pbs,
    "bsub": read_lsf,
    "flux": read_flux,
}


def read_script(program: str, words: list[str]) -> str:
    """The script, as each takes it: by its name, or LSF from its standard input."""
    if program == "bsub":
        assert not words
        return sys.stdin.read()
    if program == "flux":
        # a batch job is an instance of its own
        assert (words[0] == "--parent") == ("FLUX_JOB_ID" in os.environ)
        words = words[1:] if words[0] == "--parent" else words
        assert words.pop(0) == "batch"
    (name,) = words
    return Path(name).read_text()


def main(folder: Path, program: str, words: list[str]) -> None:
    """Hand a job in, and start it at once."""
    text = read_script(program, words)
    options = READERS[program](text)
    number = 1 + len(list(folder.glob("*.json")))
    script = folder / f"{number}.sh"
    script.write_text(text)
    (folder / f"{number}.json").write_text(json.dumps(options))
    environment = {**os.environ, "FLUX_JOB_ID": str(number)}
    where = Path.cwd()
    if program == "qsub":
        environment["PBS_O_WORKDIR"], where = str(where), Path.home()
    subprocess.Popen(
        ["sh", "-c", _SHELL, "sh", str(script), str(folder / str(number))],
        cwd=where,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    print(number)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
