# Generated from book/09b_revisions_and_scaling.ipynb by tools/tangle.py; edit it there.

"""Old sets: how many to keep, and the way back to one of them.

See: chapter *Revisions and scaling*; upstream ``rollback.go`` and ``cleanupDeployment``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cmp_to_key

from kcm_lite.api.apps import Deployment, ReplicaSet
from kcm_lite.api.errors import NotFound
from kcm_lite.api.golang import parse_int, quote
from kcm_lite.api.meta import replace
from kcm_lite.api.validation.deployment import ROLLBACK_TO
from kcm_lite.controllers.deployment_revisions import NOT_COPIED, last_revision, revision
from kcm_lite.controllers.deployment_sets import get_all_replica_sets_and_sync_revision
from kcm_lite.controllers.deployment_templates import HASH_LABEL, equal_ignore_hash
from kcm_lite.controllers.deployment_types import DeploymentController, View, decide
from kcm_lite.controllers.rollout import UNLIMITED, age, wanted


# %% book/09b_revisions_and_scaling.ipynb#e488a8d5
async def cleanup_deployment(
    dc: DeploymentController, d: Deployment, old: Iterable[ReplicaSet]
) -> None:
    """Delete old sets beyond the history limit: the lowest revisions first, only empty ones.

    Raises:
        StatusError: A delete was refused; the rest is left to the next sync.
    """
    limit = d.spec.revision_history_limit
    if limit is None or limit == UNLIMITED:
        return
    alive = by_revision(rs for rs in old if rs.metadata.deletion_timestamp is None)
    for rs in alive[: max(len(alive) - limit, 0)]:
        seen = rs.metadata.generation <= rs.status.observed_generation
        if wanted(rs) or rs.status.replicas or not seen:
            continue
        decide(dc, d, "clean up", rs, f"{len(alive)} old sets, {limit} are kept")
        try:
            await dc.client.delete(ReplicaSet, rs.metadata.namespace, rs.metadata.name)
        except NotFound:
            continue


def by_revision(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Sort by revision; where one of two has no readable one, by age."""

    def compare(a: ReplicaSet, b: ReplicaSet) -> int:
        x, y = revision(a), revision(b)
        if x is None or y is None or x == y:
            return -1 if age(a) < age(b) else 1
        return x - y

    return sorted(sets, key=cmp_to_key(compare))


# %% book/09b_revisions_and_scaling.ipynb#da8319fd
def rollback_to(d: Deployment) -> int | None:
    """Return the revision that somebody wants back, 0 for the one before; None for no wish."""
    text = d.metadata.annotations.get(ROLLBACK_TO)
    try:
        return parse_int(text) if text else None
    except ValueError:
        return None


async def rollback(dc: DeploymentController, view: View, wish: int) -> None:
    """Take the template of an old set, and drop the wish whether or not it could be granted."""
    new, old = await get_all_replica_sets_and_sync_revision(dc, view, create=True)
    sets = old if new is None else [*old, new]
    wish, called = wish or last_revision(sets), quote(view.d.metadata.name)
    target = next((rs for rs in sets if wish and revision(rs) == wish), None)
    if target is None:
        which = "the revision to rollback to" if wish else "last revision"
        warn(dc, view.d, "DeploymentRollbackRevisionNotFound", f"Unable to find {which}.")
    elif equal_ignore_hash(view.d.spec.template, target.spec.template):
        what = f"The rollback revision contains the same template as current deployment {called}"
        warn(dc, view.d, "DeploymentRollbackTemplateUnchanged", what)
        target = None
    else:
        view.d = rolled_back(view.d, target)
        decide(dc, view.d, "rollback", target, f"its template comes back, of revision {wish}")
    await dc.client.update(without_wish(view.d))
    if target is not None:
        done = f"Rolled back deployment {called} to revision {wish}"
        dc.recorder.event(view.d, "Normal", "DeploymentRollback", done)


# %% book/09b_revisions_and_scaling.ipynb#fbbb1921
def rolled_back(d: Deployment, rs: ReplicaSet) -> Deployment:
    """Return the Deployment with the template of an old set, and with its annotations."""
    mould = rs.spec.template.metadata
    labels = {k: v for k, v in mould.labels.items() if k != HASH_LABEL}
    template = replace(rs.spec.template, metadata=replace(mould, labels=labels))
    own = {k: v for k, v in d.metadata.annotations.items() if k in NOT_COPIED}
    its = {k: v for k, v in rs.metadata.annotations.items() if k not in NOT_COPIED}
    meta = replace(d.metadata, annotations={**own, **its})
    return replace(d, metadata=meta, spec=replace(d.spec, template=template))


def without_wish(d: Deployment) -> Deployment:
    """Return the Deployment without the annotation that asks for a rollback."""
    kept = {k: v for k, v in d.metadata.annotations.items() if k != ROLLBACK_TO}
    return replace(d, metadata=replace(d.metadata, annotations=kept))


def warn(dc: DeploymentController, d: Deployment, reason: str, message: str) -> None:
    """Tell people why there is no rollback."""
    decide(dc, d, "rollback", d, f"none: {message}")
    dc.recorder.event(d, "Warning", reason, message)
