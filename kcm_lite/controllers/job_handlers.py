# Generated from book/08c_job_pods.ipynb by tools/tangle.py; edit it there.

"""What happens in the cluster, and which Job must be looked at because of it, and when.

See: chapter *Job*; upstream ``pkg/controller/job``.
"""

from __future__ import annotations

from kcm_lite.api.batch import JOB_CONTROLLER, Job, is_job_finished
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import OwnerReference, controller_of, object_key
from kcm_lite.api.selectors import SelectorError, label_selector_as_selector
from kcm_lite.client.cache import NAMESPACE_INDEX, Tombstone, last_state
from kcm_lite.controllers.job_pods import has_tracking_finalizer
from kcm_lite.controllers.job_types import JobController, OrphanKey

# %% book/08c_job_pods.ipynb#237c4b3f
SYNC_BATCH_PERIOD = 1.0
"""Seconds in which what happens to the pods of a Job leads to one sync."""


def wake(jc: JobController, job: Job, *, failed: bool = False) -> None:
    """Have a Job synced soon because of its pods.

    Today: in a second. In 1.22: at once, or if a pod has ``failed``, after the Job's back-off.
    """
    key = object_key(job)
    if jc.gates.pod_failure_backoff:
        jc.queue.add_after(key, SYNC_BATCH_PERIOD)
        return
    failures = jc.queue.num_requeues(key) if failed else 0
    wait = jc.gates.queue_base * 2.0 ** min(failures - 1, 60) if failures else 0.0
    jc.queue.add_after(key, min(wait, jc.gates.queue_maximum))


def enqueue_orphan(jc: JobController, pod: Pod) -> None:
    """Have a pod looked at that has a finalizer and maybe no Job any more."""
    jc.orphan_queue.add(OrphanKey(pod.metadata.namespace, name=pod.metadata.name))


def enqueue_orphans_of(jc: JobController, job: Job) -> None:
    """Have all pods looked at that a Job selects which will not be synced any more."""
    try:
        selector = label_selector_as_selector(job.spec.selector)
    except SelectorError:
        return
    jc.orphan_queue.add(OrphanKey(job.metadata.namespace, selector=str(selector)))


# %% book/08c_job_pods.ipynb#f0f5305b
def add_job(jc: JobController, job: Job, initial: bool = False) -> None:
    """A Job is new: sync it at once."""
    jc.queue.add(object_key(job))
    manager = job.spec.managed_by
    if jc.metrics is not None and manager not in (None, JOB_CONTROLLER):
        jc.metrics.count("jobs_by_external_controller_total", manager)


def update_job(jc: JobController, old: Job, cur: Job) -> None:
    """A Job has changed: at once if it was its spec, else batched; and mind a new deadline."""
    if jc.gates.tracking_with_finalizers and is_job_finished(cur):
        enqueue_orphans_of(jc, cur)
        return
    key = object_key(cur)
    if cur.metadata.generation == old.metadata.generation and jc.gates.pod_failure_backoff:
        jc.queue.add_after(key, SYNC_BATCH_PERIOD)
    else:
        jc.queue.add(key)
    seconds = cur.spec.active_deadline_seconds
    start = cur.status.start_time
    if start is not None and seconds not in (None, old.spec.active_deadline_seconds):
        passed = (jc.clock.now() - start).total_seconds()
        jc.queue.add_after(key, (seconds or 0) - passed)


def delete_job(jc: JobController, obj: Job | Tombstone[Job]) -> None:
    """A Job is gone: forget it, and free the pods that it leaves behind."""
    job = last_state(obj)
    key = object_key(job)
    jc.queue.add(key)
    jc.consistency.clear(key, job.metadata.uid)
    jc.finished.discard(job.metadata.uid)
    enqueue_orphans_of(jc, job)
    jc.backoff.pop(key, None)


# %% book/08c_job_pods.ipynb#091eb8f5
def resolve_controller_ref(jc: JobController, namespace: str, ref: OwnerReference) -> Job | None:
    """Find the Job that a reference means: by name, then make sure that it is the same one."""
    if ref.kind != Job.KIND:
        return None
    job = jc.jobs.indexer.get(f"{namespace}/{ref.name}")
    return job if job is not None and job.metadata.uid == ref.uid else None


