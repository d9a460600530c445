"""docs/how-to/troubleshooting.md quotes messages that capsule prints."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_message_on_the_page_is_one_that_a_test_sees() -> None:
    page = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text()
    mistakes = json.loads((ROOT / "tests" / "data" / "mistakes.json").read_text())
    printed = "\n".join(f"{one['cause']}\n{one.get('way_out', '')}" for one in mistakes)
    printed += (ROOT / "tests" / "golden" / "words.txt").read_text()
    tables = re.findall(r"^\| message contains .*\n\| --- .*\n((?:\|.*\n)+)", page, re.M)
    quoted = [one for table in tables for one in re.findall(r"^\| `([^`]+)`", table, re.M)]
    assert len(quoted) > 50
    assert [one for one in quoted if one not in printed] == []
