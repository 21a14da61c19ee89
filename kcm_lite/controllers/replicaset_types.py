# Generated from book/07_replicaset.ipynb by tools/tangle.py; edit it there.

"""What a ReplicaSet controller is: its kind of object, its gates and its fields.

See: chapter *ReplicaSet*; upstream ``ReplicaSetController`` in ``pkg/controller/replicaset``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Pod, ReplicationController
from kcm_lite.api.selectors import Selector, label_selector_as_selector
from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import Cache
from kcm_lite.client.metrics import Registry, exponential_buckets
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import Clock
from kcm_lite.reconcile.consistency import ConsistencyStore
from kcm_lite.reconcile.expectations import UIDTrackingControllerExpectations
from kcm_lite.reconcile.podcontrol import PodControl
from kcm_lite.reconcile.podtally import PodState, PodTally
from kcm_lite.trace import Decision, Trace


# %% book/07_replicaset.ipynb#82411b8d
@dataclass(frozen=True, slots=True)
class ReplicaSetGates:
    """What changed over the releases; by default as in v1.36.

    Attributes:
        pod_deletion_cost: Victims are compared by their annotation (PodDeletionCost).
        logarithmic_scale_down: Ages are compared by their log2 (LogarithmicScaleDown).
        terminating_replicas: Status counts pods on their way out
            (DeploymentReplicaSetTerminatingReplicas).
        stale_controller_consistency: A sync waits for its own writes
            (StaleControllerConsistencyReplicaSet).
        next_availability_check: With minReadySeconds, look again when the next pod is due; without
            this, minReadySeconds later, and only if every pod is ready.
        sidecar_restarts: Victims are compared by the restarts of their sidecars, too.
    """

    pod_deletion_cost: bool = True
    logarithmic_scale_down: bool = True
    terminating_replicas: bool = True
    stale_controller_consistency: bool = True
    next_availability_check: bool = True
    sidecar_restarts: bool = True


TODAY = ReplicaSetGates()  # as v1.36 has it
RELEASE_1_22 = ReplicaSetGates(
    terminating_replicas=False,
    stale_controller_consistency=False,
    next_availability_check=False,
    sidecar_restarts=False,
)

# %% book/07_replicaset.ipynb#16c110da
Workload = ReplicaSet | ReplicationController
W = TypeVar("W", ReplicaSet, ReplicationController)


@dataclass(frozen=True, slots=True)
class WorkloadKind(Generic[W]):
    """What differs between the two kinds that this controller serves.

    Attributes:
        type: ReplicaSet or ReplicationController.
        agent: Who the controller is for the server, and in events.
        queue: Name of the work queue.
        selector: Which pods an object means; raises ``SelectorError``.
        terminating_replicas: Whether the status has such a field.
        consistency: Whether its syncs can wait for their own writes.
    """

    type: type[W]
    agent: str
    queue: str
    selector: Callable[[W], Selector]
    terminating_replicas: bool
    consistency: bool


REPLICA_SET = WorkloadKind(
    type=ReplicaSet,
    agent="replicaset-controller",
    queue="replicaset",
    selector=lambda rs: label_selector_as_selector(rs.spec.selector),
    terminating_replicas=True,
    consistency=True,
)


# %% book/07_replicaset.ipynb#cba906ba
class ReplicaSetMetrics:
    """What the controller counts; the queue counts for itself."""

    def __init__(self, registry: Registry) -> None:
        self.age_ratio = registry.histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            "The ratio of chosen deleted pod's ages to the current youngest pod's age (at the "
            "time). Should be <2. The intent of this metric is to measure the rough efficacy of "
            "the LogarithmicScaleDown feature gate's effect on the sorting (and deletion) of pods "
            "when a replicaset scales down. This only considers Ready pods when calculating and "
            "reporting.",
            bounds=exponential_buckets(0.25, 2, 6),
        ).with_labels()
        self.stale_syncs = registry.counter(
            "replicaset_controller_stale_sync_skips_total",
            "Total number of ReplicaSet syncs skipped due to a stale watch cache.",
            ("group", "resource"),
        )


# %% book/07_replicaset.ipynb#8c58037f
BURST_REPLICAS = 500


@dataclass(slots=True, eq=False)
class ReplicaSetController(Generic[W]):
    """The fields of the controller; its functions take it first.

    Attributes:
        kind: Which objects it works for; "set" means such an object from here on.
        client: For status writes and live reads.
        pod_control: For pods.
        sets: The cache of the sets.
        pods: The cache of all pods.
        tally: How many pods of each state every set has.
        queue: The keys of sets that need a sync.
        expectations: What it has created and deleted and not yet seen.
        consistency: What it has written and its caches have not yet seen.
        burst_replicas: How many pods one sync creates or deletes at most.
        metrics: Where it counts; None: nowhere.
    """

    kind: WorkloadKind[W]
    client: Client
    pod_control: PodControl
    sets: Cache[W]
    pods: Cache[Pod]
    tally: PodTally
    queue: RateLimitingQueue[str]
    expectations: UIDTrackingControllerExpectations
    consistency: ConsistencyStore
    clock: Clock
    burst_replicas: int = BURST_REPLICAS
    gates: ReplicaSetGates = TODAY
    trace: Trace | None = None
    metrics: ReplicaSetMetrics | None = None


# %% book/07_replicaset.ipynb#bdd1769a
@dataclass(frozen=True, slots=True)
class Found:
    """The pods of a set, as one sync sees them.

    Attributes:
        states: How many are in each state; those that have ended do not count.
        pods: The active ones, if somebody had to look at each.
    """

    states: Mapping[PodState, int]
    pods: list[Pod] | None = None

    def count(self, phase: str) -> int:
        """Return how many are ACTIVE, or TERMINATING."""
        return sum(n for state, n in self.states.items() if state.phase == phase)


def decide(
    rsc: ReplicaSetController[W], key: str, what: str, subject: str, reason: str, data: Any = None
) -> None:
    """Put a choice and its reason into the trace."""
    if rsc.trace is not None and rsc.trace.detail:
        decision = Decision(rsc.clock.time(), rsc.kind.agent, key, what, subject, reason, data)
        rsc.trace.write(decision)
