"""Whether a workload got where its spec wants it: complete, progressing or failing."""

from __future__ import annotations

from typing import Any

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.batch import Job, is_condition_true
from kcm_lite.api.core import Pod, ReplicationController
from kcm_lite.api.meta import Object
from kcm_lite.controllers.rollout import deployment_complete

VERDICTS = ("complete", "progressing", "failing")
FAILURES = frozenset({"ReplicaFailure"})


def is_ready(obj: Any) -> bool:
    """Report whether the Ready condition of a pod or node is True."""
    return any(c.type == "Ready" and c.status == "True" for c in obj.status.conditions)


def verdict_of(obj: Object | None) -> str | None:
    """Return the verdict on an object, or None if there is none on its kind (or no object)."""
    if isinstance(obj, ReplicaSet | ReplicationController):
        return _replicas(obj)
    if isinstance(obj, Deployment):
        return _deployment(obj)
    if isinstance(obj, Job):
        return _job(obj)
    if isinstance(obj, Pod):
        return _pod(obj)
    return None


def _replicas(obj: ReplicaSet | ReplicationController) -> str:
    status: Any = obj.status
    if any(c.type in FAILURES and c.status == "True" for c in status.conditions):
        return "failing"
    wanted = 1 if obj.spec.replicas is None else obj.spec.replicas
    current = status.observed_generation >= obj.metadata.generation
    counts = (status.replicas, status.ready_replicas, status.available_replicas)
    return "complete" if current and counts == (wanted,) * 3 else "progressing"


def _job(job: Job) -> str:
    if is_condition_true(job, "Complete"):
        return "complete"
    failing = is_condition_true(job, "Failed") or is_condition_true(job, "FailureTarget")
    return "failing" if failing else "progressing"


def _deployment(d: Deployment) -> str:
    conditions = {c.type: c.status for c in d.status.conditions}
    if conditions.get("Progressing") == "False" or conditions.get("ReplicaFailure") == "True":
        return "failing"
    return "complete" if deployment_complete(d, d.status) else "progressing"


def _pod(pod: Pod) -> str:
    if pod.status.phase == "Failed":
        return "failing"
    return "complete" if pod.status.phase == "Succeeded" or is_ready(pod) else "progressing"
