"""What the vectors of several controllers are played with: a clock's start, a queue, a recorder."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kcm_lite.api.meta import Object
from kcm_lite.client.workqueue import RateLimitingQueue
from kcm_lite.clock import VirtualClock

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)
JSON = dict[str, Any]


class Queue(RateLimitingQueue[str]):
    """A work queue that only takes notes of what should come later."""

    __slots__ = ("ops",)

    def __init__(self, name: str, clock: VirtualClock) -> None:
        super().__init__(name, clock=clock)
        self.ops: list[JSON] = []

    def add_after(self, item: str, seconds: float) -> None:
        self.ops.append({"key": item, "op": "add_after", "seconds": seconds})

    def add_rate_limited(self, item: str) -> None:
        self.ops.append({"key": item, "op": "add_rate_limited"})


@dataclass
class Recorder:
    """Notes events."""

    events: list[str] = field(default_factory=list)

    def event(self, obj: Object, type: str, reason: str, message: str) -> None:
        self.events.append(f"{type} {reason} {message}")
