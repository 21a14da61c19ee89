# Generated from book/91_pods.ipynb by tools/tangle.py; edit it there.

"""How many pods of each state a controller's objects have, without looking at each pod.

See: appendix *Pods for controllers*.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from kcm_lite.api.core import Pod
from kcm_lite.api.memo import by_identity
from kcm_lite.api.meta import OwnerReference, controller_of, object_key
from kcm_lite.client.cache import key_of
from kcm_lite.client.informer import SharedInformer
from kcm_lite.reconcile.podutil import TERMINAL, pod_controller_index_key, pod_ready_condition

# %% book/91_pods.ipynb#f503295b
ACTIVE, TERMINATING, ENDED = "active", "terminating", "ended"


class PodState(NamedTuple):
    """All of a pod that its owner's status depends on.

    Attributes:
        labels: Its labels.
        phase: ACTIVE, TERMINATING (being deleted, not ended) or ENDED.
        ready: Whether it is ready.
        since: Since when it is ready, if it is and says so.
    """

    labels: frozenset[tuple[str, str]]
    phase: str
    ready: bool
    since: datetime | None


@by_identity
def _label_set(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())  # pods of one template share their labels


def state_of(pod: Pod) -> PodState:
    """Return what counts of a pod."""
    meta, condition = pod.metadata, pod_ready_condition(pod)
    phase = ENDED
    if pod.status.phase not in TERMINAL:
        phase = ACTIVE if meta.deletion_timestamp is None else TERMINATING
    ready = condition is not None and condition.status == "True"
    since = condition.last_transition_time if condition is not None and ready else None
    return PodState(_label_set(meta.labels), phase, ready, since)


# %% book/91_pods.ipynb#a15a866e
class PodTally:
    """Counts the pods of every owner of one ``kind``, and each namespace's orphans, by state."""

    __slots__ = ("_counts", "_kind", "_pods")

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._counts: dict[str, dict[PodState, int]] = {}  # by the owner's key in the pod index
        self._pods: dict[str, tuple[str, PodState]] = {}  # where each pod was counted

    def put(self, pod: Pod) -> None:
        """Count a pod as it is now, and no longer as it was."""
        ref, now = controller_of(pod), None
        if ref is None or ref.kind == self._kind:
            now = pod_controller_index_key(pod.metadata.namespace, ref), state_of(pod)
        self._move(object_key(pod), now)

    def remove(self, key: str) -> None:
        """Count a pod no longer."""
        self._move(key, None)

    def _move(self, key: str, now: tuple[str, PodState] | None) -> None:
        before = self._pods.pop(key, None)
        if now is not None:
            self._pods[key] = now
        if before == now:
            return
        for place, change in ((before, -1), (now, 1)):
            if place is not None:
                owner, state = place
                counts = self._counts.setdefault(owner, {})
                counts[state] = counts.get(state, 0) + change
                if not counts[state]:
                    del counts[state]

    def of(self, namespace: str, ref: OwnerReference | None) -> Mapping[PodState, int]:
        """Return the counts of one owner's pods, or of a namespace's orphans."""
        return self._counts.get(pod_controller_index_key(namespace, ref), {})


# %% book/91_pods.ipynb#b030daeb
def keep_tally(informer: SharedInformer[Pod], kind: str) -> PodTally:
    """Return a tally that follows an informer; subscribe later handlers after this one."""
    tally = PodTally(kind)
    informer.add_event_handler(
        lambda pod, initial: tally.put(pod),
        lambda old, cur: tally.put(cur),
        lambda gone: tally.remove(key_of(gone)),
    )
    return tally
