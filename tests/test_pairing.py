"""The folder of an interrupted pair."""

from pathlib import Path

import pytest

from capsule import pairing
from capsule.errors import CapsuleError, DamagedError, UsageError

ANOTHER = "another version of capsule began this pair"
DAMAGED = "expected the format capsule-pair/1 and the paths of two capsules"


@pytest.mark.parametrize(
    ("header", "kind", "words"),
    [
        ('{"format": "capsule-pair/2", "a": "a.zip", "b": "b.zip"}', UsageError, ANOTHER),
        ('{"format": "capsule-pair/2"}', UsageError, ANOTHER),
        ('{"format": "capsule-pair/1", "a": "a.zip"}', DamagedError, DAMAGED),
        ('{"format": "capsule-pair/1", "a": 1, "b": "b.zip"}', DamagedError, DAMAGED),
        (r'{"format": "capsule-pair/1", "a": "a\u0000", "b": "b.zip"}', DamagedError, DAMAGED),
        ('{"a": "a.zip", "b": "b.zip"}', DamagedError, DAMAGED),
        ('["capsule-pair/1"]', DamagedError, DAMAGED),
        ("", DamagedError, "JSON"),
    ],
)
def test_a_damaged_header_is_not_taken_for_another_version(
    tmp_path: Path, header: str, kind: type[CapsuleError], words: str
) -> None:
    (tmp_path / "pair.json").write_text(header)
    with pytest.raises(kind, match=words) as caught:
        pairing.reopen(tmp_path)
    assert caught.value.advice
