"""Modules that users' scripts may import: `capsule_regions`, whose folder commands see."""
