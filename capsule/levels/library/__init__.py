"""What scripts of others may import: `capsule_regions` alone, whose folder is shown to commands."""
