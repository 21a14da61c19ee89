"""Canonical names for what a control plane makes up: pods, ReplicaSets, hashes, uids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm_lite.api.core import Event, Namespace, Node, Pod
from kcm_lite.api.meta import Object, controller_of

WITH_TEMPLATE = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
MADE_BY_OWNER = {"ReplicaSet": "rs", "Job": "job", "ControllerRevision": "cr", "Pod": "p"}
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"


class Change(NamedTuple):
    """A change that a watch would show."""

    t: float
    type: str
    object: Object


class Names:
    """Canonical names, by uid and inside texts.

    Attributes:
        of: uid to canonical name.
        owner: uid to canonical name of the controller that made it.
        by_slot: uids of pods whose number is that of a slot, not of creation.
    """

    def __init__(self, changes: list[Change], namespace: str) -> None:
        self.of: dict[str, str] = {}
        self.owner: dict[str, str] = {}
        self.by_slot: set[str] = set()
        self._mask = {namespace: "NS"}
        self._hashes: dict[str, str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        first: dict[str, Object] = {}
        for change in changes:
            if not isinstance(change.object, Event):
                first.setdefault(change.object.metadata.uid, change.object)
        for rank in range(4):
            for obj in first.values():
                if _rank(obj) == rank:
                    self._name(obj)
        self._compile(list(first.values()))

    def _name(self, obj: Object) -> None:
        meta, kind = obj.metadata, obj.KIND
        name = meta.name
        ref = controller_of(obj)
        if isinstance(obj, Namespace):
            name = "NS"
        elif ref is not None:
            base = self.of.get(ref.uid, ref.name)
            self.owner[meta.uid] = base
            index = meta.annotations.get(COMPLETION_INDEX)
            if kind == "Pod" and ref.kind == "DaemonSet":
                base += f"-{_wanted_node(obj)}"
                self.by_slot.add(meta.uid)
            elif kind == "Pod" and index is not None:
                base += f"-i{index}"
                self.by_slot.add(meta.uid)
            if kind in MADE_BY_OWNER and not (kind == "Pod" and ref.kind == "StatefulSet"):
                count = self._counts[kind, base] = self._counts.get((kind, base), 0) + 1
                name = f"{base}-{MADE_BY_OWNER[kind]}{count}"
        self.of[meta.uid] = name
        if name != meta.name:
            self._mask.setdefault(meta.name, name)
        value = meta.labels.get("pod-template-hash") or meta.labels.get("controller-revision-hash")
        if value and value not in self._hashes:
            self._hashes[value] = f"hash{len(self._hashes) + 1}"

    def _compile(self, objects: list[Object]) -> None:
        makers = {o.metadata.name for o in objects if o.KIND in WITH_TEMPLATE or o.KIND == "Job"}
        self._names = _any_of(self._mask)
        self._hash = _any_of(self._hashes, "(?<![0-9a-z])", "(?![0-9a-z])")
        self._unborn = _any_of(makers, r"(?<![\w-])", rf"(-\d+)?-{SUFFIX}(?![\w-])")

    def text(self, value: Any) -> Any:
        """Return a text with canonical names; anything else as it is."""
        if not isinstance(value, str):
            return value
        if self._unborn:  # a pod that was refused
            value = self._unborn.sub(
                lambda m: m[0] if m[0] in self._mask else f"{m[1]}{m[2] or ''}-p?", value
            )
        if self._names:
            value = self._names.sub(lambda m: self._mask[m[0]], value)
        if self._hash:
            value = self._hash.sub(lambda m: self._hashes[m[0]], value)
        value = TIMESTAMP.sub("TIME", value)
        return UID.sub(lambda m: f"UID({self.of.get(m[0], '?')})", value)

    def all(self, value: Any) -> Any:
        """Return a document with canonical names in all keys and texts."""
        if isinstance(value, Mapping):
            return {self.text(k): self.all(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.all(v) for v in value]
        return self.text(value)


def _rank(obj: Object) -> int:
    if isinstance(obj, Node):
        return 0
    return {"Job": 2, "ReplicaSet": 2, "ControllerRevision": 2, "Pod": 3}.get(obj.KIND, 1)


def _any_of(words: Any, before: str = "", after: str = "") -> re.Pattern[str] | None:
    ordered = sorted(words, key=lambda w: (-len(w), w))
    if not ordered:
        return None
    return re.compile(before + "(" + "|".join(map(re.escape, ordered)) + ")" + after)


def _wanted_node(obj: Object) -> str:
    assert isinstance(obj, Pod)
    terms = obj.spec.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]  # type: ignore[index]
    return str(terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
