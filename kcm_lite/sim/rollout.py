"""What a user does to a rollout, as ``kubectl`` does it, and the text that it prints.

All of it happens on the user's side: a pause is a patch of ``spec.paused``, a restart an annotation
of the template, an undo a patch that puts an old replica set's template back.

>>> cluster.rollout.undo("deployment/web", to_revision=1)      # doctest: +SKIP
'deployment.apps/web rolled back'

See: upstream ``kubectl/pkg/cmd/rollout``, ``cmd/set``, ``pkg/polymorphichelpers``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.core import Container, Pod, PodSpec, PodTemplateSpec
from kcm_lite.api.errors import NotFound
from kcm_lite.api.meta import Object, controller_of
from kcm_lite.api.scheme import Resource
from kcm_lite.api.serial import format_time, to_wire
from kcm_lite.apiserver.server import APIServer
from kcm_lite.controllers.deployment_revisions import NOT_COPIED
from kcm_lite.controllers.deployment_revisions import revision as number_of
from kcm_lite.controllers.deployment_status import PROGRESSING, TIMED_OUT, find_condition
from kcm_lite.controllers.deployment_templates import HASH_LABEL, equal_ignore_hash
from kcm_lite.controllers.rollout import wanted

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
CHANGE_CAUSE = "kubernetes.io/change-cause"
RESTARTABLE = ("Deployment", "DaemonSet", "StatefulSet")

Target = tuple[Resource, str, str]
"""Kind, namespace and name."""


class CommandError(RuntimeError):
    """A command that ``kubectl`` refuses by itself; the text is what it prints."""

    def __init__(self, text: str) -> None:
        super().__init__(f"error: {text}")


def said(target: Target, operation: str) -> str:
    """Return what is printed when something has been done: ``deployment.apps/web scaled``."""
    resource, _, name = target
    group = f".{resource.group}" if resource.group else ""
    return f"{resource.kind.lower()}{group}/{name} {operation}"


# ---- set image, scale


def set_image(server: APIServer, target: Target, images: Mapping[str, str]) -> str:
    """Give containers other images.

    Args:
        server: Where the object is.
        target: Anything with a pod template, or a Pod.
        images: Image by name of container; ``*`` stands for all of them.

    Returns:
        What is printed: nothing if the images are these already.

    Raises:
        CommandError: No container has this name, or the object has none.
        StatusError: The object is not there, or the server refuses the change.
    """
    resource, namespace, name = target
    obj: Any = server.get(resource.type, namespace, name)
    pod = pod_spec_of(obj)
    groups = {"initContainers": pod.init_containers, "containers": pod.containers}
    names = [c.name for group in groups.values() for c in group]
    for wanted_name in images:
        if wanted_name != "*" and wanted_name not in names:
            raise CommandError(f'unable to find container named "{wanted_name}"')
    patch = {key: part for key, group in groups.items() if (part := _changes(group, images))}
    if not patch:
        return ""
    body = patch if resource.type is Pod else {"template": {"spec": patch}}
    server.patch(resource.type, namespace, name, {"spec": body}, patch_type="strategic")
    return said(target, "image updated")


def pod_spec_of(obj: Object) -> PodSpec:
    """Return what an object says about pods.

    Raises:
        CommandError: It is no Pod, and has no pod template.
    """
    spec: Any = getattr(obj, "spec", None)
    found = spec if isinstance(obj, Pod) else getattr(getattr(spec, "template", None), "spec", None)
    if not isinstance(found, PodSpec):
        text = f"the object is not a pod or does not have a pod template: {obj.KIND}"
        raise CommandError(text)
    return found


def _changes(group: tuple[Container, ...], images: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the part of a patch that names the containers whose image becomes another."""
    new = {c.name: images.get(c.name, images.get("*", c.image)) for c in group}
    return [{"name": c.name, "image": new[c.name]} for c in group if new[c.name] != c.image]


def scale(server: APIServer, target: Target, replicas: int) -> str:
    """Set the wanted number of pods.

    Raises:
        CommandError: The number is negative.
        NotFound: The object is not there, or its kind has no size.
    """
    resource, namespace, name = target
    if replicas < 0:
        raise CommandError(
            "The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0"
        )
    if not resource.has_scale:
        raise NotFound("the server could not find the requested resource")
    server.patch(resource.type, namespace, name, {"spec": {"replicas": replicas}})
    return said(target, "scaled")


# ---- rollout


