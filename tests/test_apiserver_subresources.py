"""Scale, binding, eviction: parts of an object that are written apart from it."""

from typing import Any

import pytest

from kcm_lite.api.apps import ReplicaSet, ReplicaSetStatus
from kcm_lite.api.autoscaling import Scale, ScaleSpec
from kcm_lite.api.core import (
    Binding,
    Namespace,
    ObjectReference,
    Pod,
    ReplicationController,
    ReplicationControllerSpec,
)
from kcm_lite.api.errors import BadRequest, Conflict, Forbidden, Invalid, NotFound
from kcm_lite.api.meta import DeleteOptions, ObjectMeta, Preconditions, replace
from kcm_lite.api.request import Request
from kcm_lite.apiserver.server import APIServer
from kcm_lite.trace import ApiWrite
from tests.apiserver_support import WEB, Box, bind, meta, pod, replica_set, with_meta


def scale(server: APIServer, verb: str, body: Any = None, **more: Any) -> Scale:
    answer: Scale = server.handle(
        Request(
            verb=verb,
            type=ReplicaSet,
            namespace="default",
            name="web",
            subresource="scale",
            body=body,
            **more,
        )
    )
    return answer


def test_the_scale_shows_one_number_and_how_to_find_the_pods() -> None:
    server = Box().server
    rs = server.create(replica_set())
    rs = server.update(replace(rs, status=ReplicaSetStatus(replicas=2)), subresource="status")
    got = scale(server, "get")
    assert (got.spec.replicas, got.status.replicas, got.status.selector) == (3, 2, "app=web")
    assert got.metadata == ObjectMeta(
        name="web",
        namespace="default",
        uid=rs.metadata.uid,
        resource_version=rs.metadata.resource_version,
        creation_timestamp=rs.metadata.creation_timestamp,
    )


def test_a_replication_controllers_selector_is_a_map() -> None:
    server = Box().server
    spec = ReplicationControllerSpec(
        replicas=1, selector={"b": "2", **WEB}, template=replica_set().spec.template
    )
    template = replace(spec.template, metadata=ObjectMeta(labels={"b": "2", **WEB}))  # type: ignore[type-var]
    server.create(ReplicationController(metadata=meta("rc"), spec=replace(spec, template=template)))
    got = server.handle(
        Request(
            verb="get",
            type=ReplicationController,
            namespace="default",
            name="rc",
            subresource="scale",
        )
    )
    assert got.status.selector == "app=web,b=2"


def test_scaling_changes_the_spec_and_its_generation() -> None:
    server = Box().server
    server.create(replica_set())
    got = scale(server, "get")
    answer = scale(server, "update", replace(got, spec=ScaleSpec(replicas=7)))
    stored = server.get(ReplicaSet, "default", "web")
    assert stored.spec.replicas == answer.spec.replicas == 7
    assert stored.metadata.generation == 2
    assert answer.metadata.resource_version == stored.metadata.resource_version


def test_scaling_by_patch() -> None:
    server = Box().server
    server.create(replica_set())
    answer = scale(server, "patch", {"spec": {"replicas": 0}}, patch_type="merge")
    assert answer.spec.replicas == 0
    assert server.get(ReplicaSet, "default", "web").spec.replicas == 0


def test_scaling_to_the_same_number_is_no_write() -> None:
    server = Box().server
    stored = server.create(replica_set())
    scale(server, "update", scale(server, "get"))
    assert server.get(ReplicaSet, "default", "web") is stored


def test_scaling_from_an_old_version_is_refused() -> None:
    server = Box().server
    server.create(replica_set())
    old = scale(server, "get")
    server.patch(ReplicaSet, "default", "web", {"metadata": {"labels": {"a": "b"}}})
    with pytest.raises(Conflict, match="the object has been modified"):
        scale(server, "update", replace(old, spec=ScaleSpec(replicas=7)))
    blind = with_meta(replace(old, spec=ScaleSpec(replicas=7)), resource_version="")
    assert scale(server, "update", blind).spec.replicas == 7


def test_scaling_another_object_of_the_name() -> None:
    server = Box().server
    server.create(replica_set())
    other = with_meta(scale(server, "get"), uid="other")
    with pytest.raises(Conflict) as caught:
        scale(server, "update", other)
    assert caught.value.message.startswith(
        'Operation cannot be fulfilled on replicasets.apps/scale "web": Precondition failed: UID'
    )


def test_a_negative_scale() -> None:
    server = Box().server
    server.create(replica_set())
    with pytest.raises(Invalid) as caught:
        scale(server, "update", Scale(metadata=meta("web"), spec=ScaleSpec(replicas=-1)))
    assert caught.value.message == (
        'Scale.autoscaling "web" is invalid: spec.replicas: Invalid value: -1: '
        "must be greater than or equal to 0"
    )


# --- binding


