"""Objects as ``kubectl get`` shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kcm_lite.api.meta import Object, controller_of
from kcm_lite.api.scheme import Resource
from kcm_lite.sim.durations import age as age_text
from kcm_lite.sim.verdicts import is_ready

Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Rows under headings; prints in columns.

    Attributes:
        columns: The headings, in capitals.
        rows: One text per column.
    """

    columns: Row
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        if not self.rows:
            return "No resources found."
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        return "\n".join(
            "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def __repr__(self) -> str:
        return str(self)

    def __iter__(self) -> Iterator[dict[str, str]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def table(
    resource: Resource, objects: Iterable[Object], now: datetime, *, wide: bool = False
) -> Table:
    """Return the table of some objects of one kind.

    Args:
        resource: Their kind.
        objects: Shown in this order.
        now: For ages.
        wide: With the columns of ``-o wide``.
    """
    columns, cells = VIEWS.get(resource.kind, DEFAULT)
    more, more_cells = WIDE.get(resource.kind, NOTHING) if wide else NOTHING
    rows = tuple((*cells(o, now), *more_cells(o, now)) for o in objects)
    return Table((*columns, *more), rows)


Cells = Callable[[Any, datetime], Row]


def age(time: datetime | None, now: datetime) -> str:
    """Return how long ago something was."""
    return age_text((now - time).total_seconds()) if time is not None else "<unknown>"


def _age(obj: Object, now: datetime) -> str:
    return age(obj.metadata.creation_timestamp, now)


def _named(columns: Row, cells: Callable[[Any, datetime], tuple[object, ...]]) -> tuple[Row, Cells]:
    """Return a view that begins with the name and ends with the age."""

    def all_cells(obj: Any, now: datetime) -> Row:
        return obj.metadata.name, *map(str, cells(obj, now)), _age(obj, now)

    return ("NAME", *columns, "AGE"), all_cells


def _pod(pod: Any, now: datetime) -> tuple[object, ...]:
    statuses = pod.status.container_statuses
    ready = f"{sum(s.ready for s in statuses)}/{len(pod.spec.containers)}"
    return ready, pod_status(pod), sum(s.restart_count for s in statuses)


def pod_status(pod: Any) -> str:
    """Return the STATUS that kubectl prints of a pod."""
    if pod.metadata.deletion_timestamp is not None:
        return "Terminating"
    if pod.status.reason:
        return str(pod.status.reason)
    for status in reversed(pod.status.container_statuses):
        if (ended := status.state.terminated) is not None:
            return ended.reason or f"ExitCode:{ended.exit_code}"
    return pod.status.phase or "Unknown"


def _pod_wide(pod: Any, now: datetime) -> Row:
    return pod.status.pod_ip or "<none>", pod.spec.node_name or "<none>"


def _deployment(d: Any, now: datetime) -> tuple[object, ...]:
    status = d.status
    ready = f"{status.ready_replicas}/{1 if d.spec.replicas is None else d.spec.replicas}"
    return ready, status.updated_replicas, status.available_replicas


def _replicas(obj: Any, now: datetime) -> tuple[object, ...]:
    wanted = 1 if obj.spec.replicas is None else obj.spec.replicas
    return wanted, obj.status.replicas, obj.status.ready_replicas


def _job(job: Any, now: datetime) -> tuple[object, ...]:
    spec, status = job.spec, job.status
    wanted = str(spec.completions)
    if spec.completions is None:
        wanted = f"1 of {spec.parallelism}" if (spec.parallelism or 0) > 1 else "1"
    took = ""
    if status.start_time is not None:
        took = age(status.start_time, status.completion_time or now)
    return job_status(job), f"{status.succeeded}/{wanted}", took


def job_status(job: Any) -> str:
    """Return the STATUS that kubectl prints of a Job."""
    held = {c.type for c in job.status.conditions if c.status == "True"}
    for kind in ("Complete", "Failed"):
        if kind in held:
            return kind
    if job.metadata.deletion_timestamp is not None:
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in held:
            return kind
    return "Running"


def _node(node: Any, now: datetime) -> Row:
    status = "Ready" if is_ready(node) else "NotReady"
    if node.spec.unschedulable:
        status += ",SchedulingDisabled"
    info = node.status.extra.get("nodeInfo", {})
    return node.metadata.name, status, "<none>", _age(node, now), info.get("kubeletVersion", "")


def _quota(obj: Any, now: datetime) -> tuple[object, ...]:
    used, hard = obj.status.used, obj.status.hard
    return (", ".join(f"{k}: {used.get(k, 0)}/{hard[k]}" for k in sorted(hard)),)


def _event(event: Any, now: datetime) -> Row:
    about = event.involved_object
    last = age(event.last_timestamp or event.event_time, now)
    message = event.message if event.count <= 1 else f"{event.message} (x{event.count})"
    return last, event.type, event.reason, f"{about.kind.lower()}/{about.name}", message


def _revision(obj: Any, now: datetime) -> tuple[object, ...]:
    ref = controller_of(obj)
    return f"{ref.kind.lower()}/{ref.name}" if ref else "<none>", obj.revision


DEFAULT = _named((), lambda obj, now: ())
NOTHING: tuple[Row, Cells] = ((), lambda obj, now: ())
VIEWS: dict[str, tuple[Row, Cells]] = {
    "ConfigMap": _named(("DATA",), lambda o, now: (len(o.data) + len(o.binary_data),)),
    "ControllerRevision": _named(("CONTROLLER", "REVISION"), _revision),
    "Deployment": _named(("READY", "UP-TO-DATE", "AVAILABLE"), _deployment),
    "Event": (("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), _event),
    "Lease": _named(("HOLDER",), lambda o, now: (o.spec.holder_identity or "",)),
    "Job": _named(("STATUS", "COMPLETIONS", "DURATION"), _job),
    "Namespace": _named(("STATUS",), lambda o, now: (o.status.phase,)),
    "Node": (("NAME", "STATUS", "ROLES", "AGE", "VERSION"), _node),
    "Pod": _named(("READY", "STATUS", "RESTARTS"), _pod),
    "ReplicaSet": _named(("DESIRED", "CURRENT", "READY"), _replicas),
    "ReplicationController": _named(("DESIRED", "CURRENT", "READY"), _replicas),
    "ResourceQuota": _named(("REQUEST",), _quota),
}
WIDE: dict[str, tuple[Row, Cells]] = {"Pod": (("IP", "NODE"), _pod_wide)}
