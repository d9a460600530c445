"""`verify --quick` runs what decides, as the whole would have run it, and says so of the rest."""

from __future__ import annotations

import zipfile
from pathlib import Path

from capsule import archive, summary
from capsule.origin import Verification
from capsule.record import Record
from tests.journeys.test_add import HELD, claim_of, record_of
from tests.journeys.test_resume import attempts_in, kill_tree, wait_for_workload
from tests.support.command import REPORT, Document, User, write_manifest, write_script

# curve, repeated calls and one number, each decided by the trial alone
SCRIPT = """
import time
own = random.Random(os.environ["CAPSULE_TRIAL"])
report("loss", 1 + own.uniform(-1e-3, 1e-3))
report("time", 1 + time.time_ns() % 1000 / 1e7)
report("fixed", 3 + seed)
report("coarse", 1 + own.uniform(-1e-4, 1e-4))
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    for step in range(6):
        line = {"metric": "trace", "value": 6 - step + own.uniform(0, 1e-3), "step": step}
        results.write(json.dumps(line) + "\\n")
for _ in range(30):
    report("calls", own.uniform(0, 1))
"""
METRICS: Document = {
    "loss": {"direction": "lower"},
    "time": {"direction": "lower", "kind": "machine", "unit": "s", "resolution": 0.01},
    "fixed": {"direction": "lower"},
    # coarser than chance: two runs leave a claim open, five never, by any seeds
    "coarse": {"direction": "lower", "resolution": 0.01},
    "trace": {"direction": "lower", "per": "step"},
    "calls": {"direction": "lower"},
}
WIDE: Document = {"type": "equivalence", "margin": {"absolute": 0.1}}
SECONDARY: Document = {**WIDE, "primary": False}


def metric(benchmark: str, name: str = "loss") -> str:
    return f"{benchmark}/default/command/{name}"


def seal(author: User, names: tuple[str, ...], claims: list[Document], **changes: object) -> None:
    """Four runs of some benchmarks with some claims."""
    hold = f"HOLD = {str(author.folder / 'hold')!r}"
    write_script(author.folder, REPORT + hold + HELD + SCRIPT)
    benchmarks = [
        {
            "id": name,
            "command": ["python3", "tiny.py"],
            "inputs": ["tiny.py"],
            "metrics": METRICS,
        }
        for name in names
    ]
    fields = {"benchmarks": benchmarks, "claims": claims, "seeds": [1, 2, 3, 4], **changes}
    ended = author.run("run", write_manifest(author.folder, **fields), "--output", "a.zip")
    assert ended.returncode == 0, ended.stderr


def seal_three(author: User, **changes: object) -> None:
    """A benchmark that decides, one with claims that do not, and one without any."""
    claims = [
        {"metric": metric("beside"), **SECONDARY},
        {"metric": metric("main"), **WIDE},
        {"metric": metric("beside"), "type": "ratio"},
        {"metric": metric("main", "time"), "type": "ratio"},
    ]
    seal(author, ("beside", "main", "bare"), claims, **changes)


def planned(record: Record) -> list[str]:
    return [trial["id"] for trial in summary.planned_trials(record.plan)]


def of(benchmarks: set[str], trials: list[str]) -> list[str]:
    return [trial for trial in trials if trial.partition("/")[0] in benchmarks]


def flat(text: str) -> str:
    return " ".join(text.split())


def is_quick(capsule: Path) -> bool:
    origin = record_of(capsule).origin
    assert isinstance(origin, Verification)
    return origin.quick


