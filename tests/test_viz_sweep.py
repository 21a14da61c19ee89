from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pd = pytest.importorskip("pandas")

from kcm_lite.api.yaml import dump  # noqa: E402
from kcm_lite.sim.check import BadInput  # noqa: E402
from kcm_lite.viz import meter as meter_module  # noqa: E402
from kcm_lite.viz import sweep as module  # noqa: E402
from kcm_lite.viz.sweep import PointFailed, is_worth, points_of, sweep, sweep_scenario  # noqa: E402
from tests.sim_support import deployment, job, pod  # noqa: E402
from tests.sweep_functions import both, dies, late_first, odd_fails, product  # noqa: E402

METHODS = multiprocessing.get_all_start_methods()


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        yield executor


def as_lists(frame: Any) -> dict[str, list[Any]]:
    return {name: frame[name].tolist() for name in frame.columns}


# ---- the result


def test_a_row_a_point_in_the_order_of_the_grid() -> None:
    frame = sweep(product, {"a": [3, 1], "b": [10, 20]})
    assert as_lists(frame) == {
        "a": [3, 3, 1, 1],
        "b": [10, 20, 10, 20],
        "value": [30, 60, 10, 20],
    }
    assert frame.index.tolist() == [0, 1, 2, 3]


def test_a_list_of_points_keeps_its_order_and_leaves_gaps() -> None:
    frame = sweep(both, [{"a": 2, "b": 5}, {"a": 1}])
    assert frame.columns.tolist() == ["a", "b", "sum", "pid"]
    assert frame["sum"].tolist() == [7, 2]
    assert frame["b"].isna().tolist() == [False, True]


def test_values_may_come_from_a_generator_and_be_anything() -> None:
    frame = sweep(lambda a, b: f"{a}{b}", {"a": (x for x in "xy"), "b": [None, [1]]})
    assert frame["value"].tolist() == ["xNone", "x[1]", "yNone", "y[1]"]


def test_results_come_in_grid_order_whatever_ends_first(pool: Executor) -> None:
    grid = {"i": [0, 1, 2]}
    with ThreadPoolExecutor(3) as threads:
        assert sweep(late_first, grid, threads)["value"].tolist() == [0, 1, 2]
    assert sweep(late_first, grid, pool)["value"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("method", METHODS)
def test_works_however_processes_are_started(method: str) -> None:
    if method == "fork" and sys.version_info >= (3, 12) and threading.active_count() > 1:
        pytest.skip("Python warns of fork beside threads")
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as executor:
        frame = sweep(both, {"a": range(6)}, executor)
    assert frame["sum"].tolist() == [1, 2, 3, 4, 5, 6]
    assert os.getpid() not in set(frame["pid"])


def test_the_executor_stays_open(pool: Executor) -> None:
    sweep(product, {"a": [1], "b": [1]}, pool)
    assert pool.submit(product, 2, 3).result() == 6


def test_dask_is_an_engine_too() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, protocol="tcp"
        ) as cluster,
        distributed.Client(cluster) as client,
        client.get_executor() as executor,
    ):
        frame = sweep(both, {"a": range(8), "b": [1, 10]}, executor)
        assert frame["sum"].tolist() == [a + b for a in range(8) for b in (1, 10)]
        assert os.getpid() not in set(frame["pid"])
        # `workers` is an option of Dask's own submit: a parameter may still be called so.
        assert sweep(lambda workers: -workers, {"workers": [1, 2]}, executor)["value"].tolist() == [
            -1,
            -2,
        ]
        with pytest.raises(PointFailed, match="at i=1: LookupError"):
            sweep(odd_fails, {"i": [0, 1]}, executor)


# ---- errors


def test_an_error_names_its_point(pool: Executor) -> None:
    for executor in (None, pool):
        with pytest.raises(PointFailed) as caught:
            sweep(odd_fails, {"i": [0, 2, 3, 4, 5]}, executor)
        assert caught.value.point == {"i": 3}
        assert str(caught.value) == "at i=3: LookupError: 3 is odd"
        assert isinstance(caught.value.__cause__, LookupError)


