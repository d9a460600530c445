"""Capsules that were published: addresses, registries, DOIs."""
