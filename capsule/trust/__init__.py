"""Consent to run untrusted code, the list of own capsules, and private text in capsules."""
