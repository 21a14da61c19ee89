"""Adoption and release: the four answers, the one question, the errors."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcm_lite.api.apps import ReplicaSet
from kcm_lite.api.core import Pod
from kcm_lite.api.errors import Forbidden, Invalid, NotFound
from kcm_lite.api.meta import LabelSelector, ObjectMeta, OwnerReference
from kcm_lite.api.selectors import label_selector_as_selector
from kcm_lite.reconcile.refmanager import (
    Claim,
    ClaimError,
    ControllerRefManager,
    claim_objects,
    classify,
)

SELECTOR = label_selector_as_selector(LabelSelector(match_labels={"app": "x"}))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def owner(**meta: Any) -> ReplicaSet:
    return ReplicaSet(metadata=ObjectMeta(name="r", namespace="ns", uid="uid-r", **meta))


def pod(name: str, app: str, owner_uid: str = "", **meta: Any) -> Pod:
    refs = (OwnerReference(kind="ReplicaSet", name="o", uid=owner_uid, controller=True),)
    meta = {"namespace": "ns", "uid": f"uid-{name}", "labels": {"app": app}} | meta
    return Pod(metadata=ObjectMeta(name=name, owner_references=refs if owner_uid else (), **meta))


def manager(
    patches: list[tuple[str, dict[str, Any]]],
    *,
    refusal: Exception | None = None,
    failing: dict[str, Exception] | None = None,
    controller: ReplicaSet | None = None,
) -> ControllerRefManager[Pod]:
    async def can_adopt() -> None:
        patches.append(("asked", {}))
        if refusal:
            raise refusal

    async def patch(target: Pod, body: dict[str, Any]) -> None:
        patches.append((target.metadata.name, body))
        if error := (failing or {}).get(target.metadata.name):
            raise error

    return ControllerRefManager(controller or owner(), SELECTOR, can_adopt, patch)


def claim(refs: ControllerRefManager[Pod], pods: list[Pod]) -> list[str]:
    return [p.metadata.name for p in asyncio.run(claim_objects(refs, pods))]


@given(
    app=st.sampled_from("xy"),
    owned_by=st.sampled_from(["", "uid-r", "uid-other"]),
    pod_goes=st.booleans(),
    owner_goes=st.booleans(),
    namespace=st.sampled_from(["ns", "elsewhere"]),
)
def test_classify_is_the_whole_rule(
    app: str, owned_by: str, pod_goes: bool, owner_goes: bool, namespace: str
) -> None:
    p = pod("p", app, owned_by, namespace=namespace, deletion_timestamp=NOW if pod_goes else None)
    got = classify(owner(deletion_timestamp=NOW if owner_goes else None), SELECTOR, p)
    matches = app == "x"
    if owned_by == "uid-other":
        want = Claim.NOT_MINE
    elif owned_by == "uid-r":
        want = Claim.MINE if matches else (Claim.NOT_MINE if owner_goes else Claim.RELEASE)
    else:
        free = matches and not pod_goes and not owner_goes and namespace == "ns"
        want = Claim.ADOPT if free else Claim.NOT_MINE
    assert got is want


def test_the_owner_is_checked_once_and_only_before_an_adoption() -> None:
    log: list[tuple[str, dict[str, Any]]] = []
    assert claim(manager(log), [pod("a", "x", "uid-r"), pod("b", "y", "uid-r")]) == ["a"]
    assert [name for name, _ in log] == ["b"]
    log.clear()
    assert claim(manager(log), [pod("a", "x"), pod("b", "x"), pod("c", "x")]) == ["a", "b", "c"]
    assert [name for name, _ in log] == ["asked", "a", "b", "c"]


def test_a_refused_adoption_keeps_the_rest_and_names_the_pod() -> None:
    log: list[tuple[str, dict[str, Any]]] = []
    refs = manager(log, refusal=NotFound("gone"))
    with pytest.raises(ClaimError) as error:
        claim(refs, [pod("a", "x"), pod("b", "x", "uid-r"), pod("c", "x")])
    assert [p.metadata.name for p in error.value.claimed] == ["b"]
    assert str(error.value) == (
        "[can't adopt Pod ns/a (uid-a): gone, can't adopt Pod ns/c (uid-c): gone]"
    )
    assert [name for name, _ in log] == ["asked"]


@pytest.mark.parametrize("error", [NotFound("no"), Invalid("uid differs")])
def test_a_release_that_came_too_late_is_no_error(error: Exception) -> None:
    assert claim(manager([], failing={"a": error}), [pod("a", "y", "uid-r")]) == []


def test_an_adoption_of_a_pod_that_is_gone_is_no_error_but_a_refusal_is() -> None:
    assert claim(manager([], failing={"a": NotFound("no")}), [pod("a", "x")]) == []
    for refusal in (Invalid("uid differs"), Forbidden("no")):
        with pytest.raises(ClaimError):
            claim(manager([], failing={"a": refusal}), [pod("a", "x")])


def test_finalizers_come_and_go_with_the_owner() -> None:
    log: list[tuple[str, dict[str, Any]]] = []
    refs = manager(log)
    refs.finalizers = ("batch.kubernetes.io/job-tracking",)
    claim(refs, [pod("a", "x"), pod("b", "y", "uid-r")])
    bodies: dict[str, Any] = {name: body.get("metadata") for name, body in log}
    assert bodies["a"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert bodies["b"]["$deleteFromPrimitiveList/finalizers"] == list(refs.finalizers)
