"""What the API server does with an object of each kind before it stores it.

A kind that joins adds one row to `STRATEGIES`. The server calls, in this order, on a create:
``default``, ``prepare_for_create``, ``validate``; on an update: ``default``,
``prepare_for_update``, ``validate_update``; on an update of the status:
``prepare_for_status_update``, ``validate_status_update``.
See: kubernetes ``pkg/registry`` and k8s.io/apiserver ``pkg/registry/rest``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcm_lite.api import defaults
from kcm_lite.api.apps import ControllerRevision, Deployment, ReplicaSet
from kcm_lite.api.batch import (
    CONTROLLER_UID,
    JOB_NAME,
    LEGACY_CONTROLLER_UID,
    LEGACY_JOB_NAME,
    Job,
    JobStatus,
)
from kcm_lite.api.coordination import Lease
from kcm_lite.api.core import (
    ConfigMap,
    Event,
    Namespace,
    NamespaceStatus,
    Node,
    Pod,
    PodStatus,
    ReplicationController,
    ResourceQuota,
)
from kcm_lite.api.meta import Condition, LabelSelector, Object, replace
from kcm_lite.api.scheme import resource_of
from kcm_lite.api.validation import apps, coordination, core, deployment, job_status
from kcm_lite.api.validation import job as job_rules
from kcm_lite.api.validation.field import Causes
from kcm_lite.api.validation.meta import (
    KUBERNETES,
    new,
    updated,
    validate_generic_meta,
    validate_generic_meta_update,
    validate_meta_update,
)
from kcm_lite.api.validation.pod import validate_pod
from kcm_lite.api.validation.pod_update import validate_pod_status_update, validate_pod_update

O = TypeVar("O", bound=Object)  # noqa: E741 - an object


@dataclass(frozen=True, slots=True)
class Strategy(Generic[O]):
    """The rules of one kind.

    Attributes:
        default: Fills in what the object leaves open.
        prepare_for_create: Drops what a creator may not set; sets the first generation.
        prepare_for_update: Keeps the status; raises the generation when the spec changes.
        prepare_for_status_update: Keeps the spec.
        grace_period: From a pod and the seconds asked for, the seconds until it may go; None for
            a kind that goes at once.
        orphan_dependents: Whether a delete that does not say orphans the dependents; None for a
            kind that no garbage collector looks after.
        unconditional_update: Whether an update may go without the version that it was made from.
    """

    default: Callable[[O], O]
    prepare_for_create: Callable[[O], O]
    prepare_for_update: Callable[[O, O], O]
    prepare_for_status_update: Callable[[O, O], O]
    validate: Callable[[O], Causes]
    validate_update: Callable[[O, O], Causes]
    validate_status_update: Callable[[O, O], Causes]
    grace_period: Callable[[O, int | None], int] | None = None
    orphan_dependents: bool | None = False
    unconditional_update: bool = True


def strategy(
    kind: type[O],
    *,
    validate: Callable[[O], Causes],
    validate_update: Callable[[O, O], Causes],
    validate_status_update: Callable[[O, O], Causes] | None = None,
    default: Callable[[O], O] | None = None,
    prepare_for_create: Callable[[O], O] | None = None,
    prepare_for_update: Callable[[O, O], O] | None = None,
    prepare_for_status_update: Callable[[O, O], O] | None = None,
    generation: bool = False,
    grace_period: Callable[[O, int | None], int] | None = None,
    orphan_dependents: bool | None = False,
    unconditional_update: bool = True,
) -> Strategy[O]:
    """Return the strategy of a kind with the usual rules where no others are given.

    Args:
        generation: Whether the kind counts the changes of its spec.
    """
    resource = resource_of(kind)
    return Strategy(
        default=default or _same,
        prepare_for_create=prepare_for_create
        or _drop_status(kind, resource.has_status, generation),
        prepare_for_update=prepare_for_update or _keep_status(resource.has_status, generation),
        prepare_for_status_update=prepare_for_status_update or _keep_spec,
        validate=validate,
        validate_update=_with_generic_update(validate_update, resource.namespaced),
        validate_status_update=_with_generic_update(
            validate_status_update or validate_update, resource.namespaced
        ),
        grace_period=grace_period,
        orphan_dependents=orphan_dependents,
        unconditional_update=unconditional_update,
    )


def _same(obj: O) -> O:
    return obj


def _drop_status(kind: type[O], has_status: bool, generation: bool) -> Callable[[O], O]:
    changes: dict[str, Any] = {"status": kind().status} if has_status else {}  # type: ignore[attr-defined]
    number = 1 if generation else 0

    def prepare(obj: O) -> O:
        meta = obj.metadata
        if generation and meta.generation != number:
            meta = replace(meta, generation=number)
        return replace(obj, metadata=meta, **changes)

    return prepare


def _keep_status(has_status: bool, generation: bool) -> Callable[[O, O], O]:
    def prepare(new: O, old: O) -> O:
        if has_status:
            new = _with(new, "status", old)
        return raise_generation(new, old) if generation else new

    return prepare


def _keep_spec(new: O, old: O) -> O:
    return _with(new, "spec", old)


def _with(new: O, part: str, old: O) -> O:
    """Return the new object with a part of the old one."""
    kept = getattr(old, part)
    return new if getattr(new, part) is kept else replace(new, **{part: kept})


def raise_generation(new: O, old: O) -> O:
    """Return the new object with the next generation if its spec is another one."""
    now, was = new.spec, old.spec  # type: ignore[attr-defined]
    if now is was or now == was:
        return new
    generation = old.metadata.generation + 1
    return replace(new, metadata=replace(new.metadata, generation=generation))


def _with_generic_update(
    validate: Callable[[O, O], Causes], namespaced: bool
) -> Callable[[O, O], Causes]:
    def check(new: O, old: O) -> Causes:
        if new.metadata is old.metadata:
            return validate(new, old)
        causes = validate_generic_meta(new.metadata, namespaced)
        causes += validate_generic_meta_update(new.metadata, old.metadata)
        return causes + validate(new, old)

    return check


# --- pods ---------------------------------------------------------------------------------------


def prepare_pod_for_create(pod: Pod) -> Pod:
    """Start a pod's status: Pending, its QoS class, and why it is not scheduled if it is gated."""
    meta = pod.metadata if pod.metadata.generation == 1 else replace(pod.metadata, generation=1)
    status = PodStatus(phase="Pending", qos_class=defaults.qos_class(pod.spec))
    if pod.spec.scheduling_gates:
        gated = Condition(
            type="PodScheduled",
            status="False",
            reason="SchedulingGated",
            message="Scheduling is blocked due to non-empty scheduling gates",
            last_transition_time=meta.creation_timestamp,
        )
        status = replace(status, conditions=(gated,))
    return replace(pod, metadata=meta, status=status)


