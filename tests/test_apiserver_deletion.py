"""Delete: grace periods, finalizers, propagation policies, preconditions, namespaces."""

from datetime import timedelta

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import (
    ConfigMap,
    Event,
    Namespace,
    Pod,
    ReplicationController,
    ReplicationControllerSpec,
)
from kcm_lite.api.errors import Conflict, Forbidden, Invalid, NotFound
from kcm_lite.api.meta import DeleteOptions, Object, ObjectMeta, Preconditions, replace
from kcm_lite.api.request import Request
from kcm_lite.api.selectors import parse_selector
from kcm_lite.trace import ApiWrite
from tests.apiserver_support import (
    WEB,
    Box,
    bind,
    config,
    kinds,
    meta,
    pod,
    replica_set,
    with_meta,
)

NOW = DeleteOptions(grace_period_seconds=0)


def bound_pod(box: Box, **fields: object) -> Pod:
    box.server.create(pod("a", **fields))
    bind(box.server, "a")
    return box.server.get(Pod, "default", "a")


def seconds_left(box: Box, stored: Object) -> float:
    due = stored.metadata.deletion_timestamp
    assert due is not None
    return (due - box.clock.timestamp()).total_seconds()


# --- pods and their grace


def test_a_bound_pod_is_marked_and_stays() -> None:
    box = Box()
    before = bound_pod(box)
    marked = box.server.delete(Pod, "default", "a")
    assert marked is box.server.get(Pod, "default", "a")
    assert seconds_left(box, marked) == 30
    assert marked.metadata.deletion_grace_period_seconds == 30
    assert marked.metadata.generation == before.metadata.generation + 1


def test_timestamps_are_whole_seconds() -> None:
    box = Box()
    bound_pod(box)
    box.clock.run_for(1.7)
    marked = box.server.delete(Pod, "default", "a", DeleteOptions(grace_period_seconds=2))
    assert marked.metadata.deletion_timestamp == box.clock.timestamp() + timedelta(seconds=2)
    assert marked.metadata.deletion_timestamp.microsecond == 0


@pytest.mark.parametrize("grace", [None, 0, 30, 100])
def test_a_pod_without_node_goes_at_once_by_way_of_a_mark(grace: int | None) -> None:
    box = Box()
    box.server.create(pod())
    events = box.watch(Pod, resource_version=box.server.list(Pod).resource_version)
    box.server.delete(Pod, "default", "a", DeleteOptions(grace_period_seconds=grace))
    assert kinds(events) == ["MODIFIED", "DELETED"]
    assert events[0].object.metadata.deletion_grace_period_seconds == 0
    assert not box.server.list(Pod).items


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_goes_at_once(phase: str) -> None:
    box = Box()
    stored = bound_pod(box)
    status = replace(stored.status, phase=phase)
    box.server.update(replace(stored, status=status), subresource="status")
    box.server.delete(Pod, "default", "a")
    assert not box.server.list(Pod).items


def test_the_last_delete_of_the_kubelet() -> None:
    box = Box()
    stored = bound_pod(box)
    box.server.delete(Pod, "default", "a")
    events = box.watch(Pod, resource_version=box.server.list(Pod).resource_version)
    options = DeleteOptions(
        grace_period_seconds=0, preconditions=Preconditions(uid=stored.metadata.uid)
    )
    box.server.delete(Pod, "default", "a", options)
    assert kinds(events) == ["MODIFIED", "DELETED"]
    records = list(box.trace.of(ApiWrite, verb="delete"))
    assert records[-1].new is None and records[-1].old is not None


@pytest.mark.parametrize(
    ("second", "left"), [(None, 30), (30, 30), (60, 30), (10, 10), (29, 29), (1, 1), (-5, 1)]
)
def test_a_second_delete_may_only_shorten(second: int | None, left: int) -> None:
    box = Box()
    bound_pod(box)
    box.server.delete(Pod, "default", "a")
    box.server.delete(Pod, "default", "a", DeleteOptions(grace_period_seconds=second))
    stored = box.server.get(Pod, "default", "a")
    assert seconds_left(box, stored) == left
    assert stored.metadata.deletion_grace_period_seconds == left
    assert stored.metadata.generation == 2, "only the first delete counts"


def test_shortening_counts_from_the_first_delete_and_never_ends_in_the_past() -> None:
    box = Box()
    bound_pod(box)
    box.server.delete(Pod, "default", "a")
    box.clock.run_for(10)
    stored = box.server.delete(Pod, "default", "a", DeleteOptions(grace_period_seconds=15))
    assert seconds_left(box, stored) == 5
    box.clock.run_for(10)
    stored = box.server.delete(Pod, "default", "a", DeleteOptions(grace_period_seconds=3))
    assert seconds_left(box, stored) == 0
    assert stored.metadata.deletion_grace_period_seconds == 1


