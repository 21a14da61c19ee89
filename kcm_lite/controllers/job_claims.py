# Generated from book/08c_job_pods.ipynb by tools/tangle.py; edit it there.

"""Which pods are a Job's, and what becomes of pods whose Job is gone.

See: chapter *Job*; upstream ``getPodsForJob`` and ``syncOrphanPod``.
"""

from __future__ import annotations

from typing import Any

from kcm_lite.api.batch import JOB_CONTROLLER, TRACKING_FINALIZER, Job, is_job_finished
from kcm_lite.api.core import Pod
from kcm_lite.api.errors import NotFound
from kcm_lite.api.meta import controller_of, object_key, replace
from kcm_lite.api.selectors import (
    Selector,
    SelectorError,
    label_selector_as_selector,
    parse_selector,
)
from kcm_lite.client.cache import NAMESPACE_INDEX
from kcm_lite.controllers.job_handlers import resolve_controller_ref
from kcm_lite.controllers.job_pods import has_tracking_finalizer
from kcm_lite.controllers.job_tracking import REMOVE_FINALIZER
from kcm_lite.controllers.job_types import JobController, OrphanKey, decide
from kcm_lite.reconcile.podutil import filter_pods_by_owner
from kcm_lite.reconcile.refmanager import (
    ControllerRefManager,
    claim_objects,
    recheck_deletion_timestamp,
)


# %% book/08c_job_pods.ipynb#da809569
async def claim_pods(jc: JobController, job: Job) -> list[Pod]:
    """Adopt orphans, release strangers, return the Job's pods.

    Raises:
        ValueError: The selector is not valid.
        ClaimError: An adoption or release failed.
    """
    try:
        selector = label_selector_as_selector(job.spec.selector)
    except SelectorError as error:
        raise ValueError(f"couldn't convert Job selector: {error}") from error
    pods = filter_pods_by_owner(jc.pods.indexer, job, orphans=True)
    if _all_mine(job, selector, pods):
        return pods

    async def patch(pod: Pod, body: dict[str, Any]) -> None:
        await jc.pod_control.patch_pod(pod.metadata.namespace, pod.metadata.name, body)
        what = "adopt" if controller_of(pod) is None else "release"
        decide(jc, object_key(job), what, object_key(pod), f"by the selector {selector}")

    async def can_adopt() -> None:
        await recheck_deletion_timestamp(jc.client, job)

    tracking = (TRACKING_FINALIZER,) if jc.gates.tracking_with_finalizers else ()
    manager = ControllerRefManager(job, selector, can_adopt, patch, tracking)
    claimed: list[Pod] = await claim_objects(manager, pods)
    return [_as_adopted(job, pod) if tracking else pod for pod in claimed]


# %% book/08c_job_pods.ipynb#c1d68584
def _all_mine(job: Job, selector: Selector, pods: list[Pod]) -> bool:
    """Whether there is nothing to adopt or release. Pods of one template share their labels."""
    uid, seen = job.metadata.uid, set[tuple[int, int]]()
    for pod in pods:
        meta = pod.metadata
        pair = id(meta.labels), id(meta.owner_references)
        if pair not in seen:
            ref = controller_of(pod)
            if ref is None or ref.uid != uid or not selector.matches(meta.labels):
                return False
            seen.add(pair)
    return True


def _as_adopted(job: Job, pod: Pod) -> Pod:
    """Return a pod that has just been adopted as it will be: with the finalizer."""
    meta = pod.metadata
    owned = any(ref.uid == job.metadata.uid for ref in meta.owner_references)
    if owned or has_tracking_finalizer(pod):
        return pod
    finalizers = (*meta.finalizers, TRACKING_FINALIZER)
    return replace(pod, metadata=replace(meta, finalizers=finalizers))


# %% book/08c_job_pods.ipynb#b969c75b
async def sync_orphan_pod(jc: JobController, key: OrphanKey) -> None:
    """Take the finalizer off pods whose Job is gone or finished."""
    if key.name:
        pod = jc.pods.indexer.get(f"{key.namespace}/{key.name}")
        if pod is not None:
            await free_orphan(jc, pod)
        return
    selector = parse_selector(key.selector)
    for pod in jc.pods.indexer.by_index(NAMESPACE_INDEX, key.namespace):
        if has_tracking_finalizer(pod) and selector.matches(pod.metadata.labels):
            await free_orphan(jc, pod)


async def free_orphan(jc: JobController, pod: Pod) -> None:
    """Take the finalizer off one pod, unless a Job will count it."""
    ref, meta = controller_of(pod), pod.metadata
    if ref is not None:
        if (ref.kind, ref.api_version) != (Job.KIND, Job.API_VERSION):
            return
        job = resolve_controller_ref(jc, meta.namespace, ref)
        if job is not None and job.spec.managed_by not in (None, JOB_CONTROLLER):
            return
        if job is not None and not is_job_finished(job):
            return
    if has_tracking_finalizer(pod):
        try:
            await jc.pod_control.patch_pod(meta.namespace, meta.name, REMOVE_FINALIZER)
        except NotFound:
            return
        owner = f"{meta.namespace}/{ref.name}" if ref is not None else object_key(pod)
        decide(jc, owner, "finalizer", object_key(pod), "no Job will count it any more")
