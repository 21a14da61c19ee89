"""The kubelets of all nodes: each pod's life as its profile has it, one callback a transition.

A transition is *bind*, *start*, *ready*, *exit* or *term*. It is due at a time, waits in one heap,
and is done when the clock gets there. With ``gap`` in the profile, *ready*, *exit* and *term* go
on a grid of half seconds and are done one at a time, so that peers always go in the same order.
A pod that is being deleted makes no transition but *term*.
"""

from __future__ import annotations

import heapq
import itertools
import math
from asyncio import TimerHandle
from collections.abc import Iterable
from contextlib import suppress

from kcm_lite.api.core import Binding, ObjectReference, Pod, PodStatus
from kcm_lite.api.errors import Conflict, NotFound
from kcm_lite.api.meta import (
    Condition,
    DeleteOptions,
    ObjectMeta,
    Preconditions,
    object_key,
    replace,
)
from kcm_lite.api.request import Request, WatchEvent
from kcm_lite.apiserver.server import APIServer
from kcm_lite.clock import Clock
from kcm_lite.reconcile.podutil import TERMINAL, is_pod_terminal
from kcm_lite.sim.chance import Chance
from kcm_lite.sim.nodes import Machines
from kcm_lite.sim.podstatus import Seen, finished_status, running_status, started_status
from kcm_lite.sim.profile import COMPLETION_INDEX, Profile, behaviour_of
from kcm_lite.sim.scheduler import Scheduler
from kcm_lite.trace import Decision

GRIDDED = frozenset({"ready", "exit", "term"})
RETRY = 1.0  # seconds until a pod that fits nowhere is tried again


