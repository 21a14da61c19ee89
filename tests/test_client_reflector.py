from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from kcm_lite.api.core import Pod
from kcm_lite.api.errors import Forbidden, InternalError, TooManyRequests
from kcm_lite.api.meta import object_key
from kcm_lite.api.request import ObjectList, WatchClosed, WatchEvent
from kcm_lite.client.reflector import Backoff, Reflector
from kcm_lite.client.transport import Transport
from kcm_lite.clock import VirtualClock
from kcm_lite.trace import Note, Trace
from tests.client_fakes import FakeServer, FakeWatch, pod


class FakeRandom(random.Random):
    """Jitter of a fixed share."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def random(self) -> float:
        return self.share


class Log:
    """A sink that only takes notes."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.lines: list[tuple[float, str]] = []

    def replace(self, items: Sequence[Pod], resource_version: str) -> None:
        names = ",".join(item.metadata.name for item in items)
        self.lines.append((self.clock.time(), f"all [{names}] at {resource_version}"))

    def apply(self, events: Sequence[WatchEvent]) -> None:
        for event in events:
            key = object_key(event.object)
            self.lines.append(
                (self.clock.time(), f"{event.type} {key} at {event.resource_version}")
            )

    def texts(self) -> list[str]:
        return [text for _, text in self.lines]


class PodSource:
    def __init__(self, server: FakeServer) -> None:
        self.server: Transport = server

    async def list(self) -> ObjectList[Pod]:
        from kcm_lite.api.request import Request

        found: ObjectList[Pod] = await self.server.call(Request(verb="list", type=Pod))
        return found

    def watch(self, resource_version: str, *, send_initial_events: bool = False) -> Any:
        return self.server.watch(
            Pod, resource_version=resource_version, send_initial_events=send_initial_events
        )


class Rig:
    def __init__(self, *, watch_list: bool = False, jitter: float = 0.0) -> None:
        self.clock, self.trace = VirtualClock(), Trace()
        self.server = FakeServer(self.clock)
        self.log = Log(self.clock)
        self.reflector: Reflector[Pod] = Reflector(
            PodSource(self.server),
            self.log,
            self.clock,
            FakeRandom(jitter),
            name="t/pods",
            watch_list=watch_list,
            trace=self.trace,
        )

    def start(self) -> Rig:
        self.task = self.clock.spawn(self.reflector.run(), name="reflector")
        self.clock.run_for(0)
        return self

    def lists(self) -> list[float]:
        return [t for t, request in self.server.requests if request.verb == "list"]

    def notes(self) -> list[str]:
        return [note.text for note in self.trace.of(Note)]


def test_backoff_doubles_from_800_ms_to_30_s() -> None:
    backoff = Backoff(VirtualClock(), FakeRandom(0.0))
    assert [round(backoff.step(), 6) for _ in range(8)] == [
        0.8,
        1.6,
        3.2,
        6.4,
        12.8,
        25.6,
        30.0,
        30.0,
    ]


def test_backoff_is_stretched_by_up_to_its_own_length() -> None:
    assert Backoff(VirtualClock(), FakeRandom(0.999999)).step() == pytest.approx(1.6)
    backoff = Backoff(VirtualClock(), random.Random(3))
    bare = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
    delays = [backoff.step() for _ in bare]
    assert all(low <= delay < 2 * low for low, delay in zip(bare, delays, strict=True))
    assert delays != bare


def test_backoff_begins_again_two_minutes_after_it_began() -> None:
    clock = VirtualClock()
    backoff = Backoff(clock, FakeRandom(0.0))
    assert [backoff.step(), backoff.step()] == [0.8, 1.6]
    clock.run_for(120)
    assert backoff.step() == 3.2  # not yet: strictly more than 120 s
    clock.run_for(0.001)
    assert [backoff.step(), backoff.step()] == [0.8, 1.6]
    clock.run_for(120.001)
    assert backoff.step() == 0.8


