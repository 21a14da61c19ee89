"""Virtual time, tested as a sceptic would: ties, drift, nesting, limits, cancellation, crashes."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import math
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.clock import Clock, Deadlock, RealClock, RunLimit, VirtualClock

NS = 1_000_000_000
Action = Callable[[VirtualClock], object]


@pytest.fixture
def clock() -> Iterator[VirtualClock]:
    clock = VirtualClock()
    yield clock
    clock.close()


async def forever(clock: VirtualClock, period: float, background: bool = False) -> None:
    while True:
        await clock.sleep(period, background=background)


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


class TestTime:
    def test_a_thousand_tenths_are_exactly_a_hundred(self, clock: VirtualClock) -> None:
        async def main() -> None:
            for n in range(1, 1001):
                await clock.sleep(0.1)
                assert clock.time() == n / 10

        clock.run(main())
        assert clock.time() == 100

    def test_sleep_is_exact_after_a_decade(self, clock: VirtualClock) -> None:
        clock.run_until(10 * 365 * 86_400)
        begin = clock.now()

        async def main() -> None:
            for _ in range(1000):
                await clock.sleep(0.001)

        clock.run(main())
        assert clock.now() - begin == timedelta(seconds=1)

    def test_dates(self) -> None:
        clock = VirtualClock(datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2))))
        assert clock.now() == datetime(2026, 3, 1, 10, tzinfo=UTC)
        assert clock.now().tzinfo is UTC
        clock.run_for(1.234567891)
        assert clock.now() == datetime(2026, 3, 1, 10, 0, 1, 234567, tzinfo=UTC)
        assert clock.timestamp() == datetime(2026, 3, 1, 10, 0, 1, tzinfo=UTC)

    def test_a_start_without_time_zone_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no time zone"):
            VirtualClock(datetime(2026, 1, 1))  # noqa: DTZ001

    @given(
        microsecond=st.integers(0, 999_999),
        steps=st.lists(st.integers(0, 3 * NS), min_size=1, max_size=20),
    )
    def test_timestamp_is_now_cut_to_seconds(self, microsecond: int, steps: list[int]) -> None:
        clock = VirtualClock(datetime(2026, 1, 1, microsecond=microsecond, tzinfo=UTC))
        for step in steps:
            clock.run_for(step / NS)
            assert clock.timestamp() == clock.now().replace(microsecond=0)

    def test_timestamp_changes_at_the_very_nanosecond(self) -> None:
        clock = VirtualClock(datetime(2026, 1, 1, microsecond=999_999, tzinfo=UTC))
        first = clock.timestamp()
        clock.run_until(0.000000999)
        assert clock.timestamp() == first
        clock.run_until(0.000001)
        assert clock.timestamp() == first + timedelta(seconds=1)


class TestTimers:
    def test_ties_fire_in_the_order_of_creation(self, clock: VirtualClock) -> None:
        seen: list[str] = []

        async def sleeper(n: int) -> None:
            await clock.sleep(1)
            seen.append(f"sleeper-{n}")

        for n in range(50):
            clock.spawn(sleeper(n), name=f"sleeper-{n}")
        clock.run_for(0)  # they sleep now; the timers come after them
        for n in range(50):
            clock.call_at(1, seen.append, f"at-{n}")
            clock.call_later(1, seen.append, f"later-{n}")
        clock.settle()
        timers = [f"{kind}-{n}" for n in range(50) for kind in ("at", "later")]
        assert seen == [f"sleeper-{n}" for n in range(50)] + timers

    def test_what_a_timer_starts_comes_before_the_next_timer(self, clock: VirtualClock) -> None:
        seen: list[str] = []

        def first() -> None:
            seen.append("first")
            clock.call_soon(seen.append, "soon")
            clock.call_later(0, seen.append, "new timer")

        clock.call_at(1, first)
        clock.call_at(1, seen.append, "second")
        clock.settle()
        assert seen == ["first", "soon", "second", "new timer"]

    def test_ready_before_timers_of_the_same_instant(self, clock: VirtualClock) -> None:
        seen: list[str] = []
        clock.call_later(0, seen.append, "timer")
        clock.call_soon(seen.append, "soon")
        clock.settle()
        assert seen == ["soon", "timer"]

    def test_background_and_foreground_share_one_order(self, clock: VirtualClock) -> None:
        seen: list[int] = []

        async def sleeper(n: int) -> None:
            await clock.sleep(1, background=n % 2 == 0)
            seen.append(n)

        for n in range(6):
            clock.spawn(sleeper(n), name=f"s{n}")
        clock.run_for(1)
        assert seen == [0, 1, 2, 3, 4, 5]

    def test_the_past_is_now(self, clock: VirtualClock) -> None:
        clock.run_until(10)
        seen: list[float] = []
        clock.call_at(3, lambda: seen.append(clock.time()))
        clock.call_later(-5, lambda: seen.append(clock.time()))

        async def sleeper() -> None:
            await clock.sleep(-1)
            seen.append(clock.time())

        clock.run(sleeper())
        assert seen == [10, 10, 10]

    def test_handles(self, clock: VirtualClock) -> None:
        seen: list[str] = []
        later = clock.call_later(2.5, seen.append, "later")
        assert later.when() == 2.5 and not later.cancelled()
        at, soon = clock.call_at(1, seen.append, "at"), clock.call_soon(seen.append, "soon")
        for handle in (later, at, soon):
            handle.cancel()
            handle.cancel()  # twice is no error
            assert handle.cancelled()
        assert len({later, at, soon}) == 3  # hashable, by identity
        assert clock.settle() == 0 and seen == []  # a cancelled timer moves no time

    def test_a_timer_can_cancel_the_next(self, clock: VirtualClock) -> None:
        seen: list[str] = []
        handles = [clock.call_at(2, seen.append, "a"), clock.call_at(1, seen.append, "b")]
        clock.call_at(0.5, handles[1].cancel)
        clock.call_soon(clock.call_soon(seen.append, "soon").cancel)  # too late: it ran already
        clock.settle()
        assert seen == ["soon", "a"]

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_no_time_at_all(self, clock: VirtualClock, bad: float) -> None:
        uses: list[Action] = [
            lambda c: c.sleep(bad),
            lambda c: c.call_later(bad, print),
            lambda c: c.call_at(bad, print),
            lambda c: c.run_until(bad),
            lambda c: c.run_for(bad),
        ]
        for use in uses:
            with pytest.raises((ValueError, OverflowError)):
                use(clock)
        assert clock.settle() == 0

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["later", "at", "sleep", "background"]),
                st.integers(0, 20),
                st.booleans(),
            ),
            max_size=60,
        )
    )
    def test_timers_fire_sorted_by_time_and_sequence_cancelled_ones_never(
        self, asked: list[tuple[str, int, bool]]
    ) -> None:
        clock, seen, cancels = VirtualClock(), list[int](), list[Callable[[], object]]()
        for n, (kind, delay, cancel) in enumerate(asked):
            seconds = delay / 10
            if kind in ("later", "at"):
                call = clock.call_later if kind == "later" else clock.call_at
                handle: Any = call(seconds, seen.append, n)
            else:
                handle = clock.sleep(seconds, background=kind == "background")
                handle.add_done_callback(
                    lambda future, n=n: None if future.cancelled() else seen.append(n)
                )
            if cancel:
                cancels.append(handle.cancel)
        for act in cancels:
            act()
        clock.run_until(2)
        expected = sorted((d, n) for n, (_, d, cancel) in enumerate(asked) if not cancel)
        assert seen == [n for _, n in expected]

    @given(st.lists(st.integers(0, 10**10), min_size=1, max_size=30))
    def test_sleeps_add_up_exactly(self, naps: list[int]) -> None:
        clock = VirtualClock()

        async def main() -> None:
            for nap in naps:
                await clock.sleep(nap / NS)

        clock.run(main())
        assert clock.time() == sum(naps) / NS

    @given(cuts=st.lists(st.integers(0, 100), max_size=10).map(sorted))
    def test_stepping_changes_nothing(self, cuts: list[int]) -> None:
        def story(stops: list[int]) -> list[tuple[float, int]]:
            clock, lines = VirtualClock(), list[tuple[float, int]]()

            async def worker(n: int) -> None:
                while True:
                    await clock.sleep(0.1 * n, background=n % 2 == 0)
                    lines.append((clock.time(), n))

            for n in range(1, 6):
                clock.spawn(worker(n), name=f"worker-{n}")
            for stop in stops:
                clock.run_until(stop / 10)
            clock.close()
            return lines

        assert story([*cuts, 100]) == story([100])


class TestRun:
    def test_result_and_error(self, clock: VirtualClock) -> None:
        async def main(ok: bool) -> str:
            await clock.sleep(1)
            if not ok:
                raise KeyError("no")
            return "yes"

        assert clock.run(main(True)) == "yes"
        with pytest.raises(KeyError, match="no"):
            clock.run(main(False))
        assert clock.run(main(True)) == "yes" and clock.time() == 3

    def test_ends_at_once_and_keeps_the_rest_for_later(self, clock: VirtualClock) -> None:
        seen: list[str] = []

        async def main() -> None:
            await clock.sleep(1)
            clock.call_later(0, seen.append, "rest")
            clock.call_later(1, seen.append, "later")

        clock.run(main())
        assert seen == [] and clock.time() == 1
        clock.run_for(0)
        assert seen == ["rest"]
        clock.settle()
        assert seen == ["rest", "later"]

    def test_not_a_coroutine(self, clock: VirtualClock) -> None:
        with pytest.raises(TypeError, match="coroutine"):
            clock.run(42)  # type: ignore[arg-type]
        assert clock.settle() == 0

    def test_cancelled_from_inside(self, clock: VirtualClock) -> None:
        async def main() -> None:
            task = asyncio.current_task()
            assert task is not None
            clock.call_later(1, task.cancel)
            await clock.sleep(5)

        with pytest.raises(asyncio.CancelledError):
            clock.run(main())
        assert clock.time() == 1

    def test_not_twice_at_once(self, clock: VirtualClock) -> None:
        async def main() -> None:
            for use in (clock.settle, partial(clock.run_for, 1), clock.close):
                with pytest.raises(RuntimeError, match="already running"):
                    use()
            with pytest.raises(RuntimeError, match="already running"):
                clock.run(asyncio.sleep(0))
            assert clock.is_running()
            await clock.sleep(1)

        clock.run(main())
        assert not clock.is_running()

    def test_run_until_includes_its_instant_and_all_it_starts(self, clock: VirtualClock) -> None:
        seen: list[str] = []

        def at_five() -> None:
            seen.append("at 5")
            clock.call_later(0, seen.append, "also at 5")
            clock.call_later(1e-9, seen.append, "after 5")

        clock.call_at(5, at_five)
        clock.run_until(4.999999999)
        assert seen == [] and clock.time() == 4.999999999
        clock.run_until(5)
        assert seen == ["at 5", "also at 5"] and clock.time() == 5
        clock.run_until(5)
        assert seen == ["at 5", "also at 5"]
        clock.run_for(1e-9)
        assert seen[-1] == "after 5"

    def test_time_passes_when_nothing_happens(self, clock: VirtualClock) -> None:
        clock.run_until(7)
        clock.run_for(0.5)
        assert clock.time() == 7.5

    @pytest.mark.parametrize(
        "use",
        [
            lambda c: c.run_until(9.999999999),
            lambda c: c.run_for(-1),
            lambda c: c.settle(until=3),
        ],
    )
    def test_the_past_is_refused(self, clock: VirtualClock, use: Action) -> None:
        clock.run_until(10)
        with pytest.raises(ValueError, match=r"is past: it is t=10\.0 s"):
            use(clock)
        assert clock.time() == 10


class TestDeadlock:
    def test_names_who_waits_and_where(self, clock: VirtualClock) -> None:
        async def on_queue() -> None:
            await asyncio.Queue[int]().get()

        async def done() -> None:
            return

        async def main() -> None:
            clock.spawn(on_queue(), name="worker-0")
            clock.spawn(done(), name="finished")
            await clock.sleep(3)
            await wait_for_ever()

        with pytest.raises(Deadlock) as caught:
            clock.run(main())
        assert str(caught.value) == (
            "t=3.0 s, and nothing can happen; 2 waiting: main in Event.wait, worker-0 in Queue.get"
        )

    def test_names_ten_at_most(self, clock: VirtualClock) -> None:
        for n in range(20):
            clock.spawn(wait_for_ever(), name=f"worker-{n}")
        with pytest.raises(Deadlock) as caught:
            clock.run(wait_for_ever())
        names = ["main", *(f"worker-{n}" for n in range(9))]  # main first, though it came last
        waiting = ", ".join(f"{name} in Event.wait" for name in names)
        assert str(caught.value).endswith(f"; 21 waiting: {waiting} and 11 more")

    def test_cancelled_timers_hide_nothing(self, clock: VirtualClock) -> None:
        clock.call_later(1e6, print, "never").cancel()
        clock.sleep(1e6).cancel()
        clock.sleep(1e6, background=True).cancel()
        with pytest.raises(Deadlock, match=r"t=0\.0 s"):
            clock.run(wait_for_ever())

    def test_background_work_could_still_help(self, clock: VirtualClock) -> None:
        event = asyncio.Event()

        async def resync() -> None:
            for _ in range(3):
                await clock.sleep(10, background=True)
            event.set()

        clock.spawn(resync(), name="resync")
        clock.run(event.wait())
        assert clock.time() == 30

    def test_leaves_no_main_task_behind(self, clock: VirtualClock) -> None:
        cleaned: list[bool] = []

        async def main() -> None:
            try:
                await wait_for_ever()
            finally:
                cleaned.append(True)

        with pytest.raises(Deadlock):
            clock.run(main())
        clock.run_for(1)  # the old main is cancelled in here, and nothing of it leaks out
        assert cleaned == [True]
        with pytest.raises(Deadlock, match="1 waiting"):
            clock.run(wait_for_ever())


class TestLimits:
    def test_hot_tasks_are_named(self) -> None:
        clock = VirtualClock(limit_steps=5000)

        async def hot() -> None:
            while True:
                await asyncio.sleep(0)

        for name in ("hot-a", "hot-b"):
            clock.spawn(hot(), name=name)
        clock.spawn(forever(clock, 1), name="cold")
        with pytest.raises(RunLimit) as caught:
            clock.run_for(60)
        head, busy = str(caught.value).split("; busy: ")
        assert head == "over 5,000 steps within a second, at t=0.0 s"
        assert sorted(busy.split(", ")) == ["hot-a (50%)", "hot-b (50%)"]

    @pytest.mark.parametrize("background", [False, True])
    @pytest.mark.parametrize("nap", [0, 1e-9, 1e-4])
    def test_a_hot_loop_ends_though_time_creeps(self, nap: float, background: bool) -> None:
        clock = VirtualClock(limit_steps=5000)
        clock.spawn(forever(clock, nap, background), name="creeping")
        with pytest.raises(RunLimit, match=r"busy: creeping \(100%\)"):
            clock.run_for(60)

    def test_hot_callbacks_are_named(self) -> None:
        clock = VirtualClock(limit_steps=5000)

        def again() -> None:
            clock.call_soon(partial(again))

        again()
        with pytest.raises(RunLimit, match=r"busy: .*again \(100%\)"):
            clock.settle()

    def test_a_ping_pong_names_both(self) -> None:
        clock = VirtualClock(limit_steps=5000)
        here, there = asyncio.Queue[int](), asyncio.Queue[int]()

        async def player(mine: asyncio.Queue[int], other: asyncio.Queue[int]) -> None:
            while True:
                other.put_nowait(await mine.get())

        here.put_nowait(1)
        clock.spawn(player(here, there), name="ping")
        clock.spawn(player(there, here), name="pong")
        with pytest.raises(RunLimit, match=r"p.ng \(50%\), p.ng \(50%\)"):
            clock.run(wait_for_ever())

    def test_the_allowance_is_renewed_every_second(self) -> None:
        clock = VirtualClock(limit_steps=500)
        clock.spawn(forever(clock, 0.01), name="busy")  # about 200 steps a second
        clock.run_for(100)
        clock.spawn(forever(clock, 0.001), name="busier")  # about 2000
        with pytest.raises(RunLimit, match="busier"):
            clock.run_for(100)

    def test_run_ends_after_the_limit_in_virtual_time(self) -> None:
        clock = VirtualClock(limit_seconds=100)
        clock.run_until(50)
        clock.spawn(forever(clock, 10, background=True), name="lease")
        with pytest.raises(RunLimit) as caught:
            clock.run(wait_for_ever())
        assert str(caught.value) == (
            "not done after 100.0 s; 2 waiting: main in Event.wait, lease in forever"
        )
        assert clock.time() == 150

    def test_settle_ends_after_the_limit_in_virtual_time(self) -> None:
        clock = VirtualClock(limit_seconds=100)
        clock.spawn(forever(clock, 10), name="endless")
        with pytest.raises(RunLimit, match=r"not settled after 100\.0 s; 1 waiting: endless"):
            clock.settle()
        assert clock.settle(until=1000) == 1000  # an end that the caller names is no surprise

    def test_the_limit_holds_for_each_run(self) -> None:
        clock = VirtualClock(limit_seconds=10)
        for _ in range(5):
            clock.run(asyncio.sleep(9))
        assert clock.time() == 45


class TestSettle:
    def test_stops_before_the_background(self, clock: VirtualClock) -> None:
        seen: list[str] = []

        async def lease(name: str) -> None:
            while True:
                seen.append(f"{name} {clock.time():g}")
                await clock.sleep(10, background=True)

        clock.spawn(lease("a"), name="a")
        clock.spawn(lease("b"), name="b")
        clock.call_later(25, seen.append, "work")
        assert clock.settle() == 25
        assert seen == ["a 0", "b 0", "a 10", "b 10", "a 20", "b 20", "work"]
        assert clock.settle() == 25 and len(seen) == 7

    def test_work_that_the_background_starts_is_waited_for(self, clock: VirtualClock) -> None:
        async def lease() -> None:
            await clock.sleep(10, background=True)
            await clock.sleep(7)
            await clock.sleep(100, background=True)

        clock.spawn(lease(), name="lease")
        clock.run_for(0)
        clock.call_later(10, int)  # after the lease's timer, in the same instant
        assert clock.settle() == 17

    def test_until(self, clock: VirtualClock) -> None:
        clock.call_later(5, int)
        clock.call_later(50, int)
        assert clock.settle(until=20) == 20  # not settled: the end was reached
        assert clock.settle(until=100) == 50  # settled before the end

    def test_cancelled_work_is_not_waited_for(self, clock: VirtualClock) -> None:
        clock.spawn(forever(clock, 1, background=True), name="lease")
        clock.call_later(100, int).cancel()
        clock.sleep(100).cancel()
        assert clock.settle() == 0

    def test_nothing_at_all(self, clock: VirtualClock) -> None:
        assert clock.settle() == 0


class TestCrash:
    @pytest.mark.parametrize(
        "use",
        [
            lambda c: c.run(wait_for_ever()),
            lambda c: c.run_for(10),
            lambda c: c.run_until(10),
            lambda c: c.settle(),
        ],
    )
    def test_a_workers_error_leaves_every_kind_of_run(
        self, clock: VirtualClock, use: Action
    ) -> None:
        async def worker() -> None:
            await clock.sleep(2)
            raise KeyError("default/web")

        clock.spawn(worker(), name="worker-0")
        with pytest.raises(KeyError) as caught:
            use(clock)
        assert caught.value.__notes__ == ["in task 'worker-0' at t=2.0 s"]
        assert any("worker" in entry.name for entry in caught.traceback)
        clock.run_for(1)  # the clock goes on, and the error comes once
        assert clock.time() == 3

    def test_the_main_task_is_cancelled(self, clock: VirtualClock) -> None:
        seen: list[str] = []

        async def main() -> None:
            clock.spawn(worker(), name="worker")
            try:
                await clock.sleep(10)
            finally:
                seen.append("cancelled")

        async def worker() -> None:
            raise KeyError

        with pytest.raises(KeyError):
            clock.run(main())
        assert clock.settle() == 0 and seen == ["cancelled"]

    def test_a_cancelled_worker_is_no_crash(self, clock: VirtualClock) -> None:
        task = clock.spawn(forever(clock, 1), name="worker")
        clock.call_later(2.5, task.cancel)
        assert clock.settle() == 2.5 and task.cancelled()

    @pytest.mark.parametrize("stop", [SystemExit, KeyboardInterrupt])
    def test_an_interrupt_leaves_the_run(
        self, clock: VirtualClock, stop: type[BaseException]
    ) -> None:
        async def interrupted() -> None:
            await clock.sleep(1)
            raise stop

        task = clock.create_task(interrupted())
        with pytest.raises(stop):
            clock.run(wait_for_ever())
        assert isinstance(task.exception(), stop)
        clock.run_for(1)

    def test_an_error_in_a_callback_leaves_the_run(self, clock: VirtualClock) -> None:
        seen: list[str] = []
        clock.call_later(1, lambda: 1 / 0)
        clock.call_later(1, seen.append, "next")
        with pytest.raises(ZeroDivisionError):
            clock.settle()
        assert clock.settle() == 1 and seen == ["next"]

    def test_an_error_nobody_fetches_is_logged(
        self, clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def fails() -> None:
            raise KeyError("lost")

        clock.create_task(fails(), name="unwatched")
        clock.settle()
        clock._tasks.clear()
        gc.collect()
        assert "never retrieved" in caplog.text and "lost" in caplog.text


class TestAsyncio:
    """asyncio's own parts run on the clock."""

    @pytest.mark.parametrize(
        ("work", "outcome"),
        [(0.999999999, "done 0.999999999"), (1, "late 1.0"), (1.5, "late 1.0")],
    )
    @pytest.mark.parametrize("sleep", ["clock", "asyncio"])
    def test_timeouts(self, clock: VirtualClock, work: float, outcome: str, sleep: str) -> None:
        nap = clock.sleep if sleep == "clock" else asyncio.sleep

        async def main() -> str:
            try:
                async with asyncio.timeout(1):
                    await nap(work)
            except TimeoutError:
                return f"late {clock.time()}"
            return f"done {clock.time()}"

        assert clock.run(main()) == outcome
        assert clock.settle() == clock.time()  # the timer that lost does not linger

    def test_wait_for_and_shield(self, clock: VirtualClock) -> None:
        async def main() -> tuple[bool, float]:
            task = asyncio.create_task(asyncio.sleep(5, "value"))
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(task), 1)
            assert clock.time() == 1
            return await task == "value", clock.time()

        assert clock.run(main()) == (True, 5)

    def test_task_group_cancels_siblings_in_the_same_order_every_time(self) -> None:
        def story() -> list[int]:
            clock, seen = VirtualClock(), list[int]()

            async def sibling(n: int) -> None:
                try:
                    await clock.sleep(10)
                finally:
                    seen.append(n)

            async def fails() -> None:
                await clock.sleep(1)
                raise KeyError

            async def main() -> None:
                async with asyncio.TaskGroup() as group:
                    for n in range(100):
                        group.create_task(sibling(n))
                    group.create_task(fails())

            with pytest.raises(ExceptionGroup):
                clock.run(main())
            assert clock.time() == 1
            return seen

        first, ballast = story(), [object() for _ in range(1000)]
        assert sorted(first) == list(range(100)) and ballast
        assert story() == story() == first  # at other addresses

    def test_wait_and_gather(self, clock: VirtualClock) -> None:
        async def main() -> None:
            tasks = [asyncio.create_task(asyncio.sleep(n, n)) for n in range(5)]
            done, pending = await asyncio.wait(tasks, timeout=2.5)
            assert {task.result() for task in done} == {0, 1, 2} and len(pending) == 2
            assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]

        clock.run(main())
        assert clock.time() == 4

    def test_queue_lock_semaphore(self, clock: VirtualClock) -> None:
        queue, lock, gate = asyncio.Queue[int](2), asyncio.Lock(), asyncio.Semaphore(2)
        order: list[tuple[float, int]] = []

        async def producer() -> None:
            for n in range(6):
                await queue.put(n)

        async def consumer() -> None:
            while True:
                n = await queue.get()
                async with gate, lock:
                    await clock.sleep(1)
                order.append((clock.time(), n))
                queue.task_done()

        async def main() -> None:
            for n in range(3):
                clock.spawn(consumer(), name=f"consumer-{n}")
            await producer()
            await queue.join()

        clock.run(main())
        assert order == [(n + 1.0, n) for n in range(6)]

    def test_cancel_a_sleep(self, clock: VirtualClock) -> None:
        async def main() -> float:
            task = asyncio.create_task(forever(clock, 1000))
            await clock.sleep(1)
            task.cancel("enough")
            with pytest.raises(asyncio.CancelledError):
                await task
            return clock.time()

        assert clock.run(main()) == 1
        assert clock.settle() == 1

    def test_names_and_contexts(self, clock: VirtualClock) -> None:
        who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

        async def main() -> None:
            current = asyncio.current_task()
            assert current is not None and current.get_name() == "main"
            assert asyncio.create_task(asyncio.sleep(0), name="named").get_name() == "named"
            assert asyncio.create_task(asyncio.sleep(0)).get_name() == "task-3"
            assert len(asyncio.all_tasks()) == 3
            assert asyncio.get_running_loop() is clock
            who.set("main")
            await clock.sleep(1)
            assert who.get() == "main"
            seen: list[str] = []
            empty = contextvars.Context()
            clock.call_soon(lambda: seen.append(who.get()))
            clock.call_later(0, lambda: seen.append(who.get()))
            clock.call_soon(lambda: seen.append(who.get()), context=empty)
            clock.call_later(0, lambda: seen.append(who.get()), context=empty)
            await clock.sleep(1)
            assert seen == ["main", "nobody", "main", "nobody"]

        # An empty context is a context: what a task sets must survive its first await.
        contextvars.Context().run(clock.run, main())
        assert who.get() == "nobody"

    def test_task_numbers_start_with_the_clock(self) -> None:
        for _ in range(2):
            clock = VirtualClock()
            names = [clock.create_task(asyncio.sleep(0)).get_name() for _ in range(3)]
            assert names == ["task-1", "task-2", "task-3"]
            clock.close()

    @pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with 3.12")
    def test_eager_tasks(self, clock: VirtualClock) -> None:
        seen: list[str] = []

        async def quick() -> str:
            seen.append("ran")
            return "done"

        async def slow() -> float:
            await clock.sleep(1)
            return clock.time()

        async def main() -> None:
            assert clock.create_task(quick(), eager_start=True).done()
            assert seen == ["ran"]
            assert await clock.create_task(slow(), eager_start=True) == 1
            assert asyncio.current_task() in asyncio.all_tasks()

        clock.run(main())

    def test_an_abandoned_generator_is_closed(self, clock: VirtualClock) -> None:
        closed: list[float] = []

        async def ticks() -> AsyncIterator[float]:
            try:
                while True:
                    await clock.sleep(1)
                    yield clock.time()
            finally:
                await clock.sleep(1)  # cleaning up takes time, too
                closed.append(clock.time())

        async def main() -> None:
            async for tick in ticks():
                if tick == 3:
                    break

        clock.run(main())
        gc.collect()
        clock.settle()
        assert closed == [4]

    def test_no_threads(self, clock: VirtualClock) -> None:
        async def main() -> None:
            with pytest.raises(NotImplementedError):
                await asyncio.to_thread(print)

        clock.run(main())