class Rollout:
    """The commands under ``kubectl rollout``; each takes ``kind/name`` and returns its output.

    Args:
        server: Where the objects are.
        locate: Tells what ``kind/name`` means.
        now: The time, for the annotation of a restart.
    """

    def __init__(
        self, server: APIServer, locate: Callable[[str, str], Target], now: Callable[[], datetime]
    ) -> None:
        self._server, self._locate, self._now = server, locate, now

    def _get(self, ref: str, namespace: str) -> tuple[Target, Any]:
        target = self._locate(ref, namespace)
        resource, where, name = target
        return target, self._server.get(resource.type, where, name)

    def _patch(self, target: Target, patch: Any, *, patch_type: str = "strategic") -> None:
        resource, namespace, name = target
        self._server.patch(resource.type, namespace, name, patch, patch_type=patch_type)

    def pause(self, ref: str, *, namespace: str = "") -> str:
        """Let no new template roll out.

        Raises:
            CommandError: It is paused, or it is no Deployment.
        """
        target, obj = self._get(ref, namespace)
        if not isinstance(obj, Deployment):
            raise _refused(target, "pausing is not supported")
        if obj.spec.paused:
            raise _refused(target, "is already paused")
        self._patch(target, {"spec": {"paused": True}})
        return said(target, "paused")

    def resume(self, ref: str, *, namespace: str = "") -> str:
        """Let it roll out again, with all that has changed in the meantime.

        Raises:
            CommandError: It is not paused, or it is no Deployment.
        """
        target, obj = self._get(ref, namespace)
        if not isinstance(obj, Deployment):
            raise _refused(target, "resuming is not supported")
        if not obj.spec.paused:
            raise _refused(target, "is not paused")
        self._patch(target, {"spec": {"paused": None}})
        return said(target, "resumed")

    def restart(self, ref: str, *, namespace: str = "") -> str:
        """Replace all pods by new ones of the same template.

        Raises:
            CommandError: It is paused, its kind does not roll, or the last restart was in this
                second.
        """
        target, obj = self._get(ref, namespace)
        if obj.KIND not in RESTARTABLE:
            raise _refused(target, "restarting is not supported")
        if isinstance(obj, Deployment) and obj.spec.paused:
            raise _refused(target, "can't restart paused deployment (run rollout resume first)")
        now, template = format_time(self._now()), obj.spec.template
        if template.metadata.annotations.get(RESTARTED_AT) == now:
            raise CommandError(
                f"failed to create patch for {target[2]}: if restart has already been triggered "
                "within the past second, please wait before attempting to trigger another"
            )
        annotations = {"annotations": {RESTARTED_AT: now}}
        self._patch(target, {"spec": {"template": {"metadata": annotations}}})
        return said(target, "restarted")

    def undo(self, ref: str, *, to_revision: int = 0, namespace: str = "") -> str:
        """Go back to the template of an older revision, by default of the one before.

        Raises:
            CommandError: There is no such revision, or the Deployment is paused.
        """
        target, d = self._deployment(ref, namespace, "rollbacker")
        source = _set_of_revision(d, self._sets(d), to_revision)
        if d.spec.paused:
            raise CommandError(
                "you cannot rollback a paused deployment; resume it first with "
                f"'kubectl rollout resume deployment/{target[2]}' and try again"
            )
        if equal_ignore_hash(source.spec.template, d.spec.template):
            text = f"current template already matches revision {to_revision}"
            return said(target, f"skipped rollback ({text})")
        template = to_wire(source.spec.template)
        template["metadata"]["labels"].pop(HASH_LABEL, None)
        own, old = d.metadata.annotations, source.metadata.annotations
        annotations = {k: v for k, v in own.items() if k in NOT_COPIED}
        annotations |= {k: v for k, v in old.items() if k not in NOT_COPIED}
        steps = [
            {"op": "replace", "path": "/spec/template", "value": template},
            {"op": "replace", "path": "/metadata/annotations", "value": annotations},
        ]
        self._patch(target, steps, patch_type="json")
        return said(target, "rolled back")

    def history(self, ref: str, *, revision: int = 0, namespace: str = "") -> str:
        """Return the table of revisions, or the pod template of one of them.

        Raises:
            CommandError: There is no such revision, or it is no Deployment.
        """
        target, d = self._deployment(ref, namespace, "history viewer", revision)
        sets = {n: rs for rs in self._sets(d) if (n := number_of(rs)) is not None}
        if not sets:
            return f"{said(target, '').rstrip()}\nNo rollout history found."
        if revision == 0:
            rows = [(str(n), sets[n].metadata.annotations.get(CHANGE_CAUSE)) for n in sorted(sets)]
            lines = [f"{number:<10}{cause or '<none>'}" for number, cause in rows]
            return "\n".join([said(target, "").rstrip(), "REVISION  CHANGE-CAUSE", *lines])
        if revision not in sets:
            raise CommandError("unable to find the specified revision")
        rs = sets[revision]
        cause = rs.metadata.annotations.get(CHANGE_CAUSE)
        head = said(target, f"with revision #{revision}")
        return "\n".join([head, *_described(rs.spec.template, cause)])

    def status(self, ref: str, *, revision: int = 0, namespace: str = "") -> str:
        """Return how far the rollout is, as ``kubectl rollout status --watch=false`` prints it.

        Raises:
            CommandError: It is past its deadline, of another revision, or of another kind.
        """
        _, d = self._deployment(ref, namespace, "status viewer", revision)
        running = number_of(d)
        if revision and revision != running:
            raise CommandError(
                f"desired revision ({revision}) is different from the running revision ({running})"
            )
        return status_text(d)

    def _deployment(
        self, ref: str, namespace: str, what: str, revision: int = 0
    ) -> tuple[Target, Deployment]:
        """Return a Deployment; no other kind has a history here."""
        target, obj = self._get(ref, namespace)
        if not isinstance(obj, Deployment):
            resource = target[0]
            kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
            raise CommandError(f'no {what} has been implemented for "{kind}"')
        if revision < 0:
            raise CommandError(f"revision must be a positive integer: {revision}")
        return target, obj

    def _sets(self, d: Deployment) -> list[ReplicaSet]:
        sets = self._server.list(ReplicaSet, d.metadata.namespace).items
        return [rs for rs in sets if (ref := controller_of(rs)) and ref.uid == d.metadata.uid]


