"""Kubernetes API objects as frozen, typed values; the ground floor that knows nothing else."""
