"""The quota controller's loop: keeps the status of every quota equal to what is really there.

Admission only counts up. What lowers ``used`` again, and what takes over a changed ``hard``, is
this loop, which looks again whenever a quota changes or something that it may count is gone.
See: upstream ``pkg/controller/resourcequota``.
"""

from __future__ import annotations

from kcm_lite.api.core import Pod, ResourceQuota
from kcm_lite.api.meta import object_key, replace
from kcm_lite.api.request import WatchEvent
from kcm_lite.api.scheme import RESOURCES
from kcm_lite.apiserver.admission import quota_status
from kcm_lite.apiserver.server import APIServer
from kcm_lite.clock import Clock
from kcm_lite.reconcile.podutil import is_pod_terminal

AGENT = "resourcequota-controller"


class QuotaLoop:
    """Watches quotas and what they count.

    Args:
        server: Where it reads and writes.
        clock: Its time.
        delay: Seconds from a change to the status write that answers it.
    """

    def __init__(self, server: APIServer, clock: Clock, *, delay: float) -> None:
        self.server, self.clock, self.delay = server, clock, delay
        self._quotas: dict[str, ResourceQuota] = {}  # by namespace/name
        self._due: dict[str, None] = {}
        for resource in RESOURCES:
            if resource.type is ResourceQuota:
                server.subscribe(ResourceQuota, self._on_quota)
            elif resource.namespaced:
                server.subscribe(resource.type, self._on_object)

    def _on_quota(self, event: WatchEvent) -> None:
        quota = event.object
        assert isinstance(quota, ResourceQuota)
        key = object_key(quota)
        if event.type == "DELETED":
            self._quotas.pop(key, None)
            return
        self._quotas[key] = quota
        if quota.spec.hard != quota.status.hard:
            self._plan(key)

    def _on_object(self, event: WatchEvent) -> None:
        if not self._quotas:
            return
        obj = event.object
        if event.type == "DELETED" or (isinstance(obj, Pod) and is_pod_terminal(obj)):
            for key, quota in self._quotas.items():
                if quota.metadata.namespace == obj.metadata.namespace:
                    self._plan(key)

    def _plan(self, key: str) -> None:
        if not self._due:
            self.clock.call_later(self.delay, self._sync)
        self._due[key] = None

    def _sync(self) -> None:
        due, self._due = self._due, {}
        for key in due:
            quota = self._quotas.get(key)
            if quota is None:
                continue
            status = quota_status(self.server.registry, quota)
            if status != quota.status:
                counted = replace(quota, status=status)
                self.server.update(counted, subresource="status", agent=AGENT)