def test_what_decides_runs_as_in_the_whole_and_no_more(author: User) -> None:
    seal_three(author)
    whole = author.json("verify", "a.zip", "--output", "whole.zip")
    ended = author.run("verify", "a.zip", "--quick", "--output", "quick.zip")
    assert ended.returncode == 0, ended.stderr
    assert (
        "--quick runs 1 of 3 benchmarks; no primary claim needs the rest: beside, bare (2"
        " claims)" in flat(ended.stderr)
    )
    told = "a re-run with --quick (without 2 claims that cannot change the verdict)"
    assert f"the claim holds. Compared: {told}" in flat(ended.stdout)
    assert "2 claims not run, 1 ratio not judged" in flat(ended.stdout)
    one, other = (record_of(author.folder / name) for name in ("quick.zip", "whole.zip"))
    assert planned(one) == of({"main"}, planned(other))
    judged = author.json("diff", "a.zip", "quick.zip")
    assert (judged["verdict"], judged["sides"]["rerun"]["quick"]) == ("REPRODUCED", True)
    assert {"code": "quick", "sentence": told} in judged["changes"]
    assert claim_of(judged, metric("main")) == claim_of(whole, metric("main"))
    skipped = [claim for claim in judged["claims"] if claim["metric"] == metric("beside")]
    for claim in skipped:
        numbers = ("estimate", "look", "advice", "p_different", "p_different_holm", "alpha_used")
        assert [claim["verdict"], *map(claim.get, numbers)] == ["SKIPPED", *[None] * 6]
        assert claim["rerun"]["seeds"] == []
        assert claim["sentence"] == (
            "not run: with --quick, the re-run skipped this benchmark, which cannot change the"
            " verdict"
        )
    assert len(skipped) == 2
    assert {one["metric"].partition("/")[0] for one in judged["reported"]} == {"main"}
    check_what_reads_it(author)


def check_what_reads_it(author: User) -> None:
    """Everything that shows the capsule says that it was quick."""
    assert author.json("show", "quick.zip")["quick"] is True
    assert author.json("show", "whole.zip")["quick"] is False
    shown = flat(author.run("show", "quick.zip").stdout)
    assert "quick without bare, beside (no primary claim needs them)" in shown
    assert "not run" in shown
    assert "no margin" not in shown
    assert author.run("check", "quick.zip").returncode == 0
    with zipfile.ZipFile(author.folder / "quick.zip") as sealed:
        readme = sealed.read("data/README.md").decode()
    assert (
        "- Benchmarks left out by `--quick`, needed for no primary claim: `bare`, `beside`"
        in readme
    )
    assert f"| `{metric('beside')}` | not run |" in readme
    assert "`main`, seed " in readme
    assert "`beside`, seed " not in readme
    full = flat(author.run("diff", "a.zip", "quick.zip", "--full").stdout)
    assert "SKIPPED" in full and "beside/default/command/loss" in full
    assert "secondary claim: does not" not in full


def test_what_would_run_is_told_before(author: User, stranger: User) -> None:
    seal_three(author)
    words = ("verify", "a.zip", "--quick", "--dry-run")
    preview = author.json(*words)
    assert preview["left_out"] == {"benchmarks": ["beside", "bare"], "claims": 2}
    assert {one["benchmark"] for group in preview["groups"] for one in group["trials"]} == {"main"}
    assert author.json("verify", "a.zip", "--dry-run")["left_out"] is None
    shown = flat(author.run(*words).stdout)
    assert "quick --quick runs 1 of 3 benchmarks" in shown
    assert "starts 4 process starts, about" in shown
    assert "; the first is 0001-" in shown
    (stranger.folder / "a.zip").write_bytes((author.folder / "a.zip").read_bytes())
    refused = stranger.run("verify", "a.zip", "--quick", "--runtime", "host")
    assert refused.returncode == 4
    talk = flat(refused.stderr)
    assert "4 process starts, about" in talk
    assert "(the original's 4 trials of these benchmarks took" in talk
    assert "command python3 tiny.py" in talk
    assert "beside: python3" not in talk


