"""Vectors of the reference manager."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.errors import Invalid, NotFound
from kcm_lite.api.meta import LabelSelector
from kcm_lite.api.selectors import label_selector_as_selector
from kcm_lite.reconcile.refmanager import ClaimError, ControllerRefManager, claim_objects

ERRORS: dict[str, Exception] = {
    "not_found": NotFound('pods "p" not found'),
    "invalid": Invalid('Pod "p" is invalid'),
    "boom": RuntimeError("boom"),
}


def claim_pods(given: dict[str, Any]) -> dict[str, Any]:
    """Claim a list of pods against a server that fails as told."""
    patches: list[dict[str, Any]] = []
    calls = 0

    async def can_adopt() -> None:
        nonlocal calls
        calls += 1
        if given["can_adopt_error"] is not None:
            raise RuntimeError(given["can_adopt_error"])

    async def patch(pod: Pod, body: dict[str, Any]) -> None:
        patches.append({"name": pod.metadata.name, "patch": body})
        if given["patch_error"]:
            raise ERRORS[given["patch_error"]]

    manager = ControllerRefManager[Pod](
        controller=msgspec.convert({"metadata": given["controller"]}, ReplicaSet, strict=False),
        selector=label_selector_as_selector(msgspec.convert(given["selector"], LabelSelector)),
        can_adopt=can_adopt,
        patch=patch,
        finalizers=tuple(given["finalizers"]),
    )
    pods = [msgspec.convert(pod, Pod, strict=False) for pod in given["pods"]]
    error = None
    try:
        claimed = asyncio.run(claim_objects(manager, pods))
    except ClaimError as failure:
        claimed, error = failure.claimed, str(failure)
    return {
        "can_adopt_calls": calls,
        "claimed": [pod.metadata.name for pod in claimed],
        "error": error,
        "patches": patches,
    }


ADAPTERS = {"claim_pods": claim_pods}
