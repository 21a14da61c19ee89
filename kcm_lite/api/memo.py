"""Remember what was worked out for an object, for as long as the object lives on.

Objects are frozen and shared: ten thousand pods of one template hold the same spec object, so
what is derived from it (its defaults, its errors) is worked out once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_LIMIT = 4096


def by_identity(function: Callable[P, R]) -> Callable[P, R]:
    """Cache a pure function by the identity of its first argument and the value of the others.

    The cache keeps the first argument alive, so that its address cannot be used again. It forgets
    everything when it is full.
    """
    known: dict[tuple[Any, ...], tuple[Any, R]] = {}

    @wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
        key = (id(args[0]), *args[1:])
        found = known.get(key)
        if found is not None:
            return found[1]
        result = function(*args, **kwargs)
        if len(known) >= _LIMIT:
            known.clear()
        known[key] = args[0], result
        return result

    return remembered