def test_each_type_is_judged_as_in_the_whole(author: User) -> None:
    claims = [
        {"metric": metric("beside", "fixed"), "type": "exact", "primary": False},
        {"metric": metric("beside"), **SECONDARY, "paired": True},
        {"metric": metric("beside"), "type": "threshold", "at_most": 0, "primary": False},
        {"metric": metric("beside", "trace"), "type": "curve", "primary": False},
        {"metric": metric("equal", "fixed"), "type": "exact"},
        {"metric": metric("paired"), **WIDE, "paired": True},
        {"metric": metric("held"), "type": "threshold", "at_most": 2},
        {"metric": metric("held"), "type": "bound", "at_most": 2},
        {"metric": metric("held", "trace"), **WIDE, "type": "curve"},
        {"metric": metric("held", "calls"), "type": "distribution", "margin": {"distance": 0.9}},
        {"metric": metric("held", "time"), **SECONDARY},
    ]
    kept = {"equal", "paired", "held"}
    seal(author, ("equal", "beside", "held", "paired"), claims)
    author.json("verify", "a.zip", "--output", "whole.zip")
    author.json("verify", "a.zip", "--output", "quick.zip", "--quick")
    one, other = (author.json("diff", "a.zip", name) for name in ("quick.zip", "whole.zip"))
    assert {claim["verdict"] for claim in of_beside(one)} == {"SKIPPED"}
    # what is beyond its threshold there decides nothing, and quickly nobody says that it is
    assert "DIFFERENT" in {claim["verdict"] for claim in of_beside(other)}
    about = [
        [claim for claim in verdict["claims"] if claim["claim"]["primary"]]
        for verdict in (one, other)
    ]
    assert about[0] == about[1]
    # a paired claim is judged twice, and is one claim
    assert (
        "a re-run with --quick (without 4 claims that cannot change the verdict)" in one["sentence"]
    )
    quick, whole = (record_of(author.folder / name) for name in ("quick.zip", "whole.zip"))
    assert planned(quick) == of(kept, planned(whole))
    sources = {(one["benchmark"], one["seed_source"]) for one in summary.planned_trials(quick.plan)}
    assert sources == {
        ("equal", "manifest"),
        ("paired", "manifest"),
        ("paired", "fresh"),
        ("held", "fresh"),
    }


def of_beside(verdict: Document) -> list[Document]:
    return [claim for claim in verdict["claims"] if claim["metric"].startswith("beside/")]


def test_claims_of_equal_seeds_alone_need_no_fresh_ones(author: User) -> None:
    claims = [
        {"metric": metric("main", "fixed"), "type": "exact"},
        {"metric": metric("beside"), **SECONDARY},
    ]
    seal(author, ("beside", "main"), claims)
    author.json("verify", "a.zip", "--quick", "--output", "quick.zip", "--until-decided")
    record = record_of(author.folder / "quick.zip")
    assert {one["seed_source"] for one in summary.planned_trials(record.plan)} == {"manifest"}
    refused = author.run("verify", "a.zip", "--quick", "--add", "quick.zip")
    assert refused.returncode == 2
    assert "no primary claim of the original is judged under fresh seeds" in flat(refused.stderr)


def test_what_differs_is_told_by_the_exit_code_as_of_the_whole(author: User) -> None:
    claims = [
        {"metric": metric("main"), "type": "threshold", "at_most": 0.5},
        {"metric": metric("beside"), **SECONDARY},
    ]
    seal(author, ("main", "beside"), claims)
    ended = author.run("verify", "a.zip", "--quick", "--output", "quick.zip")
    assert ended.returncode == 1
    assert "with --quick (without 1 claim that cannot change the verdict)" in flat(ended.stdout)


def test_without_a_claim_that_decides_there_is_nothing_quick(author: User) -> None:
    seal(author, ("main",), [{"metric": metric("main"), **SECONDARY}])
    for words in ((), ("--dry-run",)):
        refused = author.run("verify", "a.zip", "--quick", *words)
        assert refused.returncode == 2
        assert (
            "--quick has no benchmark to run: the capsule has no primary claim other than"
            in flat(refused.stderr)
        )
        assert "leave --quick out" in refused.stderr
    assert not list(author.folder.glob("*.run"))


