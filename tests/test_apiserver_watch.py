"""Watches: what is sent, to whom, from which version on, and when the answer is 410."""

import pytest

from kcm_lite.api.core import ConfigMap, Pod, PodStatus
from kcm_lite.api.errors import BadRequest, Expired, Invalid, NotFound
from kcm_lite.api.fieldselectors import parse_field_selector
from kcm_lite.api.meta import Object, replace
from kcm_lite.api.request import INITIAL_EVENTS_END, WatchEvent
from kcm_lite.api.selectors import parse_selector
from tests.apiserver_support import Box, bind, config, kinds, pod, with_meta


def test_a_watch_tells_of_every_change_with_the_stored_object() -> None:
    box = Box()
    events = box.watch(ConfigMap)
    made = box.server.create(config())
    changed = box.server.update(replace(made, data={"a": "1"}))
    box.server.delete(ConfigMap, "default", "a")
    assert kinds(events) == ["ADDED", "MODIFIED", "DELETED"]
    assert events[0].object is made and events[1].object is changed
    assert [e.resource_version for e in events] == [
        e.object.metadata.resource_version for e in events
    ]


def test_a_deletion_carries_the_last_state_with_the_version_of_the_deletion() -> None:
    box = Box()
    events = box.watch(ConfigMap)
    made = box.server.create(replace(config(), data={"a": "1"}))
    box.server.delete(ConfigMap, "default", "a")
    gone = events[-1].object
    assert int(gone.metadata.resource_version) == int(made.metadata.resource_version) + 1
    assert with_meta(gone, resource_version=made.metadata.resource_version) == made


def test_all_watchers_get_the_same_event() -> None:
    box = Box()
    one, two = box.watch(ConfigMap), box.watch(ConfigMap)
    box.server.create(config())
    assert one[0] is two[0]


def test_kinds_are_watched_apart() -> None:
    box = Box()
    events = box.watch(Pod)
    box.server.create(config())
    assert events == []


def test_without_a_version_the_present_comes_first_in_key_order() -> None:
    box = Box()
    for name in "cab":
        box.server.create(config(name))
    for version in ("", "0"):
        events = box.watch(ConfigMap, resource_version=version)
        assert [(e.type, e.object.metadata.name) for e in events] == [
            ("ADDED", "a"),
            ("ADDED", "b"),
            ("ADDED", "c"),
        ]


def test_a_streamed_list_ends_with_a_bookmark() -> None:
    box = Box()
    box.server.create(config())
    events = box.watch(ConfigMap, send_initial_events=True)
    box.server.create(config("b"))
    assert kinds(events) == ["ADDED", "BOOKMARK", "ADDED"]
    end = events[1]
    assert end.object.metadata.annotations == {INITIAL_EVENTS_END: "true"}
    assert isinstance(end.object, ConfigMap)
    assert (
        end.resource_version == end.object.metadata.resource_version == events[0].resource_version
    )


def test_a_streamed_list_shows_only_what_is_selected() -> None:
    box = Box()
    box.server.create(config("a", labels={"app": "web"}))
    box.server.create(config("b"))
    events = box.watch(
        ConfigMap, send_initial_events=True, label_selector=parse_selector("app=web")
    )
    assert [e.object.metadata.name for e in events] == ["a", ""]


def test_bookmarks_come_to_those_who_ask_and_tell_the_stores_version() -> None:
    box = Box()
    asked, not_asked = box.watch(ConfigMap, bookmarks=True), box.watch(ConfigMap)
    box.server.create(pod())
    box.server.send_bookmarks()
    assert kinds(asked) == ["BOOKMARK"] and not_asked == []
    assert asked[0].resource_version == box.server.list(ConfigMap).resource_version


# --- replay


def test_a_replay_continues_exactly_after_a_version() -> None:
    box = Box()
    live = box.watch(ConfigMap)
    for name in "abc":
        box.server.create(config(name))
    box.server.delete(ConfigMap, "default", "b")
    for i, event in enumerate(live):
        assert box.watch(ConfigMap, resource_version=event.resource_version) == live[i + 1 :]


def test_a_replay_serves_any_version_in_between_too() -> None:
    box = Box()
    box.server.create(config("a"))
    box.server.create(pod())  # another kind's change: a version without a ConfigMap event
    version = box.server.list(ConfigMap).resource_version
    box.server.create(config("b"))
    events = box.watch(ConfigMap, resource_version=version)
    assert [e.object.metadata.name for e in events] == ["b"]


def test_what_history_has_lost_is_410_with_upstreams_words() -> None:
    box = Box(history=2)
    versions = [box.server.create(config(n)).metadata.resource_version for n in "abcd"]
    oldest = versions[1]  # the last change that was forgotten: a watch may begin there
    assert len(box.watch(ConfigMap, resource_version=oldest)) == 2
    with pytest.raises(Expired) as caught:
        box.watch(ConfigMap, resource_version=versions[0])
    assert caught.value.message == f"too old resource version: {versions[0]} ({oldest})"
    assert caught.value.code == 410


