"""Which controllers there are, by today's names and by those of 1.22, and which of them run.

See: chapter *Options to config*, *Names*; upstream ``controller_descriptor.go``,
``controllermanager.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kcm_lite.controllers.context import CONTROLLERS, ControllerContext, Run
from kcm_lite.manager.featuregates import FeatureGates
from kcm_lite.manager.validation import Names


@dataclass(frozen=True)
class ControllerDescriptor:
    """What the manager knows of a controller without building it.

    Attributes:
        name: Its name in ``--controllers``, health checks and logs.
        aliases: Older names.
        required_feature_gates: All must be on, or it is not built.
        disabled_by_default: It runs only if it is named.
        cloud_provider: A loop of a cloud: known, never built.
        special_handling: Built before all others (the service-account token controller).
    """

    name: str
    aliases: tuple[str, ...] = ()
    required_feature_gates: tuple[str, ...] = ()
    disabled_by_default: bool = False
    cloud_provider: bool = False
    special_handling: bool = False

    @property
    def constructor(self) -> Callable[[ControllerContext], Run] | None:
        """What builds it; None: kcm_lite knows its name only."""
        return CONTROLLERS.get(self.name)


TABLE = """
serviceaccount-token-controller                 serviceaccount-token        special
endpoints-controller                            endpoint
endpointslice-controller                        endpointslice
endpointslice-mirroring-controller              endpointslicemirroring
replicationcontroller-controller                replicationcontroller
pod-garbage-collector-controller                podgc
resourcequota-controller                        resourcequota
namespace-controller                            namespace
serviceaccount-controller                       serviceaccount
garbage-collector-controller                    garbagecollector
daemonset-controller                            daemonset
job-controller                                  job
podgroup-protection-controller                  -                           GenericWorkload
deployment-controller                           deployment
replicaset-controller                           replicaset
horizontal-pod-autoscaler-controller            horizontalpodautoscaling
disruption-controller                           disruption
statefulset-controller                          statefulset
cronjob-controller                              cronjob
certificatesigningrequest-signing-controller    csrsigning
certificatesigningrequest-approving-controller  csrapproving
certificatesigningrequest-cleaner-controller    csrcleaner
podcertificaterequest-cleaner-controller        -                           PodCertificateRequest
ttl-controller                                  ttl
bootstrap-signer-controller                     bootstrapsigner             off
token-cleaner-controller                        tokencleaner                off
node-ipam-controller                            nodeipam
node-lifecycle-controller                       nodelifecycle
service-lb-controller                           service                     cloud
node-route-controller                           route                       cloud
cloud-node-lifecycle-controller                 cloud-node-lifecycle        cloud
persistentvolume-binder-controller              persistentvolume-binder
persistentvolume-attach-detach-controller       attachdetach
persistentvolume-expander-controller            persistentvolume-expander
clusterrole-aggregation-controller              clusterrole-aggregation
persistentvolumeclaim-protection-controller     pvc-protection
persistentvolume-protection-controller          pv-protection
volumeattributesclass-protection-controller     -                           VolumeAttributesClass
ttl-after-finished-controller                   ttl-after-finished
root-ca-certificate-publisher-controller        root-ca-cert-publisher
kube-apiserver-serving-clustertrustbundle-publisher-controller - ClusterTrustBundle
ephemeral-volume-controller                     ephemeral-volume
storageversion-garbage-collector-controller storage-version-gc APIServerIdentity StorageVersionAPI
resourceclaim-controller +resource-claim-controller DynamicResourceAllocation
resourcepoolstatusrequest-controller            -                           DRAResourcePoolStatus
device-taint-eviction-controller - DynamicResourceAllocation DRADeviceTaints
legacy-serviceaccount-token-cleaner-controller  +legacy-service-account-token-cleaner
validatingadmissionpolicy-status-controller     -
taint-eviction-controller - SeparateTaintEvictionController
service-cidr-controller - MultiCIDRServiceAllocator
storage-version-migrator-controller             +svm
selinux-warning-controller                      -                           off SELinuxChangePolicy
"""
"""A controller a line, in the order of upstream's ``NewControllerDescriptors``: name, older name
(``+``: younger than 1.22), marks and required gates."""

MARKS = {"off": "disabled_by_default", "cloud": "cloud_provider", "special": "special_handling"}


def _descriptor(line: str) -> ControllerDescriptor:
    name, alias, *rest = line.split()
    return ControllerDescriptor(
        name,
        () if alias == "-" else (alias.lstrip("+"),),
        tuple(word for word in rest if word not in MARKS),
        **{MARKS[word]: True for word in rest if word in MARKS},
    )


def new_controller_descriptors() -> dict[str, ControllerDescriptor]:
    """Return today's controllers by name, in upstream's order; the special one comes first."""
    found = map(_descriptor, TABLE.strip().splitlines())
    return {descriptor.name: descriptor for descriptor in found}


def new_controller_initializers(
    gates: FeatureGates, *, cloud_loops: bool = True
) -> dict[str, ControllerDescriptor]:
    """Return the controllers of 1.22 by the names that they had then.

    Args:
        gates: What is not switched on is not in the table.
        cloud_loops: Whether the cloud's loops are in it; with an external cloud they are not.
    """
    out = {}
    for line in TABLE.strip().splitlines():
        found, old = _descriptor(line), line.split()[1]
        there = all(map(gates.enabled, found.required_feature_gates)) and (
            cloud_loops or not found.cloud_provider
        )
        if there and old[0] not in "-+":
            out[old] = found
    return out


def names_of(descriptors: Mapping[str, ControllerDescriptor]) -> Names:
    """Return the names that ``--controllers`` may have."""
    aliases = {alias: name for name, d in descriptors.items() for alias in d.aliases}
    return Names(tuple(sorted(descriptors)), aliases)


TODAY = names_of(new_controller_descriptors())


def disabled_by_default(descriptors: Mapping[str, ControllerDescriptor]) -> list[str]:
    """Return the names that run only if they are named."""
    return sorted(name for name, d in descriptors.items() if d.disabled_by_default)


def is_controller_enabled(
    name: str, off_by_default: Iterable[str], controllers: Iterable[str]
) -> bool:
    """Whether a controller runs: the first entry of ``--controllers`` that names it decides.

    Args:
        name: Its name in the table that is in force.
        off_by_default: What ``*`` does not mean.
        controllers: The entries, with full names.
    """
    star = False
    for entry in controllers:
        if entry.removeprefix("-") == name:
            return entry == name
        star = star or entry == "*"
    return star and name not in off_by_default
