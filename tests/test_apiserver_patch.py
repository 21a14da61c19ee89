"""Patches: merge, strategic merge, JSON; and what a patch may do to a stored object."""

from typing import Any

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import ConfigMap, Pod
from kcm_lite.api.errors import BadRequest, Conflict, Invalid, NotFound
from kcm_lite.api.meta import OwnerReference, replace
from kcm_lite.apiserver.patch import JSONPatchError, json_patch, merge_patch, strategic_merge
from tests.apiserver_support import Box, bind, config, pod, replica_set, with_meta

# --- merge patch: the cases of RFC 7386, appendix A


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


# --- strategic merge


def owners(*uids: str) -> list[dict[str, Any]]:
    return [{"uid": uid, "name": uid.upper()} for uid in uids]


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        pytest.param({"a": 1}, {"a": None, "b": 2}, {"b": 2}, id="as a merge patch"),
        pytest.param(
            {"metadata": {"ownerReferences": owners("a")}},
            {"metadata": {"ownerReferences": [{"uid": "a", "controller": True}]}},
            {"metadata": {"ownerReferences": [{"uid": "a", "name": "A", "controller": True}]}},
            id="an item with the same key merges",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": owners("a")}},
            {"metadata": {"ownerReferences": owners("b")}},
            {"metadata": {"ownerReferences": owners("a", "b")}},
            id="an item with a new key joins at the end",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": owners("a", "b")}},
            {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "a"}]}},
            {"metadata": {"ownerReferences": owners("b")}},
            id="$patch delete takes an item out",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": owners("b")}},
            {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "a"}]}},
            {"metadata": {"ownerReferences": owners("b")}},
            id="$patch delete of what is not there",
        ),
        pytest.param(
            {},
            {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "a"}]}},
            {"metadata": {"ownerReferences": []}},
            id="$patch delete in a list that is not there",
        ),
        pytest.param(
            {"metadata": {"ownerReferences": owners("a")}},
            {"metadata": {"ownerReferences": [{"$patch": "replace"}, *owners("c")]}},
            {"metadata": {"ownerReferences": owners("c")}},
            id="$patch replace swaps the list",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["b", "c"]}},
            {"metadata": {"finalizers": ["a", "b", "c"]}},
            id="finalizers add up",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}},
            {"metadata": {"finalizers": ["b"]}},
            id="finalizers are taken off by name",
        ),
        pytest.param(
            {"spec": {"finalizers": ["a"]}},
            {"spec": {"finalizers": ["b"]}},
            {"spec": {"finalizers": ["b"]}},
            id="finalizers of a namespace's spec are replaced",
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r"}]}},
            id="conditions merge by type",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="tolerations are replaced",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}},
            {"spec": {"containers": [{"name": "a", "image": "2", "env": [{"name": "X"}]}]}},
            {
                "spec": {
                    "containers": [
                        {"name": "a", "image": "2", "env": [{"name": "X"}]},
                        {"name": "b"},
                    ]
                }
            },
            id="containers merge by name",
        ),
        pytest.param(
            {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}]},
            {"containers": [{"name": "a", "ports": [{"containerPort": 80, "protocol": "UDP"}]}]},
            {
                "containers": [
                    {
                        "name": "a",
                        "ports": [{"containerPort": 80, "name": "x", "protocol": "UDP"}],
                    }
                ]
            },
            id="ports of a container merge by containerPort",
        ),
        pytest.param(
            {"spec": {"ports": [{"port": 80, "name": "x"}]}},
            {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
            {"spec": {"ports": [{"port": 80, "name": "x", "targetPort": 8080}]}},
            id="ports of a service merge by port",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}},
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                    "containers": [{"name": "a", "image": "2"}],
                }
            },
            {"spec": {"containers": [{"name": "b"}, {"name": "a", "image": "2"}, {"name": "c"}]}},
            id="$setElementOrder orders what it names",
        ),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
            id="$retainKeys drops the rest",
        ),
        pytest.param(
            {"a": {"b": 1, "c": 2}},
            {"a": {"$patch": "replace", "d": 3}},
            {"a": {"d": 3}},
            id="$patch replace of a map",
        ),
        pytest.param({"a": {"b": 1}}, {"a": {"$patch": "delete"}}, {"a": {}}, id="$patch delete"),
        pytest.param(
            {},
            {"a": {"b": {"c": None, "d": 1}}},
            {"a": {"b": {"d": 1}}},
            id="nulls and directives do not reach a map that is new",
        ),
    ],
)
def test_strategic_merge(target: Any, patch: Any, result: Any) -> None:
    before = repr(target)
    assert strategic_merge(target, patch) == result
    assert repr(target) == before, "the target is not touched"


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"$patch": "explode"}, "Unknown patch type: explode"),
        (
            {"metadata": {"ownerReferences": [{"name": "x"}]}},
            "does not contain declared merge key: uid",
        ),
        ({"metadata": {"ownerReferences": ["x"]}}, "does not contain declared merge key: uid"),
    ],
)
def test_strategic_patches_that_make_no_sense(patch: Any, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        strategic_merge({}, patch)


# --- JSON patch: after RFC 6902, appendix A


@pytest.mark.parametrize(
    ("document", "operations", "result"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/b"}], {"a": 1}),
        ({"a": [1, 2, 3]}, [{"op": "remove", "path": "/a/1"}], {"a": [1, 3]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": 2}], {"a": 2}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 9}], {"a": [9, 2]}),
        ({"a": {"b": 1}, "c": {}}, [{"op": "move", "from": "/a/b", "path": "/c/d"}],
         {"a": {}, "c": {"d": 1}}),
        ({"a": [1, 2, 3]}, [{"op": "move", "from": "/a/0", "path": "/a/2"}], {"a": [2, 3, 1]}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}],
         {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a": "x"}, [{"op": "test", "path": "/a", "value": "x"}], {"a": "x"}),
        ({"a/b": 1, "c~d": 2}, [{"op": "replace", "path": "/a~1b", "value": 3},
                                {"op": "remove", "path": "/c~0d"}], {"a/b": 3}),
        ({"a": 1}, [{"op": "add", "path": "/b", "value": None}], {"a": 1, "b": None}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
        ({"a": [[1]]}, [{"op": "add", "path": "/a/0/0", "value": 0}], {"a": [[0, 1]]}),
    ],
)  # fmt: skip
def test_json_patch(document: Any, operations: Any, result: Any) -> None:
    before = repr(document)
    assert json_patch(document, operations) == result
    assert repr(document) == before, "the document is not touched"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/x"},
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "add", "path": "/list/-1", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "remove", "path": "/list/-"},
        {"op": "add", "path": "/number/x", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "test", "path": "/number", "value": 2},
        {"op": "copy", "from": "/x", "path": "/y"},
        {"op": "move", "path": "/y"},
        {"op": "move", "from": 5, "path": "/y"},
        {"op": "remove", "path": 5},
        {"op": "add", "path": "/y"},
        {"op": "remove", "path": ""},
        {"op": "dance", "path": "/number"},
        {"path": "/number"},
    ],
)
def test_json_patches_that_cannot_be_done(operation: Any) -> None:
    with pytest.raises(JSONPatchError):
        json_patch({"list": [1], "number": 1}, [operation])


# --- patches of stored objects


def test_a_merge_patch_changes_what_it_names() -> None:
    server = Box().server
    old = server.create(replica_set(labels={"a": "1", "b": "2"}))
    new = server.patch(
        ReplicaSet,
        "default",
        "web",
        {"metadata": {"labels": {"a": None, "c": "3"}}, "spec": {"replicas": 5}},
    )
    assert new.metadata.labels == {"b": "2", "c": "3"}
    assert new.spec.replicas == 5
    assert new.metadata.generation == 2
    assert new.spec.template == old.spec.template


def test_the_patches_of_controllers() -> None:
    server = Box().server
    child = server.create(pod(finalizers=("x.io/keep",)))
    owner = server.create(replica_set())
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    uid = child.metadata.uid
    adopt = {"metadata": {"ownerReferences": [reference], "uid": uid, "finalizers": ["x.io/job"]}}
    adopted = server.patch(Pod, "default", "a", adopt, patch_type="strategic")
    assert adopted.metadata.owner_references == (
        OwnerReference(
            api_version="apps/v1",
            kind="ReplicaSet",
            name="web",
            uid=owner.metadata.uid,
            controller=True,
            block_owner_deletion=True,
        ),
    )
    assert adopted.metadata.finalizers == ("x.io/keep", "x.io/job")
    release = {
        "metadata": {
            "ownerReferences": [{"$patch": "delete", "uid": owner.metadata.uid}],
            "uid": uid,
            "$deleteFromPrimitiveList/finalizers": ["x.io/job"],
        }
    }
    released = server.patch(Pod, "default", "a", release, patch_type="strategic")
    assert released.metadata.owner_references == ()
    assert released.metadata.finalizers == ("x.io/keep",)


def test_a_patch_that_names_another_uid_is_invalid() -> None:
    server = Box().server
    server.create(pod())
    with pytest.raises(Invalid) as caught:
        server.patch(Pod, "default", "a", {"metadata": {"uid": "other", "labels": {"a": "b"}}})
    assert {cause.field for cause in caught.value.causes} == {"metadata.uid"}


def test_a_patch_that_names_a_version_must_name_the_right_one() -> None:
    server = Box().server
    old = server.create(config())
    new = server.update(replace(old, data={"a": "1"}))
    for version, error in ((old, True), (new, False)):
        body = {"metadata": {"resourceVersion": version.metadata.resource_version},
                "data": {"b": "2"}}  # fmt: skip
        if error:
            with pytest.raises(Conflict):
                server.patch(ConfigMap, "default", "a", body)
        else:
            assert server.patch(ConfigMap, "default", "a", body).data == {"a": "1", "b": "2"}


def test_a_patch_without_effect_is_not_stored() -> None:
    box = Box()
    stored = box.server.create(config(labels={"a": "b"}))
    for body in ({}, {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"labels": {"x": None}}}):
        assert box.server.patch(ConfigMap, "default", "a", body) is stored


