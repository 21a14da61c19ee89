"""Functions that sweeps call in other processes: what is sent there must be importable."""

from __future__ import annotations

import os
import time
from typing import Any


def product(a: int, b: int) -> int:
    return a * b


def both(a: int, *, b: int = 1) -> dict[str, Any]:
    return {"sum": a + b, "pid": os.getpid()}


def late_first(i: int) -> int:
    """The earlier a point, the later it is done."""
    time.sleep(0.05 * (3 - i))
    return i


def odd_fails(i: int) -> int:
    if i % 2:
        raise LookupError(f"{i} is odd")
    return i


def dies(i: int) -> None:
    os._exit(3)