class TestNesting:
    def test_in_a_running_loop(self) -> None:
        async def main() -> None:
            outer, task = asyncio.get_running_loop(), asyncio.current_task()
            clock = VirtualClock()

            async def inside() -> float:
                assert asyncio.get_running_loop() is clock
                current = asyncio.current_task()
                assert current is not task and current is not None
                async with asyncio.timeout(5), asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(2))
                return clock.time()

            assert clock.run(inside()) == 2
            with pytest.raises(Deadlock):
                clock.run(wait_for_ever())
            assert asyncio.get_running_loop() is outer and asyncio.current_task() is task
            async with asyncio.timeout(60):  # the outer loop still works
                await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
            clock.close()

        asyncio.run(main())

    def test_from_a_callback_of_a_running_loop(self) -> None:
        async def main() -> float:
            result: asyncio.Future[float] = asyncio.get_running_loop().create_future()

            def callback() -> None:  # no current task here
                clock = VirtualClock()
                clock.run(asyncio.sleep(3))
                result.set_result(clock.time())

            asyncio.get_running_loop().call_soon(callback)
            async with asyncio.timeout(60):  # an error in the callback is only logged
                return await result

        assert asyncio.run(main()) == 3

    def test_in_another_clock(self, clock: VirtualClock) -> None:
        async def experiment(depth: int) -> float:
            inner = VirtualClock()
            if depth:
                assert inner.run(experiment(depth - 1)) == depth
            await asyncio.sleep(0)
            await clock_of(depth).sleep(depth + 1)
            return clock_of(depth).time()

        clocks = {2: clock}

        def clock_of(depth: int) -> VirtualClock:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualClock)
            clocks.setdefault(depth, loop)
            return loop

        assert clock.run(experiment(2)) == 3
        assert clocks[1].time() == 2 and clocks[0].time() == 1

    def test_two_clocks_in_turn(self) -> None:
        clocks = [VirtualClock(), VirtualClock()]
        seen: list[tuple[int, float]] = []
        for n, each in enumerate(clocks):
            each.call_later(n + 1, lambda n=n, each=each: seen.append((n, each.time())))
        for _ in range(2):
            for each in clocks:
                each.run_for(1)
        assert seen == [(0, 1), (1, 2)]

    def test_the_outside_is_as_before_an_error(self) -> None:
        clock = VirtualClock()
        before = asyncio._get_running_loop(), sys.get_asyncgen_hooks()
        clock.call_soon(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            clock.settle()
        assert (asyncio._get_running_loop(), sys.get_asyncgen_hooks()) == before


class TestLife:
    def test_tasks_are_kept_alive(self, clock: VirtualClock) -> None:
        woken: list[int] = []
        gates: list[Any] = []

        async def waiter(n: int) -> None:
            event = asyncio.Event()
            gates.append(event._waiters)
            await event.wait()  # nothing but the task knows this event
            woken.append(n)

        for n in range(10):
            clock.create_task(waiter(n))
        clock.run_for(1)
        gc.collect()
        for waiters in gates:
            for future in waiters:
                future.set_result(True)
        del future, waiters
        clock.settle()
        assert woken == list(range(10))

    def test_finished_tasks_are_let_go(self, clock: VirtualClock) -> None:
        waiting = [clock.create_task(wait_for_ever()) for _ in range(10)]

        async def main() -> None:
            for _ in range(20_000):
                await asyncio.create_task(asyncio.sleep(0))

        clock.run(main())
        assert len(clock._tasks) < 3000
        assert all(task in clock._tasks for task in waiting)

    def test_cancelled_timers_are_let_go(self, clock: VirtualClock) -> None:
        async def main() -> None:
            for _ in range(20_000):
                clock.call_later(86_400, print).cancel()
                async with asyncio.timeout(86_400):
                    await clock.sleep(0.1)
                with suppress(TimeoutError):
                    await asyncio.wait_for(clock.sleep(86_400), 0.1)

        clock.run(main())
        assert len(clock._timers) < 5000

    def test_close_cancels_and_lets_clean_up(self) -> None:
        clock = VirtualClock()
        cleaned: list[str] = []

        async def worker(name: str) -> None:
            try:
                await clock.sleep(100)
            finally:
                await asyncio.sleep(0)
                cleaned.append(name)

        for name in ("a", "b"):
            clock.spawn(worker(name), name=name)
        clock.run_for(1)
        clock.close()
        assert cleaned == ["a", "b"] and clock.time() == 1
        assert clock.is_closed()
        clock.close()  # twice is no error
        for use in (partial(clock.run_for, 1), clock.settle):
            with pytest.raises(RuntimeError, match="closed"):
                use()

    def test_close_waits_for_nobody(self) -> None:
        clock = VirtualClock(limit_steps=1000)

        async def slow() -> None:
            try:
                await clock.sleep(100)
            finally:
                await clock.sleep(1)  # would take time: abandoned

        task = clock.spawn(slow(), name="slow")
        clock.run_for(1)
        clock.close()
        assert not task.done() and clock.time() == 1

    def test_close_ends_though_a_task_refuses(self) -> None:
        clock = VirtualClock(limit_steps=1000)

        async def stubborn() -> None:
            with suppress(asyncio.CancelledError):
                await clock.sleep(100)
            await forever(clock, 0)

        clock.spawn(stubborn(), name="stubborn")
        clock.run_for(1)
        with pytest.raises(RunLimit, match="stubborn"):
            clock.close()
        assert clock.is_closed()

    def test_a_clock_left_behind_says_nothing(
        self, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
    ) -> None:
        clock = VirtualClock()
        clock.spawn(forever(clock, 1), name="worker")
        clock.run_for(10)
        del clock
        gc.collect()
        assert caplog.text == "" and capsys.readouterr() == ("", "")


class TestRealClock:
    def test_the_same_coroutine_in_real_time(self) -> None:
        async def story(clock: Clock) -> list[str]:
            seen: list[str] = []

            async def worker() -> None:
                await clock.sleep(0.001, background=True)
                seen.append("worker")

            begin = clock.time()
            clock.spawn(worker(), name="worker")
            clock.call_later(0.06, seen.append, "later")
            clock.call_at(begin + 0.03, seen.append, "at")
            clock.call_later(0.03, seen.append, "cancelled").cancel()
            clock.call_soon(seen.append, "soon")
            await clock.sleep(0.1)
            assert clock.time() >= begin + 0.1
            return seen

        async def real() -> list[str]:
            return await story(RealClock())

        virtual = VirtualClock()
        assert (
            virtual.run(story(virtual)) == asyncio.run(real()) == ["soon", "worker", "at", "later"]
        )

    def test_dates_follow_its_time(self) -> None:
        async def main() -> None:
            clock = RealClock()
            before, now, after = clock.time(), clock.now(), clock.time()
            start = now - timedelta(seconds=before)
            assert start - timedelta(seconds=after - before) <= clock._start <= start
            assert clock.timestamp().microsecond == 0 and now.tzinfo is UTC
            assert clock.timestamp() <= clock.now()

        asyncio.run(main())

    def test_needs_a_running_loop(self) -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            RealClock()

    def test_a_crash_reaches_the_exception_handler(self) -> None:
        reports: list[dict[str, Any]] = []

        async def fails() -> None:
            raise KeyError("default/web")

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, what: reports.append(what))
            clock = RealClock()
            cancelled = clock.spawn(wait_for_ever(), name="cancelled")
            clock.spawn(fails(), name="worker-0")
            await clock.sleep(0)
            cancelled.cancel()
            await clock.sleep(0.001)
            assert not clock._workers

        asyncio.run(main())
        assert [report["message"] for report in reports] == ["worker 'worker-0' crashed"]
        assert isinstance(reports[0]["exception"], KeyError)

    def test_workers_are_kept_alive(self) -> None:
        async def main() -> None:
            clock = RealClock()
            clock.spawn(wait_for_ever(), name="worker")
            await clock.sleep(0)
            gc.collect()
            assert [task.get_name() for task in clock._workers] == ["worker"]

        asyncio.run(main())