def status_text(d: Deployment) -> str:
    """Return how far a rollout is.

    Raises:
        CommandError: It has made no progress for longer than its deadline.
    """
    name, status, want = d.metadata.name, d.status, wanted(d)
    if d.metadata.generation > status.observed_generation:
        return "Waiting for deployment spec update to be observed..."
    condition = find_condition(status, PROGRESSING)
    if condition is not None and condition.reason == TIMED_OUT:
        raise CommandError(f'deployment "{name}" exceeded its progress deadline')
    waiting = f'Waiting for deployment "{name}" rollout to finish:'
    updated = status.updated_replicas
    if updated < want:
        return f"{waiting} {updated} out of {want} new replicas have been updated..."
    if status.replicas > updated:
        old = status.replicas - updated
        return f"{waiting} {old} old replicas are pending termination..."
    if status.available_replicas < updated:
        ready = status.available_replicas
        return f"{waiting} {ready} of {updated} updated replicas are available..."
    return f'deployment "{name}" successfully rolled out'


def _refused(target: Target, why: str) -> CommandError:
    resource, _, name = target
    return CommandError(f'{resource.group_resource} "{name}" {why}')


def _set_of_revision(d: Deployment, sets: list[ReplicaSet], number: int) -> ReplicaSet:
    """Return the set of a revision; 0 means the second highest."""
    known = [(n, rs) for rs in sets if (n := number_of(rs)) is not None]
    if number:
        found = [rs for n, rs in known if n == number]
        if not found:
            raise CommandError(f"unable to find specified revision {number} in history")
        return found[0]
    known.sort(key=lambda pair: -pair[0])
    if len(known) < 2:
        raise CommandError(f'no rollout history found for deployment "{d.metadata.name}"')
    return known[1][1]


def _described(template: PodTemplateSpec, cause: str | None) -> list[str]:
    """Return a pod template as ``kubectl describe`` tells it, in its main points."""
    meta = template.metadata
    annotations = {**meta.annotations, **({CHANGE_CAUSE: cause} if cause else {})}
    out = ["Pod Template:", *_pairs("  Labels:\t", meta.labels, "=")]
    out += _pairs("  Annotations:\t", annotations, ": ") if annotations else []
    for title, group in (
        ("Init Containers", template.spec.init_containers),
        ("Containers", template.spec.containers),
    ):
        out += [f"  {title}:"] if group else []
        for c in group:
            ports = ", ".join(f"{p.container_port}/{p.protocol or 'TCP'}" for p in c.ports)
            out += [f"   {c.name}:", f"    Image:\t{c.image}", f"    Port:\t{ports or '<none>'}"]
    return out


def _pairs(head: str, values: Mapping[str, str], sign: str) -> list[str]:
    lines = [f"{k}{sign}{values[k]}" for k in sorted(values)] or ["<none>"]
    return [head + lines[0], *(f"\t{line}" for line in lines[1:])]
