"""One function at every point of a grid, on all cores, into a data frame.

>>> sweep(lambda a, b: a * b, {"a": [1, 2], "b": [10, 20]})
   a   b  value
0  1  10     10
1  1  20     20
2  2  10     20
3  2  20     40

Where it runs, unless an executor says so: the first points in this process, one after the other,
with a clock beside them. As soon as what is left looks longer than starting processes is worth, the
rest goes to a process a core. So a small grid never waits for processes, and a large one loses less
than a second. `LOOK`, `LEAST` and `WORTH` are the limits.

A function that is handed to processes must be importable there. One that a notebook defines is not,
except by a process that is a copy of the notebook's (``fork``, on Linux). Where no process can take
it, or none can be started, as in a browser, the sweep goes on in this process and a warning says
why.

What runs elsewhere must depend on its point alone: a generator of random numbers is made inside,
from a seed of the point.
"""

from __future__ import annotations

import inspect
import itertools
import multiprocessing
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed, wait
from functools import partial
from typing import Any

import pandas as pd

from kcm_lite.sim.check import BadInput, Problem, nearest, show
from kcm_lite.sim.settings import Variants, check_names
from kcm_lite.viz.meter import meter

Point = Mapping[str, Any]
Grid = Mapping[str, Any] | Iterable[Point]

LOOK = 0.5
"""Seconds of work in this process before anybody thinks of others."""
LEAST = 0.002
"""Seconds that a point must take to be worth a message to another process."""
WORTH = 2.0
"""Seconds that must be left to be worth starting processes: each needs up to a second to import."""


class PointFailed(RuntimeError):
    """A point of a sweep raised an error, which is the cause of this one.

    Attributes:
        point: Which.
        why: Type and message of its error.
    """

    def __init__(self, point: Point, why: str) -> None:
        super().__init__(dict(point), why)
        self.point, self.why = dict(point), why

    def __str__(self) -> str:
        where = ", ".join(f"{name}={value!r}" for name, value in self.point.items())
        return f"at {where}: {self.why}"


def sweep(fn: Callable[..., Any], grid: Grid, executor: Executor | None = None) -> pd.DataFrame:
    """Call ``fn(**point)`` for every point of a grid.

    Args:
        fn: The function; a mapping that it returns becomes columns, all else the column ``value``.
        grid: The values of each parameter, which are combined, the last one changing fastest; or a
            list of points.
        executor: Where to run it: any executor of the kind of `concurrent.futures`, which stays
            open. Without one, see the module.

    Returns:
        One row a point, in the order of the grid; first the point's columns, then the results'.

    Raises:
        BadInput: The grid is empty, or does not fit the function; nothing has been called.
        PointFailed: A point raised an error: of several, the first in the grid that is known. What
            has not begun is cancelled.
    """
    if not (executor is None or isinstance(executor, Executor)):
        got = f"got {show(executor)}, want an executor of concurrent.futures, or None"
        raise BadInput([Problem("executor", got)])
    points = points_of(grid)
    check_points(fn, points)
    with meter(len(points), after=LOOK) as tell:
        if executor is None:
            values = _by_measure(fn, points, tell)
        else:
            values = _on(executor, fn, points, tell)
    return _frame(points, values)


def sweep_scenario(
    text: str, grid: Grid, executor: Executor | None = None, *, target: str = ""
) -> pd.DataFrame:
    """Run a scenario with all combinations of some settings, and sum up each run in a row.

    Args:
        text: The scenario, in YAML.
        grid: The values of each setting, such as ``maxSurge``, ``readyAfter``, ``seed``; see
            `kcm_lite.sim.settings` for all of them, and for the columns of the result.
        executor: As in `sweep`.
        target: ``Kind/name`` of the workload that matters, if there are several.

    Raises:
        BadInput: The scenario or the grid makes no sense; nothing has been run.
        PointFailed: A value does not fit its setting, or a run failed.
    """
    points = points_of(grid)
    check_names(dict.fromkeys(name for point in points for name in point))
    return sweep(Variants.of(text, target=target), points, executor)


