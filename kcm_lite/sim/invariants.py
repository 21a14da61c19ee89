"""What the controllers promise at every moment, checked on the writes of a trace.

>>> [str(v) for v in violations(cluster.trace)]                       # doctest: +SKIP
['t=12.4 size: ReplicaSet/web has 4 active pods, may have 3']

`RULES` says what each rule is. A rule looks at one write, knowing every object as it was before.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.batch import TRACKING_FINALIZER, Job, is_condition_true, is_indexed
from kcm_lite.api.core import Pod, ReplicationController
from kcm_lite.api.meta import Object, controller_of
from kcm_lite.controllers.deployment_types import AGENT as DEPLOYMENT
from kcm_lite.controllers.garbageattempts import NAME as COLLECTOR
from kcm_lite.controllers.job_indexes import completion_index, has_index, parse_indexes
from kcm_lite.controllers.job_pods import has_valid_index
from kcm_lite.controllers.job_policies import match_pod_failure_policy
from kcm_lite.controllers.job_types import AGENT as JOB
from kcm_lite.controllers.job_types import NOTHING
from kcm_lite.controllers.replicaset_types import REPLICA_SET
from kcm_lite.controllers.replication import REPLICATION_CONTROLLER
from kcm_lite.controllers.rollout import is_rolling_update, max_surge, min_available, wanted
from kcm_lite.controllers.ttlafterfinished import AGENT as TTL
from kcm_lite.controllers.ttlafterfinished import needs_cleanup
from kcm_lite.reconcile.podutil import is_pod_active, is_pod_terminal
from kcm_lite.sim.verdicts import is_ready
from kcm_lite.trace import ApiWrite, Trace

KIND_OF = {
    REPLICA_SET.agent: "ReplicaSet",
    REPLICATION_CONTROLLER.agent: "ReplicationController",
    DEPLOYMENT: "Deployment",
    JOB: "Job",
}
"""Whose objects a controller may delete."""

CONTROLLERS = frozenset({*KIND_OF, COLLECTOR, TTL})
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
SECOND = 1.0  # times in objects are whole seconds
LAG = 0.1  # seconds: how old a view may be that a sync goes by


class Violation(NamedTuple):
    """A promise that was broken."""

    t: float
    rule: str
    subject: str  # such as ReplicaSet/web
    text: str

    def __str__(self) -> str:
        return f"t={self.t:g} {self.rule}: {self.subject} {self.text}"


class Limits(msgspec.Struct):
    """How many active pods an object may have, with a memory for changes that are under way.

    A sync goes on with the number that it has read; so a limit that has changed counts once the
    pods are within it, and `LAG` seconds later.
    """

    most: float = -math.inf
    least: float = math.inf
    before: tuple[float, float] = (-math.inf, math.inf)
    changed: float = -math.inf

    def note(self, t: float, wanted: int, active: int) -> None:
        """Take in how many are wanted and active now."""
        old = self.most, self.least
        self.most = wanted if active <= wanted else max(self.most, wanted)
        self.least = wanted if active >= wanted else min(self.least, wanted)
        if (self.most, self.least) != old:
            self.before, self.changed = old, t

    def at(self, t: float) -> tuple[float, float]:
        """Return the most and the fewest that there may be."""
        if t - self.changed > LAG:
            return self.most, self.least
        return max(self.most, self.before[0]), min(self.least, self.before[1])


class World(msgspec.Struct):
    """Every object as it is before the write that is looked at.

    Attributes:
        objects: By uid.
        pods: The active pods, by the uid of their controller, with the second since when each is
            ready; None: it is not.
        limits: Of sets and Jobs, by uid.
        counted: UIDs of pods that a Job has counted for good.
        ended: When each pod ended, by its uid.
    """

    objects: dict[str, Object] = {}
    pods: dict[str, dict[str, float | None]] = {}
    limits: dict[str, Limits] = {}
    counted: set[str] = set()
    ended: dict[str, float] = {}

    def owner(self, obj: Object | None) -> Object | None:
        """Return the controller of an object, if it is there."""
        ref = controller_of(obj) if obj is not None else None
        return self.objects.get(ref.uid) if ref is not None else None

    def active(self, uid: str) -> int:
        """Return how many active pods an object has."""
        return len(self.pods.get(uid, ()))


Rule = Callable[[World, ApiWrite], Iterator[tuple[Object, str]]]


def violations(trace: Trace) -> list[Violation]:
    """Return every promise that was broken, in the order of the writes."""
    world, out = World(), []
    for w in trace.of(ApiWrite):
        if w.code >= 300 or w.old is w.new:
            continue
        for name, (_, rule) in RULES.items():
            for obj, text in rule(world, w):
                subject = f"{obj.KIND}/{obj.metadata.name}"
                out.append(Violation(w.t, name, subject, text))
        _apply(world, w)
    return out


def _apply(world: World, w: ApiWrite) -> None:
    obj: Any = w.new if w.new is not None else w.old
    uid = obj.metadata.uid
    if w.new is None:
        world.objects.pop(uid, None)
    else:
        world.objects[uid] = obj
    if isinstance(obj, Pod):
        _apply_pod(world, w, obj)
    elif isinstance(obj, ReplicaSet | ReplicationController | Job):
        _note(world, w.t, uid)


def _apply_pod(world: World, w: ApiWrite, pod: Pod) -> None:
    uid = pod.metadata.uid
    if is_pod_terminal(pod):
        world.ended.setdefault(uid, w.t)
    before, after = controller_of(w.old) if w.old is not None else None, controller_of(pod)
    since = None
    if before is not None:
        since = world.pods.get(before.uid, {}).pop(uid, None)
        _note(world, w.t, before.uid)
    if after is not None and w.new is not None and is_pod_active(pod):
        ready = (since if since is not None else w.t) if is_ready(pod) else None
        world.pods.setdefault(after.uid, {})[uid] = ready
    if after is not None:
        _note(world, w.t, after.uid)


def _note(world: World, t: float, uid: str) -> None:
    obj: Any = world.objects.get(uid)
    if isinstance(obj, Job):
        number = 0 if obj.spec.suspend else obj.spec.parallelism or 0
    elif isinstance(obj, ReplicaSet | ReplicationController):
        number = obj.spec.replicas or 0
    else:
        return
    world.limits.setdefault(uid, Limits()).note(t, number, world.active(uid))


# ---- ownership


def _owned(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    if w.verb == "delete" and w.agent in KIND_OF and w.old is not None:
        ref, kind = controller_of(w.old), KIND_OF[w.agent]
        if w.old.metadata.deletion_timestamp is None and (ref is None or ref.kind != kind):
            whose = "nobody" if ref is None else f"{ref.kind}/{ref.name}"
            yield w.old, f"belongs to {whose}, was deleted by {w.agent}"


def _orphaned(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    if w.verb != "delete" or w.agent != COLLECTOR or w.old is None:
        return
    for ref in w.old.metadata.owner_references:
        owner = world.objects.get(ref.uid)
        if owner is None or owner.metadata.namespace not in ("", w.namespace):
            continue  # a reference does not lead into another namespace
        waits = "foregroundDeletion" in owner.metadata.finalizers
        if owner.metadata.deletion_timestamp is None or not waits:
            yield w.old, f"was collected though {ref.kind}/{ref.name} lives"


def _adopted(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    if w.old is None or w.new is None or w.agent not in CONTROLLERS:
        return
    ref = controller_of(w.new)
    if ref is not None and controller_of(w.old) is None:
        if w.old.metadata.deletion_timestamp is not None:
            yield w.new, f"was adopted by {ref.kind}/{ref.name} while it was being deleted"
        owner = world.objects.get(ref.uid)
        if owner is None or owner.metadata.deletion_timestamp is not None:
            yield w.new, f"was adopted by {ref.kind}/{ref.name}, which is gone or going"


# ---- numbers of pods


def _size(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    if w.resource != "pods" or w.old is not None or w.agent not in KIND_OF:
        return
    owner = world.owner(w.new)
    if owner is not None:
        uid = owner.metadata.uid
        now, most = world.active(uid) + 1, world.limits[uid].at(w.t)[0]
        if now > most:
            yield owner, f"has {now} active pods, may have {most}"


def _enough(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    sets = (REPLICA_SET.agent, REPLICATION_CONTROLLER.agent)
    if w.resource != "pods" or w.verb != "delete" or w.agent not in sets:
        return
    owner = world.owner(w.old)
    if owner is not None and isinstance(w.old, Pod) and is_pod_active(w.old):
        uid = owner.metadata.uid
        left, least = world.active(uid) - 1, world.limits[uid].at(w.t)[1]
        if left < least:
            yield owner, f"has {left} active pods left, should keep {least}"


def _sets_of(world: World, d: Deployment) -> list[ReplicaSet]:
    uid = d.metadata.uid
    return [
        obj
        for obj in world.objects.values()
        if isinstance(obj, ReplicaSet)
        and (ref := controller_of(obj)) is not None
        and ref.uid == uid
    ]


def _sizes(world: World, w: ApiWrite) -> tuple[Deployment, ReplicaSet, int, int] | None:
    """Return Deployment, set, size before and after, of a write by the Deployment controller."""
    d = world.owner(w.new)
    if w.agent != DEPLOYMENT or not isinstance(w.new, ReplicaSet) or not isinstance(d, Deployment):
        return None
    return d, w.new, wanted(w.old) if isinstance(w.old, ReplicaSet) else 0, wanted(w.new)


def _surge(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    found = _sizes(world, w)
    if found is None or found[3] <= found[2]:
        return
    d, _, before, after = found
    most, total = wanted(d) + max_surge(d), sum(map(wanted, _sets_of(world, d))) + after - before
    if total > most:
        yield d, f"wants {total} pods in all its sets, may want {most}"


def _floor(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    found = _sizes(world, w)
    if found is None or found[3] >= found[2] or not is_rolling_update(found[0]):
        return
    d, rs, _, after = found
    if w.old is None or w.old.metadata.annotations.get(DESIRED) != str(wanted(d)):
        return  # the Deployment itself has another size now: its sets follow in proportion
    kept = now = 0
    for other in _sets_of(world, d):
        wait = other.spec.min_ready_seconds
        ages = [w.t - t for t in world.pods.get(other.metadata.uid, {}).values() if t is not None]
        now += sum(age >= wait + LAG for age in ages)  # for sure, and known
        available = sum(age >= wait - SECOND for age in ages)  # as readiness is dated
        kept += min(available, after if other.metadata.uid == rs.metadata.uid else wanted(other))
    if kept < min(min_available(d), now):
        yield d, f"keeps {kept} of {now} available pods, promised {min_available(d)}"


# ---- what only grows


def _forward(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    if w.agent not in CONTROLLERS or w.old is None or w.new is None:
        return
    old: Any = w.old
    new: Any = w.new
    before, after = (int(o.metadata.annotations.get(REVISION, 0)) for o in (old, new))
    if after < before:
        yield new, f"goes from revision {before} back to {after}"
    if w.subresource == "status" and hasattr(new.status, "observed_generation"):
        before, after = old.status.observed_generation, new.status.observed_generation
        if after < before:
            yield new, f"has observed generation {before}, then {after}"


def _ends(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    if isinstance(w.old, Job) and isinstance(w.new, Job):
        for type in ("Complete", "Failed"):
            if is_condition_true(w.old, type) and not is_condition_true(w.new, type):
                yield w.new, f"was {type} and is no more"
        if is_condition_true(w.new, "Complete") and is_condition_true(w.new, "Failed"):
            yield w.new, "is both Complete and Failed"
    if (
        w.agent == TTL
        and w.verb == "delete"
        and not (isinstance(w.old, Job) and needs_cleanup(w.old))
    ):
        assert w.old is not None
        yield w.old, "is not finished, or has no time to live, and was deleted"


def _counts(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    old, new = w.old, w.new
    if w.agent != JOB or not isinstance(old, Job) or not isinstance(new, Job):
        return
    was, now = old.status.uncounted_terminated_pods, new.status.uncounted_terminated_pods
    if was is None and now is None:
        return  # counts the pods that are there, as before finalizers: it promises nothing
    was, now = was or NOTHING, now or NOTHING
    moved = [uid for uid in was.failed if uid not in now.failed]
    if new.status.failed - old.status.failed != len(moved):
        yield new, f"counts {new.status.failed - old.status.failed} failures, noted {len(moved)}"
    if is_indexed(new):
        completions = new.spec.completions or 0
        done = parse_indexes(new.status.completed_indexes, completions)
        lost = [i for i in _indexes(old) if i < completions and not has_index(done, i)]
        if lost:
            yield new, f"has lost the completed indexes {lost}"
    else:
        good = [uid for uid in was.succeeded if uid not in now.succeeded]
        moved += good
        if new.status.succeeded - old.status.succeeded != len(good):
            more = new.status.succeeded - old.status.succeeded
            yield new, f"counts {more} successes, noted {len(good)}"
    world.counted.update(moved)
    for uid, n in Counter((*now.succeeded, *now.failed)).items():
        if n > 1 or uid in world.counted:
            yield new, f"counts a pod twice: {uid}"


def _indexes(job: Job) -> Iterator[int]:
    for first, last in parse_indexes(job.status.completed_indexes, job.spec.completions or 0):
        yield from range(first, last + 1)


def _freed(world: World, w: ApiWrite) -> Iterator[tuple[Object, str]]:
    old, new = w.old, w.new
    if w.agent != JOB or not isinstance(old, Pod) or not is_pod_terminal(old):
        return
    if TRACKING_FINALIZER not in old.metadata.finalizers or w.verb == "delete":
        return
    if new is not None and TRACKING_FINALIZER in new.metadata.finalizers:
        return
    if w.t - world.ended.get(old.metadata.uid, w.t) <= LAG:
        return  # it was active when the sync began
    job = world.owner(old)
    if not isinstance(job, Job) or job.metadata.deletion_timestamp is not None or _over(job):
        return
    noted = job.status.uncounted_terminated_pods or NOTHING
    if old.metadata.uid in (*noted.succeeded, *noted.failed) or not has_valid_index(old, job):
        return
    if old.status.phase == "Succeeded" and is_indexed(job):
        done = parse_indexes(job.status.completed_indexes, job.spec.completions or 0)
        if has_index(done, completion_index(old)):
            return
    elif not match_pod_failure_policy(job.spec.pod_failure_policy, old).counts:
        return
    yield job, f"has let pod {old.metadata.name} ({old.status.phase}) go before it was counted"


def _over(job: Job) -> bool:
    return is_condition_true(job, "Complete") or is_condition_true(job, "Failed")


RULES: Mapping[str, tuple[str, Rule]] = {
    "owned": ("a controller deletes only what an object of its kind controls", _owned),
    "orphaned": ("nothing is collected that has a living owner", _orphaned),
    "adopted": ("nothing is adopted that is being deleted, or by what is being deleted", _adopted),
    "size": ("no pod is created beyond replicas, or parallelism", _size),
    "enough": ("a set deletes no pod if there are not too many", _enough),
    "surge": ("the sets of a Deployment never grow beyond replicas + maxSurge", _surge),
    "floor": ("a rollout takes no available pod below replicas - maxUnavailable", _floor),
    "forward": ("revisions and observed generations never go back", _forward),
    "ends": ("a finished Job stays finished, in one way; only such are cleaned up", _ends),
    "counts": ("a Job that tracks its pods counts each that it has noted, once", _counts),
    "freed": ("no ended pod loses its finalizer before it is noted", _freed),
}
"""What each rule promises, and how it is checked."""
