"""Manifests as people have them: several documents, lists, kinds that are not simulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from kcm_lite.api.errors import Cause, NotFound
from kcm_lite.api.meta import Object, OwnerReference, replace
from kcm_lite.api.names import generate_name, new_uid
from kcm_lite.api.scheme import BY_KIND, resource_of
from kcm_lite.api.serial import DecodeError, decode
from kcm_lite.api.strategy import STRATEGIES
from kcm_lite.api.yaml import Document
from kcm_lite.apiserver.server import APIServer
from kcm_lite.sim.check import BadInput, Problem, nearest, show
from kcm_lite.sim.kinds import simulated_kind

T = TypeVar("T", bound=Object)

LIVE_UID = "$UID"  # or $UID/namespace: of an owner that is not where it should be
"""In an owner reference: the uid of the object of that name, whatever it turns out to be."""


BUILT_IN = {
    "v1": (
        *("Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "LimitRange"),
        *("Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate"),
        *("ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount"),
    ),
    "apps/v1": ("ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "batch/v1": ("CronJob", "Job"),
}
"""All kinds of the groups whose workloads are simulated: another name there is a mistake."""

OWN_GROUPS = ("", "apps", "batch", "extensions")
"""The groups of `BUILT_IN`, and the one that workloads came from once."""


class Inert(NamedTuple):
    """An object of a kind that is not simulated: kept, and otherwise ignored."""

    api_version: str
    kind: str
    namespace: str
    name: str
    raw: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


def in_namespace(obj: T, namespace: str) -> T:
    """Return the object with a namespace, if its kind has one and it names none."""
    if obj.metadata.namespace or not resource_of(obj).namespaced:
        return obj
    return replace(obj, metadata=replace(obj.metadata, namespace=namespace))


def read_manifest(raw: Mapping[str, Any], *, namespace: str, where: str = "") -> Object | Inert:
    """Read an object strictly; a kind that is not simulated becomes `Inert`.

    Args:
        raw: The manifest.
        namespace: For objects that name none.
        where: Path of the manifest in its document, for messages.

    Raises:
        BadInput: It is no object, a field does not fit, or the API server would refuse it.
    """
    problems: list[Problem] = []
    for field in ("apiVersion", "kind"):
        if not isinstance(raw.get(field), str) or not raw[field]:
            problems.append(Problem(join(where, field), f"got {show(raw.get(field))}, want a text"))
    meta = raw.get("metadata")
    if not isinstance(meta, Mapping):
        problems.append(Problem(join(where, "metadata"), f"got {show(meta)}, want a mapping"))
        meta = {}
    elif not meta.get("name") and not meta.get("generateName"):
        problems.append(Problem(join(where, "metadata.name"), "is missing"))
    if problems:
        raise BadInput(problems)
    version, kind = raw["apiVersion"], raw["kind"]
    if problem := misnamed(version, kind):
        raise BadInput([Problem(join(where, "kind"), problem)])
    if simulated_kind(version, kind) is None:
        name = str(meta.get("name") or meta.get("generateName"))
        return Inert(version, kind, str(meta.get("namespace") or namespace), name, raw)
    try:
        obj = in_namespace(decode(raw, strict=True), namespace)
    except DecodeError as error:
        text, value = error.problem, show(error.value)
        if error.value is not None and not text.endswith(value):
            text += f" ({value})"
        text += nearest(error.path.rpartition(".")[2], error.choices)
        raise BadInput([Problem(join(where, error.path), text)]) from None
    if causes := would_be_refused(obj):
        raise BadInput([Problem(join(where, c.field), c.message) for c in causes])
    return obj


def misnamed(api_version: str, kind: str) -> str:
    """Return what is wrong if a group of Kubernetes' own has no such version or kind."""
    group = api_version.rpartition("/")[0]
    if group not in OWN_GROUPS or kind in BUILT_IN.get(api_version, ()):
        return ""
    homes = {k: version for version, kinds in BUILT_IN.items() for k in kinds}
    hint = f" (it is in {homes[kind]})" if kind in homes else nearest(kind, homes)
    return f'no matches for kind "{kind}" in version "{api_version}"{hint}'


def read_documents(documents: Iterable[Document], namespace: str) -> list[Object | Inert]:
    """Read manifests, all of them before anything happens.

    Raises:
        BadInput: Some are wrong; every problem names its file, document and field.
    """
    out: list[Object | Inert] = []
    errors: list[BadInput] = []
    for document in documents:
        try:
            out.append(read_manifest(document.raw, namespace=namespace))
        except BadInput as error:
            errors.append(BadInput(error.problems, document))
    if errors:
        raise BadInput([Problem("", line) for e in errors for line in e.lines()])
    return out


def would_be_refused(obj: Object) -> Sequence[Cause]:
    """Return what the API server would find wrong with a new object, without asking it."""
    strategy = STRATEGIES[type(obj)]
    obj = strategy.default(obj)
    meta = replace(obj.metadata, uid=new_uid(Random(0)))
    if not meta.name and meta.generate_name:
        meta = replace(meta, name=generate_name(meta.generate_name, Random(0)))
    return strategy.validate(strategy.prepare_for_create(replace(obj, metadata=meta)))


def join(where: str, field: str) -> str:
    """Return the path of a field inside another."""
    return f"{where}.{field}" if where and field else where or field


def live_owners(obj: T, server: APIServer) -> T:
    """Return the object with ``$UID`` in its owner references replaced by the owners' uids.

    Raises:
        NotFound: An owner is not there.
    """
    refs = obj.metadata.owner_references
    if not any(ref.uid.startswith(LIVE_UID) for ref in refs):
        return obj
    found = tuple(_live(ref, obj.metadata.namespace, server) for ref in refs)
    return replace(obj, metadata=replace(obj.metadata, owner_references=found))


def _live(ref: OwnerReference, namespace: str, server: APIServer) -> OwnerReference:
    word, _, elsewhere = ref.uid.partition("/")
    if word != LIVE_UID:
        return ref
    resource = BY_KIND.get((ref.api_version, ref.kind))
    if resource is None:
        raise NotFound(f'no matches for kind "{ref.kind}" in version "{ref.api_version}"')
    where = (elsewhere or namespace) if resource.namespaced else ""
    return replace(ref, uid=server.get(resource.type, where, ref.name).metadata.uid)


def removals(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``after`` with a null for every field that was there before and is no more."""
    out = dict(after)
    for key, value in before.items():
        if key not in after:
            out[key] = None
        elif isinstance(value, Mapping) and isinstance(after[key], Mapping):
            out[key] = removals(value, after[key])
    return out
