"""Samples of devices beside a workload, taken by a process of their own.

`watched` starts a workload together with the program `sampler`, which reads `sources` ten times
a second and writes a trace; `trace` reads that file, and `spans` reduces it to attempts.
"""
