"""Write `words.txt` again: `python -m tests.golden`."""

from tests.golden.words import FILE, render

FILE.write_text(render())
