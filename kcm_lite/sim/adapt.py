"""Objects that were read from a living cluster, made fit for a new one.

``kubectl get -o yaml`` prints what the server added: versions, uids, status, the node of a pod. A
new cluster gives its own. Owner references are kept when the owner is among the objects, and
dropped otherwise: the garbage collector would take the object for an orphan and delete it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Object, OwnerReference, replace
from kcm_lite.sim.manifests import LIVE_UID, Inert

T = TypeVar("T", bound=Object)
Key = tuple[str, str, str, str]  # apiVersion, kind, namespace, name
FRESH: dict[str, Any] = {
    "uid": "",
    "resource_version": "",
    "generation": 0,
    "creation_timestamp": None,
    "deletion_timestamp": None,
    "deletion_grace_period_seconds": None,
    "managed_fields": (),
    "self_link": "",
}


def adapted(
    objects: Iterable[Object | Inert], nodes: Collection[str]
) -> tuple[list[Object | Inert], list[str]]:
    """Return the objects without what only the old server knew, owners before what they own.

    Args:
        objects: As they were read.
        nodes: Names of the nodes that there will be; a pod on another one is scheduled anew.

    Returns:
        The objects, and a line about each thing that was taken away.
    """
    every = list(objects)
    known = {_key(o): o for o in every if not isinstance(o, Inert)}
    lines: list[str] = []
    fresh: list[Object | Inert] = []
    for obj in every:
        if not isinstance(obj, Inert):
            obj = replace(obj, metadata=replace(obj.metadata, **FRESH))
            obj = _with_live_owners(obj, known, lines)
            obj = _on_a_known_node(obj, nodes, lines)
        fresh.append(obj)
    return sorted(fresh, key=lambda o: _depth(o, known)), lines


def _key(obj: Object) -> Key:
    return obj.API_VERSION, obj.KIND, obj.metadata.namespace, obj.metadata.name


def _owner_key(ref: OwnerReference, obj: Object, known: Collection[Key]) -> Key | None:
    """Return the key of an owner that is among the known objects."""
    for namespace in (obj.metadata.namespace, ""):
        key = (ref.api_version, ref.kind, namespace, ref.name)
        if key in known:
            return key
    return None


def _with_live_owners(obj: T, known: Collection[Key], lines: list[str]) -> T:
    refs = []
    for ref in obj.metadata.owner_references:
        if _owner_key(ref, obj, known) is not None:
            refs.append(replace(ref, uid=LIVE_UID))
        else:
            owner = f"{ref.kind}/{ref.name}"
            lines.append(f"{obj.KIND}/{obj.metadata.name}: its owner {owner} is not simulated")
    return replace(obj, metadata=replace(obj.metadata, owner_references=tuple(refs)))


def _on_a_known_node(obj: T, nodes: Collection[str], lines: list[str]) -> T:
    if not isinstance(obj, Pod) or not obj.spec.node_name or obj.spec.node_name in nodes:
        return obj
    lines.append(f"Pod/{obj.metadata.name}: its node {obj.spec.node_name} is not simulated")
    return replace(obj, spec=replace(obj.spec, node_name=""))


def _depth(obj: Object | Inert, known: dict[Key, Object], seen: tuple[Key, ...] = ()) -> int:
    """Return how many owners are above an object; those in a circle are at the top."""
    if isinstance(obj, Inert) or _key(obj) in seen:
        return 0
    above = 0
    for ref in obj.metadata.owner_references:
        key = _owner_key(ref, obj, known)
        if key is not None:
            above = max(above, 1 + _depth(known[key], known, (*seen, _key(obj))))
    return above
