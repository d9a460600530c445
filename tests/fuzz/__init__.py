"""Inputs that nobody would write, sent to each door: none may end but by our own errors.

    python -m tests.fuzz --minutes M [--seed S] [--door NAME]

mutate       odd values, in place of any part of a document
campaign     make an input, send it, keep what came through
doors        one module for each kind of input: how it is made, what reads it

What was once a fault is kept below tests/data/fuzz, and sent again by every run of the tests.
"""
