"""Which controllers there are and run, and how a manager builds them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.controllers import context as controllers_context
from kcm_lite.controllers.context import (
    CONTROLLERS,
    RELEASE_1_22,
    TODAY,
    ControllerContext,
    Gates,
    Run,
)
from kcm_lite.manager.command import answer
from kcm_lite.manager.featuregates import FeatureGates, known_gates
from kcm_lite.manager.registry import (
    KNOWN_NAMES,
    ControllerDescriptor,
    disabled_by_default,
    is_controller_enabled,
    new_controller_descriptors,
    new_controller_initializers,
)
from kcm_lite.manager.start import (
    BEHAVIOURS,
    NOT_BUILT,
    ManagerContext,
    build_controllers,
    gates_for,
    new_context,
    new_controller,
    run,
)
from kcm_lite.manager.validation import InvalidOptions
from kcm_lite.sim.cluster import Cluster
from kcm_lite.trace import ApiWrite, Note, SyncStart
from tests.sim_support import replica_set

OLD_NAMES = """
attachdetach bootstrapsigner cloud-node-lifecycle clusterrole-aggregation cronjob csrapproving
csrcleaner csrsigning daemonset deployment disruption endpoint endpointslice endpointslicemirroring
ephemeral-volume garbagecollector horizontalpodautoscaling job namespace nodeipam nodelifecycle
persistentvolume-binder persistentvolume-expander podgc pv-protection pvc-protection replicaset
replicationcontroller resourcequota root-ca-cert-publisher route service serviceaccount
serviceaccount-token statefulset tokencleaner ttl ttl-after-finished
"""

EVERY = new_controller_descriptors()


# ---- names


def test_the_names_of_1_22() -> None:
    gates = FeatureGates.for_release("1.22")
    found = new_controller_initializers(gates)
    assert sorted(found) == sorted(OLD_NAMES.split()) and len(found) == 38
    more = {"APIServerIdentity": True, "StorageVersionAPI": True}
    with_gates = new_controller_initializers(FeatureGates.for_release("1.22", more))
    assert with_gates.keys() - found.keys() == {"storage-version-gc"}
    one = FeatureGates.for_release("1.22", {"APIServerIdentity": True})
    assert new_controller_initializers(one).keys() == found.keys()
    inside = new_controller_initializers(gates, cloud_loops=False)
    assert found.keys() - inside.keys() == {"service", "route", "cloud-node-lifecycle"}


def test_every_name_of_1_22_is_an_alias_today() -> None:
    for old, descriptor in new_controller_initializers(FeatureGates.for_release("1.22")).items():
        assert KNOWN_NAMES.canonical(old) == descriptor.name
        assert KNOWN_NAMES.canonical(f"-{old}") == f"-{descriptor.name}"
    off = {"bootstrapsigner", "tokencleaner"}
    found = new_controller_initializers(FeatureGates.for_release("1.22"))
    assert {old for old, d in found.items() if d.disabled_by_default} == off


def test_todays_names() -> None:
    assert len(EVERY) == len(KNOWN_NAMES.known) == 52
    assert len(KNOWN_NAMES.aliases) == 42
    assert list(KNOWN_NAMES.known) == sorted(EVERY)
    special = [d.name for d in EVERY.values() if d.special_handling]
    assert special == [next(iter(EVERY))] == ["serviceaccount-token-controller"]
    for descriptor in EVERY.values():
        assert set(descriptor.required_feature_gates) <= known_gates().keys()
    assert KNOWN_NAMES.canonical("*") == "*" and KNOWN_NAMES.canonical("x") == "x"


def test_whatever_is_built_is_a_controller_that_is_known() -> None:
    assert set(CONTROLLERS) <= set(EVERY)


# ---- the rule


@pytest.mark.parametrize(
    ("entries", "on"),
    [
        ([], ""),
        (["*"], "a b"),
        (["-a"], ""),
        (["*", "-a"], "b"),
        (["-a", "*"], "b"),
        (["a"], "a"),
        (["off"], "off"),
        (["*", "off"], "a b off"),
        (["a", "-a"], "a"),
        (["-a", "a"], ""),
        (["-a", "*", "a"], "b"),
        (["*", "*"], "a b"),
        (["-*"], ""),
    ],
)
def test_which_run(entries: list[str], on: str) -> None:
    names = ("a", "b", "off")
    found = [name for name in names if is_controller_enabled(name, {"off"}, entries)]
    assert found == on.split()


@given(st.lists(st.sampled_from(["*", "a", "-a", "b", "-b"])))
def test_only_the_first_mention_counts(entries: list[str]) -> None:
    first = [e for i, e in enumerate(entries) if e.lstrip("-") not in
             {x.lstrip("-") for x in entries[:i]}]  # fmt: skip
    for name in ("a", "b"):
        assert is_controller_enabled(name, (), entries) == is_controller_enabled(name, (), first)
        mentioned = [e for e in first if e.removeprefix("-") == name]
        wanted = mentioned == [name] if mentioned else "*" in entries
        assert is_controller_enabled(name, (), entries) == wanted


# ---- building


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster without controllers."""
    made = Cluster(controllers=())
    yield made
    made.close()


