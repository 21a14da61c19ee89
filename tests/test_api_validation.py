"""Validation of the kinds and the updates that the vectors do not cover."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from kcm_lite.api.meta import replace
from kcm_lite.api.serial import decode, encode
from kcm_lite.api.strategy import STRATEGIES
from kcm_lite.api.validation.content import (
    is_config_map_key,
    is_dns1123_label,
    is_dns1123_subdomain,
    is_label_value,
    is_qualified_name,
    is_valid_percent,
    is_valid_port_name,
)
from kcm_lite.api.validation.deployment import (
    validate_not_more_than_100_percent,
    validate_positive_int_or_percent,
)
from kcm_lite.api.validation.field import Causes, aggregate, text_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD}
QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end"
    " with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def obj(kind: str, version: str = "v1", **parts: Any) -> Any:
    """A defaulted, prepared object, as it stands before validation."""
    cluster = kind in ("Node", "Namespace")
    metadata: dict[str, Any] = {"name": "x", "uid": "u"} | ({} if cluster else {"namespace": "ns"})
    metadata |= parts.pop("metadata", {})
    made = decode({"apiVersion": version, "kind": kind, "metadata": metadata, **parts})
    strategy = STRATEGIES[type(made)]
    return strategy.prepare_for_create(strategy.default(made))


def stored(made: Any) -> Any:
    return replace(made, metadata=replace(made.metadata, resource_version="1"))


def create(made: Any) -> list[str]:
    return [text_of(cause) for cause in STRATEGIES[type(made)].validate(made)]


def update(new: Any, old: Any) -> list[str]:
    strategy = STRATEGIES[type(new)]
    new = strategy.prepare_for_update(new, old)
    return [text_of(cause) for cause in strategy.validate_update(new, old)]


def update_status(new: Any, old: Any) -> list[str]:
    strategy = STRATEGIES[type(new)]
    new = strategy.prepare_for_status_update(new, old)
    return [text_of(cause) for cause in strategy.validate_status_update(new, old)]


def rc(**spec: Any) -> Any:
    return obj("ReplicationController", spec={"template": TEMPLATE, **spec})


def test_replication_controllers() -> None:
    assert create(rc()) == []
    assert create(rc(replicas=-1, minReadySeconds=-2, selector={"app": "y"})) == [
        "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
        "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
        'spec.template.metadata.labels: Invalid value: {"app":"x"}:'
        " `selector` does not match template `labels`",
    ]
    assert create(rc(template=None)) == [
        "spec.selector: Required value",
        "spec.template: Required value",
    ]
    spec = {**POD, "restartPolicy": "Never", "activeDeadlineSeconds": 5}
    assert create(rc(template={**TEMPLATE, "spec": spec})) == [
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        "spec.template.spec.activeDeadlineSeconds: Forbidden:"
        " activeDeadlineSeconds in ReplicationController is not Supported",
    ]
    named = replace(rc(), metadata=replace(rc().metadata, name="a" * 254))
    assert create(named) == [
        f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 bytes'
    ]
    old = stored(rc())
    labels = {"app": "x", "b": "c"}
    template = replace(
        old.spec.template, metadata=replace(old.spec.template.metadata, labels=labels)
    )
    new = replace(old, spec=replace(old.spec, selector=labels, template=template))
    assert update(new, old) == []  # unlike a ReplicaSet's, its selector may change


@pytest.mark.parametrize("kind", ["ReplicaSet", "ReplicationController"])
def test_counts_in_a_status_must_fit_together(kind: str) -> None:
    if kind == "ReplicaSet":
        spec = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
        old = stored(obj(kind, "apps/v1", spec=spec))
    else:
        old = stored(rc())

    def with_status(**counts: Any) -> Any:
        return replace(old, status=replace(old.status, **counts))

    assert update_status(with_status(replicas=2, ready_replicas=2, available_replicas=1), old) == []
    assert update_status(with_status(replicas=-1, observed_generation=-1), old) == [
        "status.replicas: Invalid value: -1: must be greater than or equal to 0",
        "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
        "status.fullyLabeledReplicas: Invalid value: 0: cannot be greater than status.replicas",
        "status.readyReplicas: Invalid value: 0: cannot be greater than status.replicas",
        "status.availableReplicas: Invalid value: 0: cannot be greater than status.replicas",
    ]
    assert update_status(with_status(replicas=3, available_replicas=2), old) == [
        "status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas",
    ]


def test_nodes() -> None:
    taint = {"key": "a", "value": "b", "effect": "NoSchedule"}
    assert create(obj("Node", spec={"taints": [taint, {**taint, "effect": "NoExecute"}]})) == []
    taints = [taint, {**taint, "value": "c"}, {"key": "bad key", "effect": "Never"}, {"key": "k"}]
    assert create(obj("Node", spec={"taints": taints})) == [
        'metadata.taints[1]: Duplicate value: {"Key":"a","Value":"c","Effect":"NoSchedule",'
        '"TimeAdded":null}: taints must be unique by key and effect pair',
        f'metadata.taints[2].key: Invalid value: "bad key": {QUALIFIED}',
        'metadata.taints[2].effect: Unsupported value: "Never": supported values: "NoSchedule",'
        ' "PreferNoSchedule", "NoExecute"',
        "metadata.taints[3].effect: Required value",
    ]
    assert create(obj("Node", status={"capacity": {"pods": "1.5", "cpu": "-1"}})) == [
        'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.capacity.pods: Invalid value: "1500m": must be an integer',
        'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
        'status.allocatable.pods: Invalid value: "1500m": must be an integer',
    ]
    old = stored(obj("Node", spec={"providerID": "a://b"}))
    new = replace(old, spec=replace(old.spec, extra={"providerID": "a://c"}))
    assert update(new, old) == [
        'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'
    ]


def test_namespaces() -> None:
    assert create(obj("Namespace")) == []
    assert create(obj("Namespace", metadata={"name": "a.b"})) == [
        'metadata.name: Invalid value: "a.b": must not contain dots'
    ]
    bad = obj("Namespace", spec={"finalizers": ["mine"]})
    assert create(bad) == [
        'spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor'
        " is it fully qualified"
    ]
    old = stored(obj("Namespace"))
    assert update_status(replace(old, status=replace(old.status, phase="Terminating")), old) == [
        "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if"
        " `deletionTimestamp` is empty"
    ]
    going = replace(old, metadata=replace(old.metadata, deletion_timestamp=NOW))
    assert update_status(going, going) == [
        "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if"
        " `deletionTimestamp` is not empty"
    ]


def quota(**spec: Any) -> Any:
    return obj("ResourceQuota", spec=spec)


def test_resource_quotas() -> None:
    hard = {"pods": 3, "requests.cpu": "1.5", "example.com/gpu": "2", "count/jobs.batch": "4"}
    assert create(quota(hard=hard)) == []
    assert create(quota(hard={"pods": "0.5", "oranges": "1", "cpu": "-1"})) == [
        'spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        'spec.hard[oranges]: Invalid value: "oranges": must be a standard resource type or fully'
        " qualified",
        'spec.hard[oranges]: Invalid value: "oranges": must be a standard resource for quota',
        'spec.hard[pods]: Invalid value: "500m": must be an integer',
    ]
    scopes = ["BestEffort", "NotBestEffort", "Odd"]
    assert create(quota(hard={"cpu": "1"}, scopes=scopes)) == [
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]:'
        " unsupported scope applied to resource",
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: unsupported scope',
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort","Odd"]: conflicting scopes',
    ]
    old = stored(quota(hard={"pods": 1}, scopes=["BestEffort"]))
    new = replace(old, spec=replace(old.spec, scopes=()))
    assert update(new, old) == ["spec.scopes: Invalid value: []: field is immutable"]
    used = replace(old, status=replace(old.status, used={"pods": "-1"}))
    assert update_status(used, old) == [
        'status.used[pods]: Invalid value: "-1": must be greater than or equal to 0'
    ]


def test_config_maps() -> None:
    bad = obj("ConfigMap", data={"a b": "", "..": "", "k": ""}, binaryData={"k": ""})
    assert create(bad) == [
        "data[..]: Invalid value: \"..\": must not be '..'",
        'data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric'
        " characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used"
        " for validation is '[-._a-zA-Z0-9]+')",
        'data[k]: Invalid value: "k": duplicate of key present in binaryData',
    ]
    assert create(obj("ConfigMap", data={"k": "x" * (1 << 20)})) == []
    assert create(obj("ConfigMap", data={"k": "x" * ((1 << 20) + 1)})) == [
        ": Too long: may not be more than 1048576 bytes"
    ]
    old = stored(obj("ConfigMap", data={"k": "v"}, immutable=True))
    assert update(replace(old, data={"k": "w"}, immutable=None), old) == [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]
    assert update(replace(old, metadata=replace(old.metadata, labels={"a": "b"})), old) == []


def test_events() -> None:
    involved = {"kind": "Pod", "namespace": "ns", "name": "p"}
    assert create(obj("Event", involvedObject=involved, metadata={"name": "p.17"})) == []
    elsewhere = obj("Event", involvedObject={**involved, "namespace": "other"})
    assert create(elsewhere) == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]
    node = {"kind": "Node", "name": "n"}
    assert create(obj("Event", involvedObject=node, metadata={"namespace": "default"})) == []
    new_style = obj("Event", involvedObject=involved, eventTime="2026-01-01T00:00:00.5Z")
    assert create(new_style) == [
        "reportingComponent: Required value",
        'reportingComponent: Invalid value: "": name part must be non-empty',
        f'reportingComponent: Invalid value: "": {QUALIFIED}',
        "reportingInstance: Required value",
        "action: Required value",
        "reason: Required value",
    ]
    assert create(obj("Event", involvedObject=involved, metadata={"name": "a/b"})) == [
        "metadata.name: Invalid value: \"a/b\": may not contain '/'"
    ]


def test_controller_revisions() -> None:
    good = obj("ControllerRevision", "apps/v1", revision=1, data={"spec": {}})
    assert create(good) == []
    assert create(obj("ControllerRevision", "apps/v1", revision=-1)) == [
        "revision: Invalid value: -1: must be greater than or equal to 0",
        "data: Required value: data is mandatory",
    ]
    assert create(obj("ControllerRevision", "apps/v1", data=[1])) == [
        "data: Required value: data must be a valid JSON object"
    ]
    old = stored(good)
    assert update(replace(old, revision=2), old) == []
    assert update(replace(old, data={"spec": {"a": 1}}), old) == [
        'data: Invalid value: {"spec":{"a":1}}: field is immutable'
    ]


def pod(**spec: Any) -> Any:
    return stored(obj("Pod", spec={**POD, **spec}))


def changed(old: Any, **spec: Any) -> Any:
    return replace(old, spec=replace(old.spec, **spec))


def test_what_may_change_in_a_pod() -> None:
    old = pod()
    image = (replace(old.spec.containers[0], image="j"),)
    assert update(changed(old, containers=image), old) == []
    assert update(changed(old, active_deadline_seconds=9), old) == []
    limited = pod(activeDeadlineSeconds=9)
    assert update(changed(limited, active_deadline_seconds=8), limited) == []
    assert update(changed(limited, active_deadline_seconds=10), limited) == [
        "spec.activeDeadlineSeconds: Invalid value: 10:"
        " must be less than or equal to previous value"
    ]
    assert update(changed(limited, active_deadline_seconds=None), limited) == [
        "spec.activeDeadlineSeconds: Invalid value: null:"
        " must not update from a positive integer to nil value"
    ]


def test_tolerations_of_a_pod_can_only_be_added() -> None:
    seconds = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    old = pod(tolerations=[seconds])
    longer = pod(tolerations=[{**seconds, "tolerationSeconds": 9}, {"operator": "Exists"}])
    assert update(longer, old) == []
    assert update(pod(tolerations=[{"operator": "Exists"}]), old) == [
        "spec.tolerations: Forbidden:"
        " existing toleration can not be modified except its tolerationSeconds"
    ]


def test_scheduling_gates_of_a_pod_can_only_be_taken_off() -> None:
    old = pod(schedulingGates=[{"name": "a/b"}, {"name": "c/d"}])
    assert update(pod(schedulingGates=[{"name": "c/d"}]), old) == []
    assert update(pod(schedulingGates=[{"name": "c/d"}, {"name": "e/f"}]), old) == [
        "spec.schedulingGates[1].name: Forbidden:"
        " only deletion is allowed, but found new scheduling gate 'e/f'"
    ]
    assert update(pod(schedulingGates=[{"name": "a/b"}], nodeSelector={"a": "b"}), old) == []


def test_a_refused_pod_update_shows_the_difference() -> None:
    old = pod(hostNetwork=True)
    causes = update(changed(old, node_name="n"), old)
    assert causes == [
        "spec: Forbidden: pod updates may not change fields other than"
        " `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
        "`spec.tolerations` (only additions to existing tolerations),"
        "`spec.terminationGracePeriodSeconds`"
        " (allow it to be set to 1 if it was previously negative)\n"
        "@@ -42,7 +42,7 @@\n"
        '  "NodeSelector": null,\n'
        '  "ServiceAccountName": "",\n'
        '  "AutomountServiceAccountToken": null,\n'
        '- "NodeName": "",\n'
        '+ "NodeName": "n",\n'
        '  "SecurityContext": {\n'
        '   "HostNetwork": true,\n'
        '   "HostPID": false,\n'
    ]


def test_containers_of_a_pod_are_fixed() -> None:
    more = [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]
    assert update(pod(containers=more), pod()) == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]


def test_pod_metadata() -> None:
    old = pod()
    other = replace(old, metadata=replace(old.metadata, name="y", resource_version=""))
    assert (
        update(other, old)
        == [
            'metadata.resourceVersion: Invalid value: "": must be specified for an update',
            'metadata.name: Invalid value: "y": field is immutable',
        ]
        * 2
    )
    going = replace(old, metadata=replace(old.metadata, deletion_timestamp=NOW))
    held = replace(going, metadata=replace(going.metadata, finalizers=("a/b", "c/d")))
    assert (
        update(held, going)
        == [
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being"
            ' deleted, found new finalizers []string{"a/b", "c/d"}'
        ]
        * 2
    )
    both = obj("Pod", spec=POD, metadata={"finalizers": ["orphan", "foregroundDeletion"]})
    assert create(both) == [
        'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]:'
        " finalizer orphan and foregroundDeletion cannot be both set"
    ]
    event = {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"}
    assert create(obj("Pod", spec=POD, metadata={"ownerReferences": [event]})) == [
        'metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e",'
        '"uid":"1"}: /v1, Kind=Event is disallowed from being an owner'
    ]
    big = {"a": "x" * (256 * 1024)}
    assert create(obj("Pod", spec=POD, metadata={"annotations": big})) == [
        "metadata.annotations: Too long: may not be more than 262144 bytes"
    ]


@pytest.mark.parametrize("cost", ["0", "-5", "2147483647", "-2147483648"])
def test_deletion_costs(cost: str) -> None:
    annotation = "controller.kubernetes.io/pod-deletion-cost"
    assert create(obj("Pod", spec=POD, metadata={"annotations": {annotation: cost}})) == []


@pytest.mark.parametrize("cost", ["", "+5", "05", "1.5", "2147483648", "x", "-"])
def test_bad_deletion_costs(cost: str) -> None:
    annotation = "controller.kubernetes.io/pod-deletion-cost"
    made = obj("Pod", spec=POD, metadata={"annotations": {annotation: cost}})
    assert create(made) == [
        f'metadata.annotations[{annotation}]: Invalid value: "{cost}": must be a 32bit integer'
    ]


def test_pod_status() -> None:
    old = pod(restartPolicy="OnFailure", nodeName="n")
    ended = {"name": "c", "state": {"terminated": {"exitCode": 0}}}
    failed = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
    running = {"name": "c", "state": {"running": {}}}

    def with_status(**status: Any) -> Any:
        raw = encode(old) | {"status": {"phase": "Running", "qosClass": "BestEffort", **status}}
        return decode(raw)

    was = with_status(containerStatuses=[ended])
    assert update_status(with_status(containerStatuses=[running]), was) == [
        "status.containerStatuses[0].state: Forbidden:"
        " may not be transitioned to non-terminated state"
    ]
    was = with_status(containerStatuses=[failed])
    assert update_status(with_status(containerStatuses=[running]), was) == []
    assert update_status(with_status(qosClass="Guaranteed"), old) == [
        'status.qosClass: Invalid value: "Guaranteed": field is immutable'
    ]
    assert update_status(with_status(conditions=[{"type": "a b", "status": "True"}]), old) == [
        f'status.conditions[0].Type: Invalid value: "a b": {QUALIFIED}'
    ]
    assert update_status(with_status(nominatedNodeName="m"), old) == [
        "status.nominatedNodeName: Forbidden:"
        " may not be set on pods that are already bound to a node"
    ]
    assert update_status(with_status(hostIP="1", hostIPs=[{"ip": "2"}]), old) == [
        'status.hostIPs[0].ip: Invalid value: "2": must be equal to `hostIP`'
    ]


def container(**fields: Any) -> Any:
    return obj("Pod", spec={"containers": [{"name": "c", "image": "i", **fields}]})


def test_containers() -> None:
    ports = [
        {"containerPort": 1, "name": "UPPER--x-"},
        {"containerPort": 2, "hostPort": 70000},
        {"containerPort": 3, "hostPort": 8},
        {"containerPort": 4, "hostPort": 8},
    ]
    assert create(container(ports=ports)) == [
        'spec.containers[0].ports[0].name: Invalid value: "UPPER--x-":'
        " must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        'spec.containers[0].ports[0].name: Invalid value: "UPPER--x-":'
        " must not contain consecutive hyphens",
        'spec.containers[0].ports[0].name: Invalid value: "UPPER--x-":'
        " must not begin or end with a hyphen",
        "spec.containers[0].ports[1].hostPort: Invalid value: 70000:"
        " must be between 1 and 65535, inclusive",
        'spec.containers[0].ports[3].hostPort: Duplicate value: "TCP//8"',
    ]
    resources = {
        "limits": {"hugepages-2Mi": "4Mi", "example.com/gpu": "1", "pods": "1"},
        "requests": {"hugepages-2Mi": "2Mi", "example.com/tpu": "1.5"},
    }
    assert create(container(resources=resources)) == [
        'spec.containers[0].resources.limits[pods]: Invalid value: "pods":'
        " must be a standard resource for containers",
        'spec.containers[0].resources.requests[example.com/tpu]: Invalid value: "1500m":'
        " must be an integer",
        "spec.containers[0].resources.limits: Required value:"
        " Limit must be set for non overcommitable resources",
        'spec.containers[0].resources.requests: Invalid value: "2Mi":'
        " must be equal to hugepages-2Mi limit of 4Mi",
        'spec.containers[0].resources.requests[pods]: Invalid value: "pods":'
        " must be a standard resource for containers",
        "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
    ]


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (is_dns1123_label, ["a", "0-a", "a" * 63], ["", "A", "-a", "a-", "a.b", "a" * 64, "ü"]),
        (is_dns1123_subdomain, ["a.b", "a" * 253], ["", ".", "a.", "a..b", "a_b", "a" * 254]),
        (is_qualified_name, ["a", "A_b.c", "x.y/z"], ["", "/a", "a/", "a/b/c", "X/y", "a b"]),
        (is_label_value, ["", "a", "A_b.c"], ["-", "a b", "a" * 64, "ä", "a\n"]),
        (is_valid_percent, ["0%", "100%"], ["", "%", "1.5%", "-1%", "1"]),
        (is_valid_port_name, ["http", "a-1"], ["", "1", "a--b", "-a", "A", "a" * 16]),
        (is_config_map_key, ["a", ".a", "A_b-c"], ["", ".", "..", "..a", "a/b", "a" * 254]),
    ],
)
def test_formats(rule: Any, good: list[str], bad: list[str]) -> None:
    assert [rule(value) for value in good] == [[]] * len(good)
    assert all(rule(value) for value in bad)


def test_causes_are_told_once_in_a_message() -> None:
    causes: Causes = list(STRATEGIES[type(pod())].validate(container(name="")))
    assert aggregate(causes) == "spec.containers[0].name: Required value"
    assert aggregate([*causes, *causes]) == aggregate(causes)
    two = [*causes, *STRATEGIES[type(pod())].validate(container(image=""))]
    assert aggregate(two) == (
        "[spec.containers[0].name: Required value, spec.containers[0].image: Required value]"
    )


def test_int_or_percent() -> None:
    def check(value: int | str) -> list[str]:
        causes = validate_positive_int_or_percent(value, "x")
        return [text_of(c) for c in causes + validate_not_more_than_100_percent(value, "x")]

    assert [check(value) for value in (0, 1000, "0%", "00100%")] == [[]] * 4
    assert len(check("9" * 5000 + "%")) == 1
    assert check(-1) == ["x: Invalid value: -1: must be greater than or equal to 0"]
    assert check("101%") == ['x: Invalid value: "101%": must not be greater than 100%']
    assert check("5") == [
        'x: Invalid value: "5": a valid percent string must be a numeric string followed by an'
        " ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
    ]
