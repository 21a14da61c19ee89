"""A cluster in a variable.

>>> cluster = Cluster(nodes=3)
>>> cluster.apply(open("web.yaml").read())          # doctest: +SKIP
>>> cluster.run_for(30)
>>> cluster.get("pods")
No resources found.

Inside: a virtual clock, an API server, the controllers, a scheduler and the nodes' kubelets. At
``t=0`` everything is there, the caches are filled and nothing has happened yet.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from kcm_lite.api.core import Namespace, Node, Pod
from kcm_lite.api.errors import NotFound
from kcm_lite.api.meta import DeleteOptions, Object, ObjectMeta, object_key
from kcm_lite.api.scheme import Resource, resource_of
from kcm_lite.api.serial import encode
from kcm_lite.api.yaml import load_documents
from kcm_lite.apiserver.server import APIServer
from kcm_lite.apiserver.transport import Latency
from kcm_lite.client.clientset import Client
from kcm_lite.client.informer import SharedInformerFactory
from kcm_lite.client.transport import Transport
from kcm_lite.clock import Clock, VirtualClock
from kcm_lite.controllers.context import CONTROLLERS, TODAY, ControllerContext, Gates
from kcm_lite.sim.chance import Chance
from kcm_lite.sim.explain import Explanation, explain
from kcm_lite.sim.faults import Fault
from kcm_lite.sim.faultywire import FaultyWire
from kcm_lite.sim.injection import Injection
from kcm_lite.sim.kinds import controllers_named, resource_named
from kcm_lite.sim.kubelet import Kubelets
from kcm_lite.sim.manifests import (
    Inert,
    in_namespace,
    read_documents,
    read_manifest,
    removals,
)
from kcm_lite.sim.nodes import Machines, node_object
from kcm_lite.sim.process import Process
from kcm_lite.sim.profile import Profile, parse_profile
from kcm_lite.sim.quota import QuotaLoop
from kcm_lite.sim.restarts import ManagerProcess
from kcm_lite.sim.rollout import Rollout, said, scale, set_image
from kcm_lite.sim.tables import Table, table
from kcm_lite.sim.timeline import Timeline, timeline
from kcm_lite.trace import ApiWrite, Note, Trace

T = TypeVar("T", bound=Object)

START = datetime(2026, 1, 1, 0, 0, 0, 200_000, tzinfo=UTC)
"""The date and time at t=0: a fifth of a second past a full minute."""

LATENCY = Latency()

CLUSTER = "cluster"
"""The agent of what is there before anything happens."""

Manifest = Object | Mapping[str, Any]


class Applied(list[Object]):
    """Objects as stored; prints what ``kubectl apply`` says, inert ones included."""

    def __init__(self, lines: list[str], objects: Iterable[Object]) -> None:
        super().__init__(objects)
        self.lines = lines

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__


class Cluster:
    """A simulated cluster.

    Args:
        nodes: How many machines; they are called node-1, node-2, ...
        seed: Decides uids, generated names and jitter: the same seed gives the same run.
        profile: What pods do, see `kcm_lite.sim.profile`; by default they start and get ready.
        qps: Requests a second that each controller's client may make; 0: no limit.
        burst: How many of them at once after a quiet time.
        controllers: Which run, by name; by default all that there are.
        gates: Which release the controllers follow.
        start: The date and time at t=0, UTC.
        detail: Also record deliveries, queue steps, syncs and decisions, not only writes.
        latency: How long API calls and watch deliveries take.
        namespace: Where objects go that name no namespace.
        faults: What goes wrong, see `kcm_lite.sim.faults`; `inject` adds more.

    Raises:
        BadInput: The profile or a controller's name makes no sense.

    Attributes:
        clock: Virtual time; ``clock.time()`` is the second of the run.
        server: The API server; its verbs act at once, as ``user``.
        trace: Everything that happened.
        kubelets: The nodes' agenda.
        transport: The way to the API server; ``transport.writes`` counts the manager's writes.
        manager: The process of the controllers.
        informers: The caches of its latest life.
        rollout: ``kubectl rollout``: pause, resume, restart, undo, history, status.
        inert: What was applied and is not simulated.
    """

    def __init__(
        self,
        nodes: int = 3,
        seed: int = 0,
        *,
        profile: Profile | Mapping[str, Any] | None = None,
        qps: float = 20.0,
        burst: int = 30,
        controllers: Iterable[str] | None = None,
        gates: Gates = TODAY,
        start: datetime = START,
        detail: bool = True,
        latency: Latency = LATENCY,
        namespace: str = "default",
        faults: Iterable[Fault] = (),
    ) -> None:
        if not isinstance(profile, Profile):
            profile = parse_profile(profile)
        wanted = controllers_named(controllers)
        self.namespace = namespace
        self.clock = VirtualClock(start)
        self.trace = Trace(detail=detail)
        self.server = APIServer(self.clock, trace=self.trace, rng=random.Random(f"{seed}/server"))
        self.machines = Machines()
        self.kubelets = Kubelets(
            self.server,
            self.clock,
            self.machines,
            profile,
            chance=Chance(f"{seed}/kubelets"),
            watch=latency.watch,
            call=latency.call / 2,
        )
        self.rollout = Rollout(self.server, self.locate, self.clock.now)
        self.inert: list[Inert] = []
        self._applied: dict[str, Mapping[str, Any]] = {}
        self._quota = QuotaLoop(self.server, self.clock, delay=latency.watch + latency.call / 2)
        self.server.subscribe(Node, self.machines.on_node)
        self.server.subscribe(Pod, self.kubelets.on_pod)
        for number in range(1, nodes + 1):
            node = node_object(number, scenario=namespace, now=self.clock.timestamp())
            self.server.create(node, agent=CLUSTER)
        self.ensure_namespace(namespace)
        self.transport = FaultyWire(
            self.server, self.clock, latency=Latency(0.0, 0.0), trace=self.trace
        )
        self._seed, self._gates, self._controllers = seed, gates, wanted
        self._qps, self._burst = qps, burst
        self.manager = ManagerProcess(self.transport, self.trace, self._build)
        self.manager.start()
        self.clock.settle(until=0.0)  # it fills its caches, which takes no time
        self.transport.latency = latency
        self.note(CLUSTER, f"{len(self.machines.by_name)} nodes, {', '.join(wanted)}")
        self.faults = Injection(self, seed)
        for fault in faults:
            self.inject(fault)

    def client_for(self, agent: str) -> Client:
        """Return a client under a user agent, with limits of its own."""
        return self._client(self.transport, self.clock, agent)

    def _client(self, transport: Transport, clock: Clock, agent: str) -> Client:
        return Client(transport, clock, agent=agent, qps=self._qps, burst=self._burst)

    def _build(self, process: Process, trace: Trace, lives: int) -> None:
        """Start the controllers in a process."""
        transport, clock = process.transport, process.clock
        life = f"{self._seed}/{lives}" if lives else f"{self._seed}"
        self.informers = SharedInformerFactory(
            Client(transport, clock, agent="shared-informers", qps=0),
            clock,
            rng=random.Random(f"{life}/informers"),
            name="shared-informers",
            trace=trace,
        )
        context = ControllerContext(
            clock,
            trace,
            partial(self._client, transport, clock),
            self.informers,
            self._gates,
            random.Random(f"{life}/controllers"),
        )
        runs = [(name, CONTROLLERS[name](context)) for name in self._controllers]
        self.informers.start()
        for name, run in runs:
            clock.spawn(run(), name=name)

    def inject(self, fault: Fault) -> None:
        """Let something go wrong, now or when the fault says.

        Raises:
            BadInput: It would be over already.
        """
        self.faults.add(fault)

    # ---- time

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.clock.time()

    def run_for(self, seconds: float) -> None:
        """Let so much time pass."""
        self.clock.run_for(seconds)

    def run_until(self, when: float) -> None:
        """Let time pass up to a second of the run."""
        self.clock.run_until(when)

    def settle(self, *, until: float) -> float:
        """Let time pass until nothing is left to happen, at the latest until ``until``."""
        return self.clock.settle(until=until)

    def close(self) -> None:
        """Stop everything."""
        self.clock.close()

    # ---- writing, as a user

    def apply(self, what: str | Manifest | Iterable[Manifest]) -> Applied:
        """Create or change objects, as ``kubectl apply`` does.

        Args:
            what: YAML text, an object, a mapping, or several of them.

        Returns:
            The objects as stored; kinds that are not simulated go to `inert` instead.

        Raises:
            BadInput: The YAML or an object cannot be read; nothing has been applied.
            StatusError: The server refuses an object; those before it stay.
        """
        if isinstance(what, str):
            prepared = read_documents(load_documents(what), self.namespace)
        else:
            manifests = [what] if isinstance(what, Object | Mapping) else what
            prepared = [
                in_namespace(m, self.namespace)
                if isinstance(m, Object)
                else read_manifest(m, namespace=self.namespace, where=f"[{i}]")
                for i, m in enumerate(manifests)
            ]
        lines, objects = [], []
        for obj in prepared:
            before = len(self.trace.records)
            if (stored := self.put(obj)) is not None:
                objects.append(stored)
            lines.append(self._said(obj, stored, before))
        return Applied(lines, objects)

    def _said(self, obj: Object | Inert, stored: Object | None, before: int) -> str:
        """Say what the last `put` did, from what it wrote after ``before`` records."""
        if stored is None:
            return f"{obj} stored, not simulated"
        write = next(w for w in reversed(self.trace.records[before:]) if isinstance(w, ApiWrite))
        what = "created" if write.old is None else "configured"
        meta = stored.metadata
        target = (resource_of(stored), meta.namespace, meta.name)
        return said(target, "unchanged" if write.old is write.new else what)

    def put(self, obj: Object | Inert) -> Object | None:
        """Create an object, or change the one of its name."""
        if isinstance(obj, Inert):
            self.inert.append(obj)
            self.note(CLUSTER, f"{obj.kind}/{obj.name}: stored, not simulated")
            return None
        self.ensure_namespace(obj.metadata.namespace)
        key, wire = f"{obj.KIND}/{object_key(obj)}", encode(obj)
        before = self._applied.get(key)
        self._applied[key] = wire
        if not obj.metadata.name:
            return self.server.create(obj)
        try:
            self.server.get(type(obj), obj.metadata.namespace, obj.metadata.name)
        except NotFound:
            return self.server.create(obj)
        patch = {k: v for k, v in removals(before or {}, wire).items() if k != "status"}
        meta = obj.metadata
        return self.server.patch(
            type(obj), meta.namespace, meta.name, patch, patch_type="strategic"
        )

    def create(self, obj: T) -> T:
        """Create an object."""
        obj = in_namespace(obj, self.namespace)
        self.ensure_namespace(obj.metadata.namespace)
        return self.server.create(obj)

    def patch(self, ref: str, patch: Any, *, namespace: str = "", patch_type: str = "merge") -> Any:
        """Patch the object that ``kind/name`` means."""
        resource, where, name = self.locate(ref, namespace)
        return self.server.patch(resource.type, where, name, patch, patch_type=patch_type)

    def scale(self, ref: str, replicas: int, *, namespace: str = "") -> str:
        """Set the wanted number of replicas of ``kind/name``; return what kubectl prints."""
        return scale(self.server, self.locate(ref, namespace), replicas)

    def set_image(self, ref: str, images: Mapping[str, str], *, namespace: str = "") -> str:
        """Set images by container (``*``: all) of ``kind/name``; return what kubectl prints."""
        return set_image(self.server, self.locate(ref, namespace), images)

    def delete(
        self,
        ref: str,
        *,
        namespace: str = "",
        propagation: str = "Background",
        grace_period_seconds: int | None = None,
    ) -> None:
        """Delete ``kind/name`` and, unless ``propagation`` says otherwise, what it owns."""
        resource, where, name = self.locate(ref, namespace)
        options = DeleteOptions(
            propagation_policy=propagation, grace_period_seconds=grace_period_seconds
        )
        self.server.delete(resource.type, where, name, options)

    def ensure_namespace(self, name: str) -> None:
        """Create a namespace if it is not there."""
        if not name:
            return
        try:
            self.server.get(Namespace, "", name)
        except NotFound:
            meta = ObjectMeta(name=name)
            self.server.create(Namespace(metadata=meta), agent=CLUSTER)

    def note(self, source: str, text: str) -> None:
        """Write into the trace that something was done from outside."""
        self.trace.write(Note(self.now, source, text))

    # ---- reading

    def locate(self, ref: str, namespace: str = "") -> tuple[Resource, str, str]:
        """Return kind, namespace and name of ``kind/name``, such as ``rs/web``.

        Raises:
            ValueError: It is not of this form, or the kind is not simulated.
        """
        kind, slash, name = ref.partition("/")
        if not slash or not name:
            raise ValueError(f'got "{ref}", want kind/name, for example rs/web')
        resource = resource_named(kind)
        return resource, (namespace or self.namespace) if resource.namespaced else "", name

    def object(self, ref: str, *, namespace: str = "") -> Any:
        """Return the object that ``kind/name`` means.

        Raises:
            NotFound: There is none.
        """
        resource, where, name = self.locate(ref, namespace)
        return self.server.get(resource.type, where, name)

    def objects(self, kind: type[T], *, namespace: str | None = None) -> tuple[T, ...]:
        """Return all objects of a type in a namespace (by default the cluster's; "" means all)."""
        where = self.namespace if namespace is None else namespace
        if not resource_of(kind).namespaced:
            where = ""
        return self.server.list(kind, where).items

    def get(self, kind: str, *, namespace: str | None = None, wide: bool = False) -> Table:
        """Return the table of a kind's objects, as ``kubectl get`` prints it."""
        resource = resource_named(kind)
        objects = self.objects(resource.type, namespace=namespace)
        return table(resource, objects, self.clock.now(), wide=wide)

    def timeline(self, *, start: float = 0.0) -> Timeline:
        """Return what happened since a second of the run, in lines for people."""
        return timeline(self.trace, start=start)

    def explain(self, ref: str, *, namespace: str = "") -> Explanation:
        """Say why things happened to an object: why chosen, why retried, what held it up."""
        resource, where, name = self.locate(ref, namespace)
        return explain(self.trace, resource, where, name)
