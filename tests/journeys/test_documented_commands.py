"""Every command that README, docs and `--help` show is executed: here, or by the test named here.

A command that is shown and has no entry below fails; so does an entry that nothing shows.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import documented, shown_author, shown_hpc, shown_reference
from tests.support.command import User, write_manifest, write_script
from tests.support.documented import ROOT, Here, There
from tests.support.engines import engine_cache, small_image

COPIED = ["README.md", "LICENSE", "pyproject.toml"]
COPIED += ["benchmarks", "docs", "images", "manifests", "tools"]

FOLLOWED = There(test="journeys/test_readme.py::test_the_quickstart_gives_its_verdicts")
SWEEP = There(test="long/test_sweeps.py::test_the_whole_catalogue_reproduces_itself")

COMMANDS: dict[str, Here | There] = {
    **shown_author.COMMANDS,
    **shown_hpc.COMMANDS,
    **shown_reference.COMMANDS,
    # README, and its outputs
    **dict.fromkeys(documented.in_page(documented.PAGES[0].read_text()), FOLLOWED),
    "capsule run manifests/io.json --runtime host": Here(says="sealed io-", needs=("long",)),
    "python tools/catalogue.py": Here(),
    "python tools/flow.py docs/img/flow.svg": There(
        test="tools/test_flow.py::test_the_picture_is_fresh"
    ),
    "python tools/reference.py": Here(command="python tools/reference.py --check"),
    "capsule show network cosmoflow side=32 --json": Here(says='"parameters": 1337380'),
    "capsule init mine.json --metric loss -- python3 train.py --seed {seed}": Here(
        says="wrote mine.json; next: capsule run --try mine.json"
    ),
    "capsule pair manifest.json --runtime-a apptainer --runtime-b host --pairs 40": There(
        test="journeys/test_pair.py::test_what_a_container_costs_is_a_pair"
    ),
    "capsule pair old.json new.json --margin 1.02": There(
        test="journeys/test_pair.py::test_a_slow_down_of_two_percent_is_told_from_none"
    ),
    "capsule pair --resume manifest-1a2b3c4d.pair": There(
        test="journeys/test_pair.py::test_a_pair_that_was_killed_goes_on_where_it_was"
    ),
    "capsule VERB --help": Here(
        command=" && ".join(f"capsule {' '.join(words)} --help" for words in documented.verbs()),
        says="example",
    ),
    # they end with 1 where a time or a rate misses its limit, as with so few repetitions it may
    "python benchmarks/harness/startup.py": Here(
        command="python benchmarks/harness/startup.py --repetitions 1",
        codes=(0, 1),
        says="ratio",
    ),
    "python benchmarks/harness/overhead.py": Here(
        command="python benchmarks/harness/overhead.py --rounds 2",
        codes=(0, 1),
        says="numpy matmul 8^3",
        needs=("torch",),
    ),
    "python benchmarks/statistics/verdicts.py": Here(
        command="python benchmarks/statistics/verdicts.py --repetitions 1",
        codes=(0, 1),
        says="1 simulations a cell",
    ),
    "python benchmarks/statistics/verdicts.py --full": Here(
        command="python benchmarks/statistics/verdicts.py --full --repetitions 1 || true",
        says="1 simulations a cell",
        needs=("long",),
    ),
    "python benchmarks/harness/large.py": Here(
        command="python benchmarks/harness/large.py 'a million samples in 100 lines'",
        codes=(0, 1),
        says="a million samples in 100 lines",
    ),
    "python benchmarks/statistics/pairs.py": Here(
        command="sed -i 's/^CALLS = .*/CALLS = 3/' benchmarks/statistics/pairs.py"
        " && python benchmarks/statistics/pairs.py --pairs 2",
        says="2 pairs recorded",
    ),
    # docs
    "python3 -c '": There(
        test="journeys/test_format.py::test_a_whole_capsule_passes_every_command"
    ),
    "python tools/features.py": Here(command="python tools/features.py --check"),
    "python tools/statistics_docs.py --computed": Here(),
    **documented.TRAININGS,
    "python tools/third_party.py fetch": documented.THIRD_PARTY,
    "python tools/third_party.py image small": documented.THIRD_PARTY,
    "capsule run manifests/third-party/simpy.json --image docker://... --runtime docker": (
        documented.THIRD_PARTY
    ),
    "capsule verify simpy-....capsule.zip --runtime apptainer": documented.THIRD_PARTY,
    "python -m tests.hostile": Here(
        command="python -m tests.hostile results/nan-in-words", says="as expected"
    ),
    "python -m tests.golden": There(test="golden/test_words.py::test_the_file_is_fresh"),
    "python -m tests.fuzz --minutes 10": Here(
        command="python -m tests.fuzz --minutes 0.02 --door results", says="results"
    ),
    "python -m tests.kills": Here(
        command="python -m tests.kills --points 2 --seed 2", says="trials lost"
    ),
    "python tools/statistics_docs.py --designs": There(
        test="verdict/test_rates.py::test_rates_and_power_keep_their_limits"
    ),
    "python tools/statistics_docs.py": There(
        test="long/test_tables.py::test_the_page_of_statistics_is_written_anew"
    ),
    # images
    "python3.11 -m pip download --only-binary :all: --require-hashes -r"
    " images/torch/requirements-cpu.txt -d images/torch/wheelhouse": There(test="engines-images"),
    "python3.11 -m pip download --only-binary :all: --require-hashes -r"
    " images/tensorflow/requirements-cpu.txt -d images/tensorflow/wheelhouse": There(
        test="engines-images"
    ),
    # --help
    "capsule run manifests/quickstart.json": There(
        test="journeys/test_documented_commands.py::test_a_shown_command_does_what_it_should"
    ),
    "capsule run --try manifest.json": Here(
        command="capsule run --try tiny.json", says="trial completed (fresh seed"
    ),
    "capsule run manifest.json --image docker://registry.example/torch@sha256:...": Here(
        command="capsule run tiny.json --image {image}", needs=("engines",), says="sealed tiny-"
    ),
    "capsule run manifests/level0.json --frameworks torch,numpy --image docker://...": SWEEP,
    "capsule run --resume quickstart-1a2b3c4d.run": There(
        test="journeys/test_resume.py::test_what_finished_before_kill_9_is_not_run_again"
    ),
    "capsule verify stranger.capsule.zip --trust": Here(
        # it was sealed without a container
        command="capsule verify a.capsule.zip --trust --allow-host",
        says="REPRODUCED",
    ),
    "capsule verify stranger.capsule.zip --trust --nonce 'SC26 committee 7'": Here(
        command="capsule verify a.capsule.zip --trust --allow-host --nonce 'SC26 committee 7'",
        says="under seeds drawn with --nonce",
    ),
    "capsule verify stranger.capsule.zip --trust --set /resources/cpus_per_rank=8": There(
        test="journeys/test_set.py::test_resources_leave_quality_judged_and_the_machine_reported"
    ),
    "capsule verify stranger.capsule.zip --trust --device cpu": There(
        test="journeys/test_other_device.py::test_portable_claims_are_judged_and_the_machine_reported"
    ),
    "capsule verify stranger.capsule.zip --trust --quick": There(
        test="journeys/test_quick.py::test_what_decides_runs_as_in_the_whole_and_no_more"
    ),
    **dict.fromkeys(
        (
            f"capsule verify https://papers.example/table2.capsule.zip --id {number} --trust"
            for number in ("2cf24dba5fb0", "2cf24dba5fb0…")
        ),
        There(test="journeys/test_published.py::test_the_line_that_a_paper_prints_verifies"),
    ),
    "capsule verify mine.capsule.zip --until-decided": There(
        test="journeys/test_decision.py::test_planned_looks_stop_as_soon_as_every_claim_is_decided"
    ),
    "capsule verify mine.capsule.zip --add mine-1a2b3c4d.verification.zip": Here(
        command="capsule verify a.capsule.zip --add here.capsule.zip --trust --allow-host",
        says="counts runs of earlier verifications: 5 of",
    ),
    "capsule verify mine.capsule.zip --resume mine-1a2b3c4d.run": There(
        test="journeys/test_resume.py::test_a_killed_verification_goes_on_and_reaches_its_verdict"
    ),
    "capsule diff original.capsule.zip rerun.verification.zip": Here(
        command="capsule diff a.capsule.zip here.capsule.zip", says="REPRODUCED"
    ),
    "capsule diff original.capsule.zip lab1.verification.zip lab2.verification.zip": Here(
        command="capsule diff a.capsule.zip here.capsule.zip there.capsule.zip"
    ),
    "capsule check a.capsule.zip": Here(),
    "capsule lint a.capsule.zip": Here(says="is valid"),
    "capsule run --add-seeds 5 a.capsule.zip": There(
        test="journeys/test_add_seeds.py::test_the_runs_of_both_are_in_one_capsule_that_names_the_first"
    ),
    "capsule reread a.capsule.zip --manifest corrected.json": Here(says=".reread.zip"),
    "capsule show a.capsule.zip --json": Here(says='"tiny/default/command/loss"'),
    "capsule show a.capsule.zip --full": Here(says="tiny/default/command/loss"),
    "capsule show a.capsule.zip --evidence": Here(says="reported to CAPSULE_RESULTS"),
    **documented.SEARCHES,
    **documented.EXPORTS,
    **documented.GENERATED,
    "capsule init my-benchmark.json": Here(),
    "capsule lint manifests/quickstart.json": Here(),
    "capsule inventory --json": Here(says='"class"'),
    "capsule data fetch mine.json": There(
        test="journeys/test_data_fetch.py::test_data_goes_from_its_address_to_a_verdict"
    ),
    "capsule data fetch a.capsule.zip": There(
        test="journeys/test_data_fetch.py::test_data_goes_from_its_address_to_a_verdict"
    ),
    "capsule data hash corpus/": Here(says="sha256:"),
    "capsule image resolve docker://registry.example/torch:1.0": Here(
        command="capsule image resolve {image}", says="config_digest: ", needs=("engines",)
    ),
    "capsule image save docker://registry.example/torch:1.0 torch.oci.tar": Here(
        command="capsule image save {image} torch.oci.tar",
        says="manifest_digest: ",
        needs=("engines",),
    ),
    "capsule image save a.capsule.zip torch.oci.tar": There(
        test="image/test_save.py::test_the_image_of_a_capsule_is_saved"
    ),
    # docs/how-to/set-up-a-site.md; a machine of the tests has no engine where they run without one
    "capsule doctor": Here(codes=(0, 6), says="good    ledger"),
    **{
        f"capsule doctor docker://registry.example/torch:1{more}": Here(
            command=f"capsule doctor docker://127.0.0.1:1/torch:1{more}",
            codes=(6,),
            says="did not answer",
        )
        for more in ("", " --json")
    },
    "python tools/spreads.py": There(
        test="lint/test_spreads.py::test_the_table_is_what_its_command_writes"
    ),
    "capsule site init": Here(says="wrote "),
    "capsule site init /etc/capsule/site.json": Here(
        command="capsule site init etc/capsule/site.json", says="wrote etc/capsule/site.json"
    ),
    "capsule site show": Here(says="by default"),
    **dict.fromkeys(
        (
            "capsule stage manifest.json --runtime apptainer",
            "capsule run manifest.json --runtime apptainer --offline",
        ),
        There(
            test="journeys/test_stage.py::test_what_was_staged_runs_and_verifies_without_a_network"
        ),
    ),
    **dict.fromkeys(
        (
            "capsule stage paper.capsule.zip --runtime apptainer --trust",
            "capsule stage stranger.capsule.zip --trust",
            "capsule verify paper.capsule.zip --runtime apptainer --trust --offline",
        ),
        There(test="journeys/test_stage.py::test_a_strangers_capsule_is_staged_with_trust_alone"),
    ),
}


def test_every_command_that_is_shown_has_its_entry_and_every_entry_is_shown() -> None:
    assert documented.commands() == set(COMMANDS)


def test_each_test_that_is_named_is_there() -> None:
    for entry in COMMANDS.values():
        if isinstance(entry, There):
            name, _, function = entry.test.partition("::")
            assert f"def {function}(" in (ROOT / "tests" / name).read_text() or not function, entry


def test_every_verb_shows_an_example_of_itself() -> None:
    for words in documented.verbs():
        shown = [*documented.examples(words), *documented.examples(words[:1])]
        assert any(example.startswith(f"capsule {words[0]} ") for example in shown), words


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small capsules, and what else the commands name."""
    user = User.make(tmp_path_factory.mktemp("sealed"))
    write_script(user.folder)
    manifest = write_manifest(user.folder)
    ended = user.run("run", manifest, "--output", "a.capsule.zip")
    assert ended.returncode == 0, ended.stderr
    corrected = json.loads(manifest.read_text())
    bound = {"metric": "tiny/default/command/loss", "type": "bound", "at_most": 2}
    corrected["claims"].append(bound)
    (user.folder / "corrected.json").write_text(json.dumps(corrected))
    for name in ("here", "there"):
        ended = user.run("verify", "a.capsule.zip", "--output", f"{name}.capsule.zip")
        assert ended.returncode == 0, ended.stderr
    (user.folder / "corpus").mkdir()
    (user.folder / "corpus" / "text").write_text("some words\n")
    return user.folder