def test_after_an_error_nothing_new_begins() -> None:
    begun: list[int] = []

    def fails_at_once(i: int) -> None:
        begun.append(i)
        time.sleep(0.05 * (i > 0))
        raise OSError("no")

    with ThreadPoolExecutor(1) as one, pytest.raises(PointFailed, match="i=0"):
        sweep(fails_at_once, {"i": range(500)}, one)
    assert len(begun) < 500
    begun.clear()
    with pytest.raises(PointFailed, match="i=0"):
        sweep(fails_at_once, {"i": range(500)})
    assert begun == [0]


def test_a_worker_that_dies_is_told() -> None:
    with (
        ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor,
        pytest.raises(PointFailed, match=r"at i=0: BrokenProcessPool.*a worker that dies"),
    ):
        sweep(dies, {"i": [0, 1]}, executor)


def test_the_error_survives_a_way_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(PointFailed({"a": 1}, "OSError: no")))
    assert (error.point, str(error)) == ({"a": 1}, "at a=1: OSError: no")


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ({}, "grid: got no names"),
        ([], "grid: got no points"),
        ({"a": [], "b": [1]}, "grid.a: got no values"),
        ({"a": 3, "b": [1]}, r"grid.a: got 3, want several values: \[3\]"),
        ({"a": "xy", "b": [1]}, r'grid.a: got "xy", want several values: \["xy"\]'),
        (7, "grid: got 7, want a mapping of names to values"),
        ("ab", 'grid: got "ab", want a mapping'),
        ([{"a": 1, "b": 2}, 5], r"grid\[1\]: got 5, want a mapping"),
        ({"a": [1]}, "grid: missing a required argument: 'b'; the function takes"),
        ({"a": [1], "bb": [1]}, r'grid.bb: is no parameter.*did you mean "b"'),
        ({"a": [1], "b": [1], "c": [1]}, "grid.c: is no parameter"),
        ([{"a": 1, "b": 1}, {"a": 1}], "missing a required argument: 'b'"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused_before_any_call(grid: Any, told: str) -> None:
    def never(a: int, b: int) -> None:
        raise AssertionError("called")

    with pytest.raises(BadInput, match=told):
        sweep(never, grid)


def test_what_is_no_function_or_executor_is_refused() -> None:
    with pytest.raises(BadInput, match="fn: got 3, want a function"):
        sweep(3, {"a": [1]})  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="executor: got 4, want an executor"):
        sweep(product, {"a": [1], "b": [1]}, 4)  # type: ignore[arg-type]


def test_a_name_must_not_come_back_as_a_result(pool: Executor) -> None:
    for executor in (None, pool):
        with pytest.raises(BadInput, match=r'grid.pid: .* returns a column "pid"'):
            sweep(returns_its_name, {"pid": [1, 2]}, executor)
    with pytest.raises(BadInput, match=r"grid.value"):
        sweep(lambda value: value, {"value": [1]})


def returns_its_name(pid: int) -> dict[str, int]:
    return {"pid": pid}


# ---- where it runs


def test_other_processes_must_be_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 2)
    assert is_worth(spent=0.6, done=6, left=100)
    assert not is_worth(spent=0.4, done=4, left=100)  # too early to tell
    assert not is_worth(spent=0.6, done=6, left=10)  # soon over
    assert not is_worth(spent=0.6, done=6000, left=100_000)  # too small to send
    monkeypatch.setattr(module, "cores", lambda: 1)
    assert not is_worth(spent=0.6, done=6, left=100)


