# Generated from book/11a_garbage_collection.ipynb by tools/tangle.py; edit it there.

"""One look at one node of the graph: what has lost its owners goes, what waits is let go.

See: chapter *Garbage collection*; upstream ``pkg/controller/garbagecollector``.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kcm_lite.api.errors import Conflict, NotFound
from kcm_lite.api.meta import DeleteOptions, Object, OwnerReference, Preconditions
from kcm_lite.api.scheme import BY_KIND, Resource
from kcm_lite.client.clientset import Client
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import Clock
from kcm_lite.controllers.garbagegraph import (
    Graph,
    Identity,
    Node,
    blocking_dependents,
    coordinates,
    process_delete,
    remember_absent,
)
from kcm_lite.reconcile.refmanager import release_patch
from kcm_lite.trace import Decision, Trace

# %% book/11a_garbage_collection.ipynb#f7f84693
NAME = "generic-garbage-collector"


# %% book/11a_garbage_collection.ipynb#a05c9fd6
class RestMappingError(Exception):
    """A reference to a kind that nobody knows (yet): tried again later."""


class NotObserved(RuntimeError):
    """The object exists but no watch has shown it yet: looked at again later."""


class NamespacedOwner(Exception):
    """A cluster-scoped object names a namespaced owner: an error that no retry can mend."""


@dataclass(slots=True)
class GarbageCollector:
    """The collector: a client, the graph, and the two queues."""

    client: Client
    clock: Clock
    graph: Graph
    attempt_to_delete: RateLimitingQueue[Node]
    attempt_to_orphan: RateLimitingQueue[Node]
    trace: Trace | None = None


# %% book/11a_garbage_collection.ipynb#6efda0a3
def resource_for(api_version: str, kind: str) -> Resource:
    """Return the resource of a kind.

    Raises:
        RestMappingError: Unknown kind.
    """
    try:
        return BY_KIND[api_version, kind]
    except KeyError:
        raise RestMappingError(f"unable to get REST mapping for {api_version}/{kind}.") from None


async def get_live(gc: GarbageCollector, who: Identity) -> Object:
    """Return the object as the server has it now.

    Raises:
        NotFound: It is gone, or another object has its name.
        NamespacedOwner: The kind is namespaced and no namespace is known.
    """
    resource = resource_for(who.api_version, who.kind)
    if resource.namespaced and not who.namespace:
        raise NamespacedOwner(str(who))
    live = await gc.client.get(
        resource.type, who.namespace if resource.namespaced else "", who.name
    )
    if live.metadata.uid != who.uid:
        raise NotFound(f'{resource.group_resource} "{who.name}" not found')
    return live


# %% book/11a_garbage_collection.ipynb#86cfe029
@dataclass(slots=True)
class References:
    """The owner references of one object, by what has become of the owners."""

    solid: list[OwnerReference]
    dangling: list[OwnerReference]
    waiting: list[OwnerReference]


async def classify_references(
    gc: GarbageCollector, item: Identity, refs: Iterable[OwnerReference]
) -> References:
    """Ask the server (or the memory of absent owners) about every owner."""
    found = References([], [], [])
    for ref in refs:
        owner = await live_owner(gc, item, ref)
        if owner is None:
            found.dangling.append(ref)
        elif (
            owner.metadata.deletion_timestamp and "foregroundDeletion" in owner.metadata.finalizers
        ):
            found.waiting.append(ref)
        else:
            found.solid.append(ref)
    return found


# %% book/11a_garbage_collection.ipynb#4687aebb
async def live_owner(gc: GarbageCollector, item: Identity, ref: OwnerReference) -> Object | None:
    """Return the owner that ``ref`` names, or None if there is none: a dangling reference."""
    if (
        coordinates(ref, "") in gc.graph.absent
        or coordinates(ref, item.namespace) in gc.graph.absent
    ):
        return None
    resource = resource_for(ref.api_version, ref.kind)
    owner = coordinates(ref, item.namespace if resource.namespaced else "")
    try:
        return await get_live(gc, owner)
    except NotFound:
        remember_absent(gc.graph, owner)
        return None


# %% book/11a_garbage_collection.ipynb#5aaad71b
async def attempt_to_delete(gc: GarbageCollector, node: Node) -> None:
    """Look at one node and delete its object if no owner is left.

    Raises:
        Exception: Anything that is worth another try; the queue retries with back-off.

    See: section *One look at one node*; upstream ``attemptToDeleteItem`` and its worker.
    """
    if node.virtual:
        known = gc.graph.nodes.get(node.identity.uid)
        if known is None or not known.virtual:
            return  # gone, or seen by a watch meanwhile
    if node.being_deleted and not node.deleting_dependents:
        return  # on its way out already; its dependents wake when it is gone
    try:
        latest = await get_live(gc, node.identity)
        if node.deleting_dependents:
            await process_deleting_dependents(gc, node)
        elif latest.metadata.owner_references:
            await collect(gc, node, latest)
    except NotFound:
        process_delete(gc.graph, node.identity, virtual=True)
        return
    except NamespacedOwner:
        return
    if node.virtual:
        raise NotObserved(f"{node} has not been observed via an informer yet")


# %% book/11a_garbage_collection.ipynb#aec9a14a
async def collect(gc: GarbageCollector, node: Node, latest: Object) -> None:
    """Decide by the owners of ``latest`` what becomes of it, and do it."""
    refs = await classify_references(gc, node.identity, latest.metadata.owner_references)
    lost = [ref.uid for ref in [*refs.dangling, *refs.waiting]]
    for ref in refs.dangling:
        decide(gc, node, "absent owner", f"{ref.kind}/{ref.name} is gone")
    if refs.solid:
        if lost:
            decide(
                gc,
                node,
                "keep",
                f"{len(refs.solid)} living owner(s); {len(lost)} reference(s) dropped",
            )
            await patch(gc, node.identity, release_patch(lost, node.identity.uid))
    elif refs.waiting and node.dependents:
        if any(dependent.deleting_dependents for dependent in node.dependents):
            await unblock_owners(gc, node)  # perhaps a circle: do not wait for each other
        await delete(
            gc, node, latest, "Foreground", "its owner waits, and it has dependents itself"
        )
    else:
        finalizers = latest.metadata.finalizers
        policy = "Orphan" if "orphan" in finalizers else "Background"
        policy = (
            "Foreground" if "foregroundDeletion" in finalizers and policy != "Orphan" else policy
        )
        why = "its owner waits for it" if refs.waiting else "no owner is left"
        await delete(gc, node, latest, policy, why)


# %% book/11a_garbage_collection.ipynb#85e782cc
async def delete(gc: GarbageCollector, node: Node, latest: Object, policy: str, why: str) -> None:
    """Delete ``latest`` if it is still what was looked at.

    A conflict is retried without the version if the owners are unchanged: a busy object (a pod
    whose status changes) must not escape the collector.
    """
    decide(gc, node, "collect", f"{why}: deleted with propagation {policy}")
    who, meta = node.identity, latest.metadata
    version: str | None = meta.resource_version
    while True:
        preconditions = Preconditions(uid=who.uid, resource_version=version)
        options = DeleteOptions(propagation_policy=policy, preconditions=preconditions)
        try:
            await gc.client.delete(type(latest), meta.namespace, meta.name, options)
            return
        except Conflict:
            if version is None:
                raise
            live = await get_live(gc, who)
            if live.metadata.owner_references != meta.owner_references:
                raise
            version = None


# %% book/11a_garbage_collection.ipynb#d895d6be
def decide(gc: GarbageCollector, node: Node, what: str, reason: str) -> None:
    """Record why a node is kept or deleted."""
    if gc.trace is not None and gc.trace.detail:
        who = node.identity
        subject = (
            f"{who.kind}/{who.namespace}/{who.name}" if who.namespace else f"{who.kind}/{who.name}"
        )
        gc.trace.write(Decision(gc.clock.time(), NAME, str(who), what, subject, reason))


async def patch(gc: GarbageCollector, who: Identity, body: dict[str, Any]) -> None:
    """Send a strategic merge patch to the object ``who``."""
    kind = resource_for(who.api_version, who.kind).type
    await gc.client.patch(kind, who.namespace, who.name, body, patch_type="strategic")


async def unblock_owners(gc: GarbageCollector, node: Node) -> None:
    """Take ``blockOwnerDeletion`` off all references of ``node``."""
    refs = [
        {
            "apiVersion": r.api_version,
            "kind": r.kind,
            "name": r.name,
            "uid": r.uid,
            "blockOwnerDeletion": False,
        }
        for r in node.owners
        if r.block_owner_deletion
    ]
    if refs:
        decide(gc, node, "unblock", f"perhaps a circle; owners set free: {len(refs)}")
        await patch(
            gc, node.identity, {"metadata": {"uid": node.identity.uid, "ownerReferences": refs}}
        )


# %% book/11a_garbage_collection.ipynb#1d23bdfb
async def process_deleting_dependents(gc: GarbageCollector, node: Node) -> None:
    """Let a foreground owner go when nothing blocks it; queue what still does."""
    blocking = blocking_dependents(node)
    blocked = f"blocked by {len(blocking)} of {len(node.dependents)} dependents"
    decide(gc, node, "wait" if blocking else "finalizer", blocked)
    if not blocking:
        await remove_finalizer(gc, node.identity, "foregroundDeletion")
    for dependent in blocking:
        if not dependent.deleting_dependents:
            gc.attempt_to_delete.add(dependent)


async def attempt_to_orphan(gc: GarbageCollector, node: Node) -> None:
    """Take the owner's reference off all its dependents, then its finalizer.

    Raises:
        ExceptionGroup: Some dependents could not be patched; tried again later.
    """
    owner = node.identity
    decide(gc, node, "orphan", f"dependents that stay: {len(node.dependents)}")
    results = await asyncio.gather(
        *(
            patch(gc, dependent.identity, release_patch([owner.uid], dependent.identity.uid))
            for dependent in node.dependents
        ),
        return_exceptions=True,
    )
    failures = [r for r in results if isinstance(r, Exception) and not isinstance(r, NotFound)]
    if failures:
        raise ExceptionGroup(f"failed to orphan dependents of owner {owner}", failures)
    await remove_finalizer(gc, owner, "orphan")


# %% book/11a_garbage_collection.ipynb#9e6ced63
async def remove_finalizer(gc: GarbageCollector, owner: Identity, finalizer: str) -> None:
    """Take ``finalizer`` off the owner; on a conflict read again, up to four times."""
    delay = 0.01
    for attempt in range(4):
        try:
            live = (await get_live(gc, owner)).metadata
        except NotFound:
            return
        if finalizer not in live.finalizers:
            return
        rest = [f for f in live.finalizers if f != finalizer]
        body = {"metadata": {"resourceVersion": live.resource_version, "finalizers": rest}}
        kind = resource_for(owner.api_version, owner.kind).type
        try:
            await gc.client.patch(kind, owner.namespace, owner.name, body, patch_type="merge")
            return
        except NotFound:
            return
        except Conflict:
            if attempt == 3:
                raise
            await gc.clock.sleep(delay)
            delay *= 5
