"""Commands that are ended between two calls, and whether what they were at can go on.

    python -m tests.kills [--points N] [--seed N] [--every]    the counts, by journey

victim       runs a command, and strikes at its N-th call that changes something
journey      what is struck, what must hold afterwards, and what did not
"""