# ---- the grid


def points_of(grid: Grid) -> list[Point]:
    """Return the points of a grid.

    Raises:
        BadInput: There is none, or what is given is no grid.
    """
    if isinstance(grid, Mapping):
        return _combined(grid)
    if isinstance(grid, str | bytes) or not isinstance(grid, Iterable):
        want = "want a mapping of names to values, or a list of such points"
        raise BadInput([Problem("grid", f"got {show(grid)}, {want}")])
    points = list(grid)
    problems = [
        Problem(f"grid[{i}]", f"got {show(point)}, want a mapping of names to one value each")
        for i, point in enumerate(points)
        if not isinstance(point, Mapping)
    ]
    if not points:
        problems = [Problem("grid", "got no points, want at least one")]
    if problems:
        raise BadInput(problems)
    return points


def _combined(grid: Mapping[str, Any]) -> list[Point]:
    problems, axes = [], []
    for name, values in grid.items():
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            text = f"got {show(values)}, want several values: [{show(values)}]"
            problems.append(Problem(f"grid.{name}", text))
        elif not (axis := list(values)):
            problems.append(Problem(f"grid.{name}", "got no values, want at least one"))
        else:
            axes.append(axis)
    if not grid:
        problems.append(Problem("grid", "got no names, want at least one"))
    if problems:
        raise BadInput(problems)
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*axes)]


def check_points(fn: Callable[..., Any], points: Iterable[Point]) -> None:
    """Make sure that a function takes the names of all points.

    Raises:
        BadInput: It does not take one, or it needs one more.
    """
    if not callable(fn):
        raise BadInput([Problem("fn", f"got {show(fn)}, want a function")])
    try:
        signature = inspect.signature(fn)
    except ValueError:
        return  # some functions written in C do not tell
    known = dict.fromkeys(tuple(point) for point in points)
    for names in known:
        try:
            signature.bind(**dict.fromkeys(names))
        except TypeError as error:
            raise BadInput([_misfit(signature, names, error)]) from None


def _misfit(signature: inspect.Signature, names: Sequence[str], error: TypeError) -> Problem:
    takes = [
        p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    for name in names:
        if name not in takes and not _takes_any(signature):
            text = f"is no parameter of the function{nearest(name, takes)}; it takes {signature}"
            return Problem(f"grid.{name}", text)
    return Problem("grid", f"{error}; the function takes {signature}")


def _takes_any(signature: inspect.Signature) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())


# ---- running


def _by_measure(fn: Callable[..., Any], points: list[Point], tell: Callable[[], None]) -> list[Any]:
    """Call a function here, and elsewhere too when that turns out to be worth it."""
    values: list[Any] = []
    start, looking = time.perf_counter(), True
    for i, point in enumerate(points):
        values.append(_here(fn, point))
        tell()
        rest = points[i + 1 :] if looking else []
        if rest and is_worth(time.perf_counter() - start, i + 1, len(rest)):
            try:
                pool = _started(fn, rest[0])
            except _StayError as why:
                warnings.warn(f"the sweep goes on in this process: {why}", stacklevel=3)
                looking = False
                continue
            try:
                return [*values, *_on(pool, fn, rest, tell)]
            finally:
                pool.shutdown(cancel_futures=True)
    return values


def is_worth(spent: float, done: int, left: int) -> bool:
    """Whether the points that are left should go to other processes.

    Args:
        spent: Seconds that the first points took.
        done: How many they were.
        left: How many are left.
    """
    each = spent / done
    return spent >= LOOK and each >= LEAST and each * left >= WORTH and left > 1 and cores() > 1