@pytest.fixture
def reader(sealed: Path, tmp_path: Path) -> User:
    """Somebody with a copy of this repository who does what is written."""
    user = User.make(tmp_path)
    shutil.copytree(sealed, user.folder, dirs_exist_ok=True)
    for name in COPIED:
        copy = shutil.copy if (ROOT / name).is_file() else documented.copy_folder
        copy(ROOT / name, user.folder / name)
    (user.folder / "tests").symlink_to(ROOT / "tests")
    return user


def execute(user: User, entry: Here, command: str) -> subprocess.CompletedProcess[str]:
    """As somebody would at a shell, where `capsule` and `python` are those of the tests."""
    command = entry.command or command
    if "engines" in entry.needs:
        command = command.format(image=small_image())
    return documented.type_at_shell(user, command)


EXECUTED = {command: entry for command, entry in COMMANDS.items() if isinstance(entry, Here)}
FIRST = {command for entry in EXECUTED.values() for command in entry.before}


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[getattr(pytest.mark, name) for name in entry.needs])
        for command, entry in EXECUTED.items()
        if command not in FIRST
    ],
)
def test_a_shown_command_does_what_it_should(
    reader: User, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    entry = EXECUTED[command]
    if "engines" in entry.needs:
        monkeypatch.setenv("CAPSULE_CACHE", str(engine_cache()))
    for one in (*entry.before, command):
        ended = execute(reader, EXECUTED[one], one)
        assert ended.returncode in EXECUTED[one].codes, ended.stdout + ended.stderr
        assert EXECUTED[one].says in ended.stdout + ended.stderr
