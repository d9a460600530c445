"""From a plan to what happened: process starts, one after the other, and nothing finished is lost.

workspace    the folder of a run under way
payload      what a run carries from its start to its capsule
workload     what one process start is given
loop         run what has no outcome yet
progress     which trial a process is at
journal      what `levels` says of itself, read as hostile input
results      what a command reports, likewise
outcome      what became of each trial of a process start
gather       everything that the process starts left behind
audit        whether a log that lay about can be that of a plan
"""