def test_a_patch_that_takes_the_last_finalizer_removes() -> None:
    box = Box()
    box.server.create(pod(finalizers=("x.io/a",)))
    marked = box.server.delete(Pod, "default", "a")
    last = box.server.patch(Pod, "default", "a", {"metadata": {"finalizers": None}})
    assert last.metadata.resource_version == marked.metadata.resource_version
    assert not box.server.list(Pod).items


def test_status_is_patched_through_its_subresource_only() -> None:
    server = Box().server
    server.create(replica_set())
    body = {"spec": {"replicas": 9}, "status": {"replicas": 2}}
    done = server.patch(ReplicaSet, "default", "web", body, subresource="status")
    assert (done.spec.replicas, done.status.replicas) == (3, 2)
    done = server.patch(ReplicaSet, "default", "web", {"status": {"replicas": 7}})
    assert done.status.replicas == 2


def test_a_pods_condition_is_patched_strategically() -> None:
    server = Box().server
    server.create(pod())
    bind(server, "a")
    body = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    done = server.patch(Pod, "default", "a", body, patch_type="strategic", subresource="status")
    assert [c.type for c in done.status.conditions] == ["PodScheduled", "Ready"]


def test_a_json_patch_of_a_stored_object() -> None:
    server = Box().server
    server.create(replica_set())
    steps = [
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "replace", "path": "/spec/replicas", "value": 4},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
    ]
    done = server.patch(ReplicaSet, "default", "web", steps, patch_type="json")
    assert (done.spec.replicas, done.metadata.labels) == (4, {"a": "b"})
    with pytest.raises(Invalid) as caught:
        server.patch(ReplicaSet, "default", "web", steps, patch_type="json")
    assert caught.value.message == "the server rejected our request due to an error in our request"