@pytest.fixture
def worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the second point go to other processes at once."""
    monkeypatch.setattr(module, "is_worth", lambda spent, done, left: True)
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda **_: "spawn")


@pytest.mark.usefixtures("worth")
def test_a_large_grid_goes_to_processes() -> None:
    frame = sweep(both, {"a": range(6)})
    assert frame["sum"].tolist() == [1, 2, 3, 4, 5, 6]
    assert frame["pid"][0] == os.getpid()
    assert os.getpid() not in set(frame["pid"][1:])


@pytest.mark.usefixtures("worth")
def test_what_cannot_be_sent_stays_and_says_so() -> None:
    with pytest.warns(UserWarning, match="goes on in this process: .* cannot be sent"):
        frame = sweep(lambda a: a, {"a": range(3)})
    assert frame["value"].tolist() == [0, 1, 2]


@pytest.mark.usefixtures("worth")
@pytest.mark.parametrize("error", [OSError("no more processes"), ImportError("_multiprocessing")])
def test_where_no_process_can_start_the_sweep_stays(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise error

    monkeypatch.setattr("concurrent.futures.process.ProcessPoolExecutor", refuse)
    with pytest.warns(UserWarning, match=f"no other one can be started .{error}"):
        assert sweep(both, {"a": range(3)})["pid"].tolist() == [os.getpid()] * 3


@pytest.mark.usefixtures("worth")
def test_a_browser_starts_no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "emscripten")
    with pytest.warns(UserWarning, match="a browser starts no processes"):
        assert sweep(both, {"a": range(3)})["pid"].tolist() == [os.getpid()] * 3


NOTEBOOK = ModuleType("__main__")
"""What `__main__` is in a kernel: no file, nothing that another process could import."""


def test_what_a_notebook_defines_needs_a_copy_of_its_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for method in METHODS:
        monkeypatch.setattr(multiprocessing, "get_start_method", lambda m=method, **_: m)
        assert module._start_method(needs_main=True) == method  # a script can be imported
    monkeypatch.setitem(sys.modules, "__main__", NOTEBOOK)
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda **_: "spawn")
    assert module._start_method(needs_main=False) == "spawn"
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn", "fork"])
    assert module._start_method(needs_main=True) == "fork"
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(module._StayError, match="put the function into a module"):
        module._start_method(needs_main=True)


SCRIPT = """
import multiprocessing, os, sys, warnings
from kcm_lite.viz import sweep as module
module.is_worth = lambda spent, done, left: True
module.cores = lambda: 2
multiprocessing.set_start_method(sys.argv[1], force=True)
def f(a):
    return {"twice": 2 * a, "pid": os.getpid()}
GUARD
    frame = module.sweep(f, {"a": range(4)})
    print(frame["twice"].tolist(), len(set(frame["pid"])) > 1)