Managed = Callable[..., ManagerContext]


@pytest.fixture
def managed(cluster: Cluster) -> Managed:
    """What a command line's controllers are built from in that cluster."""

    def manage(*args: str, seed: int = 0) -> ManagerContext:
        completed = answer(["--secure-port=0", *args], now=datetime(2026, 1, 1, tzinfo=UTC)).config
        assert completed is not None
        rng = random.Random(seed)
        return new_context(
            completed, cluster.transport, cluster.clock, rng=rng, trace=cluster.trace
        )

    return manage


def test_what_is_skipped_says_why(tmp_path: Path, managed: Managed) -> None:
    context = managed("--enable-garbage-collector=false")
    reasons = {
        "storageversion-garbage-collector-controller": "disabled by a feature gate "
        "(APIServerIdentity, StorageVersionAPI)",
        "service-lb-controller": "a cloud provider's controller",
        "serviceaccount-token-controller": "disabled because there is no private key",
        "garbage-collector-controller": "--enable-garbage-collector=false",
        "disruption-controller": NOT_BUILT,
    }
    if "disruption-controller" in CONTROLLERS:
        del reasons["disruption-controller"]
    for name in reasons:
        assert new_controller(EVERY[name], context) is None
    assert context.skipped == reasons
    assert new_controller(EVERY["replicaset-controller"], context) is not None


def test_a_gate_that_is_on_lets_a_controller_through(managed: Managed) -> None:
    name = "storageversion-garbage-collector-controller"
    context = managed("--feature-gates=StorageVersionAPI=true")
    assert new_controller(EVERY[name], context) is None
    assert context.skipped == {name: NOT_BUILT}


def test_building_counts_every_controller_once(managed: Managed) -> None:
    context = managed("--controllers=replicaset,deployment,-job")
    checks: list[str] = []
    built = build_controllers(context, add_health_check=checks.append)
    assert sorted(built) == sorted(checks) == ["deployment-controller", "replicaset-controller"]
    assert built.keys() | context.skipped.keys() == EVERY.keys()
    assert context.skipped["job-controller"] == "disabled"
    assert context.skipped["bootstrap-signer-controller"] == "disabled"


def test_a_controller_that_is_written_later_is_picked_up(
    monkeypatch: pytest.MonkeyPatch, managed: Managed
) -> None:
    name = "disruption-controller"
    asked: list[ControllerContext] = []

    def build(context: ControllerContext) -> Run:
        asked.append(context)

        async def start() -> None:
            pass

        return start

    monkeypatch.setitem(controllers_context.CONTROLLERS, name, build)
    context = managed("--controllers=disruption")
    assert list(build_controllers(context)) == [name]
    assert asked == [context.controllers]


def test_the_token_controller_comes_first_and_its_error_ends_the_start(
    tmp_path: Path, managed: Managed
) -> None:
    key = tmp_path / "key"
    context = managed("--controllers=replicaset", f"--service-account-private-key-file={key}")
    with pytest.raises(InvalidOptions, match="no such file"):
        build_controllers(context)
    assert context.skipped == {}
    key.write_text("secret")
    assert list(build_controllers(context)) == ["replicaset-controller"]
    assert context.skipped["serviceaccount-token-controller"] == NOT_BUILT


def test_the_order_of_descriptors_does_not_matter_for_the_special_one(
    tmp_path: Path, managed: Managed
) -> None:
    context = managed("--service-account-private-key-file=/nowhere")
    backwards = dict(reversed(EVERY.items()))
    with pytest.raises(InvalidOptions):
        build_controllers(context, backwards)
    assert context.skipped == {}


# ---- running


