"""Create and update: versions, conflicts, names, namespaces, generations, spec and status."""

import random

import pytest

from kcm_lite.api.apps import ReplicaSet, ReplicaSetStatus
from kcm_lite.api.core import ConfigMap, Event, Namespace, Node, Pod
from kcm_lite.api.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    InternalError,
    Invalid,
    MethodNotSupported,
    NotFound,
)
from kcm_lite.api.meta import DeleteOptions, ObjectMeta, replace
from kcm_lite.api.names import new_uid
from kcm_lite.api.request import Request
from kcm_lite.trace import ApiWrite
from tests.apiserver_support import Box, config, meta, pod, replica_set, with_meta


def test_every_change_of_every_kind_gets_the_next_version() -> None:
    server = Box().server
    first = server.create(config())
    second = server.create(replica_set())
    third = server.update(replace(first, data={"a": "1"}))
    versions = [int(obj.metadata.resource_version) for obj in (first, second, third)]
    assert versions == [versions[0], versions[0] + 1, versions[0] + 2]
    assert server.list(ConfigMap).resource_version == str(versions[2])


def test_a_write_from_an_old_version_is_refused_with_upstreams_words() -> None:
    server = Box().server
    old = server.create(replica_set())
    new = server.update(replace(old, spec=replace(old.spec, replicas=5)))
    with pytest.raises(Conflict) as caught:
        server.update(with_meta(old, labels={"a": "b"}))
    assert caught.value.message == (
        'Operation cannot be fulfilled on replicasets.apps "web": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert caught.value.code == 409
    assert server.get(ReplicaSet, "default", "web") is new


def test_a_write_without_version_overwrites() -> None:
    server = Box().server
    server.create(config())
    server.update(replace(config(), data={"n": "1"}))
    assert server.update(replace(config(), data={"n": "2"})).data == {"n": "2"}


def test_a_write_with_another_uid_is_refused() -> None:
    server = Box().server
    old = server.create(config())
    server.delete(ConfigMap, "default", "a")
    new = server.create(config())
    with pytest.raises(Conflict) as caught:
        server.update(with_meta(old, resource_version=new.metadata.resource_version))
    assert caught.value.message == (
        'Operation cannot be fulfilled on configmaps "a": StorageError: invalid object, Code: 4, '
        "Key: /registry/configmaps/default/a, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {old.metadata.uid}, "
        f"UID in object meta: {new.metadata.uid}"
    )


def test_a_write_that_changes_nothing_is_not_stored() -> None:
    box = Box()
    stored = box.server.create(config())
    events = box.watch(ConfigMap, resource_version=stored.metadata.resource_version)
    assert box.server.update(stored) is stored
    rebuilt = with_meta(config(), uid=stored.metadata.uid)  # equal, though another object
    assert box.server.update(rebuilt) is stored
    assert events == []
    last = list(box.trace.of(ApiWrite, resource="configmaps"))[-1]
    assert (last.code, last.old, last.new) == (200, stored, stored)


@pytest.mark.parametrize(
    "field",
    [
        {"generation": 7},
        {"creation_timestamp": None},
        {"deletion_timestamp": None},
        {"uid": ""},
    ],
)
def test_an_update_cannot_change_what_the_server_owns(field: dict[str, object]) -> None:
    server = Box().server
    stored = server.create(config())
    assert server.update(with_meta(stored, **field)) is stored


def test_generation_counts_changes_of_the_spec_only() -> None:
    server = Box().server
    rs = server.create(replica_set())
    seen = [rs.metadata.generation]
    rs = server.update(with_meta(rs, annotations={"a": "b"}))
    seen.append(rs.metadata.generation)
    rs = server.update(replace(rs, status=ReplicaSetStatus(replicas=3)), subresource="status")
    seen.append(rs.metadata.generation)
    rs = server.update(replace(rs, spec=replace(rs.spec, replicas=4)))
    seen.append(rs.metadata.generation)
    assert seen == [1, 1, 1, 2]


def test_spec_and_status_are_written_apart() -> None:
    server = Box().server
    rs = server.create(replace(replica_set(), status=ReplicaSetStatus(replicas=9)))
    assert rs.status == ReplicaSetStatus(), "a creator cannot set the status"
    both = replace(rs, spec=replace(rs.spec, replicas=5), status=ReplicaSetStatus(replicas=2))
    rs = server.update(both, subresource="status")
    assert (rs.spec.replicas, rs.status.replicas) == (3, 2)
    rs = server.update(replace(rs, spec=replace(rs.spec, replicas=5), status=ReplicaSetStatus()))
    assert (rs.spec.replicas, rs.status.replicas) == (5, 2)


def test_a_stale_status_write_is_refused() -> None:
    server = Box().server
    rs = server.create(replica_set())
    server.update(with_meta(rs, labels={"a": "b"}))
    with pytest.raises(Conflict):
        server.update(replace(rs, status=ReplicaSetStatus(replicas=1)), subresource="status")


def test_defaults_are_filled_in() -> None:
    stored = Box().server.create(pod())
    assert stored.spec.restart_policy == "Always"
    assert stored.spec.termination_grace_period_seconds == 30
    assert stored.status.phase == "Pending"
    assert stored.metadata.generation == 1
    assert stored.metadata.creation_timestamp is not None


def test_a_create_names_every_field_that_is_wrong() -> None:
    server = Box().server
    with pytest.raises(Invalid) as caught:
        server.create(replace(replica_set("Web"), spec=replace(replica_set().spec, replicas=-1)))
    assert caught.value.message.startswith('ReplicaSet.apps "Web" is invalid: [')
    assert {cause.field for cause in caught.value.causes} == {"metadata.name", "spec.replicas"}
    assert not server.list(ReplicaSet).items


def test_a_refused_write_leaves_no_trace_in_the_store_but_one_in_the_log() -> None:
    box = Box()
    before = box.server.store.revision
    with pytest.raises(NotFound):
        box.server.update(config("missing"))
    refusal = list(box.trace.of(ApiWrite))[-1]
    assert (refusal.verb, refusal.name, refusal.code) == ("update", "missing", 404)
    assert refusal.message == 'configmaps "missing" not found'
    assert box.server.store.revision == before


# --- names and namespaces


def test_generated_names_use_the_safe_alphabet_and_differ() -> None:
    server = Box().server
    named = [server.create(pod("", generate_name="web-")) for _ in range(200)]
    names = {p.metadata.name for p in named}
    assert len(names) == 200
    assert all(set(name[4:]) <= set("bcdfghjklmnpqrstvwxz2456789") for name in names)
    assert all(len(name) == 9 and name.startswith("web-") for name in names)


def test_a_long_prefix_is_cut() -> None:
    name = Box().server.create(pod("", generate_name="x" * 80)).metadata.name
    assert len(name) == 63


class Rigged(random.Random):
    """Draws the same suffix over and over, ``same`` times; then others."""

    def __init__(self, same: int) -> None:
        super().__init__(0)
        self.left = same * 5

    def random(self) -> float:
        self.left -= 1
        return 0.0 if self.left >= 0 else super().random()


def test_a_generated_name_that_is_taken_is_drawn_again_up_to_eight_times() -> None:
    box = Box()
    for tries, lucky in ((8, True), (9, False)):
        box.server.registry.rng = Rigged(same=tries)
        prefix = f"p{tries}-"
        box.server.create(pod("", generate_name=prefix))
        if lucky:
            assert (
                box.server.create(pod("", generate_name=prefix)).metadata.name != prefix + "bbbbb"
            )
        else:
            with pytest.raises(AlreadyExists) as caught:
                box.server.create(pod("", generate_name=prefix))
            assert caught.value.message == (
                f'pods "{prefix}bbbbb" already exists, the server was not able to generate a '
                "unique name for the object"
            )


def test_a_taken_name() -> None:
    server = Box().server
    server.create(config(finalizers=("example.com/x",)))
    with pytest.raises(AlreadyExists, match=r'^configmaps "a" already exists$'):
        server.create(config())
    server.delete(ConfigMap, "default", "a")
    with pytest.raises(AlreadyExists) as caught:
        server.create(config())
    assert caught.value.message == 'object is being deleted: configmaps "a" already exists'


def test_uids_are_uuids_of_version_4_and_follow_the_seed() -> None:
    import uuid

    rng = random.Random(3)
    for _ in range(100):
        made = uuid.UUID(new_uid(rng))
        assert made.version == 4 and made.variant == uuid.RFC_4122
    assert new_uid(random.Random(1)) == new_uid(random.Random(1))
    assert new_uid(random.Random(1)) != new_uid(random.Random(2))


def test_names_in_two_namespaces_do_not_meet() -> None:
    server = Box().server
    server.create(config())
    other = replace(config(), metadata=ObjectMeta(namespace="kube-system", name="a"))
    server.create(other)
    assert len(server.list(ConfigMap).items) == 2
    assert len(server.list(ConfigMap, "default").items) == 1


@pytest.mark.parametrize(
    ("namespace", "body", "error", "message"),
    [
        ("", ConfigMap(metadata=ObjectMeta(name="a")), BadRequest, "an empty namespace may not"),
        ("kube-system", config(), BadRequest, "the namespace of the provided object does not"),
        ("nowhere", ConfigMap(metadata=ObjectMeta(name="a")), NotFound, 'namespaces "nowhere"'),
        ("default", config(resource_version="1"), InternalError, "resourceVersion should not"),
        ("default", ConfigMap(), Invalid, "metadata.name: Required value"),
    ],
)
def test_creates_that_make_no_sense(
    namespace: str, body: ConfigMap, error: type[Exception], message: str
) -> None:
    server = Box().server
    with pytest.raises(error, match=message):
        server.handle(Request(verb="create", type=ConfigMap, namespace=namespace, body=body))
    assert not server.list(ConfigMap).items


def test_the_request_fills_in_the_namespace() -> None:
    server = Box().server
    body = ConfigMap(metadata=ObjectMeta(name="a"))
    made = server.handle(Request(verb="create", type=ConfigMap, namespace="default", body=body))
    assert made.metadata.namespace == "default"


def test_an_update_fills_in_the_namespace_or_refuses_another_one() -> None:
    server = Box().server
    stored = server.create(config())

    def put(body: ConfigMap) -> ConfigMap:
        request = Request(verb="update", type=ConfigMap, namespace="default", name="a", body=body)
        done: ConfigMap = server.handle(request)
        return done

    assert put(with_meta(stored, namespace="")) is stored
    with pytest.raises(BadRequest, match="does not match the namespace sent on the request"):
        put(with_meta(stored, namespace="kube-system"))


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    server = Box().server
    node = server.create(Node(metadata=ObjectMeta(name="node-1")))
    assert node.metadata.namespace == ""
    assert server.get(Node, "", "node-1") is node


def test_name_in_body_and_in_request_must_agree() -> None:
    server = Box().server
    server.create(config())
    with pytest.raises(BadRequest) as caught:
        server.handle(
            Request(verb="update", type=ConfigMap, namespace="default", name="a", body=config("b"))
        )
    assert caught.value.message == (
        "the name of the object (b) does not match the name on the URL (a)"
    )


# --- verbs and subresources that do not exist


@pytest.mark.parametrize(
    ("verb", "kind", "subresource", "error"),
    [
        ("update", ConfigMap, "status", NotFound),
        ("get", ConfigMap, "scale", NotFound),
        ("create", ReplicaSet, "binding", NotFound),
        ("update", Pod, "finalize", NotFound),
        ("update", Pod, "nonsense", NotFound),
        ("update", Pod, "binding", MethodNotSupported),
        ("dance", Pod, "", MethodNotSupported),
    ],
)
def test_unknown_verbs_and_subresources(
    verb: str, kind: type, subresource: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        Box().server.handle(
            Request(verb=verb, type=kind, namespace="default", name="a", subresource=subresource)
        )


def test_the_first_namespaces_exist() -> None:
    names = [n.metadata.name for n in Box().server.list(Namespace).items]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]


def test_lists_are_in_the_order_of_their_keys() -> None:
    server = Box().server
    for name in ("b", "c", "a"):
        server.create(config(name))
    server.create(replace(config("z"), metadata=ObjectMeta(namespace="kube-public", name="z")))
    assert [o.metadata.name for o in server.list(ConfigMap).items] == ["a", "b", "c", "z"]


# --- the record


def test_the_log_tells_who_did_what() -> None:
    box = Box()
    server = box.server
    made = server.create(config(), agent="alice")
    changed = server.update(replace(made, data={"a": "1"}), agent="bob")
    server.patch(ConfigMap, "default", "a", {"data": {"b": "2"}}, agent="carol")
    options = DeleteOptions(grace_period_seconds=0)
    server.delete(ConfigMap, "default", "a", options, agent="dave")
    log = list(box.trace.of(ApiWrite, resource="configmaps"))
    assert [(w.agent, w.verb, w.code) for w in log] == [
        ("alice", "create", 201),
        ("bob", "update", 200),
        ("carol", "patch", 200),
        ("dave", "delete", 200),
    ]
    assert log[0].old is None and log[0].new is made
    assert log[1].old is made and log[1].new is changed
    assert log[2].patch == {"data": {"b": "2"}}
    assert log[3].new is None and log[3].options is options


def test_a_refused_create_with_a_generated_name_is_logged_under_its_prefix() -> None:
    box = Box()
    bad = replace(pod("", generate_name="web-"), spec=replace(pod().spec, containers=()))
    with pytest.raises(Invalid):
        box.server.create(bad)
    refusal = list(box.trace.of(ApiWrite))[-1]
    assert (refusal.name, refusal.code, refusal.new) == ("web-", 422, None)


def test_a_server_without_trace_works() -> None:
    box = Box()
    box.server.registry.trace = None
    box.server.create(config())
    with pytest.raises(NotFound):
        box.server.delete(ConfigMap, "default", "b")


def test_same_seed_same_names_and_uids() -> None:
    def run(seed: int) -> list[ObjectMeta]:
        server = Box(seed=seed).server
        return [server.create(pod("", generate_name="web-")).metadata for _ in range(20)]

    assert run(5) == run(5)
    assert run(5) != run(6)


def test_events_are_objects_like_others() -> None:
    server = Box().server
    event = Event(
        metadata=meta("e"), involved_object=replace(Event().involved_object, namespace="default")
    )
    assert server.create(event).metadata.name == "e"