def test_where_nothing_is_left_out_it_is_the_whole_and_says_so(author: User) -> None:
    seal(author, ("main",), [{"metric": metric("main"), **WIDE}])
    ended = author.run("verify", "a.zip", "--quick", "--output", "quick.zip", "--runs", "2")
    assert "--quick runs all benchmarks: primary claims need every benchmark" in flat(ended.stderr)
    assert "--quick" not in ended.stdout.rpartition("sealed ")[0]
    assert not is_quick(author.folder / "quick.zip")
    preview = author.json("verify", "a.zip", "--quick", "--dry-run")
    assert preview["left_out"] == {"benchmarks": [], "claims": 0}
    # so it may be added to, either way
    author.json("verify", "a.zip", "--add", "quick.zip", "--output", "sum.zip")
    author.json("verify", "a.zip", "--add", "sum.zip", "--quick", "--output", "more.zip")
    assert len(record_of(author.folder / "more.zip").chain) == 2


def test_quick_runs_are_added_to_quick_ones_alone(author: User) -> None:
    seal_three(author)
    author.json("verify", "a.zip", "--quick", "--output", "quick.zip", "--nonce", "7")
    author.json("verify", "a.zip", "--output", "whole.zip", "--nonce", "7")
    for name, words, message in (
        ("quick.zip", (), "the earlier verification left benchmarks out (--quick)"),
        ("whole.zip", ("--quick",), "the earlier verification ran all benchmarks"),
    ):
        refused = author.run("verify", "a.zip", "--add", name, *words, "--nonce", "7")
        assert refused.returncode == 2
        assert message in flat(refused.stderr)
    both = author.run(
        "verify", "a.zip", "--quick", "--add", "quick.zip", "--add", "whole.zip", "--nonce", "7"
    )
    assert both.returncode == 2
    author.json(
        "verify", "a.zip", "--quick", "--add", "quick.zip", "--nonce", "7", "--output", "sum.zip"
    )
    author.json(
        "verify", "a.zip", "--quick", "--runs", "8", "--nonce", "7", "--output", "eight.zip"
    )
    one, other = (record_of(author.folder / name) for name in ("sum.zip", "eight.zip"))
    assert one.plan_digest == other.plan_digest
    judged = author.json("diff", "a.zip", "sum.zip")
    assert claim_of(judged, metric("main"))["look"]["number"] == 2
    assert [change["code"] for change in judged["changes"]] == ["nonce", "quick"]
    assert author.run("check", "sum.zip").returncode == 0


def test_what_is_open_goes_on_quickly(author: User) -> None:
    claims = [
        {"metric": metric("main", "coarse"), "type": "equivalence", "margin": {"absolute": 0.01}},
        {"metric": metric("beside"), **SECONDARY},
    ]
    seal(author, ("main", "beside"), claims, seeds=[1, 2, 3, 4, 5])
    ended = author.run("verify", "a.zip", "--quick", "--runs", "2", "--output", "quick.zip")
    assert ended.returncode == 3, ended.stdout
    last = ended.stdout.splitlines()[-1]
    assert last.startswith("to settle it: capsule verify a.zip --add quick.zip --runs ")
    assert last.endswith(" --quick")
    again = author.run(*last.partition("capsule ")[2].split(), "--output", "sum.zip")
    assert again.returncode == 0, again.stdout + again.stderr
    assert is_quick(author.folder / "sum.zip")


def test_looks_are_those_of_the_whole(author: User) -> None:
    seal_three(author)
    words = ("--quick", "--until-decided", "--levels", "own")
    judged = author.json("verify", "a.zip", *words, "--output", "quick.zip")
    assert claim_of(judged, metric("main"))["look"]["number"] == 1
    record = record_of(author.folder / "quick.zip")
    assert isinstance(record.origin, Verification)
    assert (record.origin.quick, record.origin.look, record.origin.runs) == (True, 1, 8)
    assert len(planned(record)) == 4
    assert author.run("check", "quick.zip").returncode == 0


def test_a_killed_quick_verification_goes_on_quickly(author: User) -> None:
    seal_three(author)
    (author.folder / "hold").touch()
    running = author.start("verify", "a.zip", "--quick")
    folder = wait_for_workload(author, running)
    kill_tree(running)
    (author.folder / "hold").unlink()
    refused = author.run("verify", "a.zip", "--quick", "--resume", folder)
    assert refused.returncode == 2
    assert "--resume and --quick exclude each other" in refused.stderr
    ended = author.run("verify", "a.zip", "--resume", folder, "--output", "quick.zip")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "a re-run with --quick (without 2 claims that cannot change the verdict)" in flat(
        ended.stdout
    )
    assert is_quick(author.folder / "quick.zip")
    tried = [attempt["trial"] for attempt in attempts_in(author.folder / "quick.zip")]
    assert of({"main"}, tried) == tried


