"""Kinds by the names that people use, and which of them are simulated."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from kcm_lite.api.scheme import BY_KIND, RESOURCES, Resource
from kcm_lite.controllers.context import CONTROLLERS
from kcm_lite.sim.check import BadInput, Problem, choice, nearest

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
CONTROLLER = {
    "CronJob": "cronjob-controller",
    "DaemonSet": "daemonset-controller",
    "Deployment": "deployment-controller",
    "HorizontalPodAutoscaler": "horizontal-pod-autoscaler-controller",
    "Job": "job-controller",
    "ReplicaSet": "replicaset-controller",
    "ReplicationController": "replicationcontroller-controller",
    "StatefulSet": "statefulset-controller",
}
"""Kinds that do nothing without their controller."""


class Unknown(ValueError):
    """A kind that is not simulated."""


def is_simulated(resource: Resource) -> bool:
    """Report whether something becomes of an object of this kind."""
    return CONTROLLER.get(resource.kind, "") in ("", *CONTROLLERS)


def simulated_kind(api_version: str, kind: str) -> Resource | None:
    """Return the resource of a manifest, or None if it is not simulated."""
    resource = BY_KIND.get((api_version, kind))
    return resource if resource is not None and is_simulated(resource) else None


@cache
def _names() -> dict[str, Resource]:
    """Return the simulated resources by kind, plural and short name, in small letters."""
    out: dict[str, Resource] = {}
    for resource in filter(is_simulated, RESOURCES):
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
        kinds = sorted({r.kind for r in _names().values()})
        hint = nearest(name, kinds)
        raise Unknown(f'kind "{name}" is not simulated{hint}; simulated: {", ".join(kinds)}')
    return found


def check_kind(name: str, path: str, problems: list[Problem]) -> Resource | None:
    """Return the resource of this name; name the problem if there is none."""
    try:
        return resource_named(name)
    except Unknown as error:
        problems.append(Problem(path, str(error)))
        return None


def controllers_named(names: Iterable[str] | None) -> list[str]:
    """Return full names of controllers; ``replicaset`` is short for ``replicaset-controller``."""
    if names is None:
        return list(CONTROLLERS)
    out: list[str] = []
    problems: list[Problem] = []
    for i, name in enumerate(names):
        full = name if name in CONTROLLERS else f"{name}-controller"
        if full not in CONTROLLERS:
            choice(*CONTROLLERS)(name, f"controllers[{i}]", problems)
        out.append(full)
    if problems:
        raise BadInput(problems)
    return out