"""


def script(tmp_path: Path, guard: str, method: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.replace("GUARD", guard))
    return subprocess.run(
        [sys.executable, path, method], capture_output=True, text=True, timeout=120, check=True
    )


def test_a_script_can_sweep_what_it_defines(tmp_path: Path) -> None:
    done = script(tmp_path, 'if __name__ == "__main__":', "spawn")
    assert done.stdout == "[0, 2, 4, 6] True\n"


def test_a_script_without_guard_is_told_what_it_needs(tmp_path: Path) -> None:
    done = script(tmp_path, "if True:", "spawn")
    assert done.stdout == "[0, 2, 4, 6] False\n"
    assert 'needs if __name__ == "__main__"' in done.stderr


# ---- the bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_is_and_is_clean_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LOOK", 0.0)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    sweep(product, {"a": range(10), "b": [1]})
    shown = terminal.getvalue()
    assert shown.startswith("\r 10 % of 10\r 20 % of 10")
    assert shown.endswith("\r100 % of 10\r\x1b[K")


def test_without_a_terminal_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "LOOK", 0.0)
    sweep(product, {"a": range(10), "b": [1]})
    assert capsys.readouterr() == ("", "")


def test_what_is_soon_over_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK", 1e9)
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    sweep(product, {"a": range(10), "b": [1]})
    assert terminal.getvalue() == ""


def test_a_notebook_shows_a_widget_and_a_static_page_none(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    monkeypatch.setattr(meter_module, "_has_kernel", lambda: True)
    monkeypatch.setattr(module, "LOOK", 0.0)
    monkeypatch.delenv("KCM_STATIC_BOOK", raising=False)
    sweep(product, {"a": range(10), "b": [1]})
    (bar,) = shown
    assert (bar.value, bar.max, bar.comm) == (10, 10, None)  # without comm: it is gone again
    monkeypatch.setenv("KCM_STATIC_BOOK", "1")
    sweep(product, {"a": range(10), "b": [1]})
    assert len(shown) == 1


# ---- scenarios

ROLLOUT = dump(
    {
        "id": "sweep",
        "objects": [deployment(6), pod()],
        "actions": [
            {
                "at": 10,
                "do": "setImage",
                "kind": "Deployment",
                "name": "web",
                "container": "c",
                "image": "app:2",
            }
        ],
        "until": 60,
    }
)


def test_a_scenario_is_swept_over_its_settings(pool: Executor) -> None:
    grid = {"maxSurge": [0, 3], "maxUnavailable": [1, 2], "readyAfter": [1, "4s"], "seed": [1, 2]}
    frame = sweep_scenario(ROLLOUT, grid, pool)
    assert frame.columns.tolist() == [*grid, "seconds", "unavailable", "surge", "created"]
    assert len(frame) == 16
    assert (frame["created"] == 6).all()
    assert (frame["surge"] == frame["maxSurge"]).all()
    assert (frame["unavailable"] == frame["maxUnavailable"]).all()
    slow, fast = (frame[frame["readyAfter"] == after]["seconds"].to_numpy() for after in ("4s", 1))
    assert (slow > fast).all()
    assert frame.equals(sweep_scenario(ROLLOUT, grid))


def test_a_rollout_that_does_not_end_has_no_seconds() -> None:
    frame = sweep_scenario(ROLLOUT, {"neverReady": [True, False]})
    assert frame["seconds"].isna().tolist() == [True, False]


def test_settings_reach_scenario_profile_and_manifest() -> None:
    frame = sweep_scenario(ROLLOUT, [{"replicas": 4, "nodes": 1}, {"spec.replicas": 2, "until": 5}])
    assert frame["created"].tolist() == [4, 2]
    assert frame["unavailable"].tolist() == [
        1,
        2,
    ]  # the second ends before the rollout: all are new


def test_a_job_is_summed_up_as_one() -> None:
    text = dump(
        {
            "id": "jobs",
            "objects": [job(completions=3, parallelism=3, backoffLimit=0)],
            "kubelet": {"exit": {"after": 5}},
            "until": 60,
        }
    )
    bad = {"after": 5, "code": 1}
    frame = sweep_scenario(text, [{"parallelism": 1}, {"parallelism": 3}, {"exit": bad}])
    assert frame["end"].tolist() == ["Complete", "Complete", "Failed"]
    assert frame["created"].tolist() == [3, 3, 3]
    assert frame["seconds"][0] > 3 * 5 > frame["seconds"][1] > 5
    assert (frame["failed"] > 0).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ({"maxSruge": [1]}, 'maxSruge: is no setting .did you mean "maxSurge"'),
        ([{"seed": 1}, {"sed": 1}], 'sed: is no setting .did you mean "seed"'),
        ({}, "grid: got no names"),
    ],
)
def test_settings_that_do_not_exist_are_refused(grid: Any, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        sweep_scenario(ROLLOUT, grid)


def test_a_value_that_does_not_fit_names_its_point_and_field() -> None:
    with pytest.raises(PointFailed, match=r"at maxSurge='x': BadInput.*rollingUpdate.maxSurge"):
        sweep_scenario(ROLLOUT, {"maxSurge": ["x"]})


def test_which_workload_matters_must_be_clear() -> None:
    two = dump({"id": "two", "objects": [deployment(2), deployment(3, "api")], "until": 20})
    with pytest.raises(BadInput, match="target: want one of Deployment/web, Deployment/api"):
        sweep_scenario(two, {"seed": [0]})
    with pytest.raises(BadInput, match=r'target: got "Deployment/apu".*did you mean'):
        sweep_scenario(two, {"seed": [0]}, target="Deployment/apu")
    assert sweep_scenario(two, {"seed": [0]}, target="Deployment/api")["created"].tolist() == [3]
    with pytest.raises(BadInput, match="target: want a Deployment or a Job in objects"):
        sweep_scenario(dump({"id": "none", "objects": [pod()], "until": 5}), {"seed": [0]})
    with pytest.raises(BadInput, match="got 2 documents, want one scenario"):
        sweep_scenario(ROLLOUT + "---\n" + ROLLOUT, {"seed": [0]})


def test_points_of_combines_with_the_last_name_fastest() -> None:
    assert points_of({"a": [1, 2], "b": ["x"]}) == [{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]
