"""The commands of tutorials and of how-to pages for authors."""

from tests.support.documented import ROOT, Here, There, in_page

_DOCS = ROOT / "docs"
FOLLOWED = (
    _DOCS / "tutorials" / "first-capsule.md",
    _DOCS / "tutorials" / "your-script.md",
    _DOCS / "how-to" / "metrics-from-logs.md",
)
"""Pages that a test follows line by line from an empty folder."""

TRAINING = _DOCS / "tutorials" / "train-a-network.md"
"""The same, with torch and for a minute."""

RECEIVED = _DOCS / "tutorials" / "check-a-paper.md"
"""A page that begins with the capsule of another user."""

_TESTS = "journeys/test_pages.py::test_"
_FOLLOWED_BY = {
    **dict.fromkeys(FOLLOWED, f"{_TESTS}a_page_is_followed_from_an_empty_folder"),
    TRAINING: f"{_TESTS}a_training_is_followed_from_an_empty_folder",
    RECEIVED: f"{_TESTS}a_capsule_of_another_user_is_read_and_verified",
}
_OWN = "journeys/test_own_"
COMMANDS: dict[str, Here | There] = {
    **{
        command: There(test=test)
        for page, test in _FOLLOWED_BY.items()
        for command in in_page(page.read_text())
    },
    "capsule verify https://papers.example/table2.capsule.zip --id 2cf24dba5fb0… --trust": There(
        test="journeys/test_published.py::test_the_line_that_a_paper_prints_verifies"
    ),
    "capsule check https://papers.example/table2.capsule.zip --id 2cf24dba5fb0…": There(
        test="journeys/test_published.py::test_every_reader_takes_what_was_published"
    ),
    # images
    **dict.fromkeys(
        ("capsule image resolve docker://registry.example/fit:1", "capsule run fit.json"),
        There(
            test="journeys/test_image_page.py"
            "::test_an_image_of_a_requirements_file_is_pushed_resolved_and_run"
        ),
    ),
    "capsule image save docker-daemon:fit:1 fit.oci.tar": There(
        test="image/test_save.py::test_an_image_of_a_local_engine_is_saved"
    ),
    "capsule verify a.capsule.zip --image fit.oci.tar": There(
        test="journeys/test_image_files.py::test_a_capsule_of_one_form_is_verified_in_another"
    ),
    # inputs, and what is published
    "capsule run --dry-run mine.json": There(
        test="journeys/test_dry_run.py::test_the_first_start_is_shown_as_it_would_be"
    ),
    "capsule run mine.json --strict-privacy": There(
        test="journeys/test_inputs.py::test_files_that_look_like_keys_are_named_before_anything_runs"
    ),
    # what is one's own
    "capsule run manifests/regions.json": There(
        test="journeys/test_regions.py::test_the_example_is_run_and_verified_on_the_host"
    ),
    "capsule run manifests/own-operator.json --runtime host": There(
        test=f"{_OWN}operator.py::test_the_worked_example_is_sealed_and_reproduced_on_the_host"
    ),
    "capsule run manifests/own-network.json --runtime host": There(
        test=f"{_OWN}network.py::test_the_worked_example_is_sealed_checked_and_verified_on_the_host"
    ),
    "capsule run manifests/own-optimizer.json --runtime host": There(
        test=f"{_OWN}optimizer.py::test_it_is_sealed_checked_and_verified_by_the_sealed_file"
    ),
    # verifications
    "capsule verify paper.capsule.zip --trust --quick": There(
        test="journeys/test_quick.py::test_what_decides_runs_as_in_the_whole_and_no_more"
    ),
    "capsule verify paper.capsule.zip --trust --set /resources/cpus_per_rank=8": There(
        test="journeys/test_set.py::test_resources_leave_quality_judged_and_the_machine_reported"
    ),
    "capsule verify paper.capsule.zip --trust --device cpu": There(
        test="journeys/test_other_device.py::test_portable_claims_are_judged_and_the_machine_reported"
    ),
    "capsule verify paper.capsule.zip --trust --until-decided": There(
        test="journeys/test_decision.py::test_planned_looks_stop_as_soon_as_every_claim_is_decided"
    ),
    "capsule verify paper.capsule.zip --trust --add fit-1a2b3c4d.verification.zip": There(
        test="journeys/test_add.py"
        "::test_two_verifications_have_the_seeds_and_the_judgement_of_one_longer"
    ),
    "capsule verify paper.capsule.zip --trust --nonce 'SC26 committee 7'": There(
        test="journeys/test_nonce.py::test_seeds_follow_from_the_word_and_everything_tells_it"
    ),
    # what was cut off
    "capsule run --resume fit-1a2b3c4d.run": There(
        test="journeys/test_resume.py::test_what_finished_before_kill_9_is_not_run_again"
    ),
    "capsule verify fit.capsule.zip --resume fit-1a2b3c4d.run": There(
        test="journeys/test_resume.py::test_a_killed_verification_goes_on_and_reaches_its_verdict"
    ),
}
