"""Commands of the pages about clusters, ranks, searches, evidence, statistics and trouble."""

from __future__ import annotations

from tests.support.documented import Here, There

_NIGHT = There(
    test="journeys/test_nightly_page.py::test_each_day_is_verified_once_under_its_own_seeds"
)
_WINNER = There(test="journeys/test_search.py::test_a_winner_runs_under_seeds_that_nobody_chose")

COMMANDS: dict[str, Here | There] = {
    # docs/how-to/nightly-verification.md
    'capsule verify golden.capsule.zip --nonce "$(date +%F)"': Here(
        command='capsule verify a.capsule.zip --trust --allow-host --nonce "$(date +%F)"',
        says="under seeds drawn with --nonce",
    ),
    'capsule verify "$golden" "$@" --output "$name.verification.zip" --offline --json \\': _NIGHT,
    "capsule diff golden.capsule.zip golden-*.verification.zip": Here(
        command="capsule diff a.capsule.zip here.capsule.zip there.capsule.zip", says="s_R"
    ),
    **dict.fromkeys(
        ("capsule diff --full GOLDEN NIGHT", "capsule diff --full ORIGINAL VERIFICATION"),
        Here(command="capsule diff --full a.capsule.zip here.capsule.zip", says="REPRODUCED"),
    ),
    # docs/how-to/hyperparameter-search.md
    "capsule run manifests/search.json --runtime host": Here(
        says="sealed search-", needs=("long",)
    ),
    "capsule run winner.json": _WINNER,
    # docs/support.md
    "capsule --version": Here(says="capsule"),
    # docs/evidence/larger-machines.md
    "python -m tests.support.counting > tests/data/traffic.json": There(
        test="levels/level3/test_traffic.py::test_the_table_is_what_its_program_prints"
    ),
}
