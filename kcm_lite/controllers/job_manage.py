# Generated from book/08c_job_pods.ipynb by tools/tangle.py; edit it there.

"""Too few pods or too many: how many a Job wants now, and which ones.

See: chapter *Job*; upstream ``manageJob``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kcm_lite.api.batch import (
    COMPLETION_INDEX,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    TRACKING_FINALIZER,
    Job,
    is_indexed,
)
from kcm_lite.api.core import Container, Pod, PodSpec, PodTemplateSpec
from kcm_lite.api.errors import NotFound
from kcm_lite.api.memo import by_identity
from kcm_lite.api.meta import replace
from kcm_lite.controllers.job_backoff import remaining_time_of, remaining_time_per_index
from kcm_lite.controllers.job_indexes import (
    UNKNOWN,
    completion_index,
    first_pending,
    format_indexes,
    indexes_of,
    merge,
    with_indexes,
)
from kcm_lite.controllers.job_metrics import (
    PODS_CREATED,
    PODS_DELETED,
    TRACKING,
    count_created_pods,
)
from kcm_lite.controllers.job_pods import (
    has_tracking_finalizer,
    new_index_failure_counts,
    only_replace_failed_pods,
)
from kcm_lite.controllers.job_tracking import REMOVE_FINALIZER
from kcm_lite.controllers.job_types import JobController, View, decide
from kcm_lite.controllers.victims import VictimRules, candidates, order_of_victims
from kcm_lite.reconcile.podcontrol import is_namespace_terminating, new_controller_ref
from kcm_lite.reconcile.podutil import filter_terminating_pods, is_pod_ready
from kcm_lite.reconcile.slowstart import SLOW_START_INITIAL_BATCH_SIZE, slow_start_batch

# %% book/08c_job_pods.ipynb#b20b27bc
MAX_POD_CREATE_DELETE_PER_SYNC = 500


def wanted_active(view: View) -> int:
    """Return how many pods should be active: as many as allowed, but no more than are missing.

    A Job without completions is over with its first success: it starts no pods after that.
    """
    spec = view.job.spec
    parallelism = spec.parallelism or 0
    if spec.completions is None:
        return len(view.active) if view.succeeded > 0 else parallelism
    return max(min(spec.completions - view.succeeded, parallelism), 0)


async def manage_job(jc: JobController, view: View) -> Exception | None:
    """Create what is missing, or delete what is too much; return the first error."""
    job, active = view.job, len(view.active)
    going = active if job.spec.suspend else max(active - wanted_active(view), 0)
    surplus = active_pods_for_removal(job, view.active, going)
    if job.spec.suspend or surplus:
        note_action(jc, view, PODS_DELETED)
        most = len(surplus) if job.spec.suspend else MAX_POD_CREATE_DELETE_PER_SYNC
        return await delete_surplus(jc, view, surplus[:most])
    terminating = view.terminating if only_replace_failed_pods(job) else 0
    missing = wanted_active(view) - terminating - active
    if terminating and wanted_active(view) > active:
        why = f"{terminating} pods on their way out are replaced when they have ended"
        decide(jc, view.key, "hold", view.key, why)
    note_action(jc, view, PODS_CREATED if missing > 0 else TRACKING)
    return await create_missing(jc, view, missing) if missing > 0 else None


def note_action(jc: JobController, view: View, action: str) -> None:
    """Remember what this sync does."""
    if jc.metrics is not None:
        jc.metrics.actions[view.key] = action


# %% book/08c_job_pods.ipynb#718f6bff
async def create_missing(jc: JobController, view: View, missing: int) -> Exception | None:
    """Create pods by slow start, unless a back-off says to wait."""
    job, now = view.job, jc.clock.now()
    indexes: list[int] = []
    missing = min(missing, MAX_POD_CREATE_DELETE_PER_SYNC)
    wait = 0.0
    if job.spec.backoff_limit_per_index is None and jc.gates.pod_failure_backoff:
        wait = remaining_time_of(view.record, now)
    if not wait and is_indexed(job):
        pending = pending_indexes(view, missing)
        if job.spec.backoff_limit_per_index is not None:
            waits = {i: remaining_time_per_index(view.delayed.get(i), now) for i in pending}
            indexes = [i for i in pending if not waits[i]]
            wait = min(waits.values(), default=0.0) if not indexes else 0.0
        else:
            indexes = pending
        missing = len(indexes)
    if wait:
        why = f"{view.record.failures} failures in a row" if view.record.failures else "per index"
        decide(jc, view.key, "back-off", view.key, f"{why}: no new pod for {wait:g} s")
        jc.queue.add_after(view.key, max(wait, 1.0))
        view.active_count = 0  # as upstream: see the chapter
        return None
    return await create_pods(jc, view, missing, indexes)


def pending_indexes(view: View, count: int) -> list[int]:
    """Return the first ``count`` indexes that are not done and that no pod works on."""
    taken = with_indexes(view.indexes, indexes_of(view.active))
    if only_replace_failed_pods(view.job):
        taken = with_indexes(taken, indexes_of(filter_terminating_pods(view.pods)))
    if view.failed_indexes is not None:
        taken = merge(taken, view.failed_indexes)
    return first_pending(taken, count, view.job.spec.completions or 0)


# %% book/08c_job_pods.ipynb#5a452226
async def create_pods(
    jc: JobController, view: View, count: int, indexes: Sequence[int]
) -> Exception | None:
    """Create ``count`` pods, for these indexes if there are any; expect no more than succeed."""
    job, key, ref = view.job, view.key, new_controller_ref(view.job)
    tracked = jc.gates.tracking_with_finalizers
    template = pod_template(job.spec.template, is_indexed(job), tracked)
    left, made, refused = iter(indexes), 0, 0
    jc.expectations.expect_creations(key, count)

    async def create() -> None:
        nonlocal made, refused
        index = next(left, UNKNOWN)
        mould, name = template, ""
        if index != UNKNOWN:
            mould = template_of_index(job, template, index, view.delayed.get(index))
            name = pod_generate_name(job.metadata.name, index)
        try:
            await jc.pod_control.create_pods(job.metadata.namespace, mould, job, ref, name)
            made += 1
        except Exception as error:
            if not is_namespace_terminating(error):
                refused += 1
                raise

    def report(size: int, failures: int) -> None:
        end = f", {failures} failed" if failures else ""
        decide(jc, key, "batch", key, f"{size} of {count} at once{end}")

    if indexes:
        some = format_indexes(with_indexes((), indexes))
        decide(jc, key, "index", key, f"{some}: the lowest that are free")
    start = SLOW_START_INITIAL_BATCH_SIZE
    successes, error = await slow_start_batch(count, start, create, on_batch=report)
    jc.expectations.lower_expectations(key, count - successes, 0)
    view.active_count += successes
    if jc.metrics is not None:
        seen = {"failed": view.failed, "terminating": view.terminating}
        count_created_pods(jc.metrics, job, made=made, refused=refused, **seen)
    return error


# %% book/08c_job_pods.ipynb#9e8ad488
ENV = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
}


@by_identity
def pod_template(template: PodTemplateSpec, indexed: bool, tracked: bool) -> PodTemplateSpec:
    """Return the mould of a Job's pods: its template with the finalizer and, if need be, the env.

    The same one for the same template, so that all pods share its parts.
    """
    meta, spec = template.metadata, template.spec
    if tracked and TRACKING_FINALIZER not in meta.finalizers:
        meta = replace(meta, finalizers=(*meta.finalizers, TRACKING_FINALIZER))
    if indexed:
        spec = replace(
            spec,
            containers=tuple(map(_with_index_env, spec.containers)),
            init_containers=tuple(map(_with_index_env, spec.init_containers)),
        )
    return PodTemplateSpec(metadata=meta, spec=spec)


def _with_index_env(container: Container) -> Container:
    env: list[dict[str, Any]] = [*container.extra.get("env", ())]
    if any(variable.get("name") == ENV["name"] for variable in env):
        return container
    return replace(container, extra={**container.extra, "env": [*env, ENV]})


# %% book/08c_job_pods.ipynb#a43710f1
MAX_GENERATED_NAME_LENGTH = 58  # 63 less the five letters that the server adds


def pod_generate_name(job: str, index: int) -> str:
    """Return the prefix of an indexed pod's name; a long name is cut, the index never."""
    suffix = f"-{index}-"
    return job[: MAX_GENERATED_NAME_LENGTH - len(suffix)] + suffix