def test_shortening_an_overdue_deletion_moves_it_to_now() -> None:
    box = Box()
    bound_pod(box)
    box.server.delete(Pod, "default", "a", DeleteOptions(grace_period_seconds=5))
    box.clock.run_for(20)
    stored = box.server.delete(Pod, "default", "a", DeleteOptions(grace_period_seconds=2))
    assert seconds_left(box, stored) == 0, "as upstream: later than it was due, but not past"
    assert stored.metadata.deletion_grace_period_seconds == 1


def test_a_pointless_delete_is_logged_as_changing_nothing() -> None:
    box = Box()
    bound_pod(box)
    marked = box.server.delete(Pod, "default", "a")
    assert box.server.delete(Pod, "default", "a") is marked
    last = list(box.trace.of(ApiWrite))[-1]
    assert last.old is last.new is marked


def test_a_negative_grace_is_one_second() -> None:
    box = Box()
    bound_pod(box)
    marked = box.server.delete(Pod, "default", "a", DeleteOptions(grace_period_seconds=-1))
    assert seconds_left(box, marked) == 1


def test_what_is_gone_cannot_be_deleted() -> None:
    with pytest.raises(NotFound, match=r'^pods "a" not found$'):
        Box().server.delete(Pod, "default", "a")


# --- finalizers


def test_the_last_finalizer_holds_an_object() -> None:
    box = Box()
    box.server.create(config(finalizers=("x.io/a", "x.io/b")))
    events = box.watch(ConfigMap, resource_version=box.server.list(ConfigMap).resource_version)
    marked = box.server.delete(ConfigMap, "default", "a")
    assert marked.metadata.deletion_grace_period_seconds == 0
    assert marked.metadata.finalizers == ("x.io/a", "x.io/b")
    one_left = box.server.update(with_meta(marked, finalizers=("x.io/b",)))
    asked = with_meta(one_left, finalizers=())
    answer = box.server.update(asked)
    assert answer == asked, "the answer is what was asked, in the version that was there"
    assert kinds(events) == ["MODIFIED", "MODIFIED", "DELETED"]
    gone = events[-1].object
    assert gone.metadata.finalizers == ("x.io/b",), "the last state that was stored"
    assert not box.server.list(ConfigMap).items


def test_a_finalizer_taken_off_a_living_object_removes_nothing() -> None:
    box = Box()
    stored = box.server.create(config(finalizers=("x.io/a",)))
    box.server.update(with_meta(stored, finalizers=()))
    assert box.server.list(ConfigMap).items


def test_a_pod_waits_for_its_grace_and_for_its_finalizers() -> None:
    box = Box()
    bound_pod(box, finalizers=("x.io/a",))
    box.server.delete(Pod, "default", "a")
    marked = box.server.get(Pod, "default", "a")
    box.server.update(with_meta(marked, finalizers=()))
    assert box.server.list(Pod).items, "no finalizer, but 30 s of grace"
    box.server.delete(Pod, "default", "a", NOW)
    assert not box.server.list(Pod).items


def test_a_pod_that_has_ended_still_waits_for_its_finalizers() -> None:
    box = Box()
    bound_pod(box, finalizers=("x.io/a",))
    box.server.delete(Pod, "default", "a", NOW)
    marked = box.server.get(Pod, "default", "a")
    assert marked.metadata.deletion_grace_period_seconds == 0
    box.server.patch(Pod, "default", "a", {"metadata": {"finalizers": None}})
    assert not box.server.list(Pod).items


def test_a_status_write_lets_a_finished_deletion_go_too() -> None:
    box = Box()
    bound_pod(box, finalizers=("x.io/a",))
    marked = box.server.delete(Pod, "default", "a", NOW)
    changed = replace(
        with_meta(marked, finalizers=()), status=replace(marked.status, phase="Failed")
    )
    box.server.update(changed, subresource="status")
    assert not box.server.list(Pod).items


def test_deleting_again_what_waits_for_a_finalizer_changes_nothing() -> None:
    box = Box()
    box.server.create(config(finalizers=("x.io/a",)))
    marked = box.server.delete(ConfigMap, "default", "a")
    box.clock.run_for(5)
    assert box.server.delete(ConfigMap, "default", "a") is marked


