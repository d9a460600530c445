"""Level 3: many ranks."""
