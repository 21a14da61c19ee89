"""Metadata that every API object carries, and the base classes of all objects.

Objects are frozen and shared: the store, the caches and the handlers hold the same one. A change
makes a new object with `replace`. See: k8s.io/apimachinery ``pkg/apis/meta/v1``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec.structs import replace as replace  # for all who change objects

Time = datetime
"""A UTC time in whole seconds, as ``metav1.Time`` has on the wire."""

MICROSECONDS, QUANTITY = "micro", "quantity"  # marks that the decoder and encoder look for

MicroTime = Annotated[datetime, MICROSECONDS]
"""A UTC time in microseconds."""

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""A number that Go keeps in 32 bits: a larger one is refused when it is read."""

Strings = Mapping[str, str]

QuantityText = Annotated[str | int | float, QUANTITY]
"""An amount of a resource; reading it makes it canonical text."""


class Struct(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """A part of an API object: immutable, camelCase on the wire, defaults left out.

    ``KEPT`` names the fields that the API writes even when they are zero.
    """

    KEPT: ClassVar[tuple[str, ...]] = ()


class OpenStruct(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """A part of an API object of which we model only some fields; the others are kept as they are.

    ``extra`` holds the wire fields that this class does not name, so that they survive a round
    trip and count when two templates are compared.
    """

    extra: Mapping[str, Any] = {}


class OwnerReference(Struct, frozen=True, kw_only=True):
    """Who owns an object: the garbage collector and the controllers follow it."""

    KEPT: ClassVar[tuple[str, ...]] = ("api_version", "kind", "name", "uid")

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True, kw_only=True):
    """What every object carries: identity, version, labels, owners, finalizers."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Strings = {}
    annotations: Strings = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[Any, ...] = ()
    self_link: str = ""


class Object(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """An API object. A subclass is called as its ``kind``, and names its ``apiVersion``."""

    KIND: ClassVar[str] = ""
    API_VERSION: ClassVar[str] = ""

    metadata: ObjectMeta = ObjectMeta()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.KIND = cls.__name__


class LabelSelectorRequirement(Struct, frozen=True, kw_only=True):
    """One expression of a selector: ``key`` In, NotIn, Exists or DoesNotExist ``values``."""

    KEPT: ClassVar[tuple[str, ...]] = ("key", "operator")

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, kw_only=True):
    """Labels to match; all of it must hold. None matches nothing, an empty one everything."""

    match_labels: Strings = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Struct, frozen=True, kw_only=True):
    """One observation of an object's state, as most status types spell it."""

    KEPT: ClassVar[tuple[str, ...]] = ("type", "status")

    type: str = ""
    status: str = ""
    observed_generation: int | None = None
    last_probe_time: Time | None = None
    last_update_time: Time | None = None
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class Preconditions(Struct, frozen=True, kw_only=True):
    """What must still be true of the object for a delete to go ahead."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Struct, frozen=True, kw_only=True):
    """How to delete: after how long, and what becomes of the dependents."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None  # Background, Foreground or Orphan
    preconditions: Preconditions | None = None


def controller_of(obj: Object) -> OwnerReference | None:
    """Return the one owner reference that is the managing controller's (``GetControllerOf``)."""
    for ref in obj.metadata.owner_references:
        if ref.controller:
            return ref
    return None


def object_key(obj: Object) -> str:
    """Return ``namespace/name``, or the bare name of a cluster-scoped object."""
    meta = obj.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def split_key(key: str) -> tuple[str, str]:
    """Return (namespace, name) of a key (``SplitMetaNamespaceKey``).

    Raises:
        ValueError: The key has more than one slash.
    """
    parts = key.split("/")
    if len(parts) == 1:
        return "", parts[0]
    if len(parts) == 2:
        return parts[0], parts[1]
    raise ValueError(f'unexpected key format: "{key}"')
