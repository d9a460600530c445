"""Execution of a plan: process starts one after the other, without losing finished trials.

workspace    the run folder
payload      files that a run carries from its start to its capsule
workload     mounts, environment and command of a process start
loop         execution of all trials without an outcome
progress     progress of a running process start
journal      the protocol of `levels`, parsed as untrusted input
results      the results of a command, parsed as untrusted input
outcome      outcome of each trial of a process start
gather       everything that the process starts left behind
audit        consistency of a log with its plan
"""
