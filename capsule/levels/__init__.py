"""The measuring code that runs inside images, and the data that it measures on.

Bound into a container as a folder and started as `python3 <folder> run|probe`; the host imports
only `catalog` and `data`. Nothing here imports the rest of capsule, so that any image with
Python 3.9, numpy and a framework can run it.
"""
