"""What a stranger may send, each with the end that it must have.

    python -m tests.hostile [WORD]    every case whose name holds WORD: expected, seen, MiB, seconds

case         what a case is, and how it is observed
areas        one module for each door, with its CASES
"""
