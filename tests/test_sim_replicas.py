from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.core import Pod
from kcm_lite.manager.config import CompletedConfig
from kcm_lite.manager.files import ControllerLeader, LeaderMigration
from kcm_lite.manager.leading import RELEASE_ON_EXIT
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.replicas import Replicas, manager_config
from kcm_lite.trace import ApiWrite
from tests.sim_support import replica_set

MAIN = "kube-controller-manager"
CALL = 0.01  # a request and its answer


def replicas(count: int = 2, *flags: str, seed: int = 0, **more: Any) -> Replicas:
    times = {
        k: more.pop(k) for k in ("lease_duration", "renew_deadline", "retry_period") if k in more
    }
    config = manager_config(*(flags or ("--controllers=ttl-controller",)), **times)
    return Replicas(Cluster(1, seed, controllers=()), count, config=config, seed=seed, **more)


def last_renewal(found: Replicas, holder: str) -> float:
    return max(change.t for change in found.changes() if change.holder == holder)


# ---- cases


@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
@pytest.mark.parametrize("seed", range(5))
def test_case_crash_and_skew(ahead: float, seed: int) -> None:
    """LE-CRASH-SKEW: a candidate trusts when it saw a change, not the clock of the lease."""
    found = replicas(ahead={"kcm-2": ahead}, seed=seed)
    found.cluster.run_until(100)
    renewed = last_renewal(found, "kcm-1")
    found.kill("kcm-1")
    found.cluster.run_until(140)
    (first, second) = found.spans
    assert (first.replica, second.replica) == ("kcm-1", "kcm-2")
    assert renewed + 15 <= second.start <= renewed + 15 + 2 * 4.4 + 4 * CALL
    assert [c.transitions for c in found.changes()][-1] == 1


@pytest.mark.parametrize("seed", range(5))
def test_case_renew_deadline(seed: int) -> None:
    """LE-RENEW-DEADLINE: a leader that is cut off stops before anybody may take over."""
    found = replicas(seed=seed)
    found.cluster.run_until(99)
    while (renewed := last_renewal(found, "kcm-1") + CALL / 2) < 99:
        found.cluster.run_for(CALL)
    found.cut("kcm-1")
    found.cluster.run_until(140)
    first, second = found.spans
    assert first.end == pytest.approx(renewed + 12)
    assert first.why == "exit 1: leaderelection lost/stopped"
    assert renewed + 15 - CALL <= second.start <= renewed + 24
    assert first.end is not None and second.start - first.end >= 3 - CALL
    assert found.overlaps() == []


# ---- what is true of every run

FAULTS = st.lists(
    st.tuples(
        st.floats(0, 60),
        st.sampled_from(["kill", "cut", "heal", "start", "terminate"]),
        st.integers(1, 3),
    ),
    max_size=8,
)


def play(found: Replicas, faults: list[tuple[float, str, int]]) -> None:
    for pause, fault, number in faults:
        found.cluster.run_for(pause)
        name = f"kcm-{number}"
        if (name in found.running()) == (fault != "start"):
            getattr(found, fault)(name)


@given(
    faults=FAULTS,
    retry=st.floats(1, 5),
    factor=st.floats(1.21, 4),
    margin=st.integers(1, 20),
    ahead=st.floats(-1e6, 1e6),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40)
def test_never_two_leaders_when_clocks_run_alike(
    faults: list[tuple[float, str, int]],
    retry: float,
    factor: float,
    margin: int,
    ahead: float,
    seed: int,
) -> None:
    renew = factor * retry
    lease = float(int(renew + retry) + margin)  # a Lease holds whole seconds
    found = replicas(
        3,
        lease_duration=lease,
        renew_deadline=renew,
        retry_period=retry,
        ahead={"kcm-2": ahead},
        seed=seed,
    )
    play(found, faults)
    found.cluster.run_for(100)
    assert found.overlaps() == []
    changes = found.changes()
    for before, after in pairwise(changes):
        if after.holder != before.holder:
            assert after.t - before.t >= lease
            assert after.transitions == before.transitions + 1


@given(
    lease=st.integers(5, 40),
    share=st.floats(0.5, 0.99),
    retry=st.floats(1, 3),
    at=st.floats(5, 60),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40)
