"""Fields that Kubernetes has in types that we model only in part; they are carried as they are.

A strict reading refuses every other name. See: k8s.io/api ``core/v1`` (v1.36).
"""

from __future__ import annotations

import msgspec

from kcm_lite.api import coordination, core

_NAMES: dict[type[msgspec.Struct], str] = {
    core.PodSpec: (
        "ephemeralContainers automountServiceAccountToken hostPID hostIPC "
        "shareProcessNamespace imagePullSecrets hostAliases priorityClassName dnsConfig "
        "runtimeClassName overhead topologySpreadConstraints setHostnameAsFQDN os hostUsers "
        "resourceClaims resources hostnameOverride workloadRef schedulingGroup"
    ),
    core.PodStatus: (
        "ephemeralContainerStatuses resize resourceClaimStatuses extendedResourceClaimStatus "
        "allocatedResources resources nodeAllocatableResourceClaimStatuses"
    ),
    core.Container: (
        "command args workingDir envFrom env resizePolicy restartPolicyRules volumeMounts "
        "volumeDevices livenessProbe readinessProbe startupProbe lifecycle securityContext "
        "stdin stdinOnce tty"
    ),
    core.ContainerStatus: (
        "allocatedResources resources volumeMounts user allocatedResourcesStatus stopSignal"
    ),
    core.ResourceRequirements: "claims",
    coordination.LeaseSpec: "strategy preferredHolder",  # dropped: their gate is off
    core.NodeSpec: "podCIDR podCIDRs providerID configSource externalID",
    core.NodeStatus: (
        "addresses daemonEndpoints nodeInfo images volumesInUse volumesAttached config "
        "runtimeHandlers features declaredFeatures"
    ),
}

CARRIED: dict[type[msgspec.Struct], frozenset[str]] = {
    struct: frozenset(names.split()) for struct, names in _NAMES.items()
}
