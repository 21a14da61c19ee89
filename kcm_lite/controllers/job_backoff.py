# Generated from book/08b_job_rules.ipynb by tools/tangle.py; edit it there.

"""How long a Job waits before it replaces a pod that failed.

>>> [remaining_time(failures, 0.0) for failures in range(1, 8)]
[10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0]

See: chapter *Job: the rules*; upstream ``pkg/controller/job/backoff_utils.go``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from kcm_lite.api.batch import INDEX_FAILURE_COUNT, INDEX_IGNORED_FAILURE_COUNT
from kcm_lite.api.core import ContainerStatus, Pod
from kcm_lite.controllers.job_indexes import number_in
from kcm_lite.reconcile.podutil import pod_ready_condition

# %% book/08b_job_rules.ipynb#c036c895
POD_FAILURE_BACKOFF, MAX_POD_FAILURE_BACKOFF = 10.0, 600.0
"""Seconds to wait after the first failure, and at most."""


def remaining_time(
    failures: int,
    elapsed: float,
    base: float = POD_FAILURE_BACKOFF,
    maximum: float = MAX_POD_FAILURE_BACKOFF,
) -> float:
    """Return how many seconds are left of the wait after so many failures in a row.

    Args:
        failures: None, no wait; each doubles it.
        elapsed: Seconds since the last failure.
        base: The wait after the first failure.
        maximum: The longest that doubling leads to.
    """
    if failures == 0:
        return 0.0
    wait = base
    for _ in range(1, failures):
        wait *= 2
        if wait >= maximum:
            wait = maximum
            break
    return max(round(wait - elapsed, 9), 0.0)


# %% book/08b_job_rules.ipynb#ee89f0fb
LONG_AGO = datetime.min.replace(tzinfo=UTC)  # Go's zero time


def finished_time(pod: Pod) -> datetime:
    """Return when a pod came to its end, as exactly as its status tells."""
    if (end := _containers_finished(pod)) is not None:
        return end
    ready = pod_ready_condition(pod)
    if ready is not None and ready.status == "False" and ready.last_transition_time is not None:
        return ready.last_transition_time
    meta = pod.metadata
    if meta.deletion_timestamp is not None:
        grace = timedelta(seconds=meta.deletion_grace_period_seconds or 0)
        return meta.deletion_timestamp - grace
    return meta.creation_timestamp or LONG_AGO


def _containers_finished(pod: Pod) -> datetime | None:
    """Return when the last container ended; None while one of them still runs."""
    end = _latest(None, pod.status.container_statuses)
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    return _latest(end, (s for s in pod.status.init_container_statuses if s.name in sidecars))


def _latest(end: datetime | None, statuses: Iterable[ContainerStatus]) -> datetime | None:
    for status in statuses:
        ended = status.state.terminated
        if ended is None or ended.finished_at is None:
            return None
        if end is None or end < ended.finished_at:
            end = ended.finished_at
    return end


# %% book/08b_job_rules.ipynb#af4d4e34
@dataclass(frozen=True, slots=True)
class BackoffRecord:
    """How often in a row pods have failed.

    Attributes:
        failures: Failures since the last success.
        last_failure: When the last of them was.
    """

    failures: int = 0
    last_failure: datetime | None = None


def next_record(
    record: BackoffRecord, succeeded: Iterable[Pod], failed: Iterable[Pod]
) -> BackoffRecord:
    """Return the record with pods that have just been found to have ended."""
    failures = sorted(map(finished_time, failed))
    success = max(map(finished_time, succeeded), default=None)
    if success is None:
        if not failures:
            return record
        return BackoffRecord(record.failures + len(failures), failures[-1])
    since = [time for time in failures if time > success]
    return BackoffRecord(len(since), since[-1] if since else None)


def remaining_time_of(record: BackoffRecord, now: datetime) -> float:
    """Return how many seconds of a Job's wait are left."""
    if record.last_failure is None:
        return 0.0
    return remaining_time(record.failures, (now - record.last_failure).total_seconds())


# %% book/08b_job_rules.ipynb#42e43081
def index_failure_count(pod: Pod) -> int:
    """Return how often this pod's index had failed, ignored failures aside."""
    return _int32(number_in(pod.metadata.annotations, INDEX_FAILURE_COUNT))


def index_absolute_failure_count(pod: Pod) -> int:
    """Return how often this pod's index had failed, ignored failures included."""
    ignored = _int32(number_in(pod.metadata.annotations, INDEX_IGNORED_FAILURE_COUNT))
    return index_failure_count(pod) + ignored


def _int32(number: int) -> int:
    return number if number < 2**31 else 0


def remaining_time_per_index(last: Pod | None, now: datetime) -> float:
    """Return how many seconds an index must wait after the failure of its last pod."""
    if last is None:
        return 0.0
    elapsed = (now - finished_time(last)).total_seconds()
    return remaining_time(index_absolute_failure_count(last) + 1, elapsed)