def test_the_gap_is_bounded(lease: int, share: float, retry: float, at: float, seed: int) -> None:
    renew = max(share * lease, 1.21 * retry)
    found = replicas(
        lease_duration=float(lease), renew_deadline=renew, retry_period=retry, seed=seed
    )
    found.cluster.run_for(at)
    found.kill("kcm-1")
    renewed = last_renewal(found, "kcm-1")
    jittered = retry * 2.2 + 2 * CALL  # the longest wait between two looks at the lease
    found.cluster.run_for(lease + 2 * jittered + 1)
    first, second = found.spans
    assert lease <= second.start - renewed <= lease + 2 * jittered
    assert found.gaps() == [(first.end, second.start)]


# ---- when clocks or machines stop


def test_a_leader_that_was_frozen_acts_until_its_renew_deadline() -> None:
    """Two act at once, for upstream has no fencing: the others cannot stop it."""
    found = replicas()
    found.cluster.run_until(60)
    found.freeze("kcm-1")
    found.cluster.run_until(90)
    assert found.leaders() == ["kcm-2"]
    found.thaw("kcm-1")
    assert sorted(found.leaders()) == ["kcm-1", "kcm-2"]
    found.cluster.run_until(120)
    ((start, end),) = found.overlaps()
    assert start == 90 and 99 <= end <= 101
    assert found.leaders() == ["kcm-2"] and found.running() == ["kcm-2"]


def test_a_short_freeze_costs_nothing() -> None:
    found = replicas()
    found.cluster.run_until(60)
    found.freeze("kcm-1")
    found.cluster.run_for(8)
    found.thaw("kcm-1")
    found.cluster.run_for(60)
    assert found.running() == ["kcm-1", "kcm-2"] and found.leaders() == ["kcm-1"]
    assert {c.transitions for c in found.changes()} == {0}


def test_a_slow_clock_outlives_its_lease() -> None:
    """The leader's ten seconds take twice as long as the others' fifteen allow."""
    found = replicas(rate={"kcm-1": 0.5})
    found.cluster.run_until(100)
    found.cut("kcm-1")
    found.cluster.run_until(160)
    assert found.overlaps()


def test_upstream_allows_times_that_let_two_act() -> None:
    """It asks for lease > renew deadline; only lease > renew deadline + retry period is safe."""
    together = []
    for seed in range(20):
        found = replicas(renew_deadline=14.9, seed=seed)
        found.cluster.run_until(100)
        found.cut("kcm-1")
        found.cluster.run_until(160)
        together += [end - start for start, end in found.overlaps()]
    assert together and 0 < max(together) < 2


def test_renewals_within_one_second_look_alike() -> None:
    """Upstream compares records whose times are cut to seconds: a candidate may be early."""
    early = []
    for seed in range(10):
        found = replicas(lease_duration=5.0, renew_deadline=2.5, retry_period=0.375, seed=seed)
        found.cluster.run_until(5)
        found.kill("kcm-1")
        found.cluster.run_until(15)
        early.append(5 - (found.spans[1].start - last_renewal(found, "kcm-1")))
    assert 0 < max(early) < 1


def test_a_stuck_leader_fails_its_health_check() -> None:
    found = replicas(1)
    found.cluster.run_until(60)
    health = found.managers["kcm-1"].health
    health.check()
    found.freeze("kcm-1")
    found.cluster.run_for(33)
    health.check()
    found.cluster.run_for(3)
    with pytest.raises(RuntimeError, match=f"on lease {MAIN}"):
        health.check()


# ---- leaving, coming back


@pytest.mark.parametrize("release", [False, True])
def test_sigterm(release: bool) -> None:
    gate = f"--feature-gates={RELEASE_ON_EXIT}={str(release).lower()}"
    found = replicas(2, gate, "--controllers=replicaset-controller")
    found.cluster.run_until(60)
    found.terminate("kcm-1")
    found.cluster.run_until(100)
    first, second = found.spans
    assert first.why == "exit 0: Requested to terminate. Exiting."
    waited = second.start - 60
    assert waited <= 4.5 if release else 13 <= waited <= 24


def test_a_manager_that_starts_again_is_another_candidate() -> None:
    found = replicas(1)
    found.cluster.run_until(10)
    before = found.managers["kcm-1"].identity
    found.kill("kcm-1")
    found.start("kcm-1")
    assert found.managers["kcm-1"].identity != before
    found.cluster.run_until(20)
    assert found.leaders() == []
    found.cluster.run_until(40)
    assert found.leaders() == ["kcm-1"] and found.changes()[-1].transitions == 1


def test_without_leader_election_everybody_acts_at_once() -> None:
    found = replicas(2, "--leader-elect=false", "--controllers=replicaset-controller")
    found.cluster.run_until(5)
    assert found.leaders("") == ["kcm-1", "kcm-2"] and found.changes() == []


