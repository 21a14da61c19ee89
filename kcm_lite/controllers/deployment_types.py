# Generated from book/09_deployment.ipynb by tools/tangle.py; edit it there.

"""What a Deployment controller is: its gates, its fields, and what one of its syncs works on.

See: chapter *Deployment*; upstream ``DeploymentController``.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import Object, object_key
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.informer import Cache
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import Clock
from kcm_lite.trace import Decision, Trace


# %% book/09_deployment.ipynb#b084fccf
@dataclass(frozen=True, slots=True)
class DeploymentGates:
    """What changed over the releases; by default as in v1.36.

    Attributes:
        terminating_replicas: Status counts pods on their way out
            (DeploymentReplicaSetTerminatingReplicas).
        scaled_from: Events say from how many pods a set was scaled, not only to how many.
    """

    terminating_replicas: bool = True
    scaled_from: bool = True


TODAY = DeploymentGates()  # as v1.36 has it
RELEASE_1_22 = DeploymentGates(terminating_replicas=False, scaled_from=False)

# %% book/09_deployment.ipynb#532aa9e5
AGENT = "deployment-controller"


@dataclass(slots=True, eq=False)
class DeploymentController:
    """The fields of the controller; its functions take it first.

    Attributes:
        client: For all that it reads live and writes.
        recorder: For events.
        deployments: The cache of the Deployments.
        sets: The cache of all replica sets.
        pods: The cache of all pods; only Recreate reads it.
        queue: The keys of Deployments that need a sync.
    """

    client: Client
    recorder: EventRecorder
    deployments: Cache[Deployment]
    sets: Cache[ReplicaSet]
    pods: Cache[Pod]
    queue: RateLimitingQueue[str]
    clock: Clock
    gates: DeploymentGates = TODAY
    trace: Trace | None = None


# %% book/09_deployment.ipynb#227ff87f
@dataclass(slots=True)
class View:
    """What one sync works on.

    Attributes:
        d: The Deployment as it was read, with what this sync has changed since. Its resource
            version stays the one that was read: a sync's second write of it is refused.
        sets: Its replica sets, the oldest first.
    """

    d: Deployment
    sets: list[ReplicaSet]


# %% book/09_deployment.ipynb#95d338aa
def decide(dc: DeploymentController, d: Deployment, what: str, obj: Object, reason: str) -> None:
    """Put a choice about ``obj`` and its reason into the trace."""
    if dc.trace is not None and dc.trace.detail:
        subject = f"{obj.KIND}/{object_key(obj)}"
        dc.trace.write(Decision(dc.clock.time(), AGENT, object_key(d), what, subject, reason))
