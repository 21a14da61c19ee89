"""Containers of pods and templates: names, images, ports, resources, policies.

See: kubernetes ``pkg/apis/core/validation``. Not checked, because nothing here reads them: env,
volume mounts, probes, lifecycle hooks, security contexts, resize policies.
"""

from __future__ import annotations

from kcm_lite.api.core import Container, ContainerPort, PodSpec
from kcm_lite.api.validation.content import (
    is_dns1123_label,
    is_valid_port_name,
    is_valid_port_num,
)
from kcm_lite.api.validation.field import (
    Causes,
    duplicate,
    invalid,
    not_supported,
    one_of,
    required,
)
from kcm_lite.api.validation.meta import all_invalid
from kcm_lite.api.validation.resources import validate_requirements

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
PROTOCOLS = ("SCTP", "TCP", "UDP")
MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
RESTART_POLICIES = ("Always", "Never", "OnFailure")


def validate_ports(ports: tuple[ContainerPort, ...], path: str) -> Causes:
    """Check the ports of one container."""
    causes: Causes = []
    names: set[str] = set()
    for i, port in enumerate(ports):
        at = f"{path}[{i}]"
        if port.name:
            messages = is_valid_port_name(port.name)
            causes += all_invalid(f"{at}.name", port.name, messages)
            if not messages and port.name in names:
                causes.append(duplicate(f"{at}.name", port.name))
            names.add(port.name)
        if port.container_port == 0:
            causes.append(required(f"{at}.containerPort"))
        else:
            number = port.container_port
            causes += all_invalid(f"{at}.containerPort", number, is_valid_port_num(number))
        if port.host_port != 0:
            number = port.host_port
            causes += all_invalid(f"{at}.hostPort", number, is_valid_port_num(number))
        causes += one_of(port.protocol, PROTOCOLS, f"{at}.protocol")
    return causes


def _validate_container(container: Container, path: str) -> Causes:
    causes: Causes = []
    if container.name:
        causes += all_invalid(f"{path}.name", container.name, is_dns1123_label(container.name))
    else:
        causes.append(required(f"{path}.name"))
    if not container.image:
        causes.append(required(f"{path}.image"))
    policy = container.termination_message_policy
    causes += one_of(policy, MESSAGE_POLICIES, f"{path}.terminationMessagePolicy")
    causes += validate_ports(container.ports, f"{path}.ports")
    causes += one_of(container.image_pull_policy, PULL_POLICIES, f"{path}.imagePullPolicy")
    return causes + validate_requirements(container.resources, f"{path}.resources")


def _validate_restart_policy(container: Container, path: str) -> Causes:
    policy = container.restart_policy
    if policy is None or policy in RESTART_POLICIES:
        return []
    return [not_supported(f"{path}.restartPolicy", policy, RESTART_POLICIES)]


def _host_port_conflicts(containers: tuple[Container, ...], path: str) -> Causes:
    causes: Causes = []
    taken: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.ports):
            if port.host_port == 0:
                continue
            name = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if name in taken:
                causes.append(duplicate(f"{path}[{i}].ports[{j}].hostPort", name))
            taken.add(name)
    return causes


def validate_containers(containers: tuple[Container, ...], path: str) -> Causes:
    """Check the containers that run side by side."""
    if not containers:
        return [required(path)]
    causes: Causes = []
    names: set[str] = set()
    for i, container in enumerate(containers):
        at = f"{path}[{i}]"
        causes += _validate_container(container, at)
        if container.name in names:
            causes.append(duplicate(f"{at}.name", container.name))
        names.add(container.name)
        causes += _validate_restart_policy(container, at)
    return causes + _host_port_conflicts(containers, path)


def validate_init_containers(spec: PodSpec, path: str) -> Causes:
    """Check the containers that run first, one after the other."""
    causes: Causes = []
    names = {container.name for container in spec.containers}
    for i, container in enumerate(spec.init_containers):
        at = f"{path}[{i}]"
        causes += _validate_container(container, at)
        causes += _validate_restart_policy(container, at)
        if container.name in names:
            causes.append(duplicate(f"{at}.name", container.name))
        elif container.name:
            names.add(container.name)
        causes += _host_port_conflicts((container,), path)
    return causes


def validate_image_of_pod(container: Container, path: str) -> Causes:
    """A pod's image must not have spaces around it; a template's may."""
    if container.image == container.image.strip():
        return []
    detail = "must not have leading or trailing whitespace"
    return [invalid(f"{path}.image", container.image, detail)]