STORY = """
import asyncio, random, sys
from kcm_lite.clock import VirtualClock

clock, rng, lines = VirtualClock(), random.Random(7), []
ballast = [object() for _ in range(int(sys.argv[1]))]  # other addresses in every run

def say(*what):
    lines.append(f"{clock.time()!r} {clock.timestamp():%S} " + " ".join(map(str, what)))

async def call(name):
    try:
        async with asyncio.timeout(0.12):
            await clock.sleep(rng.choice([0.1, 0.1, 0.12, 0.3]))
        say(name, "answered")
    except TimeoutError:
        say(name, "late")
    except asyncio.CancelledError:
        say(name, "cancelled")
        raise

async def batch(name):
    try:
        async with asyncio.TaskGroup() as group:
            for n in range(20):
                group.create_task(call(f"{name}.{n}"), name=f"{name}.{n}")
            await clock.sleep(0.11 + 0.02 * (name[-1] == "2"))
            raise ValueError(name)
    except* ValueError:
        say(name, "given up")

async def race(name):
    calls = {asyncio.create_task(call(f"{name}.{n}"), name=f"{name}.{n}") for n in range(20)}
    done, pending = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    say(name, "done", *(task.get_name() for task in done))
    for task in pending:
        task.cancel()
    say(name, "cancels", *(task.get_name() for task in pending))
    await asyncio.gather(*pending, return_exceptions=True)

async def main():
    for turn in range(3):
        await asyncio.gather(batch(f"batch-{turn}"), race(f"race-{turn}"))

clock.run(main())
print(*lines, sep="\\n")
"""


def interpreters() -> list[str]:
    """This Python, and each other one at hand that has the packages; more in KCM_LITE_PYTHONS."""
    names = [f"python3.{minor}" for minor in range(11, 15)]
    more = os.environ.get("KCM_LITE_PYTHONS", "").split(os.pathsep)
    found = [path for name in [*names, *more] if name and (path := shutil.which(name))]
    works = [
        path
        for path in found
        if not subprocess.run([path, "-c", "import msgspec"], capture_output=True).returncode
    ]
    return [sys.executable, *works]


def test_one_trace_under_every_hash_seed_and_python() -> None:
    root = str(Path(__file__).parent.parent)
    traces: dict[str, list[tuple[str, str]]] = {}
    for n, python in enumerate(interpreters()):
        for seed in ["0", "1", "4242"] if n == 0 else [str(n)]:
            environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": root}
            command = [python, "-B", "-c", STORY, seed]
            told = subprocess.run(command, env=environment, capture_output=True, text=True)
            assert told.returncode == 0, told.stderr
            traces.setdefault(told.stdout, []).append((python, seed))
    assert len(traces) == 1, list(traces.values())
    lines = next(iter(traces)).splitlines()
    assert len(lines) > 120 and any("late" in line for line in lines)
