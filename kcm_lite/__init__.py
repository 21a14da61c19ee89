"""Kubernetes' kube-controller-manager, rebuilt in Python and run in virtual time.

Importing this package starts nothing and prints nothing; import what you need from its rooms,
for example ``from kcm_lite.client.workqueue import WorkQueue``.
"""

__version__ = "0.1.0"
