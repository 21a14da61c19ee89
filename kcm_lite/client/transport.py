"""What a client needs of the way to an API server.

The simulated cluster hands it the server in memory; another transport can speak HTTP.
"""

from __future__ import annotations

from typing import Any, Protocol

from kcm_lite.api.meta import Object
from kcm_lite.api.request import Request, WatchEvent


class Watch(Protocol):
    """An open watch: events come until it fails, closes or is stopped."""

    async def next(self) -> list[WatchEvent]:
        """Wait for events and return them, oldest first, at least one.

        Raises:
            StatusError: The server gave up; ``Expired`` if it no longer knows what to send.
            WatchClosed: The server ended the watch in good order.
            OSError: The connection broke.
        """
        ...

    def stop(self) -> None:
        """Let go of it; no more events. A second stop does nothing."""
        ...


class Transport(Protocol):
    """The way to an API server."""

    async def call(self, request: Request) -> Any:
        """Send a request and return the answer: an object, an ``ObjectList`` or None.

        Raises:
            StatusError: The server refused.
            OSError: The server could not be reached.
        """
        ...

    def watch(
        self,
        type: type[Object],
        *,
        namespace: str = "",
        resource_version: str = "",
        label_selector: Any = None,
        field_selector: Any = None,
        send_initial_events: bool = False,
        client: str = "",
    ) -> Watch:
        """Begin a watch; what goes wrong is raised by its ``next``.

        Args:
            type: Which objects.
            namespace: Only of this one, if not empty.
            resource_version: Send what happened after this version.
            label_selector: Only objects whose labels match.
            field_selector: Only objects whose fields match.
            send_initial_events: First send the state as ADDED events, then a BOOKMARK whose
                object bears the annotation ``k8s.io/initial-events-end``, then what follows.
            client: Who watches.
        """
        ...
