"""A bar that says how far a long computation is: in a notebook, on a terminal, else nowhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kcm_lite.viz.show import is_static


@contextmanager
def meter(total: int, *, after: float) -> Iterator[Callable[[], None]]:
    """Show how many of ``total`` steps are done; the bar is gone at the end.

    Args:
        total: How many there are.
        after: Seconds that pass before anything is shown: what is over by then needs no bar.

    Yields:
        A function to call after each step.
    """
    start, done = time.perf_counter(), 0
    bar: _Widget | _Line | None = None

    def step() -> None:
        nonlocal done, bar
        done += 1
        if bar is None and time.perf_counter() - start >= after:
            bar = _bar(total)
        if bar is not None:
            bar.show(done)

    try:
        yield step
    finally:
        if bar is not None:
            bar.close()


class _Line:
    """A line on a terminal that rewrites itself; without a terminal, nothing."""

    def __init__(self, total: int) -> None:
        self.total, self.text = total, ""

    def show(self, done: int) -> None:
        text = f"\r{100 * done // self.total:3} % of {self.total}"
        if text != self.text and sys.stderr.isatty():
            self.text = text
            sys.stderr.write(text)
            sys.stderr.flush()

    def close(self) -> None:
        if self.text:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class _Widget:
    """A bar in a notebook."""

    def __init__(self, total: int) -> None:
        import ipywidgets
        from IPython.display import display

        self.bar: Any = ipywidgets.IntProgress(max=total, description=f"of {total}")
        display(self.bar)

    def show(self, done: int) -> None:
        self.bar.value = done

    def close(self) -> None:
        self.bar.close()


def _bar(total: int) -> _Widget | _Line:
    return _Widget(total) if _has_kernel() and not is_static() else _Line(total)


def _has_kernel() -> bool:
    """Whether a notebook shows what is displayed."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
