# Generated from book/11a_garbage_collection.ipynb by tools/tangle.py; edit it there.

"""The ownership graph: one node per object, built from watches alone.

See: chapter *Garbage collection*; upstream ``pkg/controller/garbagecollector/graph_builder.go``.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kcm_lite.api.meta import Object, ObjectMeta, OwnerReference


# %% book/11a_garbage_collection.ipynb#16cd2fd1
@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """What an owner reference says about an object, and the namespace it is looked for in."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        place = f"namespace: {self.namespace}, " if self.namespace else ""
        return f"[{self.api_version}/{self.kind}, {place}name: {self.name}, uid: {self.uid}]"


# %% book/11a_garbage_collection.ipynb#15a14ca2
@dataclass(slots=True, eq=False, repr=False)
class Node:
    """An object in the graph. ``virtual``: known only from a reference, not yet seen by a watch."""

    identity: Identity
    owners: tuple[OwnerReference, ...] = ()
    dependents: dict["Node", None] = field(default_factory=dict)  # a dict keeps the order
    virtual: bool = False
    being_deleted: bool = False
    deleting_dependents: bool = False  # deletion waits for the dependents (foreground)

    def __str__(self) -> str:
        return str(self.identity)

    __repr__ = __str__


def blocking_dependents(node: Node) -> list[Node]:
    """Return the dependents that the owner must wait for (``blockOwnerDeletion: true``)."""
    return [
        dep
        for dep in node.dependents
        for ref in dep.owners
        if ref.uid == node.identity.uid and ref.block_owner_deletion
    ]


# %% book/11a_garbage_collection.ipynb#9c50e846
ABSENT_OWNERS = 500  # how many absent owners are remembered, as upstream


@dataclass(slots=True)
class Graph:
    """Every object by UID, and whom to tell when one deserves a look."""

    attempt_to_delete: Callable[[Node], None]
    attempt_to_orphan: Callable[[Node], None]
    retry_delete: Callable[[Node], None]  # the same, later: rate limited
    invalid_namespace: Callable[[Node, OwnerReference], None]
    nodes: dict[str, Node] = field(default_factory=dict)
    absent: OrderedDict[Identity, None] = field(default_factory=OrderedDict)


def remember_absent(graph: Graph, owner: Identity) -> None:
    """Note that ``owner`` does not exist; forget the oldest such note when there are too many."""
    graph.absent[owner] = None
    graph.absent.move_to_end(owner)
    if len(graph.absent) > ABSENT_OWNERS:
        graph.absent.popitem(last=False)


def identity_of(obj: Object) -> Identity:
    """Return who ``obj`` is."""
    meta = obj.metadata
    return Identity(obj.KIND, obj.API_VERSION, meta.namespace, meta.name, meta.uid)


def coordinates(ref: OwnerReference, namespace: str) -> Identity:
    """Return who ``ref`` says its owner is, looked for in ``namespace``."""
    return Identity(ref.kind, ref.api_version, namespace, ref.name, ref.uid)


# %% book/11a_garbage_collection.ipynb#d17b1c2a
def add_to_owners(graph: Graph, node: Node, refs: tuple[OwnerReference, ...]) -> None:
    """Link ``node`` to its owners; make virtual ones; queue ``node`` if a reference looks wrong."""
    suspicious = False
    for ref in refs:
        owner = graph.nodes.get(ref.uid)
        if owner is None:
            owner = Node(coordinates(ref, node.identity.namespace), virtual=True)
            graph.nodes[ref.uid] = owner
            owner.dependents[node] = None
            graph.attempt_to_delete(owner)
            continue
        owner.dependents[node] = None
        if suspicious:
            continue
        home, here = owner.identity.namespace, node.identity.namespace
        if home and home != here:
            if not owner.virtual:
                graph.invalid_namespace(node, ref)
            suspicious = True
        else:
            wrong_name = not same_coordinates(ref, owner.identity)
            perhaps_namespaced = owner.virtual and not home and bool(here)
            suspicious = wrong_name or perhaps_namespaced
    if suspicious:
        graph.attempt_to_delete(node)


def same_coordinates(ref: OwnerReference, owner: Identity) -> bool:
    """Say whether ``ref`` names ``owner``; the namespace is not part of a reference."""
    return coordinates(ref, owner.namespace) == owner


# %% book/11a_garbage_collection.ipynb#c2c17b9e
def process_update(graph: Graph, old: Object | None, new: Object) -> None:
    """Take an added or changed object into the graph and queue what it wakes."""
    meta = new.metadata
    node = graph.nodes.get(meta.uid)
    if node is None:
        node = Node(
            identity_of(new),
            owners=meta.owner_references,
            being_deleted=meta.deletion_timestamp is not None,
            deleting_dependents=deletion_waits_for(meta, "foregroundDeletion"),
        )
        graph.nodes[meta.uid] = node
        add_to_owners(graph, node, node.owners)
    else:
        if node.virtual:
            node = observe(graph, node, identity_of(new))
        if node.owners != meta.owner_references:
            change_owners(graph, node, meta.owner_references)
        node.being_deleted = node.being_deleted or meta.deletion_timestamp is not None
    if meta.deletion_timestamp is not None:
        start_deletion(graph, old.metadata if old else None, meta, node)


