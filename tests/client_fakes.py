"""A small server behind the client's Transport protocol, with faults to order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from kcm_lite.api.core import Event, Pod
from kcm_lite.api.errors import AlreadyExists, Conflict, Expired, NotFound
from kcm_lite.api.meta import Object, ObjectMeta, OwnerReference, object_key, replace
from kcm_lite.api.request import ObjectList, Request, WatchClosed, WatchEvent
from kcm_lite.clock import Clock


def pod(
    name: str,
    namespace: str = "ns",
    *,
    uid: str = "",
    owner: str = "",
    version: str = "",
    **labels: str,
) -> Pod:
    refs = (
        (OwnerReference(kind="ReplicaSet", name="o", uid=owner, controller=True),) if owner else ()
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{name}",
            owner_references=refs,
            labels=labels,
            resource_version=version,
        )
    )


class FakeWatch:
    def __init__(self, start: list[Any]) -> None:
        self.queue: deque[Any] = deque(start)
        self.waiter: asyncio.Future[None] | None = None
        self.stopped = False

    def push(self, item: list[WatchEvent] | Exception) -> None:
        if not self.stopped:
            self.queue.append(item)
            if self.waiter is not None and not self.waiter.done():
                self.waiter.set_result(None)

    async def next(self) -> list[WatchEvent]:
        while not self.queue:
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        item: list[WatchEvent] | Exception = self.queue.popleft()
        if isinstance(item, Exception):
            raise item
        return item

    def stop(self) -> None:
        self.stopped = True


class FakeServer:
    """Objects of any type by key; every write has the next version."""

    def __init__(self, clock: Clock, *, call_seconds: float = 0.0) -> None:
        self.clock, self.call_seconds = clock, call_seconds
        self.version = 0
        self.oldest = 0  # a watch from before this version is too old
        self.objects: dict[tuple[type[Object], str], Object] = {}
        self.history: list[tuple[type[Object], WatchEvent]] = []
        self.watches: list[tuple[type[Object], FakeWatch]] = []
        self.requests: list[tuple[float, Request]] = []
        self.opened: list[tuple[float, str, bool]] = []  # watches: time, version, streamed list
        self.errors: deque[Exception | None] = deque()  # of the next calls
        self.watch_errors: deque[Exception | None] = deque()  # of the next watches
        self.losing = False  # events go to the history but to no watch

    # what the tests do to it

    def commit(self, kind: str, obj: Object) -> Object:
        self.version += 1
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=str(self.version)))
        place = type(obj), object_key(obj)
        if kind == "DELETED":
            del self.objects[place]
        else:
            self.objects[place] = obj
        event = WatchEvent(kind, obj, str(self.version))
        self.history.append((type(obj), event))
        if not self.losing:
            self.send(event)
        return obj

    def put(self, obj: Object) -> Object:
        return self.commit(
            "MODIFIED" if (type(obj), object_key(obj)) in self.objects else "ADDED", obj
        )

    def drop(self, obj: Object) -> Object:
        return self.commit("DELETED", self.objects[type(obj), object_key(obj)])

    def send(self, *events: WatchEvent) -> None:
        for kind, watch in self.watches:
            if kind is type(events[0].object):
                watch.push(list(events))

    def end_watches(self, error: Exception) -> None:
        for _, watch in self.watches:
            watch.push(error)
        self.watches.clear()

    def close(self) -> None:
        self.end_watches(WatchClosed())

    def expire(self) -> None:
        self.oldest = self.version
        self.end_watches(Expired("too old resource version"))

    def state(self, kind: type[Object]) -> dict[str, Object]:
        return {key: obj for (type_, key), obj in self.objects.items() if type_ is kind}

    # what the client does

    async def call(self, request: Request) -> Any:
        self.requests.append((self.clock.time(), request))
        if self.call_seconds:
            await self.clock.sleep(self.call_seconds)
        error = self.errors.popleft() if self.errors else None
        if error is not None:
            raise error
        return getattr(self, f"do_{request.verb}")(request)

    def key(self, request: Request) -> tuple[type[Object], str]:
        name, namespace = request.name, request.namespace
        return request.type, f"{namespace}/{name}" if namespace else name

    def do_list(self, request: Request) -> ObjectList[Any]:
        return ObjectList(tuple(self.state(request.type).values()), str(self.version))

    def do_get(self, request: Request) -> Object:
        try:
            return self.objects[self.key(request)]
        except KeyError:
            raise NotFound(f'"{request.name}" not found') from None

    def do_create(self, request: Request) -> Object:
        if self.key(request) in self.objects:
            raise AlreadyExists(f'"{request.name}" already exists')
        return self.put(request.body)

    def do_update(self, request: Request) -> Object:
        if self.do_get(request).metadata.resource_version != request.body.metadata.resource_version:
            raise Conflict("the object has been modified")
        return self.put(request.body)

    def do_patch(self, request: Request) -> Object:
        old = self.do_get(request)
        assert isinstance(old, Event)
        patch = request.body
        return self.put(
            replace(old, count=patch["count"], message=patch.get("message", old.message))
        )

    def do_delete(self, request: Request) -> Object:
        return self.drop(self.do_get(request))

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
    ) -> FakeWatch:
        self.opened.append((self.clock.time(), resource_version, send_initial_events))
        error = self.watch_errors.popleft() if self.watch_errors else None
        if error is not None:
            return FakeWatch([error])
        if send_initial_events:
            version = str(self.version)
            events = [
                WatchEvent("ADDED", o, o.metadata.resource_version)
                for o in self.state(type).values()
            ]
            mark = ObjectMeta(
                annotations={"k8s.io/initial-events-end": "true"}, resource_version=version
            )
            watch = FakeWatch([[*events, WatchEvent("BOOKMARK", type(metadata=mark), version)]])
        else:
            if int(resource_version) < self.oldest:
                return FakeWatch([Expired(f"too old resource version: {resource_version}")])
            missed = [
                event
                for kind, event in self.history
                if kind is type and int(event.resource_version) > int(resource_version)
            ]
            watch = FakeWatch([missed] if missed else [])
        self.watches.append((type, watch))
        return watch
