"""Each verb once as a process from its start: a fork would hide a fault in the order of imports."""

from __future__ import annotations

from capsule import verbs
from tests.support import forking
from tests.support.command import User, write_manifest, write_script

# in this order: what one writes, others read
WORDS = {
    "run": ("tiny.json --output a.zip", "sealed a.zip"),
    "check": ("a.zip", "plan and seeds follow from the manifest"),
    "show": ("a.zip", "tiny/default/command/loss"),
    "export": ("csv a.zip", "tiny/default/command/loss"),
    "verify": ("a.zip --trust --allow-host --runs 3 --output b.zip", "second capsule b.zip"),
    "diff": ("a.zip b.zip", "error rate"),
    "reread": ("a.zip --manifest tiny.json", "that the runs were sealed with"),
    "pair": ("tiny.json none.json", "none.json: no such file"),
    "sweep": ("show a.zip", "this capsule holds no search"),
    "init": ("new.json", "wrote new.json"),
    "lint": ("tiny.json", "tiny.json is valid"),
    "stage": ("tiny.json", "capsule run tiny.json --offline"),
    "inventory": ("", "processor"),
    "doctor": ("", "host"),
    "site": ("show", "your own"),
    "data": ("hash tiny.py", "sha256:"),
    "image": ("resolve none", "not an image reference"),
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
