"""What a workload prints while it runs, read as it grows."""

from __future__ import annotations

from pathlib import Path
from random import Random

from capsule import plain
from capsule.execute.talk import Talk
from capsule.execute.workspace import RankFiles
from tests.fuzz.campaign import Door

_PIECES = (
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b"\0",
    b"\xff\xfe",
    "\u202e".encode(),
    b"\x1b[2J",
    b"a b",
)
_LONGEST = 200_000


def make_talk(random: Random) -> bytes:
    """Pieces of text and what is none, some of them long."""
    pieces = []
    for _ in range(random.randrange(1, 60)):
        piece = random.choice((*_PIECES, random.randbytes(8)))
        pieces.append(piece * random.choice((1, 1, 1, 7, 5000)))
    return b"".join(pieces)[:_LONGEST]


def send_talk(data: bytes, folder: Path) -> None:
    """Print it in pieces; each line that is told is one, and no more is told than was printed."""
    files = RankFiles(folder=folder)
    talk, random = Talk(files), Random(len(data))
    lines: list[str] = []
    with files.stdout.open("wb", 0) as stream:
        while data:
            size = random.choice((1, 10, 1000, 100_000))
            stream.write(data[:size])
            data = data[size:]
            lines += talk.new_lines(ended=not data)
    for line in lines:
        assert "\n" not in line
        assert plain.clean(line).isprintable() or plain.is_clean(plain.clean(line))
    # of what is no text each byte may become a mark of its own
    assert sum(map(len, lines)) <= files.stdout.stat().st_size + 40 * len(lines)
    assert talk.new_lines(ended=True) == []


TALK = Door(name="talk", make=make_talk, send=send_talk)
