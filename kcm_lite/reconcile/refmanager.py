# Generated from book/11_owner_references.ipynb by tools/tangle.py; edit it there.

"""Whose object is this? Adopt, release, or leave alone.

See: chapter *Owner references*; upstream ``pkg/controller/controller_ref_manager.go``.
"""

import enum
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kcm_lite.api.errors import Invalid, NotFound, StatusError
from kcm_lite.api.meta import Object, controller_of, object_key
from kcm_lite.api.selectors import Selector
from kcm_lite.client.clientset import Client

# %% book/11_owner_references.ipynb#4b490daf
T = TypeVar("T", bound=Object)


class Claim(enum.Enum):
    """What a controller makes of an object."""

    MINE = "mine"
    NOT_MINE = "not mine"
    ADOPT = "adopt"
    RELEASE = "release"


# %% book/11_owner_references.ipynb#4e8e31ad
def classify(controller: Object, selector: Selector, obj: Object) -> Claim:
    """Decide what ``controller`` makes of ``obj``: pure, no API call.

    See: section *Four answers*; upstream ``BaseControllerRefManager.ClaimObject``.
    """
    mine, meta = controller.metadata, obj.metadata
    owner = controller_of(obj)
    if owner is not None:
        if owner.uid != mine.uid:
            return Claim.NOT_MINE
        if selector.matches(meta.labels):
            return Claim.MINE
        return Claim.NOT_MINE if mine.deletion_timestamp else Claim.RELEASE
    if mine.deletion_timestamp or meta.deletion_timestamp:
        return Claim.NOT_MINE
    if mine.namespace and mine.namespace != meta.namespace:
        return Claim.NOT_MINE
    return Claim.ADOPT if selector.matches(meta.labels) else Claim.NOT_MINE


# %% book/11_owner_references.ipynb#0c2e9a3d
@dataclass(slots=True)
class ControllerRefManager(Generic[T]):
    """Claims objects for one controller during one sync.

    Attributes:
        controller: The owner, for example a ReplicaSet.
        selector: What it selects.
        can_adopt: Re-checks the live owner; raises if adoption is not safe. Asked at most once.
        patch: Sends a strategic merge patch to an object.
        finalizers: Added when an object is adopted, removed when it is released.

    See: section *One question to the server*; upstream ``PodControllerRefManager``.
    """

    controller: Object
    selector: Selector
    can_adopt: Callable[[], Awaitable[None]]
    patch: Callable[[T, dict[str, Any]], Awaitable[object]]
    finalizers: tuple[str, ...] = ()
    asked: bool = False
    refusal: Exception | None = None


# %% book/11_owner_references.ipynb#298fb95e
async def check_can_adopt(manager: ControllerRefManager[T], obj: Object) -> None:
    """Ask ``manager.can_adopt`` once; answer from memory after that.

    Raises:
        RuntimeError: The owner must not adopt; the text names the object.
    """
    if not manager.asked:
        manager.asked = True
        try:
            await manager.can_adopt()
        except Exception as error:
            manager.refusal = error
    if manager.refusal is not None:
        meta = obj.metadata
        name = f"{obj.KIND} {meta.namespace}/{meta.name} ({meta.uid})"
        raise RuntimeError(f"can't adopt {name}: {manager.refusal}")


# %% book/11_owner_references.ipynb#ad159dc7
async def recheck_deletion_timestamp(client: Client, owner: Object) -> None:
    """Ask the server whether ``owner`` still lives: the ``can_adopt`` of every controller.

    Raises:
        RuntimeError: It is being deleted, it is gone, or another one has its name.
    """
    meta, key = owner.metadata, object_key(owner)
    try:
        fresh = await client.get(type(owner), meta.namespace, meta.name)
    except (StatusError, OSError) as error:
        raise RuntimeError(f"can't recheck DeletionTimestamp: {error}") from error
    if fresh.metadata.uid != meta.uid:
        raise RuntimeError(
            f"can't recheck DeletionTimestamp: original {owner.KIND} {key} is gone: "
            f"got uid {fresh.metadata.uid}, wanted {meta.uid}"
        )
    if fresh.metadata.deletion_timestamp is not None:
        when = fresh.metadata.deletion_timestamp
        raise RuntimeError(f"{key} has just been deleted at {when:%Y-%m-%d %H:%M:%S} +0000 UTC")


# %% book/11_owner_references.ipynb#549bfa8f
def adoption_patch(
    controller: Object, uid: str, finalizers: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the strategic merge patch that makes ``controller`` own the object ``uid``."""
    reference = {
        "apiVersion": controller.API_VERSION,
        "kind": controller.KIND,
        "name": controller.metadata.name,
        "uid": controller.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: dict[str, Any] = {"uid": uid, "ownerReferences": [reference]}
    if finalizers:
        metadata["finalizers"] = list(finalizers)
    return {"metadata": metadata}


def release_patch(
    owners: Iterable[str], uid: str, finalizers: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the patch that takes the references to the ``owners`` (UIDs) off object ``uid``."""
    gone = [{"$patch": "delete", "uid": owner} for owner in owners]
    metadata: dict[str, Any] = {"uid": uid, "ownerReferences": gone}
    if finalizers:
        metadata["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return {"metadata": metadata}


# %% book/11_owner_references.ipynb#a12d914a
class ClaimError(Exception):
    """Some objects could not be adopted or released.

    Attributes:
        errors: What went wrong, in order.
        claimed: The objects that were claimed all the same.
    """

    def __init__(self, errors: list[Exception], claimed: list[Any]) -> None:
        texts = list(dict.fromkeys(str(error) for error in errors))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        self.errors = errors
        self.claimed = claimed


# %% book/11_owner_references.ipynb#8e57ae00
async def claim_objects(manager: ControllerRefManager[T], objects: Iterable[T]) -> list[T]:
    """Adopt matching orphans, release what no longer matches, and return what is owned.

    Raises:
        ClaimError: At least one adoption or release failed; it carries what was claimed.

    See: section *One question to the server*; upstream ``ClaimPods``.
    """
    claimed: list[T] = []
    errors: list[Exception] = []
    for obj in objects:
        claim = classify(manager.controller, manager.selector, obj)
        if claim is Claim.NOT_MINE:
            continue
        try:
            if claim is Claim.ADOPT:
                await adopt(manager, obj)
            elif claim is Claim.RELEASE:
                await release(manager, obj)
                continue
        except NotFound:
            continue  # the object is gone: nothing to own, nothing to release
        except Exception as error:
            errors.append(error)
            continue
        claimed.append(obj)
    if errors:
        raise ClaimError(errors, claimed)
    return claimed


# %% book/11_owner_references.ipynb#a742972c
async def adopt(manager: ControllerRefManager[T], obj: T) -> None:
    """Become the controller of an orphan, after making sure that the owner itself is alive."""
    await check_can_adopt(manager, obj)
    patch = adoption_patch(manager.controller, obj.metadata.uid, manager.finalizers)
    await manager.patch(obj, patch)


async def release(manager: ControllerRefManager[T], obj: T) -> None:
    """Give an object up. A 404 or 422 means that somebody was faster: no error."""
    owner = manager.controller.metadata.uid
    try:
        await manager.patch(obj, release_patch([owner], obj.metadata.uid, manager.finalizers))
    except (NotFound, Invalid):
        return
