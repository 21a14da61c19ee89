# Generated from book/09b_revisions_and_scaling.ipynb by tools/tangle.py; edit it there.

"""Who gets how much when a Deployment is scaled in the middle of a rollout: numbers only.

See: chapter *Revisions and scaling*; upstream ``GetReplicaSetProportion`` and ``scale``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.golang import parse_int
from kcm_lite.controllers.deployment_revisions import DESIRED_REPLICAS, MAX_REPLICAS, number_of
from kcm_lite.controllers.rollout import (
    active,
    by_creation,
    int32,
    max_surge,
    total,
    wanted,
)


# %% book/09b_revisions_and_scaling.ipynb#839bc2c7
def find_active_or_latest(new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """Return the only set that wants pods, or the latest if none does; None if several do."""
    every = [*old] if new is None else [*old, new]
    busy = active(every)
    if len(busy) > 1 or not every:
        return None
    return busy[0] if busy else new or by_creation(old)[-1]


def is_saturated(d: Deployment, new: ReplicaSet | None) -> bool:
    """Whether the new set has, and knows that it should have, every pod; all of them available."""
    if new is None:
        return False
    try:
        knows = int32(parse_int(new.metadata.annotations.get(DESIRED_REPLICAS, "")))
    except ValueError:
        return False
    return wanted(new) == knows == new.status.available_replicas == wanted(d)


# %% book/09b_revisions_and_scaling.ipynb#f6d8f9fe
def replica_set_fraction(d: Deployment, rs: ReplicaSet) -> int:
    """Return by how much a set would grow (below zero: shrink) if its share stayed the same."""
    have = wanted(rs)
    if wanted(d) == 0:
        return -have
    before = number_of(rs, MAX_REPLICAS) or d.status.replicas
    if before == 0:
        return 0
    share = int32(have * int32(wanted(d) + max_surge(d))) / before
    return math.trunc(share - 0.5 if share < 0 else share + 0.5) - have


def replica_set_proportion(d: Deployment, rs: ReplicaSet, to_add: int, added: int) -> int:
    """Return how many pods a set gets, of which no more may be left than ``to_add - added``.

    Args:
        d: The Deployment.
        rs: One of its sets.
        to_add: How many pods all sets together get; below zero, lose.
        added: How many of them the sets before this one got.
    """
    if wanted(rs) == 0 or to_add == 0 or to_add == added:
        return 0
    limit = min if to_add > 0 else max
    return limit(replica_set_fraction(d, rs), to_add - added)


# %% book/09b_revisions_and_scaling.ipynb#3e8d9138
def proportional_sizes(d: Deployment, sets: Sequence[ReplicaSet]) -> list[tuple[ReplicaSet, int]]:
    """Return the new size of every set, in the order in which they are to be written.

    The largest set comes first and gets what the rounding leaves over; of equal ones the newer
    when the Deployment grows, the older when it shrinks.
    """
    most = int32(wanted(d) + max_surge(d)) if wanted(d) > 0 else 0
    to_add = int32(most - total(sets))
    if to_add == 0 or not sets:
        return [(rs, wanted(rs)) for rs in sets]
    by_age = by_creation(sets)
    order = sorted(by_age[::-1] if to_add > 0 else by_age, key=wanted, reverse=True)
    sizes, added = [], 0
    for rs in order:
        share = replica_set_proportion(d, rs, to_add, added)
        sizes.append(int32(wanted(rs) + share))
        added += share
    sizes[0] = max(int32(sizes[0] + to_add - added), 0)
    return list(zip(order, sizes, strict=True))