def prepare_pod_for_status_update(new: Pod, old: Pod) -> Pod:
    """Keep the spec, the owners, the QoS class and the generations that were observed."""
    new = _with(new, "spec", old)
    if new.metadata is not old.metadata:
        meta = replace(
            new.metadata,
            owner_references=old.metadata.owner_references,
            deletion_timestamp=old.metadata.deletion_timestamp,
        )
        new = replace(new, metadata=meta)
    status, before = new.status, old.status
    if status is before:
        return new
    changes: dict[str, Any] = {}
    if not status.qos_class:
        changes["qos_class"] = before.qos_class
    if not status.observed_generation and before.observed_generation:
        changes["observed_generation"] = before.observed_generation
    seen = {c.type: c.observed_generation for c in before.conditions if c.observed_generation}
    if seen:
        changes["conditions"] = tuple(
            condition
            if condition.observed_generation or condition.type not in seen
            else replace(condition, observed_generation=seen[condition.type])
            for condition in status.conditions
        )
    return replace(new, status=replace(status, **changes)) if changes else new


def pod_grace_period(pod: Pod, asked: int | None) -> int:
    """Return how long a deleted pod may go on: not at all without a node, or when it has ended."""
    if not pod.spec.node_name or pod.status.phase in ("Failed", "Succeeded"):
        return 0
    seconds = (pod.spec.termination_grace_period_seconds or 0) if asked is None else asked
    return seconds if seconds >= 0 else 1


# --- other kinds --------------------------------------------------------------------------------


def prepare_namespace_for_create(namespace: Namespace) -> Namespace:
    """Make a namespace active, with the finalizer that keeps it until it is empty."""
    namespace = defaults.default_namespace(namespace)  # a generated name is known by now
    spec = namespace.spec
    if KUBERNETES not in spec.finalizers:
        spec = replace(spec, finalizers=(*spec.finalizers, KUBERNETES))
    return replace(namespace, spec=spec, status=NamespaceStatus(phase="Active"))


def prepare_namespace_for_update(new: Namespace, old: Namespace) -> Namespace:
    """Keep the status, and the finalizers: those only the ``finalize`` subresource changes."""
    return _with(_with(new, "spec", old), "status", old)


def prepare_deployment_for_update(new: Deployment, old: Deployment) -> Deployment:
    """Keep the status; annotations raise the generation too, as they go on to the replica sets."""
    raised = raise_generation(_with(new, "status", old), old)
    now, was = raised.metadata, old.metadata
    if now.annotations == was.annotations or raised.spec != old.spec:
        return raised
    return replace(raised, metadata=replace(now, generation=was.generation + 1))


