"""A controller's note against the world: pods stored, pods in its cache, pods still expected."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.meta import controller_of, object_key
from kcm_lite.trace import ApiWrite, Delivery, ExpectationChange, Trace
from kcm_lite.viz.plots import stepped

LINES = {
    "wanted": ("#8d99a8", 2, "dot", "wanted"),
    "stored": ("#6aa5e3", 5, "solid", "at the server"),
    "cached": ("#2f9e62", 2.5, "solid", "in the cache"),
    "adds": ("#d9822b", 2, "dash", "creations expected"),
    "dels": ("#9b6bd1", 2, "dash", "deletions expected"),
}
"""Column: colour, width, dash and name of its line; wide lines first, so that equal ones show."""


def counters(trace: Trace, key: str) -> pd.DataFrame:
    """Return the counts of one ReplicaSet each time that one changes.

    Args:
        trace: A run, with detail, in which one cache of pods is filled by watch events.
        key: The set, namespace/name.

    Returns:
        Columns ``t`` (seconds), ``wanted``, ``stored`` and ``cached`` (its pods at the server and
        in the cache; those being deleted do not count), ``adds`` and ``dels`` (still expected).
    """
    now = dict.fromkeys(LINES, 0)
    rows = [{"t": 0.0, **now}]
    stored: set[str] = set()
    cached: set[str] = set()
    alive: dict[str, bool] = {}  # by resource version
    for record in trace.records:
        if isinstance(record, ApiWrite) and record.code < 300:
            obj = record.new or record.old
            if isinstance(obj, Pod) and _owner(obj) == key:
                lives = record.new is not None and obj.metadata.deletion_timestamp is None
                alive[obj.metadata.resource_version] = lives
                _keep(stored, object_key(obj), lives)
            elif isinstance(obj, ReplicaSet) and object_key(obj) == key:
                replicas = obj.spec.replicas if record.new is not None else 0
                now["wanted"] = 1 if replicas is None else replicas
        elif isinstance(record, Delivery) and record.resource == "pods" and record.key:
            lives = record.type != "DELETED" and alive.get(record.resource_version, False)
            _keep(cached, record.key, lives)
        elif isinstance(record, ExpectationChange) and record.key == key:
            now["adds"], now["dels"] = record.add, record.dele
        now["stored"], now["cached"] = len(stored), len(cached)
        if now != {name: rows[-1][name] for name in now}:
            rows.append({"t": record.t, **now})
    return pd.DataFrame(rows)


def _owner(pod: Pod) -> str:
    ref = controller_of(pod)
    return f"{pod.metadata.namespace}/{ref.name}" if ref is not None else ""


def _keep(pods: set[str], pod: str, lives: bool) -> None:
    if lives:
        pods.add(pod)
    else:
        pods.discard(pod)


def notes(runs: Mapping[str, Trace], key: str, end: float) -> go.Figure:
    """Plot the `counters` of one ReplicaSet, a panel for each run.

    Args:
        runs: The traces, by the title of their panel.
        key: The set, namespace/name.
        end: The last second that is shown.
    """
    tables = [counters(trace, key).assign(workload=title) for title, trace in runs.items()]
    table = pd.concat(tables)
    return stepped(table[table["t"] <= end], LINES, end)
