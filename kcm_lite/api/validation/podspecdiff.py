"""The differences between two pod specs, as the API server's message shows them.

Upstream prints the JSON of its internal type: every field, in Go's order, with Go's names, null
where nothing is set. See: k8s.io/apimachinery ``pkg/util/diff``, kubernetes ``pkg/apis/core``.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from kcm_lite.api.core import PodSpec, PodTemplateSpec
from kcm_lite.api.golang import to_json
from kcm_lite.api.serial import to_wire
from kcm_lite.api.validation.field import Shown

# A field is null when it is not set, unless its zero follows "="; after ":" comes the type of its
# value or of the items of its list; "!" marks a struct that is always there.
_TYPES = {
    "PodSpec": (
        'Volumes InitContainers:Container Containers:Container EphemeralContainers RestartPolicy=""'
        ' TerminationGracePeriodSeconds ActiveDeadlineSeconds DNSPolicy="" NodeSelector:map'
        ' ServiceAccountName="" AutomountServiceAccountToken NodeName=""'
        ' SecurityContext:PodSecurityContext ImagePullSecrets Hostname="" Subdomain=""'
        ' SetHostnameAsFQDN Affinity SchedulerName="" Tolerations:Toleration HostAliases'
        ' PriorityClassName="" Priority PreemptionPolicy DNSConfig ReadinessGates RuntimeClassName'
        " Overhead:map EnableServiceLinks TopologySpreadConstraints OS SchedulingGates"
        " ResourceClaims Resources HostnameOverride SchedulingGroup"
    ),
    "PodSecurityContext": (
        "HostNetwork=false HostPID=false HostIPC=false ShareProcessNamespace HostUsers"
        " SELinuxOptions WindowsOptions RunAsUser RunAsGroup RunAsNonRoot SupplementalGroups"
        " SupplementalGroupsPolicy FSGroup FSGroupChangePolicy Sysctls SeccompProfile"
        " AppArmorProfile SELinuxChangePolicy"
    ),
    "Container": (
        'Name="" Image="" Command Args WorkingDir="" Ports:ContainerPort EnvFrom Env:EnvVar'
        " Resources!ResourceRequirements ResizePolicy RestartPolicy RestartPolicyRules VolumeMounts"
        " VolumeDevices LivenessProbe ReadinessProbe StartupProbe Lifecycle"
        ' TerminationMessagePath="" TerminationMessagePolicy="" ImagePullPolicy="" SecurityContext'
        " Stdin=false StdinOnce=false TTY=false"
    ),
    "ContainerPort": 'Name="" HostPort=0 ContainerPort=0 Protocol="" HostIP=""',
    "EnvVar": 'Name="" Value="" ValueFrom',
    "ResourceRequirements": "Limits:map Requests:map Claims",
    "Toleration": 'Key="" Operator="" Value="" Effect="" TolerationSeconds',
    "PodFailurePolicy": "Rules:PodFailurePolicyRule",
    "PodFailurePolicyRule": 'Action="" OnExitCodes:OnExitCodes OnPodConditions:OnPodCondition',
    "OnExitCodes": 'ContainerName Operator="" Values',
    "OnPodCondition": 'Type="" Status=""',
    "SuccessPolicy": "Rules:SuccessPolicyRule",
    "SuccessPolicyRule": "SucceededIndexes SucceededCount",
    "DeploymentStrategy": 'Type="" RollingUpdate:RollingUpdateDeployment',
    "RollingUpdateDeployment": "MaxUnavailable=0 MaxSurge=0",
    "Taint": 'Key="" Value="" Effect="" TimeAdded',
    "map": "",
}
_IN_SECURITY_CONTEXT = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
_FIELD = re.compile(r"(\w+)(?:=(\S+)|([:!])(\w+))?")


def diff_pod_specs(old: PodSpec, new: PodSpec) -> str:
    """Return a unified diff of the two specs, without file names."""
    before, after = (to_json(_internal(spec), indent=1).splitlines() for spec in (old, new))
    lines = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in lines)


def _internal(spec: PodSpec) -> Any:
    return _with_go_names(to_wire(spec), "PodSpec")


def show_template(template: PodTemplateSpec) -> Shown:
    """Return a template as messages show it: metadata under wire names, then the spec."""
    return Shown(to_json(to_wire(template.metadata) | {"Spec": _internal(template.spec)}))


def show_internal(value: msgspec.Struct, kind: str) -> Shown:
    """Return a part of an object as messages show it that print upstream's type ``kind``."""
    return Shown(to_json(_with_go_names(to_wire(value), kind)))


def _with_go_names(raw: Any, kind: str) -> Any:
    if kind == "PodSpec":
        host = {name: raw[name] for name in _IN_SECURITY_CONTEXT if name in raw}
        if host or "securityContext" in raw:
            raw = {**raw, "securityContext": {**raw.get("securityContext", {}), **host}}
    return _rename(raw, kind)


def _rename(raw: Any, kind: str) -> Any:
    """Return a wire value with Go's field names, in the order of its type."""
    if isinstance(raw, list):
        return [_rename(item, kind) for item in raw]
    if not isinstance(raw, Mapping) or kind == "map":
        return raw
    if not kind:  # carried as it is: no more is known than what is given
        return {key[:1].upper() + key[1:]: _rename(item, "") for key, item in raw.items()}
    out: dict[str, Any] = {}
    for name, zero, mark, inner in _FIELD.findall(_TYPES[kind]):
        value = raw.get(_wire_name(name))
        if value is None and mark == "!":
            value = {}
        if value is None:
            out[name] = json.loads(zero) if zero else None
        else:
            out[name] = _rename(value, inner)
    return out


def _wire_name(name: str) -> str:
    """Return the wire name of a Go field: its leading capitals in lower case (``dnsPolicy``)."""
    head = re.match("[A-Z]+(?![a-z])|[A-Z]", name)
    assert head is not None
    return head[0].lower() + name[head.end() :]