def cores() -> int:
    """Return how many cores this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed is not None else os.cpu_count() or 1


def _here(fn: Callable[..., Any], point: Point) -> Any:
    try:
        value = fn(**point)
    except Exception as error:
        raise _failure(point, error) from error
    return _checked(point, value)


def _on(
    executor: Executor, fn: Callable[..., Any], points: list[Point], tell: Callable[[], None]
) -> list[Any]:
    """Call a function on an executor; cancel what has not begun when a point fails."""
    futures: list[Future[Any]] = []
    try:
        futures += (executor.submit(partial(fn, **point)) for point in points)
        numbers = {future: i for i, future in enumerate(futures)}
        for future in as_completed(futures):
            if future.exception() is not None:
                break
            _checked(points[numbers[future]], future.result())
            tell()
        else:
            return [future.result() for future in futures]
    finally:
        running = [future for future in futures if not future.cancel()]
    wait(running)
    for point, future in zip(points, futures, strict=True):
        if not future.cancelled() and (error := future.exception()) is not None:
            raise _failure(point, error) from error
    raise AssertionError("a future has failed and none tells how")  # pragma: no cover


def _failure(point: Point, error: BaseException) -> PointFailed:
    why = f"{type(error).__name__}: {error}"
    if isinstance(error, BrokenExecutor):
        why += " (or at a later point: a worker that dies takes the others with it)"
    return PointFailed(point, why)


# ---- processes


class _StayError(Exception):
    """Why no other process can do the work."""


def _started(fn: Callable[..., Any], point: Point) -> Executor:
    """Start a process a core, and wait for the first one.

    Raises:
        _StayError: There can be none, or none that knows the function.
    """
    if sys.platform in ("emscripten", "wasi"):
        raise _StayError("a browser starts no processes")
    try:
        pickled = pickle.dumps((fn, point))
    except Exception as error:  # pickle raises whatever an object's own methods raise
        raise _StayError(
            f"the function or its point cannot be sent to another one ({error})"
        ) from None
    method = _start_method(needs_main=b"__main__" in pickled)
    try:
        from concurrent.futures.process import ProcessPoolExecutor

        pool = ProcessPoolExecutor(cores(), multiprocessing.get_context(method))
        pool.submit(os.getpid).result()
    except BrokenExecutor:
        hint = 'a script that is started anew needs if __name__ == "__main__":'
        raise _StayError(f"the other ones ended at once ({method}: {hint})") from None
    except (AssertionError, ImportError, NotImplementedError, OSError) as error:
        raise _StayError(f"no other one can be started ({error})") from None
    return pool


def _start_method(*, needs_main: bool) -> str:
    """Choose how processes are started: as Python does, or by fork for what a notebook defines."""
    every = multiprocessing.get_all_start_methods()
    method = multiprocessing.get_start_method(allow_none=True) or every[0]
    main = sys.modules["__main__"]
    is_file = getattr(main, "__spec__", None) or getattr(main, "__file__", None)
    if not needs_main or is_file or method == "fork":
        return method
    if sys.platform == "linux" and "fork" in every:
        return "fork"
    raise _StayError(
        f"a new one ({method}) cannot import what a notebook or prompt defines; "
        "put the function into a module, or give an executor that sends functions whole, as Dask's"
    )


# ---- the result


def _checked(point: Point, value: Any) -> Any:
    """Return a result if its columns are not the point's.

    Raises:
        BadInput: Two columns would have the same name.
    """
    both = [name for name in point if name in _columns(value)]
    if both:
        text = f"the function returns a column {show(both[0])} that is also in the grid"
        raise BadInput([Problem(f"grid.{both[0]}", text)])
    return value


def _columns(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {"value": value}


def _frame(points: list[Point], values: list[Any]) -> pd.DataFrame:
    results = [_columns(value) for value in values]
    columns = dict.fromkeys(name for part in (points, results) for row in part for name in row)
    rows = [{**point, **result} for point, result in zip(points, results, strict=True)]
    return pd.DataFrame(rows, columns=list(columns))
