# Generated from book/90_clients_events_metrics.ipynb by tools/tangle.py; edit it there.

"""Typed calls of the API, held to a rate, under one name.

See: chapter *Clients, events, metrics*; upstream ``k8s.io/client-go/rest`` and ``kubernetes``.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

from kcm_lite.api.autoscaling import Scale
from kcm_lite.api.errors import StatusError
from kcm_lite.api.meta import DeleteOptions, Object
from kcm_lite.api.request import ObjectList, Request
from kcm_lite.client.ratelimit import TokenBucket
from kcm_lite.client.transport import Transport, Watch
from kcm_lite.clock import Clock

# %% book/90_clients_events_metrics.ipynb#e8623610
T = TypeVar("T", bound=Object)
Patch = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""The document of a merge or strategic merge patch, or the operations of a JSON patch."""


class RequestMetrics(Protocol):
    """Who counts a client's requests."""

    def request(self, verb: str, code: int) -> None:
        """A request was answered with an HTTP code; 0: not answered at all."""

    def retried(self, verb: str, code: int) -> None:
        """It was, and will be sent again."""

    def throttled(self, verb: str, seconds: float) -> None:
        """It had to wait for its token, or not (0)."""

    def took(self, verb: str, seconds: float) -> None:
        """It is over, waits and retries included."""


# %% book/90_clients_events_metrics.ipynb#60cf7a7a
class Caller:
    """Sends requests under one name, no faster than allowed.

    Args:
        transport: The way to the API server.
        agent: Who asks: the controller's name.
        qps: Requests a second in the long run; 0 or less: no limit.
        burst: Requests at once after a quiet time; at least 1.
        metrics: Who counts.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        agent: str = "",
        qps: float = 20.0,
        burst: int = 30,
        metrics: RequestMetrics | None = None,
    ) -> None:
        if qps > 0 and burst < 1:
            raise ValueError(f"burst must be at least 1, got {burst}")
        self.transport, self.clock, self.agent = transport, clock, agent
        self.qps, self.burst, self.metrics = qps, burst, metrics
        self.bucket = TokenBucket(qps, burst, clock) if qps > 0 else None

    def call(self, verb: str, kind: type[Object], **rest: Any) -> Coroutine[Any, Any, Any]:
        """Wait for a token, send a request and return the answer; ``rest``: see `Request`.

        Raises:
            StatusError: The server refused.
            OSError: The server could not be reached.
        """
        request = Request(verb=verb, type=kind, agent=self.agent, **rest)
        sent = send(self, request)
        return sent if self.metrics is None else timed(sent, verb, self.clock, self.metrics)


# %% book/90_clients_events_metrics.ipynb#cdea56e2
MAX_RETRIES = 10


def pause_before_retry(request: Request, error: Exception) -> float:
    """Return the seconds until a request is sent again; 0: its error is for the caller.

    The server asks for it, with Retry-After. A read whose connection breaks is repeated too.
    """
    if isinstance(error, StatusError):
        return error.retry_after if error.code == 429 or error.code >= 500 else 0.0
    again = isinstance(error, ConnectionResetError) and request.verb in ("get", "list")
    return 1.0 if again else 0.0


# %% book/90_clients_events_metrics.ipynb#7e3dd604
async def counted(transport: Transport, request: Request, metrics: RequestMetrics) -> Any:
    """Send a request and count its answer."""
    try:
        answer = await transport.call(request)
    except (StatusError, OSError) as error:
        metrics.request(request.verb, code_of(error))
        raise
    metrics.request(request.verb, 201 if request.verb == "create" else 200)
    return answer


def code_of(error: Exception) -> int:
    """Return the HTTP code of an error; 0 if the server did not answer."""
    return error.code if isinstance(error, StatusError) else 0


async def timed(
    sent: Coroutine[Any, Any, Any], verb: str, clock: Clock, metrics: RequestMetrics
) -> Any:
    """Wait for an answer, or an error, and observe how long that took."""
    start = clock.time()
    try:
        return await sent
    finally:
        metrics.took(verb, round(clock.time() - start, 9))


# %% book/90_clients_events_metrics.ipynb#c3d1e9b2
async def send(caller: Caller, request: Request) -> Any:
    """Send a request when there is a token for it, and again when the server asks for that."""
    left, metrics = MAX_RETRIES, caller.metrics
    while True:
        delay = caller.bucket.reserve() if caller.bucket is not None else 0.0
        if caller.bucket is not None and metrics is not None:
            metrics.throttled(request.verb, delay)
        if delay:
            await caller.clock.sleep(delay)
        try:
            if metrics is None:
                return await caller.transport.call(request)
            return await counted(caller.transport, request, metrics)
        except (StatusError, OSError) as error:
            pause = pause_before_retry(request, error)
            if not (left and pause):
                raise
            if metrics is not None:
                metrics.retried(request.verb, code_of(error))
        left -= 1
        await caller.clock.sleep(pause)


# %% book/90_clients_events_metrics.ipynb#a1a564e8
class Reader(Caller):
    """The verbs that read."""

    async def get(self, kind: type[T], namespace: str, name: str) -> T:
        """Return an object as the server has it now.

        Raises:
            NotFound: There is none.
        """
        return cast(T, await self.call("get", kind, namespace=namespace, name=name))

    async def list(
        self,
        kind: type[T],
        namespace: str = "",
        *,
        label_selector: Any = None,
        field_selector: Any = None,
    ) -> ObjectList[T]:
        """Return the objects of a namespace (of all, if empty) and the version of that state."""
        selectors = {"label_selector": label_selector, "field_selector": field_selector}
        found = await self.call("list", kind, namespace=namespace, **selectors)
        return cast(ObjectList[T], found)

    def watch(
        self, kind: type[Object], namespace: str = "", *, resource_version: str = "", **rest: Any
    ) -> Watch:
        """Begin a watch; it takes no token. ``rest``: see `Transport.watch`."""
        return self.transport.watch(
            kind,
            namespace=namespace,
            resource_version=resource_version,
            client=self.agent,
            **rest,
        )


# %% book/90_clients_events_metrics.ipynb#7e350827
class Writer(Reader):
    """The verbs that make and change an object; each returns it as it was stored."""

    async def create(self, obj: T) -> T:
        """Create an object.

        Raises:
            AlreadyExists: The name is taken.
            Forbidden: Admission refused it: a quota, a namespace that is going.
            Invalid: Validation refused it.
        """
        meta = obj.metadata
        made = await self.call(
            "create", type(obj), namespace=meta.namespace, name=meta.name, body=obj
        )
        return cast(T, made)

    async def update(self, obj: T, *, subresource: str = "") -> T:
        """Replace an object.

        Raises:
            Conflict: Someone else was faster: ``obj`` is not made from the stored version.
            NotFound: It is gone.
        """
        meta = obj.metadata
        rest = {"namespace": meta.namespace, "name": meta.name, "subresource": subresource}
        return cast(T, await self.call("update", type(obj), body=obj, **rest))

    async def update_status(self, obj: T) -> T:
        """Replace an object's status and nothing else; errors as for `update`."""
        return await self.update(obj, subresource="status")


