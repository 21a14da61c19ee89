# Generated from book/07b_victims.ipynb by tools/tangle.py; edit it there.

"""Which pods go first when there are too many.

See: chapter *ReplicaSet*; upstream ``controller.ActivePodsWithRanks`` and ``getPodsToDelete``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cmp_to_key

import msgspec

from kcm_lite.api.core import Pod
from kcm_lite.api.golang import parse_int
from kcm_lite.reconcile.podutil import is_pod_active, is_pod_ready, pod_ready_condition

# %% book/07b_victims.ipynb#5a122a68
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def deletion_cost(pod: Pod) -> int:
    """Return what it would cost to lose the pod, as its annotation says; 0 if that is no int32.

    ``+10``, ``008`` and numbers with spaces around them are no numbers here.
    """
    text = pod.metadata.annotations.get(DELETION_COST)
    if not text or not (text[0] in "-123456789" or text == "0"):
        return 0
    try:
        return parse_int(text, 32)
    except ValueError:
        return 0


def max_container_restarts(pod: Pod) -> tuple[int, int]:
    """Return the most restarts of any container, and of any sidecar.

    A sidecar is an init container whose own restart policy is Always.
    """
    status = pod.status
    regular = max((c.restart_count for c in status.container_statuses), default=0)
    if not status.init_container_statuses:
        return max(regular, 0), 0
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    counts = [c.restart_count for c in status.init_container_statuses if c.name in sidecars]
    return max(regular, 0), max(counts, default=0)


# %% book/07b_victims.ipynb#b54a7144
def logarithmic_rank(age_ns: int) -> int:
    """Return the whole part of log2 of an age in nanoseconds; -1 for one that is not positive.

    Two ages of the same rank count as equal: among pods of about the same age, chance decides,
    so that a set that is scaled down again and again does not lose its youngest each time.
    """
    if age_ns <= 0:
        return -1
    fraction, exponent = math.frexp(float(age_ns))  # Go's Log2, with its rounding
    if fraction == 0.5:
        return exponent - 1
    return int(math.log(fraction) * (1 / math.log(2)) + exponent)


def nanoseconds(span: timedelta) -> int:
    """Return a span of time as a whole number of nanoseconds, as ``time.Duration`` has it."""
    return ((span.days * 86400 + span.seconds) * 1_000_000 + span.microseconds) * 1000


# %% book/07b_victims.ipynb#b9f6f1da
@dataclass(frozen=True, slots=True)
class VictimRules:
    """What the order depends on, besides the pods.

    Attributes:
        now: Ages are measured from here; None compares times without a logarithm.
        pod_deletion_cost: Look at the annotation (gate PodDeletionCost).
        logarithmic_scale_down: Ages of the same log2 rank are equal (gate LogarithmicScaleDown).
        sidecar_restarts: Restarts of sidecars count after those of other containers (not in 1.22).
    """

    now: datetime | None
    pod_deletion_cost: bool = True
    logarithmic_scale_down: bool = True
    sidecar_restarts: bool = True


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A pod, and what the order looks at, smaller first.

    Attributes:
        head: Assigned to a node, phase, ready, deletion cost, minus the pods on the same node.
        restarts: Minus the restarts of containers and of sidecars.
        ready_rank: How long it has been ready, as a rank; None: compare without one.
        created_rank: Likewise for its age.
    """

    pod: Pod
    head: tuple[bool, int, bool, int, int]
    restarts: tuple[int, int]
    ready_since: datetime | None
    ready_rank: int | None
    created: datetime | None
    created_rank: int | None
    uid: str


# %% book/07b_victims.ipynb#39e352cc
def candidates(pods: Sequence[Pod], ranks: Sequence[int], rules: VictimRules) -> list[Candidate]:
    """Look once at everything the order needs of each pod.

    Args:
        pods: The pods to order.
        ranks: For each pod, how many related pods share its node.
        rules: See `VictimRules`.
    """
    known: dict[datetime, int] = {}  # many pods share a second

    def rank(t: datetime | None) -> int | None:
        if t is None or rules.now is None or not rules.logarithmic_scale_down:
            return None
        if t not in known:
            known[t] = logarithmic_rank(nanoseconds(rules.now - t))
        return known[t]

    found = []
    for pod, related in zip(pods, ranks, strict=True):
        meta, condition = pod.metadata, pod_ready_condition(pod)
        ready = condition is not None and condition.status == "True"
        since = condition.last_transition_time if condition is not None and ready else None
        phase = PHASES.get(pod.status.phase, 0)
        cost = deletion_cost(pod) if rules.pod_deletion_cost else 0
        restarts, sidecars = max_container_restarts(pod)
        head = (pod.spec.node_name != "", phase, ready, cost, -related)
        tail = (-restarts, -sidecars if rules.sidecar_restarts else 0)
        created = meta.creation_timestamp
        found.append(
            Candidate(pod, head, tail, since, rank(since), created, rank(created), meta.uid)
        )
    return found


# %% book/07b_victims.ipynb#7d175ed2
def compare(a: Candidate, b: Candidate) -> int:
    """Return a negative number if ``a`` goes before ``b``, a positive one if after, else 0."""
    if a.head != b.head:
        return -1 if a.head < b.head else 1
    if a.ready_since != b.ready_since:  # both are ready, or neither has a time
        return _younger_first(a, b, a.ready_since, a.ready_rank, b.ready_since, b.ready_rank)
    if a.restarts != b.restarts:
        return -1 if a.restarts < b.restarts else 1
    if a.created != b.created:
        return _younger_first(a, b, a.created, a.created_rank, b.created, b.created_rank)
    return 0


