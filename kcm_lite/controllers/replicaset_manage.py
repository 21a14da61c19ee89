# Generated from book/07_replicaset.ipynb by tools/tangle.py; edit it there.

"""Too few pods or too many: create or delete some, and expect to see that.

See: chapter *ReplicaSet*; upstream ``manageReplicas``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from kcm_lite.api.core import Pod, PodTemplateSpec
from kcm_lite.api.errors import NotFound, StatusError
from kcm_lite.api.meta import controller_of, object_key
from kcm_lite.api.selectors import Selector, SelectorError
from kcm_lite.client.cache import CONTROLLER_UID_INDEX, NAMESPACE_INDEX
from kcm_lite.controllers.replicaset_types import Found, ReplicaSetController, W, decide
from kcm_lite.controllers.victims import (
    VictimRules,
    age_ratios,
    candidates,
    order_of_victims,
    ranks_of_pods_on_same_node,
    reason,
)
from kcm_lite.reconcile.podcontrol import is_namespace_terminating, new_controller_ref
from kcm_lite.reconcile.podtally import ACTIVE
from kcm_lite.reconcile.podutil import filter_active_pods, filter_pods_by_owner
from kcm_lite.reconcile.slowstart import SLOW_START_INITIAL_BATCH_SIZE, slow_start_batch


# %% book/07_replicaset.ipynb#d31eb2d6
async def manage_replicas(rsc: ReplicaSetController[W], rs: W, found: Found) -> Exception | None:
    """Create what is missing or delete what is too much; return the first error."""
    diff = found.count(ACTIVE) - (rs.spec.replicas or 0)
    if diff == 0:
        return None
    if abs(diff) > rsc.burst_replicas:
        text = f"{abs(diff)} pods to go, {rsc.burst_replicas} at a time"
        decide(rsc, object_key(rs), "burst", object_key(rs), text)
    if diff < 0:
        return await create_missing(rsc, rs, min(-diff, rsc.burst_replicas))
    active = found.pods
    if active is None:
        pods = filter_pods_by_owner(rsc.pods.indexer, rs, orphans=False)
        active = filter_active_pods(pods)
    return await delete_surplus(rsc, rs, active, min(diff, rsc.burst_replicas))


# %% book/07_replicaset.ipynb#29698f66
async def create_missing(rsc: ReplicaSetController[W], rs: W, count: int) -> Exception | None:
    """Create ``count`` pods by slow start; expect no more than were created."""
    key, ref = object_key(rs), new_controller_ref(rs)
    template = rs.spec.template or PodTemplateSpec()
    rsc.expectations.expect_creations(key, count)
    left = count

    async def create() -> None:
        try:
            await rsc.pod_control.create_pods(rs.metadata.namespace, template, rs, ref)
        except (StatusError, OSError) as error:
            if not is_namespace_terminating(error):
                raise

    def report(size: int, failures: int) -> None:
        nonlocal left
        left -= size
        end = f", {failures} failed: {left} more are not tried" if failures else ""
        decide(rsc, key, "batch", key, f"{size} of {count} at once{end}", (size, failures))

    successes, error = await slow_start_batch(
        count, SLOW_START_INITIAL_BATCH_SIZE, create, on_batch=report
    )
    if successes < count:
        rsc.expectations.lower_expectations(key, count - successes, 0)
    return error


# %% book/07_replicaset.ipynb#00cbb70c
async def delete_surplus(
    rsc: ReplicaSetController[W], rs: W, active: Sequence[Pod], count: int
) -> Exception | None:
    """Delete the ``count`` least useful pods at once; expect no more than are deleted."""
    key = object_key(rs)
    victims = choose_victims(rsc, rs, active, count)
    rsc.expectations.expect_deletions(key, [object_key(pod) for pod in victims])
    errors: list[Exception] = []

    async def delete(pod: Pod) -> None:
        try:
            await rsc.pod_control.delete_pod(rs.metadata.namespace, pod.metadata.name, rs)
        except Exception as error:
            rsc.expectations.deletion_observed(key, object_key(pod))
            if not isinstance(error, NotFound):
                errors.append(error)

    await asyncio.gather(*[delete(pod) for pod in victims])
    return errors[0] if errors else None


# %% book/07_replicaset.ipynb#00cbb701
def choose_victims(
    rsc: ReplicaSetController[W], rs: W, active: Sequence[Pod], count: int
) -> list[Pod]:
    """Pick the pods that go, and record why each goes before the first one that stays."""
    if count >= len(active):
        text = f"all {len(active)} pods go: the order does not matter"
        decide(rsc, object_key(rs), "all go", object_key(rs), text)
        return list(active)
    now, gates = rsc.clock.now(), rsc.gates
    rules = VictimRules(
        now, gates.pod_deletion_cost, gates.logarithmic_scale_down, gates.sidecar_restarts
    )
    ranks = ranks_of_pods_on_same_node(active, get_indirectly_related_pods(rsc, rs))
    order = order_of_victims(candidates(active, ranks, rules))
    if rsc.metrics is not None:
        for ratio in age_ratios(active, [c.pod for c in order[:count]], now):
            rsc.metrics.age_ratio.observe(ratio)
    if rsc.trace is not None and rsc.trace.detail:
        for victim in order[:count]:
            why = reason(victim, order[count], now)
            pod = object_key(victim.pod)
            decide(rsc, object_key(rs), "victim", pod, why.text, why.criterion)
    return [candidate.pod for candidate in order[:count]]


# %% book/07_replicaset.ipynb#78c38e52
def get_indirectly_related_pods(rsc: ReplicaSetController[W], rs: W) -> list[Pod]:
    """Return the pods that any set with the same controller selects; none for a bare set."""
    ref = controller_of(rs)
    if ref is None:
        return []
    selectors: dict[str, list[Selector]] = {}
    for sibling in rsc.sets.indexer.by_index(CONTROLLER_UID_INDEX, ref.uid):
        with suppress(SelectorError):
            mine = selectors.setdefault(sibling.metadata.namespace, [])
            mine.append(rsc.kind.selector(sibling))
    related = []
    for namespace, wanted in selectors.items():
        known: dict[int, bool] = {}  # by the identity of labels: pods of one template share them
        for pod in rsc.pods.indexer.by_index(NAMESPACE_INDEX, namespace):
            labels = pod.metadata.labels
            if (match := known.get(id(labels))) is None:
                match = known[id(labels)] = any(s.matches(labels) for s in wanted)
            if match:
                related.append(pod)
    return related
