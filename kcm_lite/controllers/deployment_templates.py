# Generated from book/09a_sets_and_status.ipynb by tools/tangle.py; edit it there.

"""Which set belongs to a template: the same template finds it, a hash names it.

See: chapter *Deployment*; upstream ``EqualIgnoreHash``, ``ComputeHash``, ``FindNewReplicaSet``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.core import PodTemplateSpec
from kcm_lite.api.memo import by_identity
from kcm_lite.api.meta import LabelSelector, ObjectMeta, replace
from kcm_lite.api.names import safe_encode_string
from kcm_lite.api.serial import to_wire
from kcm_lite.controllers.rollout import new_rs_new_replicas
from kcm_lite.reconcile.podcontrol import new_controller_ref

# %% book/09a_sets_and_status.ipynb#564dab3a
HASH_LABEL = "pod-template-hash"


@by_identity
def comparable(template: PodTemplateSpec) -> Any:
    """Return a template as it is compared: without the hash label, an empty list being none."""
    meta = template.metadata
    labels = {k: v for k, v in meta.labels.items() if k != HASH_LABEL}
    return _pruned(to_wire(replace(template, metadata=replace(meta, labels=labels))))


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _pruned(v) for k, v in value.items() if v != []}
    return [_pruned(item) for item in value] if isinstance(value, list) else value


def equal_ignore_hash(a: PodTemplateSpec, b: PodTemplateSpec) -> bool:
    """Whether two templates make the same pods."""
    return a is b or bool(comparable(a) == comparable(b))


def compute_hash(template: PodTemplateSpec, collision_count: int | None) -> str:
    """Return a few letters that stand for a template; another count gives others."""
    text = json.dumps([comparable(template), collision_count], sort_keys=True)
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")
    return safe_encode_string(str(number))


# %% book/09a_sets_and_status.ipynb#12a6658d
def find_new_replica_set(d: Deployment, sets: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the oldest set with the Deployment's template; ``sets`` have the oldest first."""
    for rs in sets:
        if equal_ignore_hash(rs.spec.template, d.spec.template):
            return rs
    return None


def find_old_replica_sets(new: ReplicaSet | None, sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Return all sets but the new one."""
    return [rs for rs in sets if new is None or rs.metadata.uid != new.metadata.uid]


# %% book/09a_sets_and_status.ipynb#5744ba88
MAX_NAME_LENGTH = 253


def generate_replica_set_name(deployment: str, digest: str) -> str:
    """Return the set's name: the Deployment's, cut where it must be, and the hash."""
    room = MAX_NAME_LENGTH - 1 - len(digest)
    return f"{deployment[:room] if room > 0 else deployment}-{digest}"


def new_replica_set(d: Deployment, old: Sequence[ReplicaSet]) -> ReplicaSet:
    """Return the set for the Deployment's template, as large as it may be at first.

    Raises:
        ValueError: The strategy or its surge is unknown.
    """
    template, selector = d.spec.template, d.spec.selector or LabelSelector()
    digest = {HASH_LABEL: compute_hash(template, d.status.collision_count)}
    labels = {**template.metadata.labels, **digest}
    name = generate_replica_set_name(d.metadata.name, digest[HASH_LABEL])
    meta = ObjectMeta(
        name=name,
        namespace=d.metadata.namespace,
        labels=labels,
        owner_references=(new_controller_ref(d),),
    )
    rs = ReplicaSet(metadata=meta)
    spec = replace(
        rs.spec,
        replicas=0,
        min_ready_seconds=d.spec.min_ready_seconds,
        selector=replace(selector, match_labels={**selector.match_labels, **digest}),
        template=replace(template, metadata=replace(template.metadata, labels=labels)),
    )
    rs = replace(rs, spec=spec)
    size = new_rs_new_replicas(d, [*old, rs], rs)
    return replace(rs, spec=replace(spec, replicas=size))
