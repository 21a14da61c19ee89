"""Kinds by the names that people use: ``ReplicaSet``, ``replicasets``, ``rs``."""

from __future__ import annotations

from functools import cache

from kcm_lite.api.scheme import RESOURCES, Resource
from kcm_lite.sim.check import nearest

SHORT = {
    "cm": "configmaps",
    "cj": "cronjobs",
    "deploy": "deployments",
    "ds": "daemonsets",
    "ev": "events",
    "hpa": "horizontalpodautoscalers",
    "no": "nodes",
    "ns": "namespaces",
    "po": "pods",
    "pvc": "persistentvolumeclaims",
    "quota": "resourcequotas",
    "rc": "replicationcontrollers",
    "rs": "replicasets",
    "sts": "statefulsets",
}


class Unknown(ValueError):
    """A kind that is not simulated."""


@cache
def _names() -> dict[str, Resource]:
    out: dict[str, Resource] = {}
    for resource in RESOURCES:
        out[resource.kind.lower()] = out[resource.plural] = resource
    out.update((short, out[plural]) for short, plural in SHORT.items() if plural in out)
    return out


def resource_named(name: str) -> Resource:
    """Return the resource with this kind, plural or short name, whatever its case.

    Raises:
        Unknown: No simulated kind is called so.
    """
    found = _names().get(name.lower())
    if found is None:
        kinds = sorted(r.kind for r in RESOURCES)
        hint = nearest(name, kinds)
        raise Unknown(f'kind "{name}" is not simulated{hint}; simulated: {", ".join(kinds)}')
    return found
