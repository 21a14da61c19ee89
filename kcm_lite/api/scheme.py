"""Which kinds exist, what they are called in a URL, and which subresources they have.

The API server, the client set and the YAML reader look here; a kind that joins adds one row.
See: k8s.io/apimachinery ``pkg/runtime`` (Scheme) and ``pkg/api/meta`` (RESTMapper).
"""

from __future__ import annotations

import msgspec

from kcm_lite.api import apps, batch, coordination, core
from kcm_lite.api.meta import Object


class Resource(msgspec.Struct, frozen=True):
    """A kind as the API serves it."""

    type: type[Object]
    plural: str
    namespaced: bool = True
    has_status: bool = False  # spec and status are written apart; spec changes raise generation
    has_scale: bool = False
    fields: tuple[str, ...] = ()  # what a field selector may name besides name and namespace

    @property
    def kind(self) -> str:
        """The kind's name, such as ``ReplicaSet``."""
        return self.type.KIND

    @property
    def api_version(self) -> str:
        """Group and version, such as ``apps/v1``."""
        return self.type.API_VERSION

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.type.API_VERSION.rpartition("/")[0]

    @property
    def group_resource(self) -> str:
        """How messages name the resource: ``pods``, ``replicasets.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)

RESOURCES: tuple[Resource, ...] = (
    Resource(
        core.Namespace, "namespaces", namespaced=False, has_status=True, fields=("status.phase",)
    ),
    Resource(core.Node, "nodes", namespaced=False, has_status=True, fields=("spec.unschedulable",)),
    Resource(core.Pod, "pods", has_status=True, fields=_POD_FIELDS),
    Resource(
        core.ReplicationController,
        "replicationcontrollers",
        has_status=True,
        has_scale=True,
        fields=("status.replicas",),
    ),
    Resource(core.ResourceQuota, "resourcequotas", has_status=True),
    Resource(core.ConfigMap, "configmaps"),
    Resource(core.Event, "events", fields=_EVENT_FIELDS),
    Resource(apps.Deployment, "deployments", has_status=True, has_scale=True),
    Resource(apps.ReplicaSet, "replicasets", has_status=True, has_scale=True),
    Resource(apps.ControllerRevision, "controllerrevisions"),
    Resource(coordination.Lease, "leases"),
    Resource(batch.Job, "jobs", has_status=True, fields=("status.successful",)),
)

BY_TYPE: dict[type[Object], Resource] = {r.type: r for r in RESOURCES}
BY_KIND: dict[tuple[str, str], Resource] = {(r.api_version, r.kind): r for r in RESOURCES}


def resource_of(obj_or_type: Object | type[Object]) -> Resource:
    """Return the resource of an object or of its type.

    Raises:
        KeyError: The type is not an API kind.
    """
    kind = obj_or_type if isinstance(obj_or_type, type) else type(obj_or_type)
    return BY_TYPE[kind]