def test_the_mark_cannot_be_taken_back() -> None:
    box = Box()
    box.server.create(config(finalizers=("x.io/a",)))
    marked = box.server.delete(ConfigMap, "default", "a")
    again = box.server.update(with_meta(marked, deletion_timestamp=None))
    assert again is marked


def test_no_finalizer_joins_once_the_deletion_has_begun() -> None:
    box = Box()
    box.server.create(config(finalizers=("x.io/a",)))
    marked = box.server.delete(ConfigMap, "default", "a")
    with pytest.raises(Invalid, match="no new finalizers can be added if the object is being"):
        box.server.update(with_meta(marked, finalizers=("x.io/a", "x.io/b")))


# --- propagation


@pytest.mark.parametrize(
    ("policy", "finalizers"),
    [
        (None, None),
        ("Background", None),
        ("Foreground", ("foregroundDeletion",)),
        ("Orphan", ("orphan",)),
    ],
)
def test_a_policy_becomes_a_finalizer(policy: str | None, finalizers: tuple[str] | None) -> None:
    box = Box()
    box.server.create(replica_set())
    options = DeleteOptions(propagation_policy=policy)
    marked = box.server.delete(ReplicaSet, "default", "web", options)
    if finalizers is None:
        assert not box.server.list(ReplicaSet).items
    else:
        assert marked.metadata.finalizers == finalizers
        assert marked.metadata.generation == 2
        assert marked is box.server.get(ReplicaSet, "default", "web")


def test_a_replication_controller_orphans_unless_told_otherwise() -> None:
    box = Box()
    spec = ReplicationControllerSpec(selector=WEB, template=replica_set().spec.template)
    for policy, left in ((None, 1), ("Background", 0)):
        rc = ReplicationController(metadata=meta(f"rc{left}"), spec=spec)
        box.server.create(rc)
        options = DeleteOptions(propagation_policy=policy)
        box.server.delete(ReplicationController, "default", f"rc{left}", options)
    assert [rc.metadata.finalizers for rc in box.server.list(ReplicationController).items] == [
        ("orphan",)
    ]


def test_a_finalizer_that_is_there_counts_when_no_policy_is_given() -> None:
    box = Box()
    box.server.create(replica_set(finalizers=("orphan", "x.io/a")))
    marked = box.server.delete(ReplicaSet, "default", "web")
    assert marked.metadata.finalizers == ("orphan", "x.io/a")


def test_a_policy_replaces_the_other_ones_finalizer_and_keeps_the_rest() -> None:
    box = Box()
    box.server.create(replica_set(finalizers=("orphan", "x.io/a")))
    options = DeleteOptions(propagation_policy="Foreground")
    marked = box.server.delete(ReplicaSet, "default", "web", options)
    assert marked.metadata.finalizers == ("x.io/a", "foregroundDeletion")
    options = DeleteOptions(propagation_policy="Background")
    marked = box.server.delete(ReplicaSet, "default", "web", options)
    assert marked.metadata.finalizers == ("x.io/a",)


def test_a_pod_may_be_deleted_in_the_foreground() -> None:
    box = Box()
    bound_pod(box)
    options = DeleteOptions(propagation_policy="Foreground")
    marked = box.server.delete(Pod, "default", "a", options)
    assert marked.metadata.finalizers == ("foregroundDeletion",)
    assert marked.metadata.deletion_grace_period_seconds == 30


def test_events_have_no_dependents() -> None:
    box = Box()
    reference = replace(Event().involved_object, namespace="default")
    box.server.create(Event(metadata=meta("e"), involved_object=reference))
    box.server.delete(Event, "default", "e", DeleteOptions(propagation_policy="Foreground"))
    assert not box.server.list(Event).items


def test_an_unknown_policy() -> None:
    box = Box()
    box.server.create(config())
    with pytest.raises(Invalid) as caught:
        box.server.delete(ConfigMap, "default", "a", DeleteOptions(propagation_policy="Later"))
    assert caught.value.message == (
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Later": '
        'supported values: "Foreground", "Background", "Orphan", "nil"'
    )
    assert box.server.list(ConfigMap).items


# --- preconditions


def test_a_uid_says_which_object_was_meant() -> None:
    box = Box()
    old = box.server.create(replica_set())
    box.server.delete(ReplicaSet, "default", "web")
    new = box.server.create(replica_set())
    options = DeleteOptions(preconditions=Preconditions(uid=old.metadata.uid))
    with pytest.raises(Conflict) as caught:
        box.server.delete(ReplicaSet, "default", "web", options)
    assert caught.value.message == (
        'Operation cannot be fulfilled on ReplicaSet.apps "web": the UID in the precondition '
        f"({old.metadata.uid}) does not match the UID in record ({new.metadata.uid}). "
        "The object might have been deleted and then recreated"
    )


