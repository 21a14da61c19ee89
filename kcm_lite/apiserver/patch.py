# Generated from book/04b_admission_and_the_wire.ipynb by tools/tangle.py; edit it there.

"""Three ways to say what should change: merge patch, strategic merge patch, JSON patch.

See: chapter *Admission and the wire*; RFC 7386, RFC 6902, and upstream
``k8s.io/apimachinery/pkg/util/strategicpatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcm_lite.api.errors import BadRequest, Invalid
from kcm_lite.api.meta import Object, OpenStruct, Struct, replace
from kcm_lite.api.request import Request
from kcm_lite.api.serial import DecodeError, convert, decode, encode, to_wire
from kcm_lite.apiserver.registry import Registry, find, write
from kcm_lite.apiserver.store import Table


# %% book/04b_admission_and_the_wire.ipynb#ff88f2fe
def merge_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` changed by a merge patch: null removes, maps merge, the rest replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


# %% book/04b_admission_and_the_wire.ipynb#c169bcdc
MERGE_KEYS: dict[str, str] = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "metadata.finalizers": "",
    "ownerReferences": "uid",
    "podCIDRs": "",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "spec.ports": "port",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""The lists that merge, and the field that identifies an item (empty: the item itself).

All other lists are replaced as a whole. See the ``patchMergeKey`` tags of ``k8s.io/api``.
"""


def merge_key(path: str) -> str | None:
    """Return the merge key of a list at ``parent.field``, or None if it is replaced whole."""
    return MERGE_KEYS.get(path, MERGE_KEYS.get(path.rpartition(".")[2]))


# %% book/04b_admission_and_the_wire.ipynb#0de8bd97
def strategic_merge(target: Mapping[str, Any], patch: Mapping[str, Any], at: str = "") -> Any:
    """Return ``target`` changed by a strategic merge patch; ``at`` is the field that holds it."""
    match patch.get("$patch"):
        case None | "merge":
            pass
        case "replace":
            return {k: v for k, v in patch.items() if k != "$patch"}
        case "delete":
            return {}
        case other:
            raise BadRequest(f"Unknown patch type: {other}")
    merged = dict(target)
    if "$retainKeys" in patch:
        merged = {k: v for k, v in merged.items() if k in patch["$retainKeys"]}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            merged[field] = [item for item in merged.get(field, ()) if item not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            merged[key] = strategic_merge(merged.get(key) or {}, value, key)
        elif isinstance(value, list | tuple):
            merged[key] = merge_lists(merged.get(key) or [], value, f"{at}.{key}")
        else:
            merged[key] = value
    for key, order in patch.items():
        if key.startswith("$setElementOrder/"):
            field = key.partition("/")[2]
            merged[field] = ordered(merged.get(field) or [], order, f"{at}.{field}")
    return merged


# %% book/04b_admission_and_the_wire.ipynb#a8258525
def merge_lists(target: Sequence[Any], patch: Sequence[Any], path: str) -> list[Any]:
    """Return a list changed by the list of a strategic merge patch."""
    key, field = merge_key(path), path.rpartition(".")[2]
    if any(isinstance(item, Mapping) and item.get("$patch") == "replace" for item in patch):
        return [i for i in patch if not (isinstance(i, Mapping) and i.get("$patch") == "replace")]
    if key is None:
        return list(patch)
    if not key:
        return list(dict.fromkeys([*target, *patch]))
    merged = list(target)
    for item in patch:
        if not isinstance(item, Mapping) or key not in item:
            raise BadRequest(f"map: {item} does not contain declared merge key: {key}")
        same = [i for i, old in enumerate(merged) if old.get(key) == item[key]]
        if item.get("$patch") == "delete":
            merged = [old for i, old in enumerate(merged) if i not in same]
        elif same:
            merged[same[0]] = strategic_merge(merged[same[0]], item, field)
        else:
            merged.append(strategic_merge({}, item, field))
    return merged


def ordered(items: list[Any], order: Sequence[Any], path: str) -> list[Any]:
    """Return the items as ``$setElementOrder`` wants them; items it does not name stay in front
    of what follows them."""
    key = merge_key(path)

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, Mapping) else item

    rank = {identity(item): i for i, item in enumerate(order)}
    named = sorted((i for i in items if identity(i) in rank), key=lambda i: rank[identity(i)])
    queue = iter(named)
    return [next(queue) if identity(item) in rank else item for item in items]


# %% book/04b_admission_and_the_wire.ipynb#2a4c96a3
class JSONPatchError(ValueError):
    """An operation of a JSON patch cannot be done."""