def test_a_bound_pod_has_a_node_and_a_condition_and_is_otherwise_the_same() -> None:
    box = Box()
    before = box.server.create(pod())
    box.clock.run_for(2)
    bind(box.server, "a", "node-7")
    after = box.server.get(Pod, "default", "a")
    assert after.spec.node_name == "node-7"
    assert after.metadata.generation == before.metadata.generation
    (condition,) = after.status.conditions
    assert (condition.type, condition.status) == ("PodScheduled", "True")
    assert condition.last_transition_time == box.clock.timestamp()
    write = list(box.trace.of(ApiWrite, subresource="binding"))[-1]
    assert (write.name, write.code, write.old, write.new) == ("a", 201, before, after)


def test_a_binding_clears_the_nominated_node() -> None:
    server = Box().server
    stored = server.create(pod())
    status = replace(stored.status, nominated_node_name="node-9")
    server.update(replace(stored, status=status), subresource="status")
    bind(server, "a")
    assert server.get(Pod, "default", "a").status.nominated_node_name == ""


def test_pods_of_one_spec_on_one_node_share_it() -> None:
    server = Box().server
    for name in "ab":
        server.create(pod(name))
        bind(server, name, "node-1")
    one, two = server.list(Pod).items
    assert one.spec is two.spec


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        ("bound", 'pod a is already assigned to node "node-1"'),
        ("deleted", "pod a is being deleted, cannot be assigned to a host"),
        ("gated", "pod a has non-empty .spec.schedulingGates"),
        ("replaced", "Precondition failed: UID in precondition: old, UID in object meta: "),
    ],
)
def test_a_pod_is_bound_once_and_only_while_it_may_live(prepare: str, why: str) -> None:
    server = Box().server
    spec = pod().spec
    if prepare == "gated":
        spec = replace(spec, scheduling_gates=({"name": "x.io/wait"},))
    server.create(replace(pod(finalizers=("x.io/a",)), spec=spec))
    if prepare == "bound":
        bind(server, "a")
    if prepare == "deleted":
        server.delete(Pod, "default", "a")
    with pytest.raises(Conflict) as caught:
        bind(server, "a", uid="old" if prepare == "replaced" else "")
    assert caught.value.message.startswith(
        f'Operation cannot be fulfilled on pods/binding "a": {why}'
    )


@pytest.mark.parametrize(
    ("name", "target", "error", "message"),
    [
        ("b", ObjectReference(name="n"), BadRequest, "name in URL does not match"),
        ("a", ObjectReference(), BadRequest, "target.name: Required value"),
        ("a", ObjectReference(kind="Pod", name="n"), BadRequest, 'Unsupported value: "Pod"'),
    ],
)
def test_bindings_that_make_no_sense(
    name: str, target: ObjectReference, error: type[Exception], message: str
) -> None:
    server = Box().server
    server.create(pod())
    body = Binding(metadata=meta(name), target=target)
    with pytest.raises(error, match=message):
        server.handle(
            Request(
                verb="create",
                type=Pod,
                namespace="default",
                name="a",
                subresource="binding",
                body=body,
            )
        )


def test_a_pod_that_is_not_there_cannot_be_bound() -> None:
    with pytest.raises(NotFound):
        bind(Box().server, "a")


# --- eviction


def evict(server: APIServer, namespace: str = "default", **options: Any) -> Pod:
    gone: Pod = server.handle(
        Request(
            verb="create",
            type=Pod,
            namespace=namespace,
            name="a",
            subresource="eviction",
            options=DeleteOptions(**options),
        )
    )
    return gone


def test_an_eviction_says_why_and_deletes() -> None:
    box = Box()
    box.server.create(pod())
    bind(box.server, "a")
    box.server.create(replica_set())
    evict(box.server)
    stored = box.server.get(Pod, "default", "a")
    condition = stored.status.conditions[-1]
    assert (condition.type, condition.reason) == ("DisruptionTarget", "EvictionByEvictionAPI")
    assert condition.message == "Eviction API: evicting"
    assert stored.metadata.deletion_grace_period_seconds == 30


def test_an_eviction_can_be_forceful_and_precise() -> None:
    box = Box()
    stored = box.server.create(pod())
    with pytest.raises(Conflict):
        evict(box.server, preconditions=Preconditions(uid="other"))
    assert box.server.get(Pod, "default", "a") is stored
    evict(box.server, grace_period_seconds=0, preconditions=Preconditions(uid=stored.metadata.uid))
    assert not box.server.list(Pod).items


def test_nothing_is_bound_or_evicted_in_a_namespace_that_is_going() -> None:
    server = Box().server
    server.create(Namespace(metadata=ObjectMeta(name="team")))
    server.create(replace(pod(), metadata=ObjectMeta(namespace="team", name="a")))
    server.delete(Namespace, "", "team")
    words = (
        'pods "a" is forbidden: unable to create new content in namespace team because it is '
        "being terminated"
    )
    with pytest.raises(Forbidden) as caught:
        evict(server, "team")
    assert caught.value.message == words
    with pytest.raises(Forbidden) as caught:
        body = Binding(
            metadata=ObjectMeta(namespace="team", name="a"), target=ObjectReference(name="n")
        )
        server.handle(
            Request(
                verb="create",
                type=Pod,
                namespace="team",
                name="a",
                subresource="binding",
                body=body,
            )
        )
    assert caught.value.message == words