def prepare_deployment_for_status_update(new: Deployment, old: Deployment) -> Deployment:
    """Keep the spec and the labels; the controller writes its revision annotation this way."""
    new = _with(new, "spec", old)
    if new.metadata.labels == old.metadata.labels:
        return new
    return replace(new, metadata=replace(new.metadata, labels=old.metadata.labels))


def prepare_job_for_create(job: Job) -> Job:
    """Drop the status; give the pods labels, and the Job a selector, that nobody else has."""
    meta = replace(job.metadata, generation=1)
    if job.spec.manual_selector:
        return replace(job, metadata=meta, status=JobStatus())
    given = job.spec.template.metadata.labels
    generated = {
        LEGACY_JOB_NAME: meta.name,
        JOB_NAME: meta.name,
        LEGACY_CONTROLLER_UID: meta.uid,
        CONTROLLER_UID: meta.uid,
    }
    labels = {**generated, **given}
    if given and meta.labels is given:  # taken over by defaulting: the two stay alike
        meta = replace(meta, labels=labels)
    template = job.spec.template
    template = replace(template, metadata=replace(template.metadata, labels=labels))
    selector = job.spec.selector or LabelSelector()
    wanted = {CONTROLLER_UID: meta.uid, **selector.match_labels}
    selector = replace(selector, match_labels=wanted)
    spec = replace(job.spec, template=template, selector=selector)
    return replace(job, metadata=meta, spec=spec, status=JobStatus())


STRATEGIES: dict[type[Object], Strategy[Any]] = {
    Namespace: strategy(
        Namespace,
        default=defaults.default_namespace,
        prepare_for_create=prepare_namespace_for_create,
        prepare_for_update=prepare_namespace_for_update,
        validate=core.validate_namespace,
        validate_update=lambda new, old: (
            core.validate_namespace(new) + validate_meta_update(new.metadata, old.metadata)
        ),
        validate_status_update=core.validate_namespace_status_update,
    ),
    Node: strategy(
        Node,
        default=defaults.default_node,
        prepare_for_create=_same,  # a kubelet registers its node with the status filled in
        validate=new(core.check_node, namespaced=False),
        validate_update=core.validate_node_update,
    ),
    Pod: strategy(
        Pod,
        default=defaults.default_pod,
        prepare_for_create=prepare_pod_for_create,
        prepare_for_status_update=prepare_pod_for_status_update,
        validate=validate_pod,
        validate_update=validate_pod_update,
        validate_status_update=validate_pod_status_update,
        generation=True,
        grace_period=pod_grace_period,
    ),
    ReplicationController: strategy(
        ReplicationController,
        default=defaults.default_replication_controller,
        validate=new(core.check_replication_controller, rule=core.is_long_name),
        validate_update=updated(core.check_replication_controller),
        validate_status_update=updated(apps.check_replica_counts),
        generation=True,
        orphan_dependents=True,
    ),
    ResourceQuota: strategy(
        ResourceQuota,
        validate=new(core.check_resource_quota),
        validate_update=updated(core.check_quota_spec, core.same_scopes),
        validate_status_update=updated(core.check_quota_status),
    ),
    ConfigMap: strategy(
        ConfigMap,
        validate=core.validate_config_map,
        validate_update=core.validate_config_map_update,
    ),
    Event: strategy(
        Event,
        validate=core.validate_new_event,
        validate_update=lambda new, old: core.check_event(new),
        orphan_dependents=None,
    ),
    Deployment: strategy(
        Deployment,
        default=defaults.default_deployment,
        prepare_for_update=prepare_deployment_for_update,
        prepare_for_status_update=prepare_deployment_for_status_update,
        validate=new(deployment.check_deployment),
        validate_update=updated(deployment.check_deployment, apps.same_selector),
        validate_status_update=deployment.validate_deployment_status_update,
        generation=True,
    ),
    ReplicaSet: strategy(
        ReplicaSet,
        default=defaults.default_replica_set,
        validate=new(apps.check_replica_set),
        validate_update=updated(apps.check_replica_set, apps.same_selector),
        validate_status_update=updated(apps.check_replica_counts),
        generation=True,
    ),
    Job: strategy(
        Job,
        default=defaults.default_job,
        prepare_for_create=prepare_job_for_create,
        validate=job_rules.validate_job,
        validate_update=job_rules.validate_job_update,
        validate_status_update=job_status.validate_job_status_update,
        generation=True,
        orphan_dependents=True,
    ),
    Lease: strategy(
        Lease,
        validate=new(coordination.check_lease),
        validate_update=updated(coordination.check_lease),
        unconditional_update=False,
    ),
    ControllerRevision: strategy(
        ControllerRevision,
        validate=apps.validate_controller_revision,
        validate_update=apps.validate_controller_revision_update,
    ),
}
