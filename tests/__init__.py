"""Tests run on as many workers as there are cores: numpy and torch use one thread in each."""

import os

# read when they are imported
os.environ.setdefault("OMP_NUM_THREADS", "1")
