"""The ownership graph as a picture: owners above, dependents below, an arrow to each owner."""

from __future__ import annotations

from collections.abc import Iterable

import plotly.graph_objects as go

from kcm_lite.controllers.garbagegraph import Node

LIVE, GOING, VIRTUAL = "#2a78b5", "#c2571a", "#999999"
FITS = 6  # letters inside a marker; longer names stand beside it


def ownership(nodes: Iterable[Node]) -> go.Figure:
    """Draw the nodes that own or are owned, and single ones of the same kinds and namespaces.

    Nodes of other kinds and namespaces (a cluster has many) are left out.
    """
    every = list(nodes)
    linked = [n for n in every if n.owners or n.dependents]
    kinds = {(n.identity.kind, n.identity.namespace) for n in linked}
    shown = [n for n in every if (n.identity.kind, n.identity.namespace) in kinds]
    by_uid = {n.identity.uid: n for n in shown}
    depth = {uid: generation(node, by_uid) for uid, node in by_uid.items()}
    place: dict[str, tuple[float, int]] = {}
    for level in sorted(set(depth.values())):
        row = [uid for uid in by_uid if depth[uid] == level]
        for i, uid in enumerate(row):
            place[uid] = (i - (len(row) - 1) / 2, -level)
    figure = go.Figure()
    for uid, node in by_uid.items():
        for ref in node.owners:
            if ref.uid in place:
                (x, y), (ax, ay) = place[ref.uid], place[uid]
                figure.add_annotation(
                    x=x, y=y, ax=ax, ay=ay, xref="x", yref="y", axref="x", ayref="y", text="",
                    showarrow=True, arrowhead=2, arrowwidth=1.6, arrowcolor=LIVE, standoff=24,
                    startstandoff=24,
                )  # fmt: skip
    inside = all(len(node.identity.name) <= FITS for node in shown)
    figure.add_scatter(
        x=[place[uid][0] for uid in by_uid],
        y=[place[uid][1] for uid in by_uid],
        mode="markers+text",
        text=[node.identity.name for node in shown],
        textposition="middle center" if inside else [beside(node) for node in shown],
        textfont={"color": "white"} if inside else {},
        marker={"size": 42, "color": [colour(node) for node in shown]},
        customdata=[str(node) for node in shown],
        hovertemplate="%{customdata}<extra></extra>",
        showlegend=False,
    )
    span = max((abs(x) for x, _ in place.values()), default=0) + 1
    floor = min((y for _, y in place.values()), default=0) - (0 if inside else 0.2)
    hidden = {"visible": False, "showgrid": False, "zeroline": False}
    figure.update_layout(
        height=round(150 + 100 * -floor),
        margin={"l": 8, "r": 8, "t": 16, "b": 8},
        xaxis={"range": [-span, span], **hidden},
        yaxis={"range": [floor - 0.6, 0.6], **hidden},
    )
    return figure


def colour(node: Node) -> str:
    """Return a node's colour: there, on its way out, or known only from a reference."""
    if node.virtual:
        return VIRTUAL
    return GOING if node.being_deleted or node.deleting_dependents else LIVE


def beside(node: Node) -> str:
    """Return where a node's name is in no arrow's way."""
    if node.dependents:
        return "middle right" if node.owners else "top center"
    return "bottom center"


def generation(node: Node, by_uid: dict[str, Node]) -> int:
    """Return how many owners lie above ``node`` on the longest way up; a circle counts once."""
    return _above(node, by_uid, ())


def _above(node: Node, by_uid: dict[str, Node], path: tuple[str, ...]) -> int:
    path = (*path, node.identity.uid)
    owners = [by_uid[r.uid] for r in node.owners if r.uid in by_uid and r.uid not in path]
    return max((1 + _above(owner, by_uid, path) for owner in owners), default=0)
