# Generated from book/10_expectations.ipynb by tools/tangle.py; edit it there.

"""Expectations: what a controller has done and not yet seen.

>>> from kcm_lite.clock import VirtualClock
>>> expectations = ControllerExpectations(VirtualClock())
>>> expectations.expect_creations("default/web", 2)
>>> expectations.satisfied_expectations("default/web")
False
>>> expectations.creation_observed("default/web")
>>> expectations.creation_observed("default/web")
>>> expectations.satisfied_expectations("default/web")
True

See: chapter *Expectations*; upstream ``pkg/controller/controller_utils.go``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcm_lite.clock import Clock
from kcm_lite.trace import ExpectationChange, Trace

# %% book/10_expectations.ipynb#55afbc66
EXPECTATIONS_TIMEOUT = 300.0
"""Seconds after which an unfulfilled expectation no longer holds anybody back."""


@dataclass(slots=True)
class ControlleeExpectations:
    """How many creations and deletions one controller object still waits to see.

    Attributes:
        add: Creations to come. Below zero: more were seen than were expected.
        dele: Deletions to come (``del`` in Go).
        timestamp: The clock's time, in seconds, at which they were set.
    """

    add: int
    dele: int
    timestamp: float

    @property
    def fulfilled(self) -> bool:
        """Nothing is left to be seen."""
        return self.add <= 0 and self.dele <= 0


# %% book/10_expectations.ipynb#17f74e31
class ExpectationStore:
    """The counts, by the key of the object that a controller works for."""

    __slots__ = ("_clock", "_controller", "_counts", "_trace")

    def __init__(self, clock: Clock, *, trace: Trace | None = None, controller: str = "") -> None:
        self._clock, self._trace, self._controller = clock, trace, controller
        self._counts: dict[str, ControlleeExpectations] = {}

    def get(self, key: str) -> ControlleeExpectations | None:
        """Return what ``key`` waits for; None if nothing was ever expected."""
        return self._counts.get(key)

    def set_expectations(self, key: str, add: int, dele: int) -> None:
        """Expect so much, from now; whatever was expected before is forgotten."""
        self._counts[key] = ControlleeExpectations(add, dele, self._clock.time())
        self._record(key, "expect")

    def delete_expectations(self, key: str) -> None:
        """Forget ``key``: its object is gone, and a new one of that name starts clean."""
        if key in self._counts:
            self._record(key, "delete")
            del self._counts[key]

    def _change(self, key: str, add: int, dele: int, op: str) -> None:
        counts = self._counts.get(key)
        if counts is not None:
            counts.add += add
            counts.dele += dele
            self._record(key, op)

    def _record(self, key: str, op: str) -> None:
        if self._trace is not None and self._trace.detail:
            t, counts = self._clock.time(), self._counts[key]
            self._trace.write(
                ExpectationChange(t, self._controller, key, op, counts.add, counts.dele)
            )


# %% book/10_expectations.ipynb#af36792b
class CreationExpectations(ExpectationStore):
    """Counts with the verbs of creation, and the question that every sync asks."""

    __slots__ = ()

    def expect_creations(self, key: str, n: int) -> None:
        """Expect to see ``n`` creations (and no deletion)."""
        self.set_expectations(key, n, 0)

    def creation_observed(self, key: str) -> None:
        """One creation was seen."""
        self._change(key, -1, 0, "creation_observed")

    def raise_expectations(self, key: str, add: int, dele: int) -> None:
        """Expect more."""
        self._change(key, add, dele, "raise")

    def lower_expectations(self, key: str, add: int, dele: int) -> None:
        """Expect less: something that was announced will not happen."""
        self._change(key, -add, -dele, "lower")

    def satisfied_expectations(self, key: str) -> bool:
        """Whether a sync of ``key`` may create and delete.

        Yes when everything was seen, when nothing was ever expected, and when more than
        `EXPECTATIONS_TIMEOUT` seconds have gone by. Nothing wakes up at that moment: it is
        noticed by the next sync, whenever that comes.
        """
        counts = self._counts.get(key)
        if counts is None or counts.fulfilled:
            return True
        if round(self._clock.time() - counts.timestamp, 9) > EXPECTATIONS_TIMEOUT:
            self._record(key, "expired")
            return True
        return False


# %% book/10_expectations.ipynb#4f3543e8
class ControllerExpectations(CreationExpectations):
    """Expectations that count deletions."""

    __slots__ = ()

    def expect_deletions(self, key: str, n: int) -> None:
        """Expect to see ``n`` deletions (and no creation)."""
        self.set_expectations(key, 0, n)

    def deletion_observed(self, key: str) -> None:
        """One deletion was seen."""
        self._change(key, 0, -1, "deletion_observed")


# %% book/10_expectations.ipynb#7477b974
class UIDTrackingControllerExpectations(CreationExpectations):
    """Expectations that remember which objects are to be deleted, so that each counts once.

    What is remembered is the object's key, namespace/name, in spite of the name.
    """

    __slots__ = ("_deletions",)

    def __init__(self, clock: Clock, *, trace: Trace | None = None, controller: str = "") -> None:
        super().__init__(clock, trace=trace, controller=controller)
        self._deletions: dict[str, dict[str, None]] = {}  # a dict keeps order, unlike a set

    def get_uids(self, key: str) -> list[str] | None:
        """Return the objects whose deletion ``key`` waits for; None if none was ever expected."""
        uids = self._deletions.get(key)
        return None if uids is None else list(uids)

    def expect_deletions(self, key: str, uids: Iterable[str]) -> None:
        """Expect to see these objects deleted (and no creation)."""
        self._deletions[key] = expected = dict.fromkeys(uids)
        self.set_expectations(key, 0, len(expected))

    def deletion_observed(self, key: str, uid: str) -> None:
        """This object's deletion was seen; only the first time counts, and only if expected."""
        expected = self._deletions.get(key)
        if expected is not None and uid in expected:
            del expected[uid]
            self._change(key, 0, -1, "deletion_observed")

    def delete_expectations(self, key: str) -> None:
        """Forget ``key``, counts and objects."""
        super().delete_expectations(key)
        self._deletions.pop(key, None)
