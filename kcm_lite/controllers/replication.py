# Generated from book/07_replicaset.ipynb by tools/tangle.py; edit it there.

"""The ReplicationController controller: the ReplicaSet controller over the older kind.

See: chapter *ReplicaSet*; upstream ``pkg/controller/replication``.
"""

from __future__ import annotations

from kcm_lite.api.core import ReplicationController
from kcm_lite.api.selectors import NOTHING, selector_from_set
from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.client.metrics import Registry
from kcm_lite.clock import Clock
from kcm_lite.controllers.replicaset import (
    new_base_controller,
)
from kcm_lite.controllers.replicaset_types import (
    BURST_REPLICAS,
    TODAY,
    ReplicaSetController,
    ReplicaSetGates,
    WorkloadKind,
)
from kcm_lite.trace import Trace

# %% book/07_replicaset.ipynb#0bdbecd9
REPLICATION_CONTROLLER = WorkloadKind(
    type=ReplicationController,
    agent="replication-controller",
    queue="replicationmanager",
    selector=lambda rc: selector_from_set(rc.spec.selector) if rc.spec.selector else NOTHING,
    terminating_replicas=False,
    consistency=False,
)


# %% book/07_replicaset.ipynb#5e343009
def new_replication_manager(
    client: Client,
    informers: SharedInformerFactory,
    clock: Clock,
    *,
    burst_replicas: int = BURST_REPLICAS,
    gates: ReplicaSetGates = TODAY,
    trace: Trace | None = None,
    metrics: Registry | None = None,
) -> ReplicaSetController[ReplicationController]:
    """Build the ReplicationController controller; ``replicaset.run`` starts it."""
    return new_base_controller(
        REPLICATION_CONTROLLER,
        client,
        informers,
        clock,
        burst_replicas=burst_replicas,
        gates=gates,
        trace=trace,
        metrics=metrics,
    )
