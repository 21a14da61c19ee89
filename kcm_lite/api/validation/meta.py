"""Metadata: names, labels, annotations, owners, finalizers; and selectors.

See: k8s.io/apimachinery ``pkg/api/validation`` and ``apis/meta/v1/validation``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kcm_lite.api.golang import quote
from kcm_lite.api.meta import (
    LabelSelector,
    LabelSelectorRequirement,
    Object,
    ObjectMeta,
    OwnerReference,
)
from kcm_lite.api.validation.content import (
    is_dns1123_label,
    is_dns1123_subdomain,
    is_label_value,
    is_path_segment,
    is_qualified_name,
    mask_trailing_dash,
)
from kcm_lite.api.validation.field import Causes, each, forbidden, invalid, required, too_long

O = TypeVar("O", bound=Object)  # noqa: E741 - an object
NameRule = Callable[[str], list[str]]

NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
ORPHAN, FOREGROUND, KUBERNETES = "orphan", "foregroundDeletion", "kubernetes"
STANDARD_FINALIZERS = frozenset({KUBERNETES, ORPHAN, FOREGROUND})
TOTAL_ANNOTATION_SIZE = 256 * 1024


def all_invalid(path: str, value: Any, messages: list[str]) -> Causes:
    """One cause per message, all for the same value."""
    return [invalid(path, value, message) for message in messages]


def nonnegative(value: int | None, path: str) -> Causes:
    """A number must not be negative."""
    return [invalid(path, value, NEGATIVE)] if value is not None and value < 0 else []


def immutable(new: Any, old: Any, path: str) -> Causes:
    """A value must stay as it is."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]


def validate_labels(labels: Mapping[str, str], path: str) -> Causes:
    """Check keys and values; upstream names the whole map, not the key."""
    causes: Causes = []
    for key, value in sorted(labels.items()):
        if messages := is_qualified_name(key):
            causes += all_invalid(path, key, messages)
        if messages := is_label_value(value):
            causes += all_invalid(path, value, messages)
    return causes


