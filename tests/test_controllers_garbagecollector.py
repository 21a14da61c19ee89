"""The garbage collector against a real (simulated) API server."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.core import ConfigMap, Event
from kcm_lite.api.errors import NotFound
from kcm_lite.api.meta import DeleteOptions, ObjectMeta, OwnerReference
from kcm_lite.apiserver.server import APIServer
from kcm_lite.apiserver.transport import InMemoryTransport
from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.clock import VirtualClock
from kcm_lite.controllers.garbageattempts import NAME, GarbageCollector
from kcm_lite.controllers.garbagecollector import new_garbage_collector, run
from kcm_lite.trace import ApiWrite, Trace


class World:
    def __init__(self) -> None:
        self.clock, self.trace = VirtualClock(), Trace()
        self.server = APIServer(self.clock, trace=self.trace)
        wire = InMemoryTransport(self.server, self.clock, trace=self.trace)
        client = Client(wire, self.clock, agent=NAME, qps=0)
        informers = SharedInformerFactory(client, self.clock)
        self.gc: GarbageCollector = new_garbage_collector(client, informers, self.clock)
        informers.start()
        self.clock.run(informers.wait_for_cache_sync())
        run(self.gc)

    def make(self, name: str, *owners: ConfigMap, block: bool | None = None) -> ConfigMap:
        refs = tuple(
            OwnerReference(
                api_version="v1",
                kind="ConfigMap",
                name=o.metadata.name,
                uid=o.metadata.uid,
                block_owner_deletion=block,
            )
            for o in owners
        )
        meta = ObjectMeta(name=name, namespace="default", owner_references=refs)
        return self.server.create(ConfigMap(metadata=meta))

    def delete(self, name: str, policy: str) -> None:
        options = DeleteOptions(propagation_policy=policy)
        self.server.delete(ConfigMap, "default", name, options)

    def names(self) -> set[str]:
        return {x.metadata.name for x in self.server.list(ConfigMap, "default").items}

    def settle(self, seconds: float = 120) -> None:
        self.clock.run_for(seconds)


def reachable(edges: dict[int, list[int]], top: int) -> set[int]:
    """What loses its last owner when ``top`` goes, owners having been created first."""
    gone = {top}
    for child in sorted(edges):
        if edges[child] and all(owner in gone for owner in edges[child]):
            gone.add(child)
    return gone


FORESTS = st.integers(2, 8).flatmap(
    lambda n: st.fixed_dictionaries(
        {i: st.lists(st.integers(0, max(i - 1, 0)), unique=True, max_size=2) for i in range(n)}
    )
)


@settings(max_examples=40)
@given(FORESTS, st.sampled_from(["Background", "Foreground", "Orphan"]), st.booleans())
def test_what_is_left_is_what_still_has_an_owner(
    edges: dict[int, list[int]], policy: str, block: bool
) -> None:
    edges[0] = []
    world = World()
    made: dict[int, ConfigMap] = {}
    for child, owners in sorted(edges.items()):
        made[child] = world.make(f"n{child}", *(made[o] for o in owners), block=block)
    world.settle(5)
    world.delete("n0", policy)
    world.settle()
    gone = {0} if policy == "Orphan" else reachable(edges, 0)
    assert world.names() == {f"n{i}" for i in edges if i not in gone}
    for left in world.server.list(ConfigMap, "default").items:
        assert not left.metadata.finalizers
        assert {r.name for r in left.metadata.owner_references} <= world.names()


def test_a_dependent_made_after_its_owner_went_is_collected() -> None:
    world = World()
    owner = world.make("a")
    world.delete("a", "Background")
    world.settle(5)
    world.make("late", owner)
    world.settle()
    assert world.names() == set()


def test_a_finalizer_of_somebody_else_holds_the_cascade_until_it_is_gone() -> None:
    world = World()
    owner = world.make("a")
    world.make("b", owner, block=True)
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    world.server.patch(ConfigMap, "default", "b", held)
    world.settle(5)
    world.delete("a", "Foreground")
    world.settle()
    assert world.names() == {"a", "b"}
    world.server.patch(ConfigMap, "default", "b", {"metadata": {"finalizers": None}})
    world.settle()
    assert world.names() == set()


def test_a_busy_object_does_not_escape() -> None:
    world = World()
    owner = world.make("a")
    world.make("b", owner)
    world.settle(5)

    async def keep_writing() -> None:
        for i in range(20_000):
            try:
                world.server.patch(ConfigMap, "default", "b", {"data": {"i": str(i)}})
            except NotFound:
                return
            await world.clock.sleep(0.001)

    world.clock.spawn(keep_writing(), name="busy")
    world.delete("a", "Background")
    world.settle()
    assert world.names() == set()
    codes = [w.code for w in world.trace.of(ApiWrite, agent=NAME, verb="delete")]
    assert codes == [409, 200]


def test_an_owner_in_another_namespace_is_no_owner() -> None:
    world = World()
    meta = ObjectMeta(name="far", namespace="kube-system")
    far = world.server.create(ConfigMap(metadata=meta))
    world.settle(5)
    world.make("near", far)
    world.settle()
    assert world.names() == set()
    (event,) = world.server.list(Event, "default").items
    assert event.reason == "OwnerRefInvalidNamespace"
    assert event.message == (
        f"ownerRef [v1/ConfigMap, namespace: default, name: far, uid: {far.metadata.uid}]"
        ' does not exist in namespace "default"'
    )


def test_a_reference_to_an_unknown_kind_is_retried_and_nothing_is_deleted() -> None:
    world = World()
    ref = OwnerReference(api_version="example.com/v1", kind="Widget", name="w", uid="uid-w")
    meta = ObjectMeta(name="b", namespace="default", owner_references=(ref,))
    world.server.create(ConfigMap(metadata=meta))
    world.settle()
    assert world.names() == {"b"}


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_a_circle_ends(policy: str) -> None:
    world = World()
    x = world.make("x")
    y = world.make("y", x, block=True)
    ref = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "y",
        "uid": y.metadata.uid,
        "blockOwnerDeletion": True,
    }
    world.server.patch(ConfigMap, "default", "x", {"metadata": {"ownerReferences": [ref]}})
    world.settle(5)
    world.delete("x", policy)
    world.settle()
    assert world.names() == set()
