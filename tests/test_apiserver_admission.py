"""Admission: namespaces, quotas, tolerations, and plugins that join."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import (
    ConfigMap,
    Event,
    Namespace,
    Pod,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    Toleration,
)
from kcm_lite.api.errors import AlreadyExists, Forbidden, Invalid, NotFound
from kcm_lite.api.meta import DeleteOptions, Object, ObjectMeta, replace
from kcm_lite.api.request import Request
from kcm_lite.apiserver.admission import ADMISSION, quota_status
from kcm_lite.apiserver.registry import Plugin, Registry
from kcm_lite.trace import ApiWrite
from tests.apiserver_support import Box, bind, config, kinds, meta, pod, replica_set

# --- namespaces


def test_nothing_is_created_in_a_namespace_that_is_going() -> None:
    box = Box()
    box.server.create(Namespace(metadata=ObjectMeta(name="team")))
    there = box.server.create(ConfigMap(metadata=ObjectMeta(namespace="team", name="a")))
    box.server.delete(Namespace, "", "team")
    late = replace(pod(), metadata=ObjectMeta(namespace="team", generate_name="web-"))
    with pytest.raises(Forbidden) as caught:
        box.server.create(late)
    assert caught.value.message == (
        'pods "web-" is forbidden: unable to create new content in namespace team because it is '
        "being terminated"
    )
    (cause,) = caught.value.causes
    assert (cause.reason, cause.message, cause.field) == (
        "NamespaceTerminating",
        "namespace team is being terminated",
        "metadata.namespace",
    )
    changed = box.server.update(replace(there, data={"a": "1"}))  # but what is there may change
    box.server.delete(ConfigMap, "team", changed.metadata.name)


def test_a_namespace_that_is_going_is_refused_before_the_object_is_validated() -> None:
    box = Box()
    box.server.create(Namespace(metadata=ObjectMeta(name="team")))
    box.server.delete(Namespace, "", "team")
    wrong = Pod(metadata=ObjectMeta(namespace="team", name="BAD"))
    with pytest.raises(Forbidden):
        box.server.create(wrong)


def test_a_namespace_must_exist() -> None:
    nowhere = ConfigMap(metadata=ObjectMeta(namespace="nowhere", name="a"))
    with pytest.raises(NotFound, match=r'^namespaces "nowhere" not found$'):
        Box().server.create(nowhere)


# --- what pods get


def test_pods_bear_a_node_in_trouble_for_five_minutes() -> None:
    stored = Box().server.create(pod())
    assert [
        (t.key, t.operator, t.effect, t.toleration_seconds) for t in stored.spec.tolerations
    ] == [
        ("node.kubernetes.io/not-ready", "Exists", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "Exists", "NoExecute", 300),
    ]
    assert (stored.spec.priority, stored.spec.preemption_policy) == (0, "PreemptLowerPriority")


@pytest.mark.parametrize(
    ("own", "added"),
    [
        (Toleration(operator="Exists"), 0),
        (Toleration(operator="Exists", effect="NoExecute"), 0),
        (Toleration(operator="Exists", effect="NoSchedule"), 2),
        (Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect="NoExecute"), 1),
        (Toleration(key="node.kubernetes.io/not-ready", operator="Exists"), 1),
        (Toleration(key="other", operator="Exists", effect="NoExecute"), 2),
    ],
)
def test_a_pods_own_tolerations_count(own: Toleration, added: int) -> None:
    body = replace(pod(), spec=replace(pod().spec, tolerations=(own,)))
    tolerations = Box().server.create(body).spec.tolerations
    assert tolerations[0] == own
    assert len(tolerations) == 1 + added


def test_pods_of_one_template_share_their_spec() -> None:
    server = Box().server
    spec = pod().spec
    one, two = (server.create(Pod(metadata=meta(name), spec=spec)) for name in "ab")
    assert one.spec is two.spec


def test_a_template_is_left_alone() -> None:
    assert Box().server.create(replica_set()).spec.template.spec.tolerations == ()


# --- quotas


def quota(box: Box, hard: Mapping[str, Any], **fields: Any) -> ResourceQuota:
    """Create a quota and count it, as the quota loop does."""
    body = ResourceQuota(metadata=meta("q"), spec=ResourceQuotaSpec(hard=hard, **fields))
    made = box.server.create(body)
    return recount(box, made)


def recount(box: Box, made: ResourceQuota) -> ResourceQuota:
    status = quota_status(box.server.registry, made)
    return box.server.update(replace(made, status=status), subresource="status")


def used(box: Box) -> Mapping[str, Any]:
    return box.server.get(ResourceQuota, "default", "q").status.used


def test_a_quota_refuses_with_upstreams_words_and_counts_what_it_lets_in() -> None:
    box = Box()
    quota(box, {"pods": "2"})
    events = box.watch(ResourceQuota, resource_version=box.server.list(Pod).resource_version)
    box.server.create(pod("a"))
    box.server.create(pod("b"))
    assert used(box) == {"pods": "2"}
    with pytest.raises(Forbidden) as caught:
        box.server.create(pod("", generate_name="web-"))
    message = caught.value.message
    name = message.split('"')[1]
    assert len(name) == 9 and name.startswith("web-"), "the name has been generated by then"
    assert message == (
        f'pods "{name}" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, '
        "limited: pods=2"
    )
    assert kinds(events) == ["MODIFIED", "MODIFIED"]
    raises = list(box.trace.of(ApiWrite, resource="resourcequotas", agent="kube-apiserver"))
    assert [(w.verb, w.subresource, w.code) for w in raises] == [("update", "status", 200)] * 2


def test_used_falls_only_when_it_is_counted_again() -> None:
    box = Box()
    quota(box, {"pods": "1"})
    box.server.create(pod("a"))
    box.server.delete(Pod, "default", "a")
    with pytest.raises(Forbidden):
        box.server.create(pod("b"))
    recount(box, box.server.get(ResourceQuota, "default", "q"))
    box.server.create(pod("b"))


def test_a_quota_nobody_has_counted_yet_does_not_bind() -> None:
    box = Box()
    spec = ResourceQuotaSpec(hard={"pods": "0"})
    box.server.create(ResourceQuota(metadata=meta("q"), spec=spec))
    box.server.create(pod())


def test_a_limit_whose_use_is_unknown_refuses() -> None:
    box = Box()
    made = quota(box, {"pods": "5"})
    status = ResourceQuotaStatus(hard={"pods": "5"})
    box.server.update(replace(made, status=status), subresource="status")
    with pytest.raises(Forbidden, match="status unknown for quota: q, resources: pods"):
        box.server.create(pod())


def test_several_limits_and_several_quotas() -> None:
    box = Box()
    quota(box, {"pods": "1", "count/pods": "1", "count/configmaps": "9"})
    other = ResourceQuota(metadata=meta("p"), spec=ResourceQuotaSpec(hard={"pods": "7"}))
    recount(box, box.server.create(other))
    box.server.create(pod("a"))
    with pytest.raises(Forbidden) as caught:
        box.server.create(pod("b"))
    assert caught.value.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: count/pods=1,pods=1, '
        "used: count/pods=1,pods=1, limited: count/pods=1,pods=1"
    )
    assert box.server.get(ResourceQuota, "default", "p").status.used == {"pods": "1"}, (
        "a refusal books nothing, in no quota"
    )


@pytest.mark.parametrize("name", ["count/configmaps", "configmaps"])
def test_object_counts(name: str) -> None:
    box = Box()
    quota(box, {name: "1"})
    box.server.create(config("a"))
    with pytest.raises(Forbidden, match=f"exceeded quota: q, requested: {name}=1"):
        box.server.create(config("b"))


def test_object_counts_name_the_group() -> None:
    box = Box()
    quota(box, {"count/replicasets.apps": "1"})
    box.server.create(replica_set("a"))
    with pytest.raises(Forbidden, match=r"requested: count/replicasets\.apps=1"):
        box.server.create(replica_set("b"))
    assert len(box.server.list(ReplicaSet).items) == 1


def test_events_are_never_counted() -> None:
    box = Box()
    quota(box, {"count/events": "0", "pods": "1"})
    reference = replace(Event().involved_object, namespace="default")
    box.server.create(Event(metadata=meta("e"), involved_object=reference))


def test_a_quota_counts_itself() -> None:
    box = Box()
    quota(box, {"resourcequotas": "1"})
    assert used(box) == {"resourcequotas": "1"}
    with pytest.raises(Forbidden):
        box.server.create(ResourceQuota(metadata=meta("p")))


def test_other_namespaces_are_not_concerned() -> None:
    box = Box()
    quota(box, {"pods": "0"})
    box.server.create(replace(pod(), metadata=ObjectMeta(namespace="kube-public", name="a")))


def test_ended_pods_leave_pods_but_not_count_pods() -> None:
    box = Box()
    made = quota(box, {"pods": "5", "count/pods": "5"})
    for name, phase in (("a", "Running"), ("b", "Succeeded"), ("c", "Failed")):
        stored = box.server.create(pod(name))
        status = replace(stored.status, phase=phase)
        box.server.update(replace(stored, status=status), subresource="status")
    assert quota_status(box.server.registry, made).used == {"pods": "1", "count/pods": "3"}


def test_a_pod_that_overstays_its_deletion_is_not_counted() -> None:
    box = Box()
    made = quota(box, {"pods": "5"})
    box.server.create(pod())
    bind(box.server, "a")
    box.server.delete(Pod, "default", "a", DeleteOptions(grace_period_seconds=10))
    counts = []
    for seconds in (5, 15, 1):
        box.clock.run_for(seconds)
        counts.append(quota_status(box.server.registry, made).used["pods"])
    assert counts == ["1", "1", "0"], "deleted at 0, due at 10, and 10 more of grace"


def test_limits_that_are_not_counted_do_not_bind() -> None:
    box = Box()
    made = quota(box, {"requests.cpu": "1", "pods": "3"})
    assert made.status.hard == {"pods": "3"}
    box.server.create(pod())


def test_a_quota_with_scopes_does_not_bind() -> None:
    box = Box()
    made = quota(box, {"pods": "0"}, scopes=("BestEffort",))
    assert made.status == ResourceQuotaStatus()
    box.server.create(pod())


def test_an_invalid_object_is_not_booked_but_a_taken_name_is() -> None:
    box = Box()
    quota(box, {"configmaps": "5"})
    with pytest.raises(Invalid):
        box.server.create(config("BAD"))
    box.server.create(config("a"))
    with pytest.raises(AlreadyExists):
        box.server.create(config("a"))
    assert used(box) == {"configmaps": "2"}, "as upstream: put right at the next count"


# --- plugins that join


def test_a_plugin_is_a_row() -> None:
    seen: list[str] = []

    def label(reg: Registry, request: Request, obj: Object, old: Object | None) -> Object:
        return replace(obj, metadata=replace(obj.metadata, labels={"by": "plugin"}))

    def look(reg: Registry, request: Request, obj: Object, old: Object | None) -> None:
        seen.append(f"{request.verb} {obj.metadata.labels['by']} {old is not None}")

    both = frozenset({"create", "update"})
    mine = Plugin("Mine", both, frozenset({ConfigMap}), admit=label, check=look)
    box = Box(admission=(*ADMISSION, mine))
    made = box.server.create(config())
    box.server.update(replace(made, data={"a": "1"}))
    box.server.create(pod())
    assert made.metadata.labels == {"by": "plugin"}
    assert seen == ["create plugin False", "update plugin True"]


def test_a_server_without_admission() -> None:
    box = Box(admission=())
    box.server.create(ConfigMap(metadata=ObjectMeta(namespace="nowhere", name="a")))
    assert box.server.create(pod()).spec.tolerations == ()


def test_the_clock_of_admission_is_the_servers() -> None:
    box = Box()
    box.clock.run_for(90)
    stored = box.server.create(config())
    assert stored.metadata.creation_timestamp == box.clock.now() - timedelta(0)