def validate_annotations(annotations: Mapping[str, str], path: str) -> Causes:
    """Check the keys (case does not matter) and the total size."""
    causes: Causes = []
    size = 0
    for key, value in sorted(annotations.items()):
        causes += all_invalid(path, key, is_qualified_name(key.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > TOTAL_ANNOTATION_SIZE:
        causes.append(too_long(path, TOTAL_ANNOTATION_SIZE))
    return causes


def validate_owner_references(references: tuple[OwnerReference, ...], path: str) -> Causes:
    """Check each reference, and that at most one is the controller's."""
    causes: Causes = []
    controller = ""
    for reference in references:
        causes += _validate_owner_reference(reference, path)
        if reference.controller:
            name = f"{reference.kind}/{reference.name}"
            if controller:
                detail = (
                    "Only one reference can have Controller set to true."
                    f' Found "true" in references for {controller} and {name}'
                )
                causes.append(invalid(path, references, detail))
            else:
                controller = name
    return causes


def _validate_owner_reference(reference: OwnerReference, path: str) -> Causes:
    causes: Causes = []
    group, _, version = reference.api_version.rpartition("/")
    if not version or "/" in group:
        api_version = reference.api_version
        causes.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    for name in ("kind", "name", "uid"):
        if not getattr(reference, name):
            causes.append(invalid(f"{path}.{name}", "", "must not be empty"))
    if (reference.api_version, reference.kind) == ("v1", "Event"):
        detail = "/v1, Kind=Event is disallowed from being an owner"
        causes.append(invalid(path, reference, detail))
    return causes


def validate_finalizers(finalizers: tuple[str, ...], path: str) -> Causes:
    """Check the names, and that the garbage collector's two are not both there."""
    causes: Causes = []
    for finalizer in finalizers:
        causes += all_invalid(path, finalizer, is_qualified_name(finalizer))
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        detail = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        causes.append(invalid(path, finalizers, detail))
    return causes


def validate_finalizer_is_known(finalizer: str, path: str) -> Causes:
    """A name without a domain must be one of Kubernetes' own."""
    if "/" in finalizer or finalizer in STANDARD_FINALIZERS:
        return []
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [invalid(path, finalizer, detail)]


def _validate_known_finalizers(meta: ObjectMeta) -> Causes:
    return each(meta.finalizers, validate_finalizer_is_known, "metadata.finalizers")


def validate_generic_meta(
    meta: ObjectMeta, namespaced: bool, rule: NameRule = is_path_segment
) -> Causes:
    """Check what holds for every kind (``ValidateObjectMetaAccessor``)."""
    causes: Causes = []
    if meta.generate_name:
        prefix = meta.generate_name
        tested = prefix if rule is is_path_segment else mask_trailing_dash(prefix)
        causes += all_invalid("metadata.generateName", prefix, rule(tested))
    if meta.name:
        causes += all_invalid("metadata.name", meta.name, rule(meta.name))
    else:
        causes.append(required("metadata.name", "name or generateName is required"))
    if namespaced:
        if meta.namespace:
            messages = is_dns1123_label(meta.namespace)
            causes += all_invalid("metadata.namespace", meta.namespace, messages)
        else:
            causes.append(required("metadata.namespace"))
    elif meta.namespace:
        causes.append(forbidden("metadata.namespace", "not allowed on this type"))
    causes += nonnegative(meta.generation, "metadata.generation")
    causes += validate_labels(meta.labels, "metadata.labels")
    causes += validate_annotations(meta.annotations, "metadata.annotations")
    causes += validate_owner_references(meta.owner_references, "metadata.ownerReferences")
    causes += validate_finalizers(meta.finalizers, "metadata.finalizers")
    return causes


def validate_meta(
    meta: ObjectMeta, *, namespaced: bool = True, rule: NameRule = is_dns1123_subdomain
) -> Causes:
    """Check the metadata of a new object of a kind whose names follow ``rule``."""
    return validate_generic_meta(meta, namespaced, rule) + _validate_known_finalizers(meta)


def new(
    check: Callable[[O], Causes], *, namespaced: bool = True, rule: NameRule = is_dns1123_subdomain
) -> Callable[[O], Causes]:
    """Return the check of a new object: its metadata, then what ``check`` says of the rest."""
    return lambda obj: validate_meta(obj.metadata, namespaced=namespaced, rule=rule) + check(obj)


def updated(
    check: Callable[[O], Causes], *rules: Callable[[O, O], Causes]
) -> Callable[[O, O], Causes]:
    """Return the check of an update that may change all that ``check`` and the rules allow."""

    def validate(new: O, old: O) -> Causes:
        causes = validate_meta_update(new.metadata, old.metadata) + check(new)
        for rule in rules:
            causes += rule(new, old)
        return causes

    return validate


def validate_generic_meta_update(new: ObjectMeta, old: ObjectMeta) -> Causes:
    """Check what no update may change (``ValidateObjectMetaAccessorUpdate``)."""
    causes: Causes = []
    if old.deletion_timestamp is not None:
        extra = sorted(set(new.finalizers) - set(old.finalizers))
        if extra:
            shown = "[]string{" + ", ".join(map(quote, extra)) + "}"
            detail = (
                "no new finalizers can be added if the object is being deleted,"
                f" found new finalizers {shown}"
            )
            causes.append(forbidden("metadata.finalizers", detail))
    if not new.resource_version:
        detail = "must be specified for an update"
        causes.append(invalid("metadata.resourceVersion", "", detail))
    if new.generation < old.generation:
        detail = "must not be decremented"
        causes.append(invalid("metadata.generation", new.generation, detail))
    for name, path in _IMMUTABLE:
        causes += immutable(getattr(new, name), getattr(old, name), path)
    causes += validate_labels(new.labels, "metadata.labels")
    causes += validate_annotations(new.annotations, "metadata.annotations")
    causes += validate_owner_references(new.owner_references, "metadata.ownerReferences")
    return causes


_IMMUTABLE = (
    ("name", "metadata.name"),
    ("namespace", "metadata.namespace"),
    ("uid", "metadata.uid"),
    ("creation_timestamp", "metadata.creationTimestamp"),
    ("deletion_timestamp", "metadata.deletionTimestamp"),
    ("deletion_grace_period_seconds", "metadata.deletionGracePeriodSeconds"),
)


def validate_meta_update(new: ObjectMeta, old: ObjectMeta) -> Causes:
    """Check an update of the metadata of any kind."""
    if new is old:
        return []
    return validate_generic_meta_update(new, old) + _validate_known_finalizers(new)


def validate_label_selector(selector: LabelSelector | None, path: str) -> Causes:
    """Check a spec's selector, label by label and expression by expression."""
    if selector is None:
        return []
    causes = validate_labels(selector.match_labels, f"{path}.matchLabels")
    expressions = selector.match_expressions
    return causes + each(expressions, _validate_requirement, f"{path}.matchExpressions")


def _validate_requirement(expression: LabelSelectorRequirement, path: str) -> Causes:
    causes: Causes = []
    values = expression.values
    if expression.operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            causes.append(required(f"{path}.values", detail))
    elif expression.operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(forbidden(f"{path}.values", detail))
    else:
        detail = "not a valid selector operator"
        causes.append(invalid(f"{path}.operator", expression.operator, detail))
    causes += all_invalid(f"{path}.key", expression.key, is_qualified_name(expression.key))
    for i, value in enumerate(values):
        causes += all_invalid(f"{path}.values[{i}]", value, is_label_value(value))
    return causes
