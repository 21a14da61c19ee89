"""What the controllers count, by the numbers, as the official parser reads it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kcm_lite.api.core import Pod
from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.client.metrics import Registry
from kcm_lite.controllers.context import (
    CONTROLLERS,
    RELEASE_1_22,
    TODAY,
    ControllerContext,
    Gates,
)
from kcm_lite.sim.cluster import Cluster
from tests.sim_support import deployment, job, replica_set

RS = "replicaset_controller_"
JOB = "job_controller_"


class Lab:
    """A cluster whose controllers count."""

    def __init__(self, *, gates: Gates = TODAY, **how: Any) -> None:
        self.cluster, self.registry = Cluster(controllers=(), **{"qps": 0, **how}), Registry()
        cluster, rng = self.cluster, random.Random(0)
        client = Client(cluster.transport, cluster.clock, agent="informers", qps=0)
        informers = SharedInformerFactory(client, cluster.clock, rng=rng, name="informers")
        context = ControllerContext(
            cluster.clock,
            cluster.trace,
            cluster.client_for,
            informers,
            gates,
            rng,
            metrics=self.registry,
        )
        runs = [build(context) for build in CONTROLLERS.values()]
        informers.start()
        for run in runs:
            cluster.clock.spawn(run(), name="controller")
        cluster.run_for(1)

    def apply(self, manifest: dict[str, Any], seconds: float) -> None:
        self.cluster.apply(manifest)
        self.cluster.run_for(seconds)

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """The samples of a metric that are not 0, by the values of their labels."""
        found = {}
        for family in text_string_to_metric_families(self.registry.expose()):
            for sample in family.samples:
                if sample.name == name and sample.value:
                    found[tuple(sample.labels.values())] = sample.value
        return found


@pytest.fixture(scope="module")
def idle() -> Lab:
    return Lab()


@pytest.mark.parametrize(
    ("name", "kind", "labels"),
    [
        ("workqueue_depth", "gauge", ("name",)),
        ("workqueue_adds", "counter", ("name",)),
        ("workqueue_queue_duration_seconds", "histogram", ("name",)),
        (f"{RS}sorting_deletion_age_ratio", "histogram", ()),
        ("garbagecollector_controller_resources_sync_error", "counter", ()),
        ("ttl_after_finished_controller_job_deletion_duration_seconds", "histogram", ()),
    ],
)
def test_names_types_and_labels_are_upstreams(
    idle: Lab, name: str, kind: str, labels: tuple[str, ...]
) -> None:
    families = {f.name: f for f in text_string_to_metric_families(idle.registry.expose())}
    assert families[name].type == kind
    assert tuple(k for k in families[name].samples[0].labels if k != "le") == labels


def test_every_queue_counts_under_its_name(idle: Lab) -> None:
    text = idle.registry.expose()
    queues = (
        "deployment",
        "garbage_collector_attempt_to_delete",
        "garbage_collector_attempt_to_orphan",
        "job",
        "job_orphan_pod",
        "replicaset",
        "replicationmanager",
        "ttl_jobs_to_delete",
    )
    depths = [line for line in text.splitlines() if line.startswith("workqueue_depth")]
    assert depths == [f'workqueue_depth{{name="{queue}"}} 0' for queue in queues]


def bounds(lab: Lab, name: str) -> list[str]:
    lines = [line for line in lab.registry.expose().splitlines() if line.startswith(f"{name}_b")]
    return [line.partition('le="')[2].partition('"')[0] for line in lines]


def test_bounds_are_upstreams(idle: Lab) -> None:
    ratio = bounds(idle, f"{RS}sorting_deletion_age_ratio")
    assert ratio == ["0.25", "0.5", "1", "2", "4", "8", "+Inf"]
    ttl = bounds(idle, "ttl_after_finished_controller_job_deletion_duration_seconds")
    assert (ttl[0], ttl[-2], len(ttl)) == ("0.1", "819.2", 15)


def test_a_deployment_and_its_sets_are_counted_by_their_queues() -> None:
    lab = Lab()
    lab.apply(deployment(2), 10)
    adds = lab.values("workqueue_adds_total")
    assert adds[("deployment",)] >= 2 and adds[("replicaset",)] >= 2
    assert ("job",) not in adds
    done = lab.values("workqueue_work_duration_seconds_count")
    assert done == adds
    assert lab.values("workqueue_depth") == {}


def test_the_age_ratio_of_victims() -> None:
    lab = Lab()
    lab.apply(replica_set(1), 100)
    lab.cluster.scale("rs/web", 2)
    lab.cluster.run_for(20)
    young = max(lab.cluster.objects(Pod), key=lambda pod: str(pod.metadata.creation_timestamp))
    annotation = {"controller.kubernetes.io/pod-deletion-cost": "1"}
    lab.cluster.patch(
        f"pod/{young.metadata.name}", {"metadata": {"annotations": annotation}}
    )  # so that the old one goes
    lab.cluster.run_for(1)
    lab.cluster.scale("rs/web", 1)
    lab.cluster.run_for(5)
    assert lab.values(f"{RS}sorting_deletion_age_ratio_sum") == {(): 5}
    assert lab.values(f"{RS}sorting_deletion_age_ratio_count") == {(): 1}
    lab.cluster.scale("rs/web", 0)
    lab.cluster.run_for(5)  # when all go, nothing is sorted and nothing observed
    assert lab.values(f"{RS}sorting_deletion_age_ratio_count") == {(): 1}


def test_syncs_that_wait_for_the_cache_are_counted() -> None:
    from kcm_lite.apiserver.transport import Latency

    lab = Lab(latency=Latency(call=0.004, watch=2.0))
    lab.apply(replica_set(1), 30)
    assert set(lab.values(f"{RS}stale_sync_skips_total")) <= {("", "pods"), ("apps", "replicasets")}
    assert sum(lab.values(f"{RS}stale_sync_skips_total").values()) > 0
    lab.apply(job(completions=3, parallelism=1), 1)
    lab.cluster.patch("job/batch", {"spec": {"parallelism": 2}})  # seen before the first pod is
    lab.cluster.run_for(30)
    skips = lab.values(f"{JOB}stale_sync_skips_total")
    assert skips and set(skips) <= {("", "pods"), ("batch", "jobs")}


ENDS = {"exit": {"after": 2, "code": 0}}
FAILS = {"exit": {"after": 2, "code": 1}}


def test_a_job_that_succeeds() -> None:
    lab = Lab(profile=ENDS)
    lab.apply(job(completions=2, parallelism=1), 30)
    mode = "NonIndexed"
    syncs = lab.values(f"{JOB}job_syncs_total")
    assert syncs[mode, "success", "pods_created"] == 2
    assert syncs[mode, "success", "tracking"] >= 2
    assert lab.values(f"{JOB}job_sync_duration_seconds_count") == syncs
    assert lab.values(f"{JOB}jobs_finished_total") == {(mode, "succeeded", "CompletionsReached"): 1}
    assert lab.values(f"{JOB}job_pods_finished_total") == {(mode, "succeeded"): 2}
    assert lab.values(f"{JOB}job_pods_creation_total") == {("new", "succeeded"): 2}
    held = lab.values(f"{JOB}terminated_pods_tracking_finalizer_total")
    assert held == {("add",): 2, ("delete",): 2}
    assert f'{JOB}job_pods_finished_total{{completion_mode="{mode}",result="failed"}} 0' in (
        lab.registry.expose()
    )


def test_a_job_that_fails() -> None:
    lab = Lab(profile=FAILS)
    lab.apply(job(completions=1, backoffLimit=1), 60)
    mode = "NonIndexed"
    finished = lab.values(f"{JOB}jobs_finished_total")
    assert finished == {(mode, "failed", "BackoffLimitExceeded"): 1}
    assert lab.values(f"{JOB}job_pods_finished_total") == {(mode, "failed"): 2}
    made = lab.values(f"{JOB}job_pods_creation_total")
    assert made == {("new", "succeeded"): 1, ("recreate_terminating_or_failed", "succeeded"): 1}


def test_pods_are_replaced_when_they_have_failed_if_the_policy_waits_for_that() -> None:
    lab = Lab(profile=FAILS)
    lab.apply(job(completions=1, backoffLimit=1, podReplacementPolicy="Failed"), 60)
    made = lab.values(f"{JOB}job_pods_creation_total")
    assert made == {("new", "succeeded"): 1, ("recreate_failed", "succeeded"): 1}


def test_a_refused_pod_is_counted_in_both_numbers_as_upstream() -> None:
    lab = Lab(profile=ENDS)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "1"}},
    }
    lab.apply(quota, 1)
    lab.apply(job(completions=2, parallelism=2), 1.5)
    made = lab.values(f"{JOB}job_pods_creation_total")
    assert made[("new", "failed")] >= 1
    assert made[("new", "succeeded")] == 1 + made[("new", "failed")]
    errors = lab.values(f"{JOB}job_syncs_total")
    assert errors[("NonIndexed", "error", "pods_created")] == made[("new", "failed")]


def test_indexes_have_a_number_of_their_own() -> None:
    profile = {**ENDS, "overrides": [{"match": {"index": [1]}, **FAILS}]}
    lab = Lab(profile=profile)
    spec: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
    lab.apply(job(**spec, backoffLimitPerIndex=0), 30)
    done = lab.values(f"{JOB}job_finished_indexes_total")
    assert done == {("succeeded", "perIndex"): 2, ("failed", "perIndex"): 1}
    finished = lab.values(f"{JOB}jobs_finished_total")
    assert finished == {("Indexed", "failed", "FailedIndexes"): 1}
    pods = lab.values(f"{JOB}job_pods_finished_total")
    assert pods == {("Indexed", "succeeded"): 2, ("Indexed", "failed"): 1}
    other = Lab(profile=ENDS)
    other.apply(job(**spec), 30)
    assert other.values(f"{JOB}job_finished_indexes_total") == {("succeeded", "global"): 3}


def test_what_a_failure_policy_makes_of_pods() -> None:
    profile = {"exit": {"after": 2, "code": 3}}
    codes = {"operator": "In", "values": [3]}
    lab = Lab(profile=profile)
    for action in ("Ignore", "Count", "FailJob"):
        rules = {"rules": [{"action": action, "onExitCodes": codes}]}
        spec: dict[str, Any] = {"completions": 1, "backoffLimit": 0, "podFailurePolicy": rules}
        lab.apply(job(action.lower(), **spec), 5)
    seen = lab.values(f"{JOB}pod_failures_handled_by_failure_policy_total")
    assert seen[("Count",)] == 1 and seen[("FailJob",)] == 1 and seen[("Ignore",)] >= 1
    reasons = {labels[2] for labels in lab.values(f"{JOB}jobs_finished_total")}
    assert reasons == {"BackoffLimitExceeded", "PodFailurePolicy"}


def test_pods_that_are_deleted_to_suspend_a_job() -> None:
    lab = Lab()
    lab.apply(job(completions=2, parallelism=2), 5)
    lab.cluster.patch("job/batch", {"spec": {"suspend": True}})
    lab.cluster.run_for(5)
    assert lab.values(f"{JOB}job_syncs_total")["NonIndexed", "success", "pods_deleted"] >= 1


def test_jobs_of_another_controller_are_only_counted() -> None:
    lab = Lab()
    lab.apply(job(managedBy="example.com/other"), 5)
    assert lab.values(f"{JOB}jobs_by_external_controller_total") == {("example.com/other",): 1}
    assert lab.values(f"{JOB}job_syncs_total") == {}


def test_the_delay_of_a_deletion_after_the_time_to_live() -> None:
    lab = Lab(profile=ENDS)
    lab.apply(job(completions=1, ttlSecondsAfterFinished=5), 30)
    name = "ttl_after_finished_controller_job_deletion_duration_seconds"
    assert lab.values(f"{name}_count") == {(): 1}
    assert 0 < lab.values(f"{name}_sum")[()] < 0.1


def test_the_job_of_1_22_counts_its_syncs_and_ends() -> None:
    lab = Lab(gates=RELEASE_1_22, profile=ENDS)
    lab.apply(job(completions=2, parallelism=1), 30)
    assert lab.values(f"{JOB}jobs_finished_total") == {("NonIndexed", "succeeded", ""): 1}
    syncs = lab.values(f"{JOB}job_syncs_total")
    assert syncs["NonIndexed", "success", "pods_created"] == 2
    assert lab.values(f"{JOB}job_pods_finished_total") == {}


def test_in_1_22_the_limiters_of_clients_have_gauges_that_stay_0() -> None:
    def gauges(gates: Gates, qps: float = 20) -> list[str]:
        lab = Lab(gates=gates, profile=ENDS, qps=qps)
        lab.apply(job(completions=1), 5)
        return [x for x in lab.registry.expose().splitlines() if x[0] != "#" and "limiter_u" in x]

    assert gauges(TODAY) == [] and gauges(RELEASE_1_22, qps=0) == []
    assert gauges(RELEASE_1_22) == [
        "deployment_controller_rate_limiter_use 0",
        "job_controller_rate_limiter_use 0",
        "replicaset_controller_rate_limiter_use 0",
        "replication_controller_rate_limiter_use 0",
        "ttl_after_finished_controller_rate_limiter_use 0",
    ]
