# Generated from book/91_pods.ipynb by tools/tangle.py; edit it there.

"""Creates, deletes and patches pods for a controller, and tells people about it in events.

See: appendix *Pods for controllers*; upstream ``RealPodControl`` in ``controller_utils.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kcm_lite.api.core import Pod, PodTemplateSpec
from kcm_lite.api.errors import NotFound, StatusError
from kcm_lite.api.memo import by_identity
from kcm_lite.api.meta import Object, ObjectMeta, OwnerReference, controller_of
from kcm_lite.client.clientset import Client
from kcm_lite.client.events import EventRecorder


# %% book/91_pods.ipynb#bf61f254
def new_controller_ref(owner: Object) -> OwnerReference:
    """Return the reference that makes ``owner`` an object's controller."""
    return OwnerReference(
        api_version=owner.API_VERSION,
        kind=owner.KIND,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


@by_identity
def _owners(ref: OwnerReference) -> tuple[OwnerReference, ...]:
    return (ref,)  # one for all pods of a batch: what is shared is checked and compared once


def get_pod_from_template(
    namespace: str,
    template: PodTemplateSpec,
    owner: Object,
    ref: OwnerReference,
    generate_name: str = "",
) -> Pod:
    """Cast a pod from a template: its labels, annotations, finalizers and spec, and an owner.

    The server completes the name; it begins as ``generate_name`` says, or like the owner's. The
    spec is shared, not copied.
    """
    mould = template.metadata
    meta = ObjectMeta(
        generate_name=generate_name or f"{owner.metadata.name}-",
        namespace=namespace,
        labels=mould.labels,
        annotations=mould.annotations,
        finalizers=mould.finalizers,
        owner_references=_owners(ref),
    )
    return Pod(metadata=meta, spec=template.spec)


# %% book/91_pods.ipynb#ee887813
def validate_controller_ref(ref: OwnerReference) -> None:
    """Refuse a reference that would not make its object the pod's controller.

    Raises:
        ValueError: What is missing.
    """
    if not ref.api_version:
        raise ValueError("controllerRef has empty APIVersion")
    if not ref.kind:
        raise ValueError("controllerRef has empty Kind")
    if not ref.controller:
        raise ValueError("controllerRef.Controller is not set to true")
    if not ref.block_owner_deletion:
        raise ValueError("controllerRef.BlockOwnerDeletion is not set")


class PodControl(Protocol):
    """What a controller needs to change pods; a test can put something else in its place."""

    async def create_pods(
        self,
        namespace: str,
        template: PodTemplateSpec,
        owner: Object,
        ref: OwnerReference,
        generate_name: str = "",
    ) -> None:
        """Create one pod from ``template``, owned by ``owner`` through ``ref``."""

    async def delete_pod(self, namespace: str, name: str, owner: Object) -> None:
        """Delete a pod on behalf of ``owner``."""

    async def patch_pod(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        """Apply a strategic merge patch to a pod."""


# %% book/91_pods.ipynb#1c20f893
@dataclass(frozen=True, slots=True)
class RealPodControl:
    """Changes pods through the API, with an event on the owner for each creation and deletion.

    Attributes:
        client: Whose name and rate limit the calls use.
        recorder: Where the events go.
        on_write: Is told every pod that was written, as stored, and its controller.
    """

    client: Client
    recorder: EventRecorder
    on_write: Callable[[Pod, OwnerReference | None], None] | None = None

    async def create_pods(
        self,
        namespace: str,
        template: PodTemplateSpec,
        owner: Object,
        ref: OwnerReference,
        generate_name: str = "",
    ) -> None:
        """Create one pod; a reference or a template that cannot be right is a ``ValueError``."""
        validate_controller_ref(ref)
        pod = get_pod_from_template(namespace, template, owner, ref, generate_name)
        if not pod.metadata.labels:
            raise ValueError("unable to create pods, no labels")
        await _create(self, pod, owner, ref)

    async def delete_pod(self, namespace: str, name: str, owner: Object) -> None:
        """Delete one pod. ``NotFound`` passes through, other errors come in upstream's words."""
        await _delete(self, namespace, name, owner)

    async def patch_pod(self, namespace: str, name: str, patch: dict[str, Any]) -> None:
        """Apply a strategic merge patch to a pod."""
        pod = await self.client.patch(Pod, namespace, name, patch, patch_type="strategic")
        if self.on_write is not None:
            self.on_write(pod, controller_of(pod))


# %% book/91_pods.ipynb#29260e1d
NAMESPACE_TERMINATING = "NamespaceTerminating"
"""The cause by which a refused create says that its namespace is going away."""


def is_namespace_terminating(error: Exception) -> bool:
    """Whether a create was refused because its namespace is being deleted."""
    causes = error.causes if isinstance(error, StatusError) else ()
    return any(cause.reason == NAMESPACE_TERMINATING for cause in causes)


async def _create(control: RealPodControl, pod: Pod, owner: Object, ref: OwnerReference) -> None:
    """Create a pod and say so; a refusal is no news while the namespace is on its way out."""
    try:
        created = await control.client.create(pod)
    except (StatusError, OSError) as error:
        if not is_namespace_terminating(error):
            control.recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
        raise
    if control.on_write is not None:
        control.on_write(created, ref)
    name = created.metadata.name
    control.recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {name}")


async def _delete(control: RealPodControl, namespace: str, name: str, owner: Object) -> None:
    """Delete a pod and say so; that it is gone already is no news."""
    try:
        await control.client.delete(Pod, namespace, name)
    except NotFound:
        raise
    except (StatusError, OSError) as error:
        control.recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
        raise RuntimeError(f"unable to delete pods: {error}") from error
    control.recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")
