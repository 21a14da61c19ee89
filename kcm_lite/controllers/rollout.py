# Generated from book/09_deployment.ipynb by tools/tangle.py; edit it there.

"""How many pods a rollout may have, and where: numbers only, no API.

>>> resolve_fenceposts("25%", "25%", 10)
(3, 2)

See: chapter *Deployment*; upstream ``pkg/controller/deployment/util`` and ``rolling.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from kcm_lite.api.apps import Deployment, DeploymentStatus, ReplicaSet
from kcm_lite.api.intstr import IntOrString, get_scaled_value_from_int_or_percent
from kcm_lite.api.validation.deployment import RECREATE, ROLLING_UPDATE


# %% book/09_deployment.ipynb#a84f8119
def int32(number: int) -> int:
    """Return a number as 32 bits keep it: Go's arithmetic wraps around."""
    return (number + 2**31) % 2**32 - 2**31


def resolve_fenceposts(
    max_surge: IntOrString | None, max_unavailable: IntOrString | None, desired: int
) -> tuple[int, int]:
    """Return how many pods a rollout may have too many, and how many too few.

    A percentage of ``desired`` is rounded up for the surge and down for the other. If both come
    out as zero nothing could ever move, so then one pod may be missing.

    Raises:
        ValueError: A text that is not a percentage.
    """
    surge, unavailable = (
        int32(get_scaled_value_from_int_or_percent(0 if value is None else value, desired, up))
        for value, up in ((max_surge, True), (max_unavailable, False))
    )
    return surge, 1 if surge == 0 and unavailable == 0 else unavailable


# %% book/09_deployment.ipynb#59ea5c6b
def wanted(obj: Deployment | ReplicaSet) -> int:
    """Return ``spec.replicas``."""
    return obj.spec.replicas or 0


def is_rolling_update(d: Deployment) -> bool:
    """Whether old pods give way little by little."""
    return d.spec.strategy.type == ROLLING_UPDATE


def fenceposts(d: Deployment) -> tuple[int, int]:
    """Return the two limits of a Deployment; zeros for one that does not roll or is unreadable."""
    rolling = d.spec.strategy.rolling_update
    if not is_rolling_update(d) or rolling is None:
        return 0, 0
    try:
        return resolve_fenceposts(rolling.max_surge, rolling.max_unavailable, wanted(d))
    except ValueError:
        return 0, 0  # validation does not let this in


def max_surge(d: Deployment) -> int:
    """Return how many pods there may be beyond the wanted number."""
    return fenceposts(d)[0]


def min_available(d: Deployment) -> int:
    """Return the floor: how many pods a rolling update must keep available."""
    return wanted(d) - max_unavailable(d) if is_rolling_update(d) else 0


def max_unavailable(d: Deployment) -> int:
    """Return how many of the wanted pods a rolling update may leave unavailable."""
    return min(fenceposts(d)[1], wanted(d))


# %% book/09_deployment.ipynb#690ef2e2
UNLIMITED = 2**31 - 1  # of a history limit or a deadline: there is none
EPOCH = datetime.fromtimestamp(0, UTC)


def age(rs: ReplicaSet) -> tuple[datetime, str]:
    """Return what sorts sets by age, the oldest first, and by name within a second."""
    meta = rs.metadata
    return meta.creation_timestamp or EPOCH, meta.name


def by_creation(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the sets, the oldest first."""
    return sorted(sets, key=age)


def active(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the sets that want pods."""
    return [rs for rs in sets if wanted(rs) > 0]


def total(sets: Iterable[ReplicaSet]) -> int:
    """Return how many pods these sets want together."""
    return int32(sum(wanted(rs) for rs in sets))


def available(sets: Iterable[ReplicaSet]) -> int:
    """Return how many available pods these sets report."""
    return sum(rs.status.available_replicas for rs in sets)


# %% book/09_deployment.ipynb#b3a2ff8f
def new_rs_new_replicas(d: Deployment, sets: Iterable[ReplicaSet], new: ReplicaSet) -> int:
    """Return how many pods the new set should want now.

    Args:
        d: The Deployment.
        sets: All its sets, the new one included.
        new: The set with the Deployment's template.

    Raises:
        ValueError: The strategy or its surge is unknown; validation does not let that in.
    """
    rolling, want, have = d.spec.strategy.rolling_update, wanted(d), wanted(new)
    if d.spec.strategy.type == RECREATE:
        return want
    if not is_rolling_update(d) or rolling is None:
        raise ValueError(f"deployment type {d.spec.strategy.type} isn't supported")
    surge = get_scaled_value_from_int_or_percent(rolling.max_surge, want, True)
    room = int32(want + int32(surge)) - total(sets)
    return have + min(room, want - have) if room > 0 else have


# %% book/09_deployment.ipynb#f112e5e7
def scale_down_steps(
    d: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet
) -> Iterator[tuple[int, int, str]]:
    """Yield which old sets to make smaller now: index in ``old``, new size, and why.

    Args:
        d: A Deployment that rolls.
        old: Its old sets that want pods, the oldest first.
        new: The set with its template.

    Raises:
        ValueError: A set reports more available pods than it wants; the steps before it stand.
    """
    sizes, floor = [wanted(rs) for rs in old], wanted(d) - max_unavailable(d)
    room = sum(sizes) + available([new]) - floor
    if room <= 0:
        return
    for i, rs in enumerate(old):
        sick = sizes[i] - rs.status.available_replicas
        if room <= 0:
            break
        if sick < 0:
            raise ValueError(f"{rs.metadata.name} has {-sick} pods more than it wants")
        if (go := min(sick, room)) > 0:
            room, sizes[i] = room - go, sizes[i] - go
            yield i, sizes[i], f"{sick} of its pods are not available anyway"
    spare = available([*old, new]) - floor
    for i in range(len(old)):
        if (go := min(sizes[i], spare)) > 0:
            yield i, sizes[i] - go, f"{spare} more are available than the promised {floor}"
            spare -= go


# %% book/09_deployment.ipynb#f112e501
def held_by(d: Deployment, old: Sequence[ReplicaSet], new: ReplicaSet) -> str:
    """Say which limits keep a rollout from its next step, or what it waits for; "": nothing."""
    sets, limits = [*old, new], []
    if wanted(new) < wanted(d):
        most = wanted(d) + max_surge(d)
        limits.append(f"maxSurge: {total(sets)} pods are wanted, at most {most} may be")
    if active(old):
        least, have = wanted(d) - max_unavailable(d), total(old) + available([new])
        limits.append(f"maxUnavailable: {have} are old or available, {least} must stay")
    if not limits and available([new]) < wanted(d):
        limits.append(f"{available([new])} of {wanted(d)} new pods are available")
    return "; ".join(limits)


# %% book/09_deployment.ipynb#1fdac613
def deployment_complete(d: Deployment, status: DeploymentStatus) -> bool:
    """Whether all wanted pods are of the new template and available, and there are no others."""
    counts = (status.updated_replicas, status.replicas, status.available_replicas)
    seen = status.observed_generation >= d.metadata.generation
    return seen and counts == (wanted(d),) * 3


def deployment_progressing(d: Deployment, status: DeploymentStatus) -> bool:
    """Whether a new status is better than the old: more new, ready or available, or fewer old."""
    old = d.status
    return (
        status.updated_replicas > old.updated_replicas
        or status.replicas - status.updated_replicas < old.replicas - old.updated_replicas
        or status.ready_replicas > old.ready_replicas
        or status.available_replicas > old.available_replicas
    )
