"""Pods from templates, and the events that tell of them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Container, Pod, PodSpec, PodTemplateSpec
from kcm_lite.api.errors import Cause, Conflict, Forbidden, NotFound, ServerTimeout
from kcm_lite.api.meta import ObjectMeta, OwnerReference, replace
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder
from kcm_lite.reconcile.podcontrol import RealPodControl, get_pod_from_template, new_controller_ref

WEB = ReplicaSet(metadata=ObjectMeta(name="web", namespace="ns", uid="u"))
TEMPLATE = PodTemplateSpec(
    metadata=ObjectMeta(
        name="ignored", labels={"app": "x"}, annotations={"a": "b"}, finalizers=("f/x",)
    ),
    spec=PodSpec(containers=(Container(name="c", image="i"),)),
)
TERMINATING = Forbidden(
    "namespace ns is terminating", causes=(Cause(reason="NamespaceTerminating"),)
)


class Fake:
    """A client and a recorder that take notes; the client fails if it was given an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[tuple[Any, ...]] = []
        self.events: list[str] = []
        self.written: list[tuple[str, str]] = []

    def _call(self, *call: Any) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    async def create(self, pod: Pod) -> Pod:
        self._call("create", pod)
        meta = replace(pod.metadata, name=pod.metadata.generate_name + "abcde")
        return replace(pod, metadata=meta)

    async def delete(self, kind: type[Pod], namespace: str, name: str) -> None:
        self._call("delete", namespace, name)

    async def patch(
        self, kind: type[Pod], namespace: str, name: str, patch: object, *, patch_type: str
    ) -> Pod:
        self._call("patch", namespace, name, patch, patch_type)
        refs = (OwnerReference(name="web", uid="u", controller=True),)
        return Pod(metadata=ObjectMeta(name=name, namespace=namespace, owner_references=refs))

    def event(self, obj: object, type: str, reason: str, message: str) -> None:
        assert obj is WEB
        self.events.append(f"{type} {reason} {message}")

    def on_write(self, pod: Pod, ref: OwnerReference | None) -> None:
        self.written.append((pod.metadata.name, ref.uid if ref else ""))

    def control(self) -> RealPodControl:
        return RealPodControl(cast(Client, self), cast(EventRecorder, self), self.on_write)


def test_a_pod_has_what_the_template_has_and_its_owner_and_shares_the_spec() -> None:
    pod = get_pod_from_template("ns", TEMPLATE, WEB, new_controller_ref(WEB))
    meta = pod.metadata
    assert (meta.name, meta.generate_name, meta.namespace) == ("", "web-", "ns")
    assert (meta.labels, meta.annotations) == ({"app": "x"}, {"a": "b"})
    assert meta.finalizers == ("f/x",)
    assert pod.spec is TEMPLATE.spec
    assert meta.owner_references == (
        OwnerReference(
            api_version="apps/v1",
            kind="ReplicaSet",
            name="web",
            uid="u",
            controller=True,
            block_owner_deletion=True,
        ),
    )


def test_creation_is_told_with_the_name_that_the_server_gave() -> None:
    fake = Fake()
    asyncio.run(fake.control().create_pods("ns", TEMPLATE, WEB, new_controller_ref(WEB)))
    assert fake.events == ["Normal SuccessfulCreate Created pod: web-abcde"]
    assert fake.written == [("web-abcde", "u")]


@pytest.mark.parametrize(
    ("error", "events"),
    [
        (
            Forbidden("over quota"),
            ["Warning FailedCreate Error creating: over quota"],
        ),
        (ConnectionRefusedError("no route"), ["Warning FailedCreate Error creating: no route"]),
        (TERMINATING, []),
    ],
)
def test_a_refused_creation_is_told_unless_the_namespace_goes(
    error: Exception, events: list[str]
) -> None:
    fake = Fake(error)
    with pytest.raises(type(error)):
        asyncio.run(fake.control().create_pods("ns", TEMPLATE, WEB, new_controller_ref(WEB)))
    assert fake.events == events
    assert fake.written == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"api_version": ""}, "controllerRef has empty APIVersion"),
        ({"kind": ""}, "controllerRef has empty Kind"),
        ({"controller": None}, "controllerRef.Controller is not set to true"),
        ({"controller": False}, "controllerRef.Controller is not set to true"),
        ({"block_owner_deletion": None}, "controllerRef.BlockOwnerDeletion is not set"),
    ],
)
def test_no_pod_without_a_full_controller_reference(change: dict[str, Any], message: str) -> None:
    fake = Fake()
    ref = replace(new_controller_ref(WEB), **change)
    with pytest.raises(ValueError, match=message):
        asyncio.run(fake.control().create_pods("ns", TEMPLATE, WEB, ref))
    assert not fake.calls and not fake.events


def test_no_pod_without_labels() -> None:
    fake = Fake()
    with pytest.raises(ValueError, match="unable to create pods, no labels"):
        asyncio.run(
            fake.control().create_pods("ns", PodTemplateSpec(), WEB, new_controller_ref(WEB))
        )
    assert not fake.calls and not fake.events


def test_deletion_is_told() -> None:
    fake = Fake()
    asyncio.run(fake.control().delete_pod("ns", "web-1", WEB))
    assert fake.calls == [("delete", "ns", "web-1")]
    assert fake.events == ["Normal SuccessfulDelete Deleted pod: web-1"]


def test_a_pod_that_is_gone_already_is_no_news() -> None:
    fake = Fake(NotFound('pods "web-1" not found'))
    with pytest.raises(NotFound):
        asyncio.run(fake.control().delete_pod("ns", "web-1", WEB))
    assert fake.events == []


@pytest.mark.parametrize("error", [Conflict("changed"), ServerTimeout("late"), OSError("cut")])
def test_a_failed_deletion_is_told_and_wrapped(error: Exception) -> None:
    fake = Fake(error)
    with pytest.raises(RuntimeError, match=f"^unable to delete pods: {error}$") as caught:
        asyncio.run(fake.control().delete_pod("ns", "web-1", WEB))
    assert caught.value.__cause__ is error
    assert fake.events == [f"Warning FailedDelete Error deleting: {error}"]


def test_a_bug_is_not_dressed_up_as_a_refusal() -> None:
    fake = Fake(TypeError("bug"))
    with pytest.raises(TypeError):
        asyncio.run(fake.control().delete_pod("ns", "web-1", WEB))
    assert fake.events == []


def test_a_patch_is_strategic_and_its_result_is_noted_as_a_write() -> None:
    fake = Fake()
    asyncio.run(fake.control().patch_pod("ns", "web-1", {"metadata": {}}))
    assert fake.calls == [("patch", "ns", "web-1", {"metadata": {}}, "strategic")]
    assert fake.written == [("web-1", "u")]
