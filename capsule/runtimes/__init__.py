"""How to enter a container: one engine per module."""