def test_a_version_says_which_state_was_meant() -> None:
    box = Box()
    old = box.server.create(config())
    new = box.server.update(replace(old, data={"a": "1"}))
    options = DeleteOptions(
        preconditions=Preconditions(resource_version=old.metadata.resource_version)
    )
    with pytest.raises(Conflict) as caught:
        box.server.delete(ConfigMap, "default", "a", options)
    assert caught.value.message.endswith("The object might have been modified")
    options = DeleteOptions(
        preconditions=Preconditions(resource_version=new.metadata.resource_version)
    )
    box.server.delete(ConfigMap, "default", "a", options)
    assert not box.server.list(ConfigMap).items


# --- collections and namespaces


def test_a_collection_is_deleted_by_selector_and_by_namespace() -> None:
    box = Box()
    for name, labels in (("a", WEB), ("b", {}), ("c", WEB)):
        box.server.create(config(name, labels=labels))
    elsewhere = ConfigMap(metadata=ObjectMeta(namespace="kube-public", name="d", labels=WEB))
    box.server.create(elsewhere)
    gone = box.server.handle(
        Request(
            verb="deletecollection",
            type=ConfigMap,
            namespace="default",
            label_selector=parse_selector("app=web"),
        )
    )
    assert [o.metadata.name for o in gone] == ["a", "c"]
    assert [o.metadata.name for o in box.server.list(ConfigMap).items] == ["b", "d"]


def test_a_namespace_terminates_and_goes_with_its_last_finalizer() -> None:
    box = Box()
    team = box.server.create(Namespace(metadata=ObjectMeta(name="team")))
    assert (team.status.phase, team.spec.finalizers) == ("Active", ("kubernetes",))
    marked = box.server.delete(Namespace, "", "team")
    assert marked.status.phase == "Terminating"
    assert marked.metadata.deletion_timestamp is not None
    assert box.server.delete(Namespace, "", "team") is marked
    empty = replace(marked, spec=replace(marked.spec, finalizers=()))
    box.server.update(empty, subresource="finalize")
    with pytest.raises(NotFound):
        box.server.get(Namespace, "", "team")


def test_a_namespace_whose_metadata_has_a_finalizer_waits_for_it_too() -> None:
    box = Box()
    box.server.create(Namespace(metadata=ObjectMeta(name="team", finalizers=("x.io/a",))))
    marked = box.server.delete(Namespace, "", "team")
    empty = replace(marked, spec=replace(marked.spec, finalizers=()))
    stored = box.server.update(empty, subresource="finalize")
    assert stored is box.server.get(Namespace, "", "team")
    box.server.patch(Namespace, "", "team", {"metadata": {"finalizers": []}})
    assert all(n.metadata.name != "team" for n in box.server.list(Namespace).items)


def test_finalizing_a_living_namespace_does_not_remove_it() -> None:
    box = Box()
    team = box.server.create(Namespace(metadata=ObjectMeta(name="team")))
    empty = replace(team, spec=replace(team.spec, finalizers=()))
    stored = box.server.update(empty, subresource="finalize")
    assert stored.spec.finalizers == () and stored.status.phase == "Active"
    box.server.delete(Namespace, "", "team")
    box.server.delete(Namespace, "", "team")
    assert all(n.metadata.name != "team" for n in box.server.list(Namespace).items)


def test_an_update_of_a_namespace_leaves_its_finalizers_alone() -> None:
    box = Box()
    team = box.server.create(Namespace(metadata=ObjectMeta(name="team")))
    changed = with_meta(replace(team, spec=replace(team.spec, finalizers=())), labels={"a": "b"})
    assert box.server.update(changed).spec.finalizers == ("kubernetes",)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_may_not_go(name: str) -> None:
    with pytest.raises(Forbidden) as caught:
        Box().server.delete(Namespace, "", name)
    assert caught.value.message == (
        f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    )


def test_preconditions_of_a_namespace() -> None:
    box = Box()
    team = box.server.create(Namespace(metadata=ObjectMeta(name="team")))
    with pytest.raises(Conflict) as caught:
        options = DeleteOptions(preconditions=Preconditions(uid="other"))
        box.server.delete(Namespace, "", "team", options)
    assert caught.value.message == (
        'Operation cannot be fulfilled on namespaces "team": Precondition failed: UID in '
        f"precondition: other, UID in object meta: {team.metadata.uid}"
    )