def test_carried_fields_survive_a_patch() -> None:
    server = Box().server
    container = replace(pod().spec.containers[0], extra={"env": [{"name": "X", "value": "1"}]})
    server.create(replace(pod(), spec=replace(pod().spec, containers=(container,))))
    done = server.patch(Pod, "default", "a", {"metadata": {"labels": {"a": "b"}}})
    assert done.spec.containers[0].extra == {"env": [{"name": "X", "value": "1"}]}


@pytest.mark.parametrize(
    ("patch_type", "body", "error", "message"),
    [
        ("merge", {"spec": {"replicas": "five"}}, BadRequest, "spec.replicas"),
        ("merge", {"spec": {"replicas": -1}}, Invalid, "must be greater than or equal to 0"),
        ("merge", {"metadata": {"name": "other"}}, Invalid, "field is immutable"),
        ("merge", {"spec": {"selector": {"matchLabels": {"a": "b"}}}}, Invalid, "spec.selector"),
        ("merge", [], BadRequest, "merge patch"),
        ("merge", None, BadRequest, "merge patch"),
        ("json", {}, BadRequest, "json patch"),
        ("json", "text", BadRequest, "json patch"),
        ("json", [1], BadRequest, "json patch"),
        ("yaml", {}, BadRequest, "unknown patch type"),
        ("", {}, BadRequest, "unknown patch type"),
    ],
)
def test_patches_that_make_no_sense(
    patch_type: str, body: Any, error: type[Exception], message: str
) -> None:
    server = Box().server
    old = server.create(replica_set())
    with pytest.raises(error, match=message):
        server.patch(ReplicaSet, "default", "web", body, patch_type=patch_type)
    assert server.get(ReplicaSet, "default", "web") is old


def test_what_is_not_there_cannot_be_patched() -> None:
    with pytest.raises(NotFound):
        Box().server.patch(ConfigMap, "default", "a", {})


def test_a_patch_of_what_is_going_keeps_the_mark() -> None:
    server = Box().server
    server.create(config(finalizers=("x.io/a",)))
    marked = server.delete(ConfigMap, "default", "a")
    done = server.patch(ConfigMap, "default", "a", {"metadata": {"deletionTimestamp": None}})
    assert done is marked
    assert with_meta(done, labels={}) == marked
