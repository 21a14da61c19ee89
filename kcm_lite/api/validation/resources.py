"""Resources: their names, and amounts of them.

See: kubernetes ``pkg/apis/core/helper`` and ``pkg/apis/core/validation``.
"""

from __future__ import annotations

from kcm_lite.api.core import ResourceRequirements
from kcm_lite.api.quantity import Quantity, parse_quantity
from kcm_lite.api.validation.content import is_qualified_name
from kcm_lite.api.validation.field import Causes, forbidden, invalid, required
from kcm_lite.api.validation.meta import NEGATIVE, all_invalid

COMPUTE = ("cpu", "memory", "ephemeral-storage")
COUNTED = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
"""Resources that come in whole numbers."""

STANDARD_QUOTA = COUNTED | {
    *COMPUTE,
    *(f"requests.{name}" for name in (*COMPUTE, "storage")),
    *(f"limits.{name}" for name in COMPUTE),
}
STANDARD = STANDARD_QUOTA | {"storage"}


def is_huge_page(name: str) -> bool:
    """Whether the resource is memory in pages of some large size."""
    return name.startswith("hugepages-")


def _is_quota_huge_page(name: str) -> bool:
    return name.startswith(("hugepages-", "requests.hugepages-"))


def is_standard_quota_resource(name: str) -> bool:
    """Whether a quota knows what this name means."""
    return name in STANDARD_QUOTA or _is_quota_huge_page(name)


def is_native(name: str) -> bool:
    """Whether the name is Kubernetes' own."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether the name is somebody else's, such as a device's."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not is_qualified_name(f"requests.{name}")


def validate_amount(name: str, quantity: Quantity, path: str) -> Causes:
    """An amount must not be negative, and whole where things are counted."""
    causes: Causes = []
    if quantity.nanos < 0:
        causes.append(invalid(path, str(quantity), NEGATIVE))
    if (name in COUNTED or is_extended(name)) and quantity.milli_value() % 1000:
        causes.append(invalid(path, str(quantity), "must be an integer"))
    return causes


def validate_resource_name(name: str, path: str) -> Causes:
    """A name must be qualified or one that Kubernetes knows."""
    causes = all_invalid(path, name, is_qualified_name(name))
    if not causes and "/" not in name and not (name in STANDARD or _is_quota_huge_page(name)):
        causes.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return causes


def validate_quota_resource_name(name: str, path: str) -> Causes:
    """A name that a quota can limit."""
    causes = validate_resource_name(name, path)
    if "/" not in name and not is_standard_quota_resource(name):
        causes.append(invalid(path, name, "must be a standard resource for quota"))
    return causes


def _validate_container_amount(name: str, quantity: Quantity, path: str) -> Causes:
    causes = validate_resource_name(name, path)
    if "/" not in name:
        if name not in COMPUTE and not is_huge_page(name):
            causes.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        detail = "doesn't follow extended resource name standard"
        causes.append(invalid(path, name, detail))
    return causes + validate_amount(name, quantity, path)


def validate_requirements(resources: ResourceRequirements, path: str) -> Causes:
    """Check a container's requests and limits, and the first against the second."""
    causes: Causes = []
    limits = {name: parse_quantity(text) for name, text in sorted(resources.limits.items())}
    requests = {name: parse_quantity(text) for name, text in sorted(resources.requests.items())}
    for name, quantity in limits.items():
        causes += _validate_container_amount(name, quantity, f"{path}.limits[{name}]")
    for name, quantity in requests.items():
        causes += _validate_container_amount(name, quantity, f"{path}.requests[{name}]")
        overcommit = is_native(name) and not is_huge_page(name)
        limit = limits.get(name)
        if limit is None:
            if not overcommit:
                detail = "Limit must be set for non overcommitable resources"
                causes.append(required(f"{path}.limits", detail))
        elif quantity != limit and not overcommit:
            detail = f"must be equal to {name} limit of {limit}"
            causes.append(invalid(f"{path}.requests", str(quantity), detail))
        elif quantity > limit:
            detail = f"must be less than or equal to {name} limit of {limit}"
            causes.append(invalid(f"{path}.requests", str(quantity), detail))
    names = {*limits, *requests}
    if any(map(is_huge_page, names)) and not names & {"cpu", "memory"}:
        causes.append(forbidden(path, "HugePages require cpu or memory"))
    return causes