# %% book/90_clients_events_metrics.ipynb#81dcbf86
class Client(Writer):
    """All verbs under one name; all but watches share one token bucket."""

    async def patch(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        patch: Patch,
        *,
        patch_type: str = "merge",
        subresource: str = "",
    ) -> T:
        """Change parts of an object; ``patch_type`` is merge, strategic or json."""
        rest = {"body": patch, "patch_type": patch_type, "subresource": subresource}
        return cast(T, await self.call("patch", kind, namespace=namespace, name=name, **rest))

    async def delete(
        self, kind: type[Object], namespace: str, name: str, options: DeleteOptions | None = None
    ) -> None:
        """Delete an object, or have it marked if something must happen first.

        Raises:
            NotFound: It is gone already.
            Conflict: A precondition of ``options`` does not hold.
        """
        await self.call("delete", kind, namespace=namespace, name=name, options=options)

    def with_agent(self, agent: str) -> Client:
        """Return a client of the same kind under another name, with a bucket of its own."""
        return Client(
            self.transport,
            self.clock,
            agent=agent,
            qps=self.qps,
            burst=self.burst,
            metrics=self.metrics,
        )


# %% book/90_clients_events_metrics.ipynb#c6825024
async def get_scale(client: Client, kind: type[Object], namespace: str, name: str) -> Scale:
    """Return the replica counts of a workload."""
    found = await client.call("get", kind, namespace=namespace, name=name, subresource="scale")
    return cast(Scale, found)


async def update_scale(client: Client, kind: type[Object], scale: Scale) -> Scale:
    """Set the wanted number of replicas of the workload that ``scale`` was read from."""
    meta = scale.metadata
    rest = {"namespace": meta.namespace, "name": meta.name, "subresource": "scale"}
    return cast(Scale, await client.call("update", kind, body=scale, **rest))
