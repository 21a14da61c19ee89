"""What a scenario can do to a cluster, one row of `ACTIONS` each.

An action that finds nothing to act on raises ``LookupError``, one that kubectl refuses
`CommandError`, one that the server refuses its ``StatusError``. See `kcm_lite.sim.steps`, which
checks actions and does them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kcm_lite.api.core import Node, Pod, Taint
from kcm_lite.api.meta import DeleteOptions, Object, replace
from kcm_lite.sim.check import (
    Check,
    Problem,
    boolean,
    choice,
    integer,
    list_of,
    mapping,
    optional,
    record,
    string,
    strings,
)
from kcm_lite.sim.cluster import Cluster
from kcm_lite.sim.faults import KINDS
from kcm_lite.sim.kinds import resource_named
from kcm_lite.sim.manifests import live_owners
from kcm_lite.sim.nodes import node_name, node_object, with_ready
from kcm_lite.sim.podchaos import evict, matching
from kcm_lite.sim.podstatus import Seen
from kcm_lite.sim.rollout import CommandError, Rollout, pod_spec_of
from kcm_lite.sim.verdicts import is_ready

Args = Mapping[str, Any]
Do = Callable[[Cluster, Args], object]


@dataclass(frozen=True)
class Action:
    """One kind of action: its keys, those that it cannot do without, and what it does."""

    fields: Mapping[str, Check]
    required: tuple[str, ...]
    do: Do


# ---- objects


def _create(cluster: Cluster, args: Args) -> None:
    cluster.create(live_owners(args["object"], cluster.server))


def _apply(cluster: Cluster, args: Args) -> None:
    cluster.put(live_owners(args["object"], cluster.server))


def _ref(args: Args) -> str:
    return f"{args['kind']}/{args['name']}"


def _namespace(args: Args) -> str:
    return str(args.get("namespace", ""))


def _patch(cluster: Cluster, args: Args) -> None:
    cluster.patch(_ref(args), args["patch"], namespace=_namespace(args))


def _scale(cluster: Cluster, args: Args) -> None:
    cluster.scale(_ref(args), args["replicas"], namespace=_namespace(args))


def _set_image(cluster: Cluster, args: Args) -> None:
    obj = cluster.object(_ref(args), namespace=_namespace(args))
    name = args.get("container", pod_spec_of(obj).containers[0].name)
    cluster.set_image(_ref(args), {name: args["image"]}, namespace=_namespace(args))


def _rollout(command: Callable[..., str]) -> Do:
    """Return an action that is a command of ``kubectl rollout``."""
    return lambda cluster, args: command(cluster.rollout, _ref(args), namespace=_namespace(args))


def _undo(cluster: Cluster, args: Args) -> None:
    number = args.get("toRevision", 0)
    cluster.rollout.undo(_ref(args), to_revision=number, namespace=_namespace(args))


def _status(cluster: Cluster, args: Args) -> None:
    number, where = args.get("revision", 0), _namespace(args)
    try:
        text = cluster.rollout.status(_ref(args), revision=number, namespace=where)
    except CommandError as error:  # the answer to the question, not a failure of the run
        text = str(error)
    cluster.note("kubectl rollout status", text)


def _history(cluster: Cluster, args: Args) -> None:
    number, where = args.get("revision", 0), _namespace(args)
    text = cluster.rollout.history(_ref(args), revision=number, namespace=where)
    for line in text.splitlines():
        cluster.note("kubectl rollout history", line)


def _delete(cluster: Cluster, args: Args) -> None:
    name = args["name"]
    if name is None:  # of the Namespace: the scenario's own
        name = cluster.namespace
    cluster.delete(
        f"{args['kind']}/{name}",
        namespace=_namespace(args),
        propagation=args.get("propagation", "Background"),
        grace_period_seconds=args.get("gracePeriodSeconds"),
    )


def _newest_owned(cluster: Cluster, kind: str) -> str:
    resource = resource_named(kind)
    owned = [o for o in cluster.objects(resource.type) if o.metadata.owner_references]
    if not owned:
        raise LookupError(f"no {resource.kind} has an owner")
    return max(owned, key=_age_rank).metadata.name


def _age_rank(obj: Object) -> tuple[Any, int]:
    """Order by age: creation time, then version, as several may come in one second."""
    return obj.metadata.creation_timestamp, int(obj.metadata.resource_version)


def _owned(do: Do) -> Do:
    """Return an action for the newest object of a kind that has an owner."""
    return lambda cluster, args: do(cluster, {**args, "name": _newest_owned(cluster, args["kind"])})


# ---- pods


def picked(cluster: Cluster, args: Args) -> list[Seen]:
    """Return the pods that ``pick`` means, of those that match ``selector``.

    Raises:
        LookupError: There is none.
    """
    pods = list(matching(cluster, args.get("selector", {})))
    match args["pick"]:
        case "oldest":
            chosen = pods[:1]
        case "newest":
            chosen = pods[-1:]
        case "nth":
            chosen = [seen for seen in pods if seen.index == args.get("n", 1)]
        case "ready" | "notReady" as pick:
            chosen = [seen for seen in pods if is_ready(seen.pod) == (pick == "ready")][:1]
        case _:
            chosen = pods
    if not chosen:
        which = f"nth, n: {args.get('n', 1)}" if args["pick"] == "nth" else args["pick"]
        raise LookupError(f"no pod is there to pick ({which})")
    return chosen


def _delete_pod(cluster: Cluster, args: Args) -> None:
    options = DeleteOptions(grace_period_seconds=args.get("gracePeriodSeconds"))
    for seen in picked(cluster, args):
        meta = seen.pod.metadata
        cluster.server.delete(Pod, meta.namespace, meta.name, options)


def _evict_pod(cluster: Cluster, args: Args) -> None:
    for seen in picked(cluster, args):
        evict(cluster, seen)


def _mark_pod(cluster: Cluster, args: Args) -> None:
    """Set labels or annotations."""
    marks = {key: args[key] for key in ("labels", "annotations") if key in args}
    for seen in picked(cluster, args):
        meta = seen.pod.metadata
        cluster.server.patch(Pod, meta.namespace, meta.name, {"metadata": marks})


def _set_pod_phase(cluster: Cluster, args: Args) -> None:
    for seen in picked(cluster, args):
        cluster.note("scenario", f"Pod/{seen.pod.metadata.name} is set to {args['phase']}")
        cluster.kubelets.set_phase(seen, args["phase"], reason=args.get("reason", ""))


def _set_pod_ready(cluster: Cluster, args: Args) -> None:
    for seen in picked(cluster, args):
        state = "ready" if args["ready"] else "not ready"
        cluster.note("scenario", f"Pod/{seen.pod.metadata.name} is set {state}")
        cluster.kubelets.set_ready(seen, args["ready"])


# ---- nodes


def _set_node_ready(cluster: Cluster, args: Args) -> None:
    name, ready, silent = node_name(args["node"]), args["ready"], args.get("stopHeartbeat", False)
    node = cluster.server.get(Node, "", name)
    cluster.machines.set_frozen(name, silent)
    if silent:
        cluster.note(
            "scenario",
            f"Node/{name}: its kubelet falls silent; nobody evicts its pods (nodeDeath does)",
        )
    else:
        now = cluster.clock.timestamp()
        cluster.server.update(with_ready(node, ready, now), subresource="status", agent="kubelet")


def _add_node(cluster: Cluster, args: Args) -> None:
    number = cluster.machines.last + 1
    node = node_object(
        number,
        scenario=cluster.namespace,
        now=cluster.clock.timestamp(),
        labels=args.get("labels"),
        taints=_taints(args.get("taints", ())),
    )
    cluster.server.create(node)


def _remove_node(cluster: Cluster, args: Args) -> None:
    cluster.server.delete(Node, "", node_name(args["node"]))


def _taints(raw: Iterable[Mapping[str, Any]]) -> tuple[Taint, ...]:
    return tuple(Taint(**taint) for taint in raw)


def _taint_node(cluster: Cluster, args: Args) -> None:
    node = cluster.server.get(Node, "", node_name(args["node"]))
    given = _taints({k: v for k, v in t.items() if k != "remove"} for t in args["taints"])
    same = {(t.key, t.effect) for t in given}
    kept = tuple(t for t in node.spec.taints if (t.key, t.effect) not in same)
    remove = args.get("remove", False)
    added = tuple(
        t
        for t, raw in zip(given, args["taints"], strict=True)
        if not (remove or raw.get("remove", False))
    )
    cluster.server.update(replace(node, spec=replace(node.spec, taints=kept + added)))


def _label_node(cluster: Cluster, args: Args) -> None:
    labels = {"metadata": {"labels": args["labels"]}}
    cluster.server.patch(Node, "", node_name(args["node"]), labels)


def _cordon_node(cluster: Cluster, args: Args) -> None:
    node = cluster.server.get(Node, "", node_name(args["node"]))
    spec = replace(node.spec, unschedulable=args.get("cordon", True))
    cluster.server.update(replace(node, spec=spec))


# ---- faults


def _inject(cluster: Cluster, args: Args) -> None:
    cluster.inject(args["fault"])


def _restart_manager(cluster: Cluster, args: Args) -> None:
    cluster.note("scenario", "the manager is started again")
    cluster.manager.kill()
    cluster.manager.start()


# ---- the table


def changes(value: Any, path: str, problems: list[Problem]) -> Mapping[str, str | None]:
    """Check for labels or annotations to set; null takes one off."""
    out = mapping(value, path, problems)
    strings({k: v for k, v in out.items() if v is not None}, path, problems)
    return out


OBJECT: dict[str, Check] = {"kind": string, "name": string, "namespace": string}
DELETION: dict[str, Check] = {
    "propagation": choice("Background", "Foreground", "Orphan"),
    "gracePeriodSeconds": integer(0),
}
PICK: dict[str, Check] = {
    "pick": choice("oldest", "newest", "nth", "ready", "notReady", "all"),
    "n": integer(1),
    "selector": strings,
}
TAINTS = list_of(
    record(
        {
            "key": string,
            "value": string,
            "effect": choice("NoSchedule", "PreferNoSchedule", "NoExecute"),
            "remove": boolean,
        },
        required=("key", "effect"),
    )
)
NODE: dict[str, Check] = {"node": integer(1)}

ACTIONS: dict[str, Action] = {
    "create": Action({"object": mapping}, ("object",), _create),
    "apply": Action({"object": mapping}, ("object",), _apply),
    "patch": Action({**OBJECT, "patch": mapping}, ("kind", "name", "patch"), _patch),
    "scale": Action({**OBJECT, "replicas": integer(0)}, ("kind", "name", "replicas"), _scale),
    "setImage": Action(
        {**OBJECT, "image": string, "container": string}, ("kind", "name", "image"), _set_image
    ),
    "restart": Action(OBJECT, ("kind", "name"), _rollout(Rollout.restart)),
    "pause": Action(OBJECT, ("kind", "name"), _rollout(Rollout.pause)),
    "resume": Action(OBJECT, ("kind", "name"), _rollout(Rollout.resume)),
    "undo": Action({**OBJECT, "toRevision": integer(0)}, ("kind", "name"), _undo),
    "status": Action({**OBJECT, "revision": integer(0)}, ("kind", "name"), _status),
    "history": Action({**OBJECT, "revision": integer(0)}, ("kind", "name"), _history),
    "delete": Action({**OBJECT, "name": optional(string), **DELETION}, ("kind", "name"), _delete),
    "deleteOwned": Action({"kind": string, **DELETION}, ("kind",), _owned(_delete)),
    "scaleOwned": Action(
        {"kind": string, "replicas": integer(0)}, ("kind", "replicas"), _owned(_scale)
    ),
    "deletePod": Action({**PICK, "gracePeriodSeconds": integer(0)}, ("pick",), _delete_pod),
    "evictPod": Action(PICK, ("pick",), _evict_pod),
    "relabelPod": Action({**PICK, "labels": changes}, ("pick", "labels"), _mark_pod),
    "annotatePod": Action({**PICK, "annotations": changes}, ("pick", "annotations"), _mark_pod),
    "setPodPhase": Action(
        {**PICK, "phase": choice("Failed", "Succeeded", "Running", "Pending"), "reason": string},
        ("pick", "phase"),
        _set_pod_phase,
    ),
    "setPodReady": Action({**PICK, "ready": boolean}, ("pick", "ready"), _set_pod_ready),
    "setNodeReady": Action(
        {**NODE, "ready": boolean, "stopHeartbeat": boolean}, ("node", "ready"), _set_node_ready
    ),
    "addNode": Action({"labels": strings, "taints": TAINTS}, (), _add_node),
    "removeNode": Action(NODE, ("node",), _remove_node),
    "taintNode": Action(
        {**NODE, "taints": TAINTS, "remove": boolean}, ("node", "taints"), _taint_node
    ),
    "labelNode": Action({**NODE, "labels": changes}, ("node", "labels"), _label_node),
    "cordonNode": Action({**NODE, "cordon": boolean}, ("node",), _cordon_node),
    "restartManager": Action({}, (), _restart_manager),
    **dict.fromkeys(KINDS, Action({}, (), _inject)),  # `check_fault` knows their keys
}
"""Every action: its keys with their checks, the keys that must be there, and what it does."""
