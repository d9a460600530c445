"""Parts of the check of a machine with a GPU; `check.py` runs them."""