@pytest.mark.parametrize("act", ["kill", "cut", "heal", "freeze", "thaw", "terminate"])
def test_a_manager_that_is_not_there(act: str) -> None:
    found = replicas(2)
    found.cluster.run_for(1)
    with pytest.raises(ValueError, match=r"no manager kcm-9 runs; there are kcm-1, kcm-2"):
        getattr(found, act)("kcm-9")
    with pytest.raises(ValueError, match="kcm-1 runs already"):
        found.start("kcm-1")
    with pytest.raises(ValueError, match="kcm-1 is not frozen"):
        found.thaw("kcm-1")


# ---- the work goes on


def test_the_next_leader_takes_up_the_work() -> None:
    found = replicas(3, "--controllers=replicaset-controller")
    cluster = found.cluster
    cluster.run_until(10)
    cluster.apply(replica_set(3))
    cluster.run_until(20)
    assert len(cluster.objects(Pod)) == 3
    found.kill("kcm-1")
    cluster.scale("rs/web", 5)
    cluster.run_until(30)
    assert len(cluster.objects(Pod)) == 3, "nobody acts"
    cluster.run_until(50)
    assert len(cluster.objects(Pod)) == 5
    made = list(cluster.trace.of(ApiWrite, resource="pods", verb="create", subresource=""))
    assert len(made) == 5 and all(w.code == 201 for w in made)


def test_a_killed_leader_sends_nothing_more() -> None:
    found = replicas(1, "--controllers=replicaset-controller", seed=3)
    cluster = found.cluster
    cluster.run_until(10)
    cluster.apply(replica_set(300))
    cluster.run_until(10.5)
    found.kill("kcm-1")
    cluster.run_until(10.5 + CALL)
    before = len(cluster.objects(Pod))
    assert 0 < before < 300
    cluster.run_until(60)
    assert len(cluster.objects(Pod)) == before


# ---- leader migration


def migrants(count: int) -> Replicas:
    config = migrating({"replicaset-controller": "*"})
    return Replicas(Cluster(1, controllers=()), count, config=config)


def migrating(components: dict[str, str]) -> CompletedConfig:
    config = manager_config("--controllers=replicaset-controller,deployment-controller")
    leaders = tuple(ControllerLeader(name, who) for name, who in components.items())
    config.config.leader_migration = LeaderMigration("cloud-migration", "leases", leaders)
    return config


def test_controllers_that_migrate_run_under_the_second_lease() -> None:
    config = migrating({"replicaset-controller": "*", "deployment-controller": "elsewhere"})
    found = Replicas(Cluster(1, controllers=()), 2, config=config)
    found.cluster.run_until(30)
    main, second = found.spans
    assert (main.lease, second.lease) == (MAIN, "cloud-migration")
    assert main.replica == second.replica and second.start > main.start
    assert next(c.holder for c in found.changes("cloud-migration")) == "kcm-1"
    found.kill("kcm-1")
    found.cluster.run_until(80)
    assert found.leaders() == ["kcm-2"] == found.leaders("cloud-migration")
    assert found.spans[3].start > found.spans[2].start


def test_the_second_lease_is_tried_only_after_the_first_is_held() -> None:
    found = migrants(3)
    found.cluster.run_until(60)
    leases: list[Any] = [
        record.new
        for record in found.cluster.trace.of(ApiWrite, name="cloud-migration", resource="leases")
    ]
    asked = {lease.spec.holder_identity.partition("_")[0] for lease in leases}
    assert asked == {"kcm-1"}
    assert len(found.managers["kcm-1"].electors) == 2
    assert len(found.managers["kcm-2"].electors) == 1


def test_losing_one_lease_ends_the_process() -> None:
    found = migrants(1)
    found.cluster.run_until(30)
    for elector in found.managers["kcm-1"].electors[1:]:
        elector.config.lock.identity = "somebody else"
    found.cluster.run_until(60)
    assert found.running() == []
    assert {span.why for span in found.spans} == {"exit 1: migration leaderelection lost/stopped"}


# ---- determinism

PROGRAM = """
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.replicas import Replicas
found = Replicas(Cluster(2, 7, controllers=()), 3, seed=7)
cluster = found.cluster
cluster.run_for(20)
found.kill("kcm-1"); cluster.run_for(40)
found.freeze(found.leaders()[0]); cluster.run_for(40); found.start("kcm-1")
cluster.run_for(40)
import hashlib
text = "\\n".join(map(repr, cluster.trace.records))
print(len(cluster.trace.records), hashlib.sha256(text.encode()).hexdigest(), found.spans)
"""


def test_same_seed_same_trace() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1 and outputs != {""}
