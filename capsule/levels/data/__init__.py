"""Data that trials run on. Of `levels`, the host imports this room and `catalog` alone."""
