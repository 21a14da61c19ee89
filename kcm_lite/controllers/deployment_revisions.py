# Generated from book/09b_revisions_and_scaling.ipynb by tools/tangle.py; edit it there.

"""Which number a set of a Deployment has, and the annotations that go from one to the other.

See: chapter *Revisions and scaling*; upstream ``pkg/controller/deployment/util``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.golang import parse_int
from kcm_lite.api.meta import replace
from kcm_lite.api.validation.deployment import ROLLBACK_TO
from kcm_lite.controllers.rollout import int32, max_surge, wanted

# %% book/09b_revisions_and_scaling.ipynb#f3bad26e
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

NOT_COPIED = frozenset(
    {LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED_REPLICAS, MAX_REPLICAS, ROLLBACK_TO}
)
"""Annotations of a Deployment that its sets do not get."""


def revision(obj: Deployment | ReplicaSet) -> int | None:
    """Return the number in the annotation: 0 without one, None if it is no number."""
    text = obj.metadata.annotations.get(REVISION)
    try:
        return 0 if text is None else parse_int(text)
    except ValueError:
        return None


# %% book/09b_revisions_and_scaling.ipynb#2c3a35a4
def max_revision(sets: Iterable[ReplicaSet]) -> int:
    """Return the highest number, at least 0."""
    return max(0, 0, *(revision(rs) or 0 for rs in sets))


def next_revision(old: Iterable[ReplicaSet]) -> str:
    """Return the number for a new set: the one after all others, as 64 bits keep it."""
    return str((max_revision(old) + 1 + 2**63) % 2**64 - 2**63)


def last_revision(sets: Iterable[ReplicaSet]) -> int:
    """Return the second highest number, which is where an undo goes; 0 if there is none."""
    first = second = 0
    for number in map(revision, sets):
        if number is None:
            continue
        if number >= first:
            first, second = number, first
        elif number > second:
            second = number
    return second


# %% book/09b_revisions_and_scaling.ipynb#caa15a35
Annotations = Mapping[str, str]

MAX_HISTORY_LENGTH = 2000
"""Characters of the list of former revisions: about 100 of them."""


def set_new_replica_set_annotations(
    d: Deployment, rs: ReplicaSet, new: str, *, exists: bool, limit: int = MAX_HISTORY_LENGTH
) -> tuple[Annotations, bool]:
    """Return the annotations that the new set should have, and whether that is a change to write.

    Args:
        d: The Deployment: its annotations are copied to the set.
        rs: The set with its template.
        new: The number after the highest of all old sets; a higher one that is there stays.
        exists: Whether the set is there already; if not, it gets the size of the Deployment, too.
        limit: How long the list of its former numbers may become.
    """
    has = rs.metadata.annotations
    copied = {k: v for k, v in d.metadata.annotations.items() if k not in NOT_COPIED}
    out, old = {**has, **copied}, has.get(REVISION)
    try:
        grows = (parse_int(old) if old else 0) < parse_int(new)
    except ValueError:
        return out, False  # somebody wrote something else there; leave it alone
    if grows:
        out[REVISION] = new
        if old is not None:
            out[REVISION_HISTORY] = with_revision(has.get(REVISION_HISTORY, ""), old, limit)
    if not exists:
        out |= replicas_annotations(d)
    return (has, False) if out == has else (out, True)


# %% book/09b_revisions_and_scaling.ipynb#199e9363
def with_revision(history: str, old: str, limit: int) -> str:
    """Return a list of former revisions with one more; the first ones go if it gets too long."""
    numbers = history.split(",")
    if not numbers[0]:
        return old
    for start in range(len(numbers) + 1):
        longer = ",".join([*numbers[start:], old])
        if len(longer) <= limit:
            return longer
    return history


# %% book/09b_revisions_and_scaling.ipynb#e84a26bd
def replicas_annotations(d: Deployment) -> dict[str, str]:
    """Return the annotations that tell a set how large its Deployment is, and may become."""
    most = int32(wanted(d) + max_surge(d))
    return {DESIRED_REPLICAS: str(wanted(d)), MAX_REPLICAS: str(most)}


def number_of(rs: ReplicaSet, annotation: str) -> int | None:
    """Return the number in one of these annotations; None if it is not there or is none."""
    text = rs.metadata.annotations.get(annotation, "")
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 40 else -1
    return number if 0 <= number < 2**31 else None


def set_deployment_revision(d: Deployment, number: str) -> Deployment:
    """Return the Deployment with the number of its new set."""
    annotations = d.metadata.annotations
    if annotations.get(REVISION, "") == number:
        return d
    return replace(d, metadata=replace(d.metadata, annotations={**annotations, REVISION: number}))
