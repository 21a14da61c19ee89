"""What the tests of the API server share: objects, and a server that tells what it does."""

from __future__ import annotations

import random
from typing import Any

from kcm_lite.api.apps import ReplicaSet, ReplicaSetSpec
from kcm_lite.api.core import (
    Binding,
    ConfigMap,
    Container,
    ObjectReference,
    Pod,
    PodSpec,
    PodTemplateSpec,
)
from kcm_lite.api.meta import LabelSelector, Object, ObjectMeta, replace
from kcm_lite.api.request import Request, WatchEvent
from kcm_lite.apiserver.server import APIServer
from kcm_lite.clock import VirtualClock
from kcm_lite.trace import Trace

WEB = {"app": "web"}
SPEC = PodSpec(containers=(Container(name="web", image="nginx"),))


class Box:
    """A server with its clock and trace."""

    def __init__(self, *, seed: int = 0, **options: Any) -> None:
        self.clock, self.trace = VirtualClock(), Trace()
        self.server = APIServer(self.clock, trace=self.trace, rng=random.Random(seed), **options)

    def watch(self, kind: type[Object], **options: Any) -> list[WatchEvent]:
        """Return a list that grows with every event."""
        events: list[WatchEvent] = []
        self.server.subscribe(kind, events.append, **options)
        return events


def meta(name: str = "a", **fields: Any) -> ObjectMeta:
    return ObjectMeta(namespace="default", name=name, **fields)


def config(name: str = "a", **fields: Any) -> ConfigMap:
    return ConfigMap(metadata=meta(name, **fields))


def pod(name: str = "a", **fields: Any) -> Pod:
    return Pod(metadata=meta(name, **fields), spec=SPEC)


def replica_set(name: str = "web", replicas: int = 3, **fields: Any) -> ReplicaSet:
    return ReplicaSet(
        metadata=meta(name, **fields),
        spec=ReplicaSetSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=WEB),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=WEB), spec=SPEC),
        ),
    )


def bind(server: APIServer, name: str, node: str = "node-1", **fields: Any) -> None:
    """Put a pod on a node."""
    body = Binding(metadata=meta(name, **fields), target=ObjectReference(kind="Node", name=node))
    server.handle(
        Request(
            verb="create",
            type=Pod,
            namespace="default",
            name=name,
            subresource="binding",
            body=body,
        )
    )


def with_meta(obj: Any, **fields: Any) -> Any:
    """Return an object with other metadata fields."""
    return replace(obj, metadata=replace(obj.metadata, **fields))


def kinds(events: list[WatchEvent]) -> list[str]:
    return [event.type for event in events]