class Kubelets:
    """The scheduler's and the kubelets' common agenda.

    Args:
        server: Where they read and write.
        clock: Their time; second 0 is the origin of the grid.
        machines: The nodes.
        profile: What pods do.
        chance: Draws what the profile leaves open.
        watch: Seconds until they see a change.
        call: Seconds until a write of theirs is committed.
    """

    def __init__(
        self,
        server: APIServer,
        clock: Clock,
        machines: Machines,
        profile: Profile,
        *,
        chance: Chance,
        watch: float = 0.0,
        call: float = 0.0,
    ) -> None:
        self.server, self.clock, self.machines, self.profile = server, clock, machines, profile
        self.scheduler = Scheduler(machines)
        self.pods: dict[str, Seen] = {}  # by uid, in the order of their creation
        self.count = 0
        self._chance, self._watch, self._call = chance, watch, call
        self._heap: list[tuple[float, int, int, int, int, str, str]] = []  # not due yet
        self._queue: list[tuple[int, int, int, float, str, str]] = []  # due, wait for the grid
        self._sequence = itertools.count()
        self._timer: TimerHandle | None = None
        self._armed = math.inf
        self._last = -math.inf  # when the last gridded transition was due
        self._pending: dict[str, str] = {}  # by uid: why it has no node
        self._missed: dict[str, list[tuple[str, str]]] = {}  # by silent node: what was due

    def on_pod(self, event: WatchEvent) -> None:
        """Take in a watch event of a Pod and plan what follows from it."""
        pod = event.object
        assert isinstance(pod, Pod)
        uid = pod.metadata.uid
        seen = self.pods.get(uid)
        if event.type == "DELETED":
            self.pods.pop(uid, None)
            return
        now = self.clock.time() + self._watch
        if seen is None:
            self.count += 1
            behaviour = behaviour_of(self.profile, pod, self.count, self._chance)
            seen = self.pods[uid] = Seen(pod, self.count, behaviour)
            if not pod.spec.node_name and not behaviour.never_schedule:
                self._plan(now + behaviour.schedule_after, "bind", seen)
            elif not pod.spec.node_name:
                self._record_pending(pod, "the profile says neverSchedule")
        seen.pod = pod
        if pod.spec.node_name and not seen.bound:
            seen.bound = True
            if not seen.behaviour.never_start and pod.status.phase == "Pending":
                self._plan(now + seen.behaviour.start_after, "start", seen)
        if pod.metadata.deletion_timestamp is not None and not seen.deleting:
            seen.deleting = True
            if pod.spec.node_name:
                grace = 0.0 if is_pod_terminal(pod) else seen.behaviour.termination_grace
                self._plan(now + grace, "term", seen)

    def _plan(self, due: float, kind: str, seen: Seen) -> None:
        """Put a transition on the agenda."""
        due, second, rank = round(due, 9), 0, 0
        if self.profile.gap and kind in GRIDDED:
            second, rank = math.floor(due + 0.15), self._rank(seen)
            due = max(due, second + 0.5)
        uid, number = seen.pod.metadata.uid, next(self._sequence)
        heapq.heappush(self._heap, (due, seen.index, number, second, rank, kind, uid))
        self._arm(due)

    def _rank(self, seen: Seen) -> int:
        """Completion index in an Indexed job, node number in a DaemonSet, else the pod's index."""
        meta = seen.pod.metadata
        index = meta.annotations.get(COMPLETION_INDEX)
        if index is not None:
            return int(index)
        if any(ref.kind == "DaemonSet" for ref in meta.owner_references):
            machine = self.machines.by_name.get(seen.pod.spec.node_name)
            return machine.ordinal if machine else 0
        return seen.index

    def _arm(self, due: float) -> None:
        """Have one timer, for whatever is due first."""
        if due < self._armed:
            if self._timer is not None:
                self._timer.cancel()
            self._armed = due
            self._timer = self.clock.call_at(due + self._call, self._work)

    def _work(self) -> None:
        """Do everything that is due; of what is on the grid, one thing if its time has come."""
        heap, queue, gap = self._heap, self._queue, self.profile.gap
        now = self.clock.time() - self._call + 1e-9
        while heap and heap[0][0] <= now:
            due, _, number, second, rank, kind, uid = heapq.heappop(heap)
            if gap and kind in GRIDDED:
                heapq.heappush(queue, (second, rank, number, due, kind, uid))
            else:
                self._do(kind, uid, due)
        while queue and self._last + gap - 1e-6 <= now:
            _, _, _, due, kind, uid = heapq.heappop(queue)
            slot = due if due >= self._last + gap - 1e-6 else round(self._last + gap, 9)
            if self._alive(kind, uid):
                self._last = slot
                self._do(kind, uid, slot)
        self._armed = math.inf
        if heap:
            self._arm(heap[0][0])
        if queue:
            self._arm(round(self._last + gap, 9))

    def _alive(self, kind: str, uid: str) -> bool:
        seen = self.pods.get(uid)
        return seen is not None and (not seen.deleting or kind == "term")

    def _do(self, kind: str, uid: str, due: float) -> None:
        """Make one transition, if the pod is still there and its node can."""
        if not self._alive(kind, uid):
            return
        seen = self.pods[uid]
        if node := seen.pod.spec.node_name:
            machine = self.machines.by_name.get(node)
            if machine is None:
                return
            if machine.frozen:
                self._missed.setdefault(node, []).append((kind, uid))
                return
        with suppress(NotFound, Conflict):  # somebody was faster; the watch will tell
            TRANSITIONS[kind](self, seen, due)

    def resume(self, node: str) -> None:
        """Do what was due while a node was silent, and report its running pods as they are."""
        now = self.clock.time()
        missed = self._missed.pop(node, [])
        for seen in list(self.pods.values()):
            if seen.pod.spec.node_name == node and seen.started is not None and not seen.done:
                with suppress(NotFound, Conflict):
                    self._report(seen, running_status(seen))
        for kind, uid in missed:
            if uid in self.pods:
                self._plan(now, kind, self.pods[uid])

    # ---- what they write

    def _bind(self, seen: Seen, due: float) -> None:
        meta = seen.pod.metadata
        node = self.scheduler.pick(seen.pod, seen.behaviour.node)
        if node is None:
            why = self.scheduler.why_none(seen.pod, seen.behaviour.node)
            self._record_pending(seen.pod, why)
            self._plan(due + RETRY, "bind", seen)
            return
        binding = Binding(
            metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
            target=ObjectReference(api_version="v1", kind="Node", name=node),
        )
        self.server.handle(
            Request(
                verb="create",
                type=Pod,
                namespace=meta.namespace,
                name=meta.name,
                subresource="binding",
                body=binding,
                agent="scheduler",
            )
        )

    def _record_pending(self, pod: Pod, why: str) -> None:
        """Record why a pod has no node, each time that the reason is another one."""
        trace, key = self.server.registry.trace, object_key(pod)
        if trace is not None and trace.detail and self._pending.get(pod.metadata.uid) != why:
            self._pending[pod.metadata.uid] = why
            trace.write(Decision(self.clock.time(), "scheduler", key, "pending", key, why))

    def _start(self, seen: Seen, due: float) -> None:
        behaviour, now = seen.behaviour, self.clock.timestamp()
        seen.started = seen.running_since = seen.ready_since = now
        seen.ready = behaviour.ready_after == 0 and not behaviour.never_ready
        self._report(seen, started_status(seen, now))
        if not seen.ready and not behaviour.never_ready:
            self._plan(due + behaviour.ready_after, "ready", seen)
        if behaviour.exit:
            self._plan(due + behaviour.exit.after, "exit", seen)

    def _ready(self, seen: Seen, due: float) -> None:
        if seen.done or seen.started is None:
            return
        self._set_ready(seen, True)

    def _set_ready(self, seen: Seen, ready: bool) -> None:
        if seen.ready != ready:
            seen.ready, seen.ready_since = ready, self.clock.timestamp()
        self._report(seen, running_status(seen))

    def _exit(self, seen: Seen, due: float) -> None:
        behaviour, end = seen.behaviour, seen.behaviour.exit
        assert end is not None
        code = end.code
        if code and seen.pod.spec.restart_policy == "OnFailure":
            if seen.restarts < behaviour.restarts or behaviour.restarts < 0:
                seen.restarts += 1
                seen.started = self.clock.timestamp()
                self._set_ready(seen, False)
                if not behaviour.never_ready:
                    self._plan(due + behaviour.ready_after, "ready", seen)
                self._plan(due + end.after, "exit", seen)
                return
            code = 0
        self.finish(seen, code, conditions=end.pod_conditions)

    def _term(self, seen: Seen, due: float) -> None:
        meta = seen.pod.metadata
        if not is_pod_terminal(seen.pod) and not seen.done:
            self.finish(seen, seen.behaviour.termination_exit_code)
        options = DeleteOptions(grace_period_seconds=0, preconditions=Preconditions(uid=meta.uid))
        self.server.delete(Pod, meta.namespace, meta.name, options, agent="kubelet")

    def finish(
        self, seen: Seen, code: int, *, conditions: Iterable[Condition] = (), reason: str = ""
    ) -> None:
        """End a pod's containers with an exit code: its phase becomes Succeeded (0) or Failed."""
        now = self.clock.timestamp()
        if seen.ready or seen.ready_since is None:
            seen.ready, seen.ready_since = False, now
        seen.done = True
        status = finished_status(seen, code, now, conditions)
        self._report(seen, replace(status, reason=reason) if reason else status)

    def set_phase(self, seen: Seen, phase: str, *, reason: str = "") -> None:
        """Set a pod's phase, whatever its profile says; a final one ends its containers."""
        if phase in TERMINAL:
            self.finish(seen, 0 if phase == "Succeeded" else 1, reason=reason)
        else:
            self._report(seen, replace(seen.pod.status, phase=phase, reason=reason))

    def set_ready(self, seen: Seen, ready: bool) -> None:
        """Report a running pod ready or not, whatever its profile says."""
        if seen.started is not None and not seen.done:
            self._set_ready(seen, ready)

    def _report(self, seen: Seen, status: PodStatus) -> None:
        reported = replace(seen.pod, status=status)
        self.server.update(reported, subresource="status", agent="kubelet")


TRANSITIONS = {
    "bind": Kubelets._bind,
    "start": Kubelets._start,
    "ready": Kubelets._ready,
    "exit": Kubelets._exit,
    "term": Kubelets._term,
}
