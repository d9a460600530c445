"""`python -m capsule` is the command `capsule`."""

import sys

from capsule.cli import main

sys.exit(main())
