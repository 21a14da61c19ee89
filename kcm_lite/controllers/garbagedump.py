"""The garbage collector's graph in the DOT language, for its debug handler.

See: upstream ``pkg/controller/garbagecollector/dump.go``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from kcm_lite.controllers.garbagegraph import Graph, Identity, Node

GRAPHVIZ = "text/vnd.graphviz"


def answer(graph: Graph, path: str, query: Mapping[str, Sequence[str]]) -> tuple[str, str] | None:
    """Answer a request: ``/graph``, or ``/graph?uid=...`` for what hangs together with an object.

    Returns:
        Content type and body; None if there is no such path.
    """
    if path != "/graph":
        return None
    uids = query.get("uid", ())
    nodes = connected(graph, uids) if uids else graph.nodes
    return GRAPHVIZ, dot(nodes.values())


def connected(graph: Graph, uids: Iterable[str]) -> dict[str, Node]:
    """Return the nodes that can be reached from some, along references in either direction."""
    found: dict[str, Node] = {}
    waiting = list(uids)
    for uid in waiting:
        node = graph.nodes.get(uid)
        if node is None or uid in found:
            continue
        found[uid] = node
        waiting += [ref.uid for ref in node.owners]
        waiting += [dependent.identity.uid for dependent in node.dependents]
    return found


def dot(nodes: Iterable[Node]) -> str:
    """Return the graph of the nodes that own something or are owned."""
    shown = {n.identity.uid: n for n in nodes if n.dependents or n.owners}
    boxes = {uid: vertex(node.identity, node) for uid, node in shown.items()}
    edges = set[tuple[str, str]]()
    for uid, node in shown.items():
        for ref in node.owners:
            edges.add((uid, ref.uid))
            if ref.uid not in boxes:
                missing = Identity(ref.kind, ref.api_version, "", ref.name, ref.uid)
                boxes[ref.uid] = vertex(missing, None)
    lines = ["strict digraph full {"]
    if boxes:
        lines += ["  // Node definitions.", *(boxes[uid] for uid in sorted(boxes))]
    if edges:
        drawn = (f"  {quote(a)} -> {quote(b)};" for a, b in sorted(edges))
        lines += ["  // Edge definitions.", *drawn]
    return "\n".join([*lines, "}", ""])


def vertex(who: Identity, node: Node | None) -> str:
    """Return one node with what is known of it; without a node, it is missing from the graph."""
    group, _, version = who.api_version.rpartition("/")
    kind = ".".join(filter(None, (who.kind, version, group)))
    state = {
        "missing": node is None,
        "beingDeleted": node is not None and node.being_deleted,
        "deletingDependents": node is not None and node.deleting_dependents,
        "virtual": node is not None and node.virtual,
    }
    marks = ",".join(name for name, on in state.items() if on)
    label = f"uid={who.uid}\nnamespace={who.namespace}\n{kind}/{who.name}\n"
    attributes = {
        "label": label + (f"{marks.replace('missing', 'missingFromGraph')}\n" if marks else ""),
        "group": group,
        "version": version,
        "kind": who.kind,
        "namespace": who.namespace,
        "name": who.name,
        "uid": who.uid,
        **{name: str(on).lower() for name, on in state.items()},
    }
    rows = [f"    {name}={quote(value)}" for name, value in attributes.items()]
    return "\n".join([f"  {quote(who.uid)} [", *rows, "  ];"])


def quote(text: str) -> str:
    """Return a text in quotation marks."""
    return json.dumps(text, ensure_ascii=False)