def test_nothing_starts_when_one_cannot_be_built(cluster: Cluster, managed: Managed) -> None:
    cluster.apply(replica_set(2))
    context = managed("--service-account-private-key-file=/nowhere")
    with pytest.raises(InvalidOptions):
        cluster.clock.run(run(context))
    cluster.run_for(5)
    assert not context.informers_started.is_set()
    assert not list(cluster.trace.of(ApiWrite, resource="pods"))


def test_a_run_says_how_many_it_built_and_signals_its_informers(
    cluster: Cluster, managed: Managed
) -> None:
    context = managed("--controllers=replicaset")
    cluster.clock.run(run(context))
    assert context.informers_started.is_set()
    (note,) = cluster.trace.of(Note, source="kube-controller-manager")
    assert note.text == "1 controllers built, 51 skipped"
    assert note.data == context.skipped


@pytest.mark.parametrize("workers", [1, 3])
def test_the_flag_is_the_number_of_workers(
    workers: int, cluster: Cluster, managed: Managed
) -> None:
    context = managed(f"--concurrent-replicaset-syncs={workers}")
    cluster.clock.run(run(context))
    for i in range(6):
        cluster.apply(replica_set(2, f"web-{i}"))
    cluster.run_for(5)
    syncs = cluster.trace.of(SyncStart, controller="replicaset-controller")
    assert {sync.worker for sync in syncs} == set(range(workers))


def test_no_workers_no_work(cluster: Cluster, managed: Managed) -> None:
    cluster.clock.run(run(managed("--concurrent-replicaset-syncs=-3")))
    cluster.apply(replica_set(2))
    cluster.run_for(5)
    assert not list(cluster.trace.of(ApiWrite, resource="pods"))


def test_the_limits_of_clients_are_the_flags(cluster: Cluster, managed: Managed) -> None:
    args = ["--kube-api-qps=1", "--kube-api-burst=1", "--controllers=replicaset"]
    cluster.clock.run(run(managed(*args)))
    cluster.apply(replica_set(4))
    cluster.run_for(20)
    times = [
        w.t for w in cluster.trace.of(ApiWrite, verb="create", resource="pods", subresource="")
    ]
    assert len(times) == 4 and all(b - a > 0.9 for a, b in pairwise(times))


@pytest.mark.parametrize("seed", range(4))
def test_a_start_interval_delays_the_controllers(
    cluster: Cluster, managed: Managed, seed: int
) -> None:
    rng = random.Random(seed)
    resync, jitter = rng.random(), rng.random()  # one controller: the second number is its own
    args = ["--controllers=replicaset", "--controller-start-interval=10s"]
    cluster.clock.run(run(managed(*args, seed=seed)))
    cluster.apply(replica_set(2))
    cluster.run_for(30)
    first = min(w.t for w in cluster.trace.of(ApiWrite, verb="create", resource="pods"))
    assert 10 * (1 + jitter) <= first <= 10 * (1 + jitter) + 0.1 and resync != jitter


# ---- gates and switches


def test_every_switch_of_the_controllers_has_a_gate_or_a_release() -> None:
    switches = {
        f"{part.name}.{switch.name}"
        for part in fields(Gates)
        for switch in fields(getattr(TODAY, part.name))
    }
    assert switches == set(BEHAVIOURS), "add a row to kcm_lite.manager.start.BEHAVIOURS"
    for source in BEHAVIOURS.values():
        assert source in known_gates() or FeatureGates.for_release(source)


def test_releases_have_the_switches_that_the_controllers_name() -> None:
    assert gates_for(FeatureGates()) == TODAY
    assert gates_for(FeatureGates.for_release("1.22")) == RELEASE_1_22


def test_a_gate_switches_what_it_says_and_nothing_else() -> None:
    for key, source in BEHAVIOURS.items():
        if source not in known_gates() or known_gates()[source].at((1, 36)).locked:
            continue
        part, _, switch = key.partition(".")
        found: Any = gates_for(FeatureGates().set(f"{source}=false"))
        assert getattr(getattr(found, part), switch) is False
        others = {k for k, s in BEHAVIOURS.items() if s != source}
        for other in others:
            name, _, field = other.partition(".")
            assert getattr(getattr(found, name), field) == getattr(getattr(TODAY, name), field)


def test_a_descriptor_can_be_made_by_hand(managed: Managed) -> None:
    mine = ControllerDescriptor("mine")
    assert mine.constructor is None and disabled_by_default({"mine": mine}) == []
    assert list(build_controllers(managed(), {"mine": mine})) == []