def template_of_index(
    job: Job, template: PodTemplateSpec, index: int, replaced: Pod | None
) -> PodTemplateSpec:
    """Return the mould of the pod that works on an index.

    Args:
        replaced: The failed pod in whose place it comes; its failures are handed down.
    """
    meta, number = template.metadata, {COMPLETION_INDEX: str(index)}
    annotations = {**meta.annotations, **number}
    if job.spec.backoff_limit_per_index is not None:
        failures, ignored = new_index_failure_counts(job, replaced)
        annotations[INDEX_FAILURE_COUNT] = str(failures)
        if ignored:
            annotations[INDEX_IGNORED_FAILURE_COUNT] = str(ignored)
    meta = replace(meta, annotations=annotations, labels={**meta.labels, **number})
    spec: PodSpec = replace(template.spec, hostname=f"{job.metadata.name}-{index}")
    return PodTemplateSpec(metadata=meta, spec=spec)


# %% book/08c_job_pods.ipynb#c2944eb4
def active_pods_for_removal(job: Job, pods: Sequence[Pod], at_least: int) -> list[Pod]:
    """Return the pods that go: first those that an Indexed Job has no use for, then the youngest.

    Without use are pods without index or with one too large, and all but one of the same index.
    """
    rules = VictimRules(None, pod_deletion_cost=False, logarithmic_scale_down=False)

    def in_order(some: Sequence[Pod]) -> list[Pod]:
        found = order_of_victims(candidates(some, [0] * len(some), rules))
        return [candidate.pod for candidate in found]

    going, staying = list[Pod](), list(pods)
    if is_indexed(job):
        groups: dict[int, list[Pod]] = {}
        for pod in sorted(pods, key=completion_index):
            groups.setdefault(completion_index(pod), []).append(pod)
        staying = []
        for index, group in groups.items():
            if UNKNOWN < index < (job.spec.completions or 0):
                *group, best = in_order(group)
                staying.append(best)
            going += group
    if len(going) < at_least:
        going += in_order(staying)[: at_least - len(going)]
    return going


