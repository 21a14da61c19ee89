"""Vectors of Jobs: indexes, back-off, policies, predicates, whole syncs, and what ends them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from kcm_lite.api.batch import (
    Job,
    JobSpec,
    PodFailurePolicy,
    SuccessPolicy,
    is_condition_true,
    is_indexed,
    is_job_finished,
)
from kcm_lite.api.core import Pod, PodTemplateSpec
from kcm_lite.api.meta import DeleteOptions
from kcm_lite.api.serial import convert, decode, encode
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.client.informer import Cache
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import VirtualClock
from kcm_lite.controllers.job import sync_job
from kcm_lite.controllers.job_backoff import (
    LONG_AGO,
    BackoffRecord,
    finished_time,
    next_record,
    remaining_time,
    remaining_time_of,
    remaining_time_per_index,
)
from kcm_lite.controllers.job_indexes import (
    completion_index,
    format_indexes,
    has_index,
    merge,
    parse_indexes,
    total,
    with_indexes,
)
from kcm_lite.controllers.job_manage import pending_indexes, pod_generate_name
from kcm_lite.controllers.job_pods import (
    deadline_of,
    failed_indexes,
    is_index_failed,
    is_pod_failed,
    new_finished_pods,
    new_index_failure_counts,
    past_backoff_limit_on_failure,
    succeeded_indexes,
)
from kcm_lite.controllers.job_policies import match_pod_failure_policy, match_success_policy
from kcm_lite.controllers.job_types import FinalizerExpectations, JobController, View
from kcm_lite.controllers.ttlafterfinished import (
    TTLController,
    expires_at,
    needs_cleanup,
    process_job,
)
from kcm_lite.reconcile.consistency import ConsistencyStore
from kcm_lite.reconcile.expectations import ControllerExpectations
from kcm_lite.reconcile.podcontrol import PodControl
from kcm_lite.reconcile.podutil import (
    POD_CONTROLLER_INDEX,
    filter_active_pods,
    index_by_pod_controller,
)
from tests.vectors._fakes import JSON, NOW, Queue, Recorder


def pods_of(raw: Any) -> list[Pod]:
    return [decode(pod, Pod) for pod in raw or []]


def names(pods: list[Pod]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def seconds(time: datetime | None) -> float | None:
    return None if time is None or time == LONG_AGO else (time - NOW).total_seconds()


def record_of(raw: JSON | None, failures: str = "failures") -> BackoffRecord:
    if raw is None:
        return BackoffRecord()
    last = raw["last_failure_time"]
    return BackoffRecord(raw[failures], None if last is None else NOW + timedelta(seconds=last))


def interval_ops(given: JSON) -> JSON:
    a, b = parse_indexes(given["a"], 100), parse_indexes(given["b"], 100)
    return {
        "merge": format_indexes(merge(a, b)),
        "with": format_indexes(with_indexes(a, given["new"])),
        "has": {text: has_index(a, int(text)) for text in given["has"]},
    }


def parse(given: JSON) -> JSON:
    found = parse_indexes(given["indexes"], given["completions"])
    return {
        "intervals": [list(i) for i in found],
        "string": format_indexes(found),
        "total": total(found),
    }


def backoff(given: JSON) -> JSON:
    before = record_of(given["previous"])
    after = next_record(before, pods_of(given["succeeded_pods"]), pods_of(given["failed_pods"]))
    return {
        "failures": after.failures,
        "last_failure_time": seconds(after.last_failure),
        "remaining": remaining_time_of(after, NOW),
    }


def backoff_remaining(given: JSON) -> JSON:
    since, base, most = given["since_last_failure"], given["base"], given["max"]
    return {"remaining": remaining_time(given["failures"], since, base, most)}


def pod_finished_time(given: JSON) -> JSON:
    pod = decode(given["pod"], Pod)
    return {
        "finished_time": seconds(finished_time(pod)),
        "remaining_per_index": remaining_time_per_index(pod, NOW),
    }


def pod_failure_policy(given: JSON) -> JSON:
    policy = given["policy"] and convert(given["policy"], PodFailurePolicy)
    match = match_pod_failure_policy(policy, decode(given["pod"], Pod))
    return {
        "action": match.action or None,
        "count_failed": match.counts,
        "message": match.message or None,
    }


def success_policy(given: JSON) -> JSON:
    completions = given["completions"]
    policy = given["policy"] and convert(given["policy"], SuccessPolicy)
    succeeded = parse_indexes(given["succeeded_indexes"], completions)
    message = match_success_policy(policy, completions, succeeded)
    return {"message": message, "met": bool(message)}


def predicates(given: JSON) -> JSON:
    job, pods = decode(given["job"], Job), pods_of(given["pods"])
    uncounted = job.status.uncounted_terminated_pods
    succeeded, failed = new_finished_pods(
        job,
        pods,
        uncounted.succeeded if uncounted else (),
        uncounted.failed if uncounted else (),
        given["expected_finalizer_removals"] or (),
    )
    deadline = deadline_of(job)
    per_index = job.spec.backoff_limit_per_index is not None
    finished = [t for t in ("Complete", "Failed") if is_condition_true(job, t)]
    index_failed: JSON = {}
    for pod in pods if per_index else ():
        index_failed[pod.metadata.name] = is_index_failed(pod, job)
        counts = list(new_index_failure_counts(job, pod))
        index_failed[f"{pod.metadata.name}/new_counts"] = counts
    out: JSON = {
        "completion_index": {p.metadata.name: completion_index(p) for p in pods},
        "finished": is_job_finished(job),
        "finished_type": finished[0] if finished else "",
        "index_failed": index_failed,
        "new_failed": names(failed),
        "new_succeeded": names(succeeded),
        "past_active_deadline": deadline is not None and deadline <= NOW,
        "past_backoff_limit_on_failure": past_backoff_limit_on_failure(job, pods),
        "pod_failed": {p.metadata.name: is_pod_failed(p, job) for p in pods},
        "succeeded": is_condition_true(job, "Complete"),
    }
    if is_indexed(job):
        out["succeeded_indexes"] = list(map(format_indexes, succeeded_indexes(job, pods)))
        if per_index:
            out["failed_indexes"] = format_indexes(failed_indexes(job, pods))
    return out


def first_pending_indexes(given: JSON) -> JSON:
    completions = given["completions"]
    policy = given["podReplacementPolicy"]
    job = Job(spec=JobSpec(completions=completions, pod_replacement_policy=policy))
    pods, failed = pods_of(given["pods"]), given["failed_indexes"]
    view = View(job, job.status, pods, filter_active_pods(pods))
    view.indexes = parse_indexes(given["succeeded_indexes"], completions)
    view.failed_indexes = None if failed is None else parse_indexes(failed, completions)
    return {"indexes": pending_indexes(view, given["count"])}


def time_left(job: Job) -> JSON:
    try:
        at = expires_at(job)
    except ValueError as error:
        return {"error": str(error)}
    return {"expire_at": seconds(at), "seconds": seconds(at)}


@dataclass
class Server:
    """A server and a pod control that note what they are asked and fail as they are told."""

    job: Job
    given: JSON
    calls: int = 0
    created: list[JSON] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    patches: list[JSON] = field(default_factory=list)
    statuses: list[JSON] = field(default_factory=list)
    deletes: list[JSON] = field(default_factory=list)

    async def get(self, kind: type[Job], namespace: str, name: str) -> Job:
        return self.job

    async def delete(
        self, kind: type[Job], namespace: str, name: str, options: DeleteOptions
    ) -> None:
        assert options.preconditions is not None
        self.deletes.append(
            {
                "name": name,
                "preconditions": {"uid": options.preconditions.uid},
                "propagation_policy": options.propagation_policy,
                "resource": "jobs",
                "verb": "delete",
            }
        )

    async def update_status(self, job: Job) -> Job:
        self.job = job
        self.statuses.append(status_of(job))
        return job

    async def create_pods(
        self, namespace: str, template: PodTemplateSpec, owner: Job, ref: Any, name: str = ""
    ) -> None:
        self.calls += 1
        if 0 < self.given.get("create_fails_from", 0) <= self.calls:
            raise RuntimeError('pods "x" is forbidden: exceeded quota')
        meta, host = template.metadata, template.spec.hostname
        self.created.append(
            ({"hostname": host} if host else {})
            | {
                "annotations": dict(meta.annotations) or None,
                "finalizers": list(meta.finalizers),
                "generateName": name,
                "labels": dict(meta.labels),
            }
        )

    async def delete_pod(self, namespace: str, name: str, owner: object) -> None:
        self.deleted.append(name)

    async def patch_pod(self, namespace: str, name: str, patch: JSON) -> None:
        self.patches.append({"name": name, "patch": patch})


def status_of(job: Job) -> JSON:
    """A status as the vectors show it: UIDs sorted."""
    status: JSON = encode(job).get("status", {})
    for uids in status.get("uncountedTerminatedPods", {}).values():
        uids.sort()
    return status


def sync(given: JSON) -> JSON:
    job, pods, clock = decode(given["job"], Job), pods_of(given["pods"]), VirtualClock(NOW)
    server, recorder = Server(job, given), Recorder()
    jobs_cache, pods_cache = Cache(Job), Cache(Pod)
    pods_cache.add_indexers({POD_CONTROLLER_INDEX: index_by_pod_controller})
    jobs_cache.indexer.add(job)
    for pod in pods:
        pods_cache.indexer.add(pod)
    queue = Queue("job", clock)
    jc = JobController(
        client=cast(Client, server),
        pod_control=cast(PodControl, server),
        recorder=cast(EventRecorder, recorder),
        jobs=jobs_cache,
        pods=pods_cache,
        queue=queue,
        orphan_queue=RateLimitingQueue("orphans", clock=clock),
        expectations=ControllerExpectations(clock),
        removals=FinalizerExpectations(),
        consistency=ConsistencyStore({}),
        clock=clock,
    )
    if given.get("backoff"):
        jc.backoff["ns/j"] = record_of(given["backoff"], "failures_after_last_success")
    if given.get("expected_creations"):
        jc.expectations.expect_creations("ns/j", given["expected_creations"])
    jc.removals.expect("ns/j", given.get("expected_finalizer_removals") or ())
    error = None
    try:
        asyncio.run(sync_job(jc, "ns/j"))
    except Exception as failure:
        error = str(failure)
    record = jc.backoff.get("ns/j")
    return {
        "backoff_record": record
        and {
            "failures_after_last_success": record.failures,
            "last_failure_time": seconds(record.last_failure),
        },
        "error": error,
        "events": recorder.events,
        "final_status": status_of(server.job),
        "pod_patches": sorted(server.patches, key=lambda patch: patch["name"]),
        "pods_created": sorted(server.created, key=json.dumps),
        "pods_deleted": sorted(server.deleted),
        "queue": queue.ops,
        "status_updates": server.statuses,
    }


def ttl(given: JSON) -> JSON:
    job, clock = decode(given["job"], Job), VirtualClock(NOW)
    server, jobs = Server(job, given), Cache(Job)
    jobs.indexer.add(job)
    queue = Queue("ttl", clock)
    error = None
    try:
        asyncio.run(process_job(TTLController(cast(Client, server), jobs, queue, clock), "ns/j"))
    except ValueError as failure:
        error = str(failure)
    return {
        "needs_cleanup": needs_cleanup(job),
        "process": {"actions": server.deletes, "error": error, "queue": queue.ops},
        "time_left": time_left(job),
    }


ADAPTERS = {
    "job_first_pending_indexes": first_pending_indexes,
    "job_pod_generate_name": lambda given: {
        "generateName": pod_generate_name(given["name"], given["index"])
    },
    "job_sync": sync,
    "ttl_after_finished": ttl,
    "job_backoff": backoff,
    "job_backoff_remaining": backoff_remaining,
    "job_interval_ops": interval_ops,
    "job_parse_indexes": parse,
    "job_pod_failure_policy": pod_failure_policy,
    "job_pod_finished_time": pod_finished_time,
    "job_predicates": predicates,
    "job_success_policy": success_policy,
}