def test_a_refused_watch_leaves_nothing_behind() -> None:
    box = Box(history=1)
    for name in "abc":
        box.server.create(config(name))
    events: list[WatchEvent] = []
    with pytest.raises(Expired):
        box.server.subscribe(ConfigMap, events.append, resource_version="1")
    box.server.create(config("d"))
    assert events == []


def test_history_is_kept_for_each_kind() -> None:
    box = Box(history=2)
    version = box.server.create(config()).metadata.resource_version
    for name in "abcdef":
        box.server.create(pod(name))
    assert box.watch(ConfigMap, resource_version=version) == []


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", " 1", "1e3", "٣"])
def test_a_version_that_is_none(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        Box().watch(ConfigMap, resource_version=text)
    assert caught.value.message.endswith(
        f'strconv.ParseUint: parsing "{text}": invalid syntax'
    ) or (not text.isascii())


def test_a_version_in_the_future_waits() -> None:
    box = Box()
    assert box.watch(ConfigMap, resource_version="999") == []


def test_an_unknown_kind_cannot_be_watched() -> None:
    class Stranger(Object, frozen=True):
        pass

    with pytest.raises(NotFound):
        Box().watch(Stranger)


# --- selection


def test_what_stops_matching_is_deleted_to_the_watcher_in_its_old_state() -> None:
    box = Box()
    events = box.watch(ConfigMap, label_selector=parse_selector("app=web"))
    box.server.create(config())  # does not match: nothing
    web = box.server.update(with_meta(config(), labels={"app": "web"}))
    more = box.server.update(replace(web, data={"n": "1"}))
    last = box.server.update(with_meta(more, labels={"app": "db"}))
    box.server.update(with_meta(last, labels={}))  # still does not match: nothing
    box.server.delete(ConfigMap, "default", "a")
    assert kinds(events) == ["ADDED", "MODIFIED", "DELETED"]
    gone = events[-1]
    assert gone.object.metadata.labels == {"app": "web"}
    assert gone.resource_version == last.metadata.resource_version
    assert gone.object.metadata.resource_version == last.metadata.resource_version


def test_a_deletion_of_what_matches_is_told() -> None:
    box = Box()
    events = box.watch(ConfigMap, label_selector=parse_selector("app=web"))
    box.server.create(config(labels={"app": "web"}))
    box.server.delete(ConfigMap, "default", "a")
    assert kinds(events) == ["ADDED", "DELETED"]


def test_a_namespace_is_watched_alone() -> None:
    box = Box()
    events = box.watch(ConfigMap, namespace="kube-system")
    box.server.create(config())
    box.server.create(with_meta(config(), namespace="kube-system"))
    assert [e.object.metadata.namespace for e in events] == ["kube-system"]


def test_pods_of_a_node_by_field_selector() -> None:
    box = Box()
    on_node = parse_field_selector("spec.nodeName=node-1")
    events = box.watch(Pod, field_selector=on_node)
    box.server.create(pod("a"))
    box.server.create(pod("b"))
    bind(box.server, "a", "node-1")
    bind(box.server, "b", "node-2")
    assert [(e.type, e.object.metadata.name) for e in events] == [("ADDED", "a")]
    assert [p.metadata.name for p in box.server.list(Pod, field_selector=on_node).items] == ["a"]


def test_selectors_apply_to_replays() -> None:
    box = Box()
    start = box.server.list(Pod).resource_version
    box.server.create(pod("a"))
    running = box.server.get(Pod, "default", "a")
    box.server.update(replace(running, status=PodStatus(phase="Running")), subresource="status")
    pending = parse_field_selector("status.phase=Pending")
    events = box.watch(Pod, resource_version=start, field_selector=pending)
    assert kinds(events) == ["ADDED", "DELETED"]


def test_a_field_that_cannot_be_selected_by() -> None:
    box = Box()
    wrong = parse_field_selector("spec.replicas=1")
    for ask in (
        lambda: box.server.list(Pod, field_selector=wrong),
        lambda: box.watch(Pod, field_selector=wrong),
    ):
        with pytest.raises(BadRequest, match=r"field label not supported: spec\.replicas"):
            ask()


# --- ending


def test_cancel_ends_one_watch_only() -> None:
    box = Box()
    one: list[WatchEvent] = []
    cancel = box.server.subscribe(ConfigMap, one.append)
    two = box.watch(ConfigMap)
    cancel()
    cancel()
    box.server.create(config())
    assert one == [] and len(two) == 1


def test_a_sink_may_end_its_own_watch() -> None:
    box = Box()
    seen: list[WatchEvent] = []

    def once(event: WatchEvent) -> None:
        seen.append(event)
        cancel()

    cancel = box.server.subscribe(ConfigMap, once)
    after = box.watch(ConfigMap)
    box.server.create(config("a"))
    box.server.create(config("b"))
    assert len(seen) == 1 and len(after) == 2
