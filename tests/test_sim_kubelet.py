"""The scheduler and the kubelets: what a profile's words mean, to the tenth of a second."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.core import Container, Node, Pod, PodSpec, Taint, Toleration
from kcm_lite.api.meta import Object, ObjectMeta, OwnerReference, replace
from kcm_lite.api.request import Request
from kcm_lite.apiserver.server import APIServer
from kcm_lite.clock import VirtualClock
from kcm_lite.sim.chance import Chance
from kcm_lite.sim.kubelet import Kubelets
from kcm_lite.sim.nodes import Machines, node_object, with_ready
from kcm_lite.sim.profile import parse_profile
from kcm_lite.trace import ApiWrite, Trace


class Lab:
    """An API server with nodes and kubelets, and no controller."""

    def __init__(self, nodes: int = 3, **profile: Any) -> None:
        self.clock = VirtualClock()
        self.trace = Trace()
        self.server = APIServer(self.clock, trace=self.trace)
        self.machines = Machines()
        self.kubelets = Kubelets(
            self.server,
            self.clock,
            self.machines,
            parse_profile(profile),
            chance=Chance("0"),
        )
        self.server.subscribe(Node, self.machines.on_node)
        self.server.subscribe(Pod, self.kubelets.on_pod)
        for n in range(1, nodes + 1):
            node = node_object(n, scenario="test", now=self.clock.timestamp())
            self.server.create(node, agent="cluster")

    def pods(self, count: int = 1, *, policy: str = "", **meta: Any) -> None:
        for _ in range(count):
            name = f"p{self.kubelets.count + 1}"
            spec = PodSpec(containers=(Container(name="c", image="app:1"),), restart_policy=policy)
            self.server.create(
                Pod(metadata=ObjectMeta(namespace="default", name=name, **meta), spec=spec)
            )

    def pod(self, n: int = 1) -> Pod:
        return self.server.get(Pod, "default", f"p{n}")

    def steps(self, n: int = 1) -> list[tuple[float, str]]:
        """(second, what) of everything that happened to a pod."""
        out = []
        for w in self.trace.of(ApiWrite, resource="pods", name=f"p{n}"):
            if w.new is None:
                what = "gone"
            else:
                assert isinstance(w.new, Pod)
                ready = any(
                    c.type == "Ready" and c.status == "True" for c in w.new.status.conditions
                )
                what = "ready" if ready else w.new.status.phase
                if w.subresource == "binding":
                    what = w.new.spec.node_name
                elif w.new.metadata.deletion_timestamp and w.verb == "delete":
                    what = "deleting"
            out.append((round(w.t, 3), what))
        return out

    def restarts(self, n: int = 1) -> int:
        return sum(s.restart_count for s in self.pod(n).status.container_statuses)


def test_a_pod_lives_by_the_profile() -> None:
    lab = Lab(scheduleAfter=0.5, startAfter=2, readyAfter=3, terminationGrace=4)
    lab.pods()
    lab.clock.run_until(10)
    lab.server.delete(Pod, "default", "p1")
    lab.clock.run_until(20)
    assert lab.steps() == [
        (0.0, "Pending"),
        (0.5, "node-1"),
        (2.5, "Running"),
        (5.5, "ready"),
        (10.0, "deleting"),
        (14.0, "Failed"),
        (14.0, "gone"),
    ]


def test_what_a_running_pod_reports() -> None:
    lab = Lab()
    lab.pods()
    lab.clock.run_until(1.5)
    status = lab.pod().status
    assert status.pod_ip == "10.1.0.2" and status.pod_ips[0].ip == status.pod_ip
    assert status.start_time is not None
    assert [(s.name, s.ready, s.started) for s in status.container_statuses] == [("c", False, True)]
    assert {c.type: c.status for c in status.conditions} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "False",
        "ContainersReady": "False",
        "PodScheduled": "True",
    }
    lab.clock.run_until(3)
    times = {c.type: c.last_transition_time for c in lab.pod().status.conditions}
    assert (times["Ready"] - times["Initialized"]).total_seconds() == 1  # type: ignore[operator]


def test_ready_after_zero_is_the_same_write() -> None:
    lab = Lab(readyAfter=0)
    lab.pods()
    lab.clock.run_until(5)
    assert lab.steps() == [(0.0, "Pending"), (0.0, "node-1"), (1.0, "ready")]


@pytest.mark.parametrize(
    ("key", "last"),
    [("neverSchedule", "Pending"), ("neverStart", "node-1"), ("neverReady", "Running")],
)
def test_a_step_that_never_comes(key: str, last: str) -> None:
    lab = Lab(**{key: True, "readyAfter": 0})
    lab.pods()
    lab.clock.run_until(50)
    assert lab.steps()[-1][1] == last


def test_pods_go_round_the_nodes_and_forced_ones_do_not_count() -> None:
    lab = Lab(overrides=[{"match": {"index": 2}, "node": 3}])
    lab.pods(5)
    lab.clock.run_until(1)
    assert [lab.pod(n).spec.node_name for n in range(1, 6)] == [
        "node-1",
        "node-3",
        "node-2",
        "node-3",
        "node-1",
    ]


def test_a_pod_that_fits_nowhere_is_tried_every_second() -> None:
    lab = Lab(nodes=1)
    node = lab.server.get(Node, "", "node-1")
    cordoned = lab.server.update(replace(node, spec=replace(node.spec, unschedulable=True)))
    lab.pods()
    lab.clock.run_until(2.5)
    assert lab.pod().spec.node_name == ""
    lab.server.update(replace(cordoned, spec=replace(cordoned.spec, unschedulable=False)))
    lab.clock.run_until(4)
    assert lab.steps()[1] == (3.0, "node-1")


def test_taints_keep_pods_away_unless_tolerated() -> None:
    lab = Lab(nodes=2)
    node = lab.server.get(Node, "", "node-1")
    taint = Taint(key="dedicated", value="db", effect="NoSchedule")
    lab.server.update(replace(node, spec=replace(node.spec, taints=(taint,))))
    lab.pods(2)
    spec = PodSpec(
        containers=(Container(name="c", image="app:1"),),
        tolerations=(Toleration(key="dedicated", operator="Equal", value="db"),),
    )
    lab.server.create(Pod(metadata=ObjectMeta(namespace="default", name="p3"), spec=spec))
    lab.clock.run_until(1)
    placed = [lab.pod(n).spec.node_name for n in (1, 2, 3)]
    assert placed == ["node-2", "node-2", "node-1"]


def test_a_node_that_is_not_ready_gets_no_pods_but_goes_on_running_its_own() -> None:
    lab = Lab(nodes=2, readyAfter=5)
    lab.pods(1)
    lab.clock.run_until(1.5)
    node = lab.server.get(Node, "", "node-1")
    lab.server.update(with_ready(node, False, lab.clock.timestamp()), subresource="status")
    lab.pods(2)
    lab.clock.run_until(10)
    assert [lab.pod(n).spec.node_name for n in (1, 2, 3)] == ["node-1", "node-2", "node-2"]
    assert lab.steps(1)[-1] == (6.0, "ready")


def test_a_silent_kubelet_does_nothing_any_more() -> None:
    lab = Lab(nodes=1)
    lab.pods()
    lab.clock.run_until(1.5)
    lab.machines.set_frozen("node-1", True)
    lab.server.delete(Pod, "default", "p1")
    lab.pods()
    lab.clock.run_until(20)
    assert lab.steps(1)[-1] == (1.5, "deleting")
    assert lab.pod(2).spec.node_name == ""


def test_a_pod_goes_to_the_node_that_its_affinity_names() -> None:
    lab = Lab()
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-3"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = PodSpec(
        containers=(Container(name="c", image="app:1"),), affinity={"nodeAffinity": required}
    )
    lab.server.create(Pod(metadata=ObjectMeta(namespace="default", name="p1"), spec=spec))
    lab.clock.run_until(1)
    assert lab.pod().spec.node_name == "node-3"


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
def test_an_exit_ends_the_pod(code: int, phase: str) -> None:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": "Test"}]
    lab = Lab(exit={"after": 5, "code": code, "podConditions": conditions})
    lab.pods(policy="Never")
    lab.clock.run_until(10)
    pod = lab.pod()
    assert lab.steps()[-1] == (6.0, phase)
    ended = pod.status.container_statuses[0].state.terminated
    assert ended is not None and ended.exit_code == code
    reasons = {c.type: (c.status, c.reason) for c in pod.status.conditions}
    assert reasons["Ready"] == ("False", "PodFailed" if code else "PodCompleted")
    assert reasons["DisruptionTarget"] == ("True", "Test")


def test_a_terminal_pod_is_deleted_at_once() -> None:
    lab = Lab(exit={"after": 1}, terminationGrace=30)
    lab.pods(policy="Never")
    lab.clock.run_until(5)
    lab.server.delete(Pod, "default", "p1")
    lab.clock.run_until(5.1)
    assert lab.steps()[-1] == (5.0, "gone")


def test_a_termination_may_succeed() -> None:
    lab = Lab(terminationExitCode=0)
    lab.pods()
    lab.clock.run_until(5)
    lab.server.delete(Pod, "default", "p1")
    lab.clock.run_until(10)
    assert [what for _, what in lab.steps()][-2:] == ["Succeeded", "gone"]


def test_restarts_come_before_the_good_end() -> None:
    lab = Lab(exit={"after": 4, "code": 1}, restarts=2, initialRestartCount=1)
    lab.pods(policy="OnFailure")
    lab.clock.run_until(30)
    assert [s for s in lab.steps() if s[0] > 1] == [
        (2.0, "ready"),
        (5.0, "Running"),
        (6.0, "ready"),
        (9.0, "Running"),
        (10.0, "ready"),
        (13.0, "Succeeded"),
    ]
    assert lab.restarts() == 3


def test_minus_one_restarts_for_ever() -> None:
    lab = Lab(exit={"after": 4, "code": 1}, restarts=-1)
    lab.pods(policy="OnFailure")
    lab.clock.run_until(90)
    assert lab.restarts() == 22 and lab.pod().status.phase == "Running"


def test_a_deleting_pod_makes_no_other_transition() -> None:
    lab = Lab(readyAfter=3, terminationGrace=10)
    lab.pods()
    lab.clock.run_until(1.5)
    lab.server.delete(Pod, "default", "p1")
    lab.clock.run_until(30)
    assert [what for _, what in lab.steps()] == [
        "Pending",
        "node-1",
        "Running",
        "deleting",
        "Failed",
        "gone",
    ]


def test_a_pod_that_is_gone_is_forgotten() -> None:
    lab = Lab()
    lab.pods()
    lab.clock.run_until(0.5)
    lab.server.handle(
        Request(
            verb="delete",
            type=Pod,
            namespace="default",
            name="p1",
            options=None,
        )
    )
    lab.clock.run_until(10)
    assert not lab.kubelets.pods


# ---- the grid


def test_the_grid_puts_peers_in_order_and_apart() -> None:
    lab = Lab(gap=1.0)
    lab.pods(3)
    lab.clock.run_until(10)
    assert [lab.steps(n)[-1] for n in (1, 2, 3)] == [(2.5, "ready"), (3.5, "ready"), (4.5, "ready")]


def test_the_grid_counts_an_exit_from_running_not_from_its_slot() -> None:
    lab = Lab(gap=2.0, exit={"after": 4})
    lab.pods(2, policy="Never")
    lab.clock.run_until(20)
    # ready is due at 2 and done at 2.5 and 4.5; exit is due at 5 for both and gets the next slots
    assert [s for s in lab.steps(1) if s[0] > 1] == [(2.5, "ready"), (6.5, "Succeeded")]
    assert [s for s in lab.steps(2) if s[0] > 1] == [(4.5, "ready"), (8.5, "Succeeded")]


def test_a_restart_counts_from_the_slot_that_it_got() -> None:
    lab = Lab(gap=1.0, exit={"after": 4, "code": 1}, restarts=1)
    lab.pods(1, policy="OnFailure")
    lab.clock.run_until(20)
    assert [s for s in lab.steps(1) if s[0] > 2] == [
        (2.5, "ready"),
        (5.5, "Running"),
        (6.5, "ready"),
        (9.5, "Succeeded"),
    ]


def test_the_grid_ranks_by_completion_index() -> None:
    lab = Lab(gap=1.0)
    for index in (2, 0, 1):
        lab.pods(annotations={"batch.kubernetes.io/job-completion-index": str(index)})
    lab.clock.run_until(10)
    assert [lab.steps(n)[-1][0] for n in (1, 2, 3)] == [4.5, 2.5, 3.5]


def test_the_grid_ranks_pods_of_a_daemon_set_by_node() -> None:
    lab = Lab(gap=1.0, overrides=[{"match": {"index": i}, "node": 4 - i} for i in (1, 2, 3)])
    owner = OwnerReference(api_version="apps/v1", kind="DaemonSet", name="d", uid="u")
    lab.pods(3, owner_references=(owner,))
    lab.clock.run_until(10)
    assert [lab.steps(n)[-1][0] for n in (1, 2, 3)] == [4.5, 3.5, 2.5]


def test_a_transition_that_falls_away_takes_no_slot() -> None:
    lab = Lab(gap=1.0, terminationGrace=20)
    lab.pods(3)
    lab.clock.run_until(2.7)
    lab.server.delete(Pod, "default", "p2")
    lab.clock.run_until(10)
    assert lab.steps(3)[-1] == (3.5, "ready")


@settings(max_examples=40)
@given(
    starts=st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=12),
    gap=st.sampled_from([0.1, 0.3, 1.0, 2.5]),
)
def test_gridded_transitions_are_never_closer_than_the_gap(starts: list[float], gap: float) -> None:
    overrides = [{"match": {"index": i + 1}, "readyAfter": s} for i, s in enumerate(starts)]
    lab = Lab(gap=gap, overrides=overrides)
    lab.pods(len(starts))
    lab.clock.run_until(60)
    gridded = [i + 1 for i, s in enumerate(starts) if s > 0]
    times = sorted(lab.steps(n)[-1][0] for n in gridded)
    assert all(b - a >= gap - 0.002 for a, b in itertools.pairwise(times))
    for n in gridded:
        due = 1 + starts[n - 1]
        assert lab.steps(n)[-1][1] == "ready"
        assert lab.steps(n)[-1][0] >= due - 0.001


def test_an_idle_cluster_costs_nothing() -> None:
    """No task and no timer per pod: when all are ready, nothing is left to happen."""
    lab = Lab()
    lab.pods(200)
    assert lab.clock.settle() == pytest.approx(2.0)
    before = len(lab.trace.records)
    lab.clock.run_for(3600)
    assert len(lab.trace.records) == before


def test_a_bound_pod_is_started_whoever_bound_it() -> None:
    lab = Lab()
    spec = PodSpec(containers=(Container(name="c", image="app:1"),), node_name="node-2")
    obj: Object = Pod(metadata=ObjectMeta(namespace="default", name="p1"), spec=spec)
    lab.server.create(obj)
    lab.clock.run_until(5)
    assert [what for _, what in lab.steps()] == ["Pending", "Running", "ready"]
