"""Every scenario, with a fault after every write: ``python -m tests.convergence``."""