def test_it_lists_and_watches_from_there() -> None:
    rig = Rig()
    rig.server.put(pod("a"))
    rig.start()
    rig.server.put(pod("b"))
    rig.server.put(pod("b", app="x"))
    rig.server.drop(pod("a"))
    rig.clock.run_for(1)
    assert rig.log.texts() == [
        "all [a] at 1",
        "ADDED ns/b at 2",
        "MODIFIED ns/b at 3",
        "DELETED ns/a at 4",
    ]
    assert rig.server.opened == [(0.0, "1", False)]
    assert rig.reflector.last_sync_resource_version == "4"


def test_a_closed_watch_goes_on_where_it_ended() -> None:
    rig = Rig().start()
    rig.server.put(pod("a"))
    rig.clock.run_for(5)
    rig.server.close()
    rig.clock.run_for(0)
    rig.server.put(pod("b"))
    rig.clock.run_for(5)
    assert [version for _, version, _ in rig.server.opened] == ["0", "1"]
    assert rig.lists() == [0.0]
    assert rig.log.texts() == ["all [] at 0", "ADDED ns/a at 1", "ADDED ns/b at 2"]


def test_what_happened_while_a_watch_was_closed_is_replayed() -> None:
    rig = Rig().start()
    rig.server.put(pod("a"))
    rig.server.close()
    rig.server.put(pod("b"))  # before the reflector is back
    rig.clock.run_for(1)
    assert rig.log.texts() == ["all [] at 0", "ADDED ns/a at 1", "ADDED ns/b at 2"]


def test_bookmarks_move_the_version_on() -> None:
    rig = Rig().start()
    rig.server.send(WatchEvent("BOOKMARK", Pod(), "41"))
    rig.clock.run_for(5)
    rig.server.version = 41
    rig.server.close()
    rig.clock.run_for(0)
    assert [version for _, version, _ in rig.server.opened] == ["0", "41"]


def test_too_old_means_a_new_list_after_a_delay() -> None:
    rig = Rig().start()
    rig.server.put(pod("a"))
    rig.clock.run_for(10)
    rig.server.losing = True
    rig.server.drop(pod("a"))
    rig.server.put(pod("b"))
    rig.server.losing = False
    rig.server.expire()
    rig.clock.run_for(0.799)
    assert rig.lists() == [0.0]
    rig.clock.run_for(1)
    assert rig.lists() == [0.0, pytest.approx(10.8)]
    assert rig.log.texts() == ["all [] at 0", "ADDED ns/a at 1", "all [b] at 3"]
    assert rig.notes() == ["t/pods: too old resource version"]


def test_a_list_that_fails_is_tried_again_ever_later() -> None:
    rig = Rig()
    rig.server.errors.extend([InternalError("1"), ConnectionRefusedError("2"), Forbidden("3")])
    rig.start()
    rig.clock.run_for(60)
    assert rig.lists() == [0.0, 0.8, pytest.approx(2.4), pytest.approx(5.6)]
    assert rig.log.texts() == ["all [] at 0"]
    assert rig.notes() == ["t/pods: 1", "t/pods: 2", "t/pods: 3"]


@pytest.mark.parametrize("error", [TooManyRequests("busy"), ConnectionRefusedError("refused")])
def test_a_busy_server_is_watched_again_without_a_list(error: Exception) -> None:
    rig = Rig()
    rig.server.watch_errors.extend([None, error, error])
    rig.start()
    rig.server.put(pod("a"))
    rig.clock.run_for(10)
    rig.server.close()
    rig.server.put(pod("b"))
    rig.clock.run_for(60)
    assert rig.lists() == [0.0]
    times = [t for t, _, _ in rig.server.opened]
    assert times == [0.0, 10.0, pytest.approx(10.8), pytest.approx(12.4)]
    assert rig.log.texts() == ["all [] at 0", "ADDED ns/a at 1", "ADDED ns/b at 2"]


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), TimeoutError("slow")])
def test_a_broken_watch_goes_on_where_it_ended(error: Exception) -> None:
    rig = Rig().start()
    rig.server.put(pod("a"))
    rig.clock.run_for(5)
    rig.server.end_watches(error)
    rig.server.put(pod("b"))
    rig.clock.run_for(5)
    assert rig.server.opened == [(0.0, "0", False), (5.0, "1", False)] and rig.lists() == [0.0]
    assert rig.log.texts() == ["all [] at 0", "ADDED ns/a at 1", "ADDED ns/b at 2"]