def json_patch(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Return a document changed by a JSON patch: add, remove, replace, move, copy, test."""
    for step in operations:
        op, path = step.get("op"), pointer(step.get("path"))
        if op in ("add", "replace", "test") and "value" not in step:
            raise JSONPatchError(f"{op} operation needs a value")
        match op:
            case "add":
                document = put(document, path, step["value"], insert=True)
            case "replace":
                look(document, path)
                document = put(document, path, step["value"], insert=False)
            case "remove":
                document = cut(document, path)
            case "copy":
                value = look(document, pointer(step.get("from")))
                document = put(document, path, value, insert=True)
            case "move":
                source = pointer(step.get("from"))
                value = look(document, source)
                document = put(cut(document, source), path, value, insert=True)
            case "test":
                if look(document, path) != step["value"]:
                    raise JSONPatchError(f"testing value {step['path']} failed")
            case _:
                raise JSONPatchError(f"unexpected kind: {op}")
    return document


# %% book/04b_admission_and_the_wire.ipynb#97fce4b7
def pointer(text: Any) -> list[str]:
    """Return the parts of a JSON pointer."""
    if not isinstance(text, str) or (text and text[0] != "/"):
        raise JSONPatchError(f"no JSON pointer: {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def place(items: Sequence[Any], part: str, *, end: bool) -> int:
    """Return the index that a pointer's part means in a list; ``-`` and the length are its end."""
    index = len(items) if part == "-" else int(part) if part.isdigit() else -1
    if not 0 <= index < len(items) + end:
        raise JSONPatchError(f"invalid index {part}")
    return index


def look(document: Any, path: Sequence[str]) -> Any:
    """Return what is at a path."""
    for part in path:
        if isinstance(document, Mapping) and part in document:
            document = document[part]
        elif isinstance(document, list | tuple):
            document = document[place(document, part, end=False)]
        else:
            raise JSONPatchError(f"missing path: {part}")
    return document


# %% book/04b_admission_and_the_wire.ipynb#8ca4a1a7
def put(document: Any, path: Sequence[str], value: Any, *, insert: bool) -> Any:
    """Return a copy of the document with ``value`` at a path; lists make room if ``insert``."""
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(document, Mapping):
        if rest and part not in document:
            raise JSONPatchError(f"missing path: {part}")
        return {**document, part: put(document.get(part), rest, value, insert=insert)}
    if not isinstance(document, list | tuple):
        raise JSONPatchError(f"missing path: {part}")
    index = place(document, part, end=insert and not rest)
    items = list(document)
    if rest or not insert:
        items[index] = put(items[index], rest, value, insert=insert)
    else:
        items.insert(index, value)
    return items


def cut(document: Any, path: Sequence[str]) -> Any:
    """Return a copy of the document without what is at a path."""
    if not path:
        raise JSONPatchError("the whole document cannot be removed")
    look(document, path)
    part, rest = path[0], path[1:]
    if isinstance(document, Mapping):
        if rest:
            return {**document, part: cut(document[part], rest)}
        return {key: value for key, value in document.items() if key != part}
    items, index = list(document), place(document, part, end=False)
    if rest:
        items[index] = cut(items[index], rest)
    else:
        del items[index]
    return items


# %% book/04b_admission_and_the_wire.ipynb#ed55af0d
def patch(reg: Registry, table: Table, request: Request) -> Object:
    """Change parts of an object, or of its status.

    Raises:
        NotFound: There is none of that name.
        Conflict: The patch names a version that is not the stored one.
        BadRequest, Invalid: The patch makes no sense, or its result is wrong.
    """
    old = find(table, request.namespace, request.name)
    return write(reg, table, request, old, patched(old, request.patch_type, request.body))


def patched(old: Object, patch_type: str, body: Any) -> Any:
    """Return the object that a patch makes of ``old``."""
    if patch_type not in PATCHES:
        raise BadRequest(f"unknown patch type: {patch_type!r}")
    if not well_formed(patch_type, body):
        raise BadRequest(f"cannot read a {patch_type} patch from {type(body).__name__}")
    apply = PATCHES[patch_type]
    if patch_type != "json" and all(
        isinstance(change, Mapping) and isinstance(getattr(old, key, None), Struct | OpenStruct)
        for key, change in body.items()
    ):
        return replace(old, **{key: part(old, key, apply, body[key]) for key in body})
    try:
        return decode(apply(encode(old), body, ""), type(old))
    except JSONPatchError as error:
        message = "the server rejected our request due to an error in our request"
        raise Invalid(message) from error


# %% book/04b_admission_and_the_wire.ipynb#57a702d5
def part(old: Object, key: str, apply: Apply, change: Mapping[str, Any]) -> Any:
    """Return one part of an object (metadata, spec, status) changed; the same one if equal."""
    was = getattr(old, key)
    try:
        new = convert(apply(to_wire(was), change, key), type(was))
    except DecodeError as error:
        raise error.inside(key) from None
    return was if new == was else new


def well_formed(patch_type: str, body: Any) -> bool:
    """Whether a patch is a list of operations (json) or a map (the others)."""
    if patch_type != "json":
        return isinstance(body, Mapping)
    return isinstance(body, list | tuple) and all(isinstance(step, Mapping) for step in body)


Apply = Callable[[Any, Any, str], Any]
# How each type of patch changes a target, which is found at a field.
PATCHES: dict[str, Apply] = {
    "merge": lambda target, change, at: merge_patch(target, change),
    "strategic": strategic_merge,
    "json": lambda target, change, at: json_patch(target, change),
}
