"""Recorded runs of a real control plane, replayed: ``python -m tests.golden``."""