@pytest.mark.parametrize("error", [InternalError("etcd is away"), OSError("no route to host")])
def test_a_watch_that_fails_otherwise_means_a_new_list(error: Exception) -> None:
    rig = Rig().start()
    rig.clock.run_for(10)
    rig.server.end_watches(error)
    rig.clock.run_for(10)
    assert rig.lists() == [0.0, pytest.approx(10.8)]


def test_a_very_short_watch_is_not_trusted() -> None:
    rig = Rig().start()
    rig.server.close()  # at once, without an event
    rig.clock.run_for(60)
    assert rig.lists() == [0.0, 0.8]
    assert rig.notes() == ["t/pods: watch closed: "]


def test_a_server_that_closes_every_watch_at_once_is_no_busy_loop() -> None:
    rig = Rig()
    rig.server.watch_errors.extend([WatchClosed()] * 50)
    rig.start()
    rig.clock.run_for(60)
    assert len(rig.lists()) < 10


def test_other_errors_are_not_swallowed() -> None:
    rig = Rig()
    rig.server.errors.append(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        rig.start()


def test_streamed_list() -> None:
    rig = Rig(watch_list=True)
    rig.server.put(pod("a"))
    rig.server.put(pod("b"))
    rig.start()
    rig.server.drop(pod("b"))
    rig.clock.run_for(1)
    assert rig.log.texts() == ["all [a,b] at 2", "DELETED ns/b at 3"]
    assert rig.lists() == []
    assert rig.server.opened == [(0.0, "", True)]  # one watch for both
    rig.server.close()
    rig.clock.run_for(1)
    assert rig.server.opened[1:] == [(1.0, "3", False)]


def test_what_follows_the_bookmark_in_its_batch_is_not_lost() -> None:
    rig = Rig(watch_list=True)
    rig.start()
    rig.task.cancel()
    rig.clock.run_for(0)
    mark = rig.server.watch(Pod, send_initial_events=True).queue[0][-1]
    a, b = pod("a", version="1"), pod("b", version="2")
    adds = [WatchEvent("ADDED", a, "1"), WatchEvent("ADDED", b, "2")]
    plain = WatchEvent("BOOKMARK", Pod(), "2")  # not the one that ends the first part
    rest = [WatchEvent("DELETED", a, "3"), mark, WatchEvent("MODIFIED", b, "4")]
    script = FakeWatch([[*adds, plain], rest])
    rig.log.lines.clear()
    rig.server.watch = lambda *_, **__: script  # type: ignore[method-assign]
    rig.start()
    assert rig.log.texts() == ["all [b] at 0", "MODIFIED ns/b at 4"]
    assert rig.reflector.last_sync_resource_version == "4"


@pytest.mark.parametrize(
    "error", [Forbidden("no streams"), WatchClosed(), ConnectionResetError("gone")]
)
def test_a_failing_stream_falls_back_to_a_list(error: Exception) -> None:
    rig = Rig(watch_list=True)
    rig.server.put(pod("a"))
    rig.server.watch_errors.append(error)
    rig.start()
    assert rig.log.texts() == ["all [a] at 1"]
    assert rig.lists() == [0.0]
    assert "falling back to list" in rig.notes()[0]


def test_a_relist_streams_again() -> None:
    rig = Rig(watch_list=True).start()
    rig.server.put(pod("a"))
    rig.clock.run_for(10)
    rig.server.expire()
    rig.clock.run_for(10)
    assert rig.server.opened == [(0.0, "", True), (pytest.approx(10.8), "1", True)]
    assert rig.log.texts()[-1] == "all [a] at 1"


@pytest.mark.parametrize("watch_list", [True, False])
def test_the_end_lets_go_of_the_watch(watch_list: bool) -> None:
    rig = Rig(watch_list=watch_list).start()
    rig.task.cancel()
    rig.clock.run_for(1)
    assert [watch.stopped for _, watch in rig.server.watches] == [True]


def test_without_a_trace_nothing_is_noted() -> None:
    rig = Rig()
    rig.reflector.trace = None
    rig.server.errors.append(InternalError("x"))
    rig.start()
    rig.clock.run_for(5)
    assert rig.log.texts() == ["all [] at 0"]