def _younger_first(
    a: Candidate,
    b: Candidate,
    a_time: datetime | None,
    a_rank: int | None,
    b_time: datetime | None,
    b_rank: int | None,
) -> int:
    """Compare two different times: none at all, then the later rank; within a rank, by UID."""
    if a_time is None or b_time is None:
        return -1 if a_time is None else 1
    if a_rank is None or b_rank is None:
        return -1 if a_time > b_time else 1
    if a_rank != b_rank:
        return a_rank - b_rank
    return (a.uid > b.uid) - (a.uid < b.uid)


def order_of_victims(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates, the first to go first.

    The relation is not transitive: within a rank the UID decides, across ranks it does not. So
    which of several possible orders comes out may depend on the order that goes in.
    """
    return sorted(candidates, key=cmp_to_key(compare))


# %% book/07b_victims.ipynb#b2d11463
def ranks_of_pods_on_same_node(pods: Iterable[Pod], related: Iterable[Pod]) -> list[int]:
    """Return for each pod how many active related pods are on its node."""
    on_node = Counter(pod.spec.node_name for pod in related if is_pod_active(pod))
    return [on_node[pod.spec.node_name] for pod in pods]


def get_pods_to_delete(
    pods: Sequence[Pod], related: Iterable[Pod], diff: int, rules: VictimRules
) -> list[Pod]:
    """Return the ``diff`` pods that go. When all go, nobody asks in which order.

    Args:
        pods: The active pods of the set; at least ``diff``.
        related: The pods of all sets with the same controller, these included.
        diff: How many are too many.
        rules: See `VictimRules`.
    """
    if diff >= len(pods):
        return list(pods)
    order = order_of_victims(candidates(pods, ranks_of_pods_on_same_node(pods, related), rules))
    return [candidate.pod for candidate in order[:diff]]


# %% book/07b_victims.ipynb#c8b1933b
def age_ratios(pods: Iterable[Pod], victims: Iterable[Pod], now: datetime) -> list[int]:
    """Return how many times as old as the youngest ready pod each ready victim is, rounded down.

    There is no answer while the youngest is less than a millisecond old.
    """

    def ages(some: Iterable[Pod]) -> list[int]:
        born = [pod.metadata.creation_timestamp for pod in some if is_pod_ready(pod)]
        return [(now - t) // timedelta(milliseconds=1) for t in born if t is not None]

    youngest = min(ages(pods), default=0)
    return [age // youngest for age in ages(victims)] if youngest else []


# %% book/07b_victims.ipynb#533f350f
@dataclass(frozen=True, slots=True)
class Reason:
    """Why one candidate goes before another.

    Attributes:
        criterion: Which of the eight decided, from 1; 0 if none did.
        text: The same in words.
    """

    criterion: int
    text: str


def reason(a: Candidate, b: Candidate, now: datetime) -> Reason:
    """Say why ``a`` goes before ``b``.

    Args:
        a: The one that goes.
        b: The one that stays, or goes later.
        now: Ages are told from here.
    """
    other = b.pod.metadata.name
    if a.head != b.head:
        return _reason_of_head(a, b, other)
    if a.ready_since != b.ready_since:
        tie = a.ready_rank is not None and a.ready_rank == b.ready_rank
        return Reason(6, _times("ready", other, a.ready_since, b.ready_since, tie, now))
    if a.restarts != b.restarts:
        i = 0 if a.restarts[0] != b.restarts[0] else 1
        what = ("restarts", "sidecar restarts")[i]
        return Reason(7, f"{-a.restarts[i]} {what}; {other} has {-b.restarts[i]}")
    if a.created != b.created:
        tie = a.created_rank is not None and a.created_rank == b.created_rank
        return Reason(8, _times("alive", other, a.created, b.created, tie, now))
    return Reason(0, f"like {other} in everything: the order of the cache decides")


# %% book/07b_victims.ipynb#6c50a74b
def _reason_of_head(a: Candidate, b: Candidate, other: str) -> Reason:
    """Say which of the first five criteria decided."""
    i = next(i for i, (x, y) in enumerate(zip(a.head, b.head, strict=True)) if x != y)
    texts = (
        f"has no node; {other} has one",
        f"is {a.pod.status.phase or 'without phase'}; {other} is {b.pod.status.phase}",
        f"is not ready; {other} is",
        f"deletion cost {a.head[3]}; {other} costs {b.head[3]}",
        f"{-a.head[4]} related pods on its node; {other} has {-b.head[4]}",
    )
    return Reason(i + 1, texts[i])


def _times(
    what: str, other: str, a: datetime | None, b: datetime | None, tie: bool, now: datetime
) -> str:
    """Compare two different times in words."""
    if a is None or b is None:
        return f"has no time since when it is {what}; {other} has one"
    mine, its = ((now - t).total_seconds() for t in (a, b))
    rest = ": the same log2, so the lower UID goes" if tie else ""
    return f"{what} for {mine:.0f} s; {other} for {its:.0f} s{rest}"