# %% book/11a_garbage_collection.ipynb#69a5aa5d
def deletion_waits_for(meta: ObjectMeta, finalizer: str) -> bool:
    """Say whether the object is being deleted and ``finalizer`` holds it."""
    return meta.deletion_timestamp is not None and finalizer in meta.finalizers


def start_deletion(graph: Graph, old: ObjectMeta | None, new: ObjectMeta, node: Node) -> None:
    """Queue a node whose deletion has just begun to wait for orphaning or for its dependents."""

    def starts(finalizer: str) -> bool:
        return deletion_waits_for(new, finalizer) and not (
            old is not None and deletion_waits_for(old, finalizer)
        )

    if starts("orphan"):
        graph.attempt_to_orphan(node)
    elif starts("foregroundDeletion"):
        node.deleting_dependents = True
        for dependent in node.dependents:
            graph.attempt_to_delete(dependent)
        graph.attempt_to_delete(node)


# %% book/11a_garbage_collection.ipynb#d59ca6d4
def observe(graph: Graph, node: Node, seen: Identity) -> Node:
    """Turn a virtual node into a real one now that a watch has shown the object."""
    if node.identity != seen:
        for dependent in partition_dependents(node, seen)[1]:
            graph.attempt_to_delete(dependent)  # it refers to the owner by wrong coordinates
        node = replace(node, identity=seen, dependents=dict(node.dependents))
        graph.nodes[seen.uid] = node
    node.virtual = False
    return node


def change_owners(graph: Graph, node: Node, refs: tuple[OwnerReference, ...]) -> None:
    """Move ``node`` to its new owners and queue the owners that no longer wait for it."""
    old = {ref.uid: ref for ref in node.owners}
    new = {ref.uid: ref for ref in refs}
    for uid, ref in old.items():
        after = new.get(uid)
        unblocked = ref.block_owner_deletion and not (after and after.block_owner_deletion)
        if unblocked and (owner := graph.nodes.get(uid)):
            graph.attempt_to_delete(owner)
    node.owners = refs
    add_to_owners(graph, node, tuple(ref for ref in refs if ref.uid not in old))
    unlink(graph, node, (uid for uid in old if uid not in new))


def unlink(graph: Graph, node: Node, owners: Iterable[str]) -> None:
    """Take ``node`` off the dependents of the ``owners`` (UIDs)."""
    for uid in owners:
        if owner := graph.nodes.get(uid):
            owner.dependents.pop(node, None)


# %% book/11a_garbage_collection.ipynb#20bf5652
def process_delete(graph: Graph, gone: Identity, *, virtual: bool = False) -> None:
    """Take a deleted object out of the graph and queue its dependents and its waiting owners.

    ``virtual``: no watch said so, but the server has no such object (a virtual delete event).
    """
    node = graph.nodes.get(gone.uid)
    if node is None:
        return
    if virtual and not confirm_absence(graph, node, gone):
        return
    del graph.nodes[gone.uid]
    unlink(graph, node, (ref.uid for ref in node.owners))
    if node.dependents:
        remember_absent(graph, gone)
    for dependent in node.dependents:
        graph.attempt_to_delete(dependent)
    for ref in node.owners:
        owner = graph.nodes.get(ref.uid)
        if owner is not None and owner.deleting_dependents:
            graph.attempt_to_delete(owner)


# %% book/11a_garbage_collection.ipynb#d406e321
def confirm_absence(graph: Graph, node: Node, gone: Identity) -> bool:
    """Say whether ``node`` may leave the graph, now that the server has no object ``gone``.

    False when some dependents (or a watch) know the UID under other coordinates: tried next.
    """
    if not node.virtual and node.identity == gone:
        return True
    matching, other = partition_dependents(node, gone)
    if node.virtual and not other:
        return True
    if matching:
        remember_absent(graph, gone)
        for dependent in matching:
            graph.attempt_to_delete(dependent)
    if node.virtual and node.identity == gone:
        alternate = next_identity(other, gone)
        if alternate is not None:
            retry = replace(node, identity=alternate, dependents=dict(node.dependents))
            graph.nodes[gone.uid] = retry
            graph.retry_delete(retry)
    return False


# %% book/11a_garbage_collection.ipynb#711c1ad5
def partition_dependents(node: Node, owner: Identity) -> tuple[list[Node], list[Node]]:
    """Split the dependents into those that refer to ``owner`` exactly, and those that do not."""
    matching, other = [], []
    for dependent in node.dependents:
        refs = [ref for ref in dependent.owners if ref.uid == owner.uid]
        if owner.namespace and owner.namespace != dependent.identity.namespace:
            other.append(dependent)
            continue
        if any(same_coordinates(ref, owner) for ref in refs):
            matching.append(dependent)
        if not all(same_coordinates(ref, owner) for ref in refs):
            other.append(dependent)
    return matching, other


def next_identity(dependents: list[Node], absent: Identity) -> Identity | None:
    """Return the next description of the UID that the dependents use, in a fixed round."""
    found = set()
    for dependent in dependents:
        for ref in dependent.owners:
            if ref.uid != absent.uid:
                continue
            namespace = dependent.identity.namespace
            if not absent.namespace and (ref.kind, ref.api_version) == (
                absent.kind,
                absent.api_version,
            ):
                namespace = ""
            found.add(coordinates(ref, namespace))
    ordered = sorted(found - {absent})
    later = [identity for identity in ordered if identity > absent]
    return next(iter(later or ordered), None)