def get_pod_jobs(jc: JobController, pod: Pod) -> list[Job]:
    """Return the Jobs that would take an orphan."""
    meta, found = pod.metadata, list[Job]()
    for job in jc.jobs.indexer.by_index(NAMESPACE_INDEX, meta.namespace) if meta.labels else ():
        try:
            if label_selector_as_selector(job.spec.selector).matches(meta.labels):
                found.append(job)
        except SelectorError:
            return []
    return found


# %% book/08c_job_pods.ipynb#40a1ddcf
def note_tracked(jc: JobController, old: Pod | None, new: Pod | None) -> None:
    """Count a pod that joins or leaves those that have ended and still have the finalizer."""
    if jc.metrics is not None and (is_held(new) != is_held(old)):
        event = "add" if is_held(new) else "delete"
        jc.metrics.count("terminated_pods_tracking_finalizer_total", event)


def is_held(pod: Pod | None) -> bool:
    """Whether a pod has ended and only the finalizer keeps it."""
    if pod is None or pod.status.phase not in ("Succeeded", "Failed"):
        return False
    return has_tracking_finalizer(pod)


# %% book/08c_job_pods.ipynb#4ea2cd55
def add_pod(jc: JobController, pod: Pod, initial: bool = False) -> None:
    """A pod is new: one creation less to expect."""
    note_tracked(jc, None, pod)
    if pod.metadata.deletion_timestamp is not None:
        delete_pod(jc, pod, final=False)
        return
    ref = controller_of(pod)
    if ref is None:
        if has_tracking_finalizer(pod):
            enqueue_orphan(jc, pod)
        for job in get_pod_jobs(jc, pod):
            wake(jc, job)
    elif (owner := resolve_controller_ref(jc, pod.metadata.namespace, ref)) is not None:
        jc.expectations.creation_observed(object_key(owner))
        wake(jc, owner)


def delete_pod(jc: JobController, obj: Pod | Tombstone[Pod], *, final: bool = True) -> None:
    """A pod is gone (``final``) or going: one deletion, and maybe one finalizer, less to expect."""
    pod = last_state(obj)
    if final and pod is obj:
        note_tracked(jc, pod, None)
    ref, tracked = controller_of(pod), has_tracking_finalizer(pod)
    owner = None
    if ref is not None:
        owner = resolve_controller_ref(jc, pod.metadata.namespace, ref)
    if owner is None or (jc.gates.tracking_with_finalizers and is_job_finished(owner)):
        if tracked:
            enqueue_orphan(jc, pod)
        return
    key = object_key(owner)
    jc.expectations.deletion_observed(key)
    if final or not tracked:
        jc.removals.observed(key, pod.metadata.uid)
    wake(jc, owner)


# %% book/08c_job_pods.ipynb#e4f81f65
def update_pod(jc: JobController, old: Pod, cur: Pod) -> None:
    """A pod has changed: wake its Job, and the one it had before if that is another."""
    before, after = old.metadata, cur.metadata
    note_tracked(jc, old, cur)
    if before.resource_version == after.resource_version:
        return  # only a reminder
    if after.deletion_timestamp is not None:
        delete_pod(jc, cur, final=False)
        return
    ref, old_ref = controller_of(cur), controller_of(old)
    for owner in (old_ref if ref != old_ref else None, ref):
        if owner is None:
            continue
        job = resolve_controller_ref(jc, after.namespace, owner)
        if job is not None:
            if not has_tracking_finalizer(cur):
                jc.removals.observed(object_key(job), after.uid)
            wake(jc, job, failed=cur.status.phase == "Failed")
    if ref is None:
        if has_tracking_finalizer(cur):
            enqueue_orphan(jc, cur)
        if before.labels != after.labels or old_ref is not None:
            for job in get_pod_jobs(jc, cur):
                wake(jc, job, failed=cur.status.phase == "Failed")
