"""What must hold in every history, checked on random ones."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kcm_lite.api.core import ConfigMap, Pod
from kcm_lite.api.errors import Conflict, StatusError
from kcm_lite.api.meta import DeleteOptions, Object, ObjectMeta, object_key, replace
from kcm_lite.api.request import WatchEvent
from kcm_lite.api.selectors import parse_selector
from tests.apiserver_support import Box, bind, config, pod, with_meta

NAMES = st.sampled_from(["a", "b"])
FINALIZERS = st.sampled_from([(), ("x.io/a",), ("x.io/a", "x.io/b")])
LABELS = st.sampled_from([{}, {"app": "web"}, {"app": "db"}])
GRACE = st.sampled_from([None, 0, 1, 10, 60])
POLICY = st.sampled_from([None, "Background", "Foreground", "Orphan"])

STEP = st.one_of(
    st.tuples(st.just("create"), NAMES, LABELS, FINALIZERS),
    st.tuples(st.just("label"), NAMES, LABELS),
    st.tuples(st.just("stale"), NAMES, LABELS),
    st.tuples(st.just("finalizers"), NAMES, FINALIZERS),
    st.tuples(st.just("phase"), NAMES, st.sampled_from(["Running", "Succeeded", "Failed"])),
    st.tuples(st.just("bind"), NAMES),
    st.tuples(st.just("delete"), NAMES, GRACE, POLICY),
    st.tuples(st.just("wait"), st.sampled_from([0.3, 1, 7])),
)
HISTORY = st.lists(STEP, max_size=40)


class Run:
    """A random history of pods: what was done, and what a watcher of everything saw."""

    def __init__(self, steps: list[tuple[Any, ...]]) -> None:
        self.box = Box()
        self.start = self.box.server.list(Pod).resource_version
        self.events: list[WatchEvent] = self.box.watch(Pod, resource_version=self.start)
        self.first: dict[str, Pod] = {}
        self.do("create", "a", {"app": "web"}, ("x.io/a",))
        self.do("bind", "a")
        for step in steps:
            try:
                self.do(*step)
            except StatusError as error:
                assert error.code < 500, error

    def do(self, verb: str, *args: Any) -> None:
        server = self.box.server
        if verb == "wait":
            return self.box.clock.run_for(*args)
        name, *rest = args
        if verb == "create":
            made = server.create(pod(name, labels=rest[0], finalizers=rest[1]))
            self.first[name] = made
            return None
        if verb == "bind":
            return bind(server, name)
        if verb == "delete":
            grace, policy = rest
            options = DeleteOptions(grace_period_seconds=grace, propagation_policy=policy)
            server.delete(Pod, "default", name, options)
            return None
        stored = self.first[name] if verb == "stale" and name in self.first else None
        stored = stored or server.get(Pod, "default", name)
        match verb:
            case "label" | "stale":
                server.update(with_meta(stored, labels=rest[0]))
            case "finalizers":
                server.update(with_meta(stored, finalizers=rest[0]))
            case "phase":
                status = replace(stored.status, phase=rest[0])
                server.update(replace(stored, status=status), subresource="status")
        return None


def grace_of(meta: ObjectMeta) -> int:
    return meta.deletion_grace_period_seconds or 0


def follow(events: list[WatchEvent], state: dict[str, Object] | None = None) -> dict[str, Object]:
    """Return the state that somebody holds who starts from ``state`` and hears of ``events``."""
    state = dict(state or {})
    for event in events:
        key = object_key(event.object)
        if event.type == "DELETED":
            del state[key]
        else:
            assert (key in state) is (event.type == "MODIFIED")
            state[key] = event.object
    return state


@given(HISTORY)
@settings(max_examples=80)
def test_versions_strictly_grow_and_every_event_has_its_own(steps: list[Any]) -> None:
    run = Run(steps)
    versions = [int(e.resource_version) for e in run.events]
    assert versions == sorted(set(versions))
    assert all(e.resource_version == e.object.metadata.resource_version for e in run.events)
    assert not versions or versions[-1] <= int(run.box.server.list(Pod).resource_version)


@given(HISTORY, st.integers(min_value=0))
@settings(max_examples=80)
def test_from_any_version_a_watcher_ends_with_the_servers_state(
    steps: list[Any], begin: int
) -> None:
    run = Run(steps)
    begin %= len(run.events) + 1
    known = follow(run.events[:begin])
    version = run.events[begin - 1].resource_version if begin else run.start
    rest = run.box.watch(Pod, resource_version=version)
    assert rest == run.events[begin:]
    held = {object_key(o): o for o in run.box.server.list(Pod).items}
    assert follow(rest, known) == held


@given(HISTORY)
@settings(max_examples=60)
def test_a_selective_watcher_ends_with_what_it_selects(steps: list[Any]) -> None:
    run = Run(steps)
    web = parse_selector("app=web")
    seen = run.box.watch(Pod, resource_version=run.start, label_selector=web)
    held = {object_key(o): o for o in run.box.server.list(Pod, label_selector=web).items}
    assert follow(seen) == held
    assert all(web.matches(e.object.metadata.labels) for e in seen)


@given(HISTORY)
@settings(max_examples=80)
def test_no_mark_is_taken_back_and_nothing_skips_its_finalizers(steps: list[Any]) -> None:
    last: dict[str, Pod] = {}
    for event in Run(steps).events:
        obj = event.object
        assert isinstance(obj, Pod)
        meta, uid = obj.metadata, obj.metadata.uid
        before = last.get(uid)
        if before is not None:
            was = before.metadata
            assert meta.generation >= was.generation
            if was.deletion_timestamp is not None:
                assert meta.deletion_timestamp is not None
                assert grace_of(meta) <= grace_of(was)
            if event.type == "DELETED":
                assert was.deletion_timestamp is not None, "every pod is marked first"
                assert was.deletion_grace_period_seconds == 0
                assert with_meta(obj, resource_version=was.resource_version) == before
        last[uid] = obj


@given(HISTORY)
@settings(max_examples=80)
def test_a_delete_removes_nothing_that_has_finalizers_of_others(steps: list[Any]) -> None:
    run = Run([])
    table = run.box.server.store.tables[Pod]
    for step in steps:
        before = dict(table.objects)
        try:
            run.do(*step)
        except StatusError:
            continue
        for key in before.keys() - table.objects.keys():
            kept = [f for f in before[key].metadata.finalizers if f.startswith("x.io/")]
            assert step[0] != "delete" or not kept
            assert step[0] in ("delete", "finalizers", "stale")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=60))
@settings(max_examples=80)
def test_no_update_is_lost(acts: list[tuple[int, int]]) -> None:
    """Four writers read and write in any order; each accepted write adds one to what it read."""
    box = Box()
    box.server.create(replace(config(), data={"n": "0"}))
    held: dict[int, ConfigMap] = {}
    accepted = 0
    for writer, act in acts:
        if act == 0:
            held[writer] = box.server.get(ConfigMap, "default", "a")
        elif writer in held:
            mine = held[writer]
            try:
                box.server.update(replace(mine, data={"n": str(int(mine.data["n"]) + 1)}))
                accepted += 1
            except Conflict:
                assert mine is not box.server.get(ConfigMap, "default", "a")
    assert box.server.get(ConfigMap, "default", "a").data == {"n": str(accepted)}


@given(HISTORY)
@settings(max_examples=30)
def test_the_same_history_gives_the_same_events(steps: list[Any]) -> None:
    assert Run(steps).events == Run(steps).events


@given(HISTORY)
@settings(max_examples=30)
def test_a_write_that_is_refused_changes_nothing(steps: list[Any]) -> None:
    run = Run([])
    for step in steps:
        store = run.box.server.store
        before = store.revision, dict(store.tables[Pod].objects), len(run.events)
        try:
            run.do(*step)
        except StatusError:
            assert before == (store.revision, store.tables[Pod].objects, len(run.events))