def test_a_quick_one_stands_beside_others(author: User) -> None:
    seal_three(author)
    author.json("verify", "a.zip", "--quick", "--output", "quick.zip", "--nonce", "7")
    author.json("verify", "a.zip", "--output", "whole.zip")
    several = author.json("diff", "a.zip", "quick.zip", "whole.zip")
    assert several["verdict"] == "REPRODUCED"
    assert (
        "B compared: a re-run under seeds drawn with --nonce '7', a re-run with --quick (without 2"
        in several["sentence"]
    )
    assert [side["quick"] for side in several["sides"]] == [False, True, False]
    (beside,) = [one for one in several["metrics"] if one["metric"] == metric("beside")]
    left_out = [note["sentence"] for note in beside["notes"] if note["code"] == "left-out"]
    assert left_out == [
        "B skipped this benchmark (--quick): capsule leaves B out of spread and mean"
    ]
    full = flat(author.run("diff", "a.zip", "quick.zip", "whole.zip", "--full").stdout)
    assert "B SKIPPED: not run" in full
    # whichever side was quick, and whatever the other one is
    turned = author.json("diff", "quick.zip", "whole.zip")
    assert [one["verdict"] for one in turned["claims"] if one["metric"] == metric("beside")] == [
        "SKIPPED",
        "SKIPPED",
    ]
    assert "--quick" not in turned["sentence"]
    sentence = turned["claims"][0]["sentence"]
    assert sentence == (
        "not run: with --quick, the original skipped this benchmark, which cannot change the"
        " verdict"
    )


def test_a_claim_that_decides_elsewhere_is_not_passed_over(author: User) -> None:
    """The quick verification of one capsule, held against another capsule's claims."""
    seal_three(author)
    author.json("verify", "a.zip", "--quick", "--output", "quick.zip")
    (author.folder / "a.zip").rename(author.folder / "first.zip")
    both = [{"metric": metric(name), **WIDE} for name in ("main", "beside")]
    seal(author, ("beside", "main", "bare"), both)
    judged = author.json("diff", "a.zip", "quick.zip", code=3)
    assert "1 of 2 primary claims undecided, 1 reproduced" in judged["sentence"]
    assert "with --quick (without 1 claim)" in judged["sentence"]
    shown = author.run("diff", "a.zip", "quick.zip").stdout
    assert "SKIPPED" in shown


def test_the_verification_of_a_quick_one_tells_what_was_not_run(author: User) -> None:
    seal_three(author)
    author.json("verify", "a.zip", "--quick", "--output", "quick.zip")
    again = author.json("verify", "quick.zip", "--output", "again.zip")
    assert len(planned(record_of(author.folder / "again.zip"))) == 12
    assert claim_of(again, metric("main"))["verdict"] == "REPRODUCED"
    words = [one["verdict"] for one in again["claims"] if one["metric"] == metric("beside")]
    assert words == ["SKIPPED", "SKIPPED"]
    with archive.read(author.folder / "again.zip") as opened:
        assert opened.record.claims == record_of(author.folder / "a.zip").claims


def test_what_decides_in_another_capsule_is_not_said_to_decide_nothing(author: User) -> None:
    claims = [{"metric": metric("main"), **WIDE}, {"metric": metric("beside"), **SECONDARY}]
    seal(author, ("main", "beside"), claims)
    author.json("verify", "a.zip", "--quick", "--output", "quick.zip")
    (author.folder / "a.zip").unlink()
    seal(author, ("main", "beside"), [{"metric": metric("beside"), **WIDE}])
    ended = author.run("diff", "a.zip", "quick.zip")
    assert ended.returncode == 3
    assert "skipped this benchmark, which no primary claim of that verification needs" in flat(
        ended.stdout
    )