# %% book/08c_job_pods.ipynb#95c846ea
async def delete_surplus(jc: JobController, view: View, pods: Sequence[Pod]) -> Exception | None:
    """Delete pods that are not to be counted: the finalizer goes first, then the pod."""
    key, errors = view.key, list[Exception]()
    jc.expectations.expect_deletions(key, len(pods))
    if pods:
        wanted = 0 if view.job.spec.suspend else wanted_active(view)
        text = f"{len(view.active)} active, {wanted} wanted: {len(pods)} go uncounted"
        decide(jc, key, "remove", key, text)

    async def delete(pod: Pod) -> None:
        meta = pod.metadata
        try:
            if has_tracking_finalizer(pod):
                await jc.pod_control.patch_pod(meta.namespace, meta.name, REMOVE_FINALIZER)
        except Exception as error:
            fail(error)
            return
        try:
            await jc.pod_control.delete_pod(meta.namespace, meta.name, view.job)
        except Exception as error:
            fail(error)
        view.ready -= is_pod_ready(pod)

    def fail(error: Exception) -> None:
        jc.expectations.deletion_observed(key)
        if not isinstance(error, NotFound):
            errors.append(error)

    await asyncio.gather(*[delete(pod) for pod in pods])
    leave(view, len(pods) - len(errors))
    return errors[0] if errors else None


# %% book/08c_job_pods.ipynb#cb23f781
async def delete_active_pods(jc: JobController, view: View) -> tuple[int, Exception | None]:
    """Delete all active pods; they keep their finalizer until they are counted.

    Returns:
        How many deletions succeeded, and the first error.
    """
    errors: list[Exception] = []

    async def delete(pod: Pod) -> None:
        try:
            meta = pod.metadata
            await jc.pod_control.delete_pod(meta.namespace, meta.name, view.job)
        except NotFound:
            pass
        except Exception as error:
            errors.append(error)
        view.ready -= is_pod_ready(pod)

    await asyncio.gather(*[delete(pod) for pod in view.active])
    deleted = len(view.active) - len(errors)
    leave(view, deleted)
    return deleted, errors[0] if errors else None


def leave(view: View, deleted: int) -> None:
    """Count pods that were just deleted as on their way out."""
    view.active_count -= deleted
    view.terminating += deleted
